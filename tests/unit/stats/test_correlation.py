"""Correlations: what scipy and pandas say, what counts as tied or constant, what is left out."""

from __future__ import annotations

import random
from dataclasses import astuple
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from radar_dagster.stats.correlation import CONSTANT, TOO_FEW, Correlation, correlate, levels, pearson

ratings = st.integers(0, 4).map(float)
gaps = st.one_of(ratings, st.just(np.nan))


@settings(max_examples=50)
@given(st.lists(st.tuples(ratings, ratings), min_size=3, max_size=30))
def test_all_three_agree_with_scipy(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs).T
    found = correlate(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert found.reason == CONSTANT
        return
    assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
    assert found.spearman == pytest.approx(stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).statistic, abs=1e-12)
    assert found.kendall == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-12)
    assert found.reason is None


def test_kendall_corrects_for_ties_on_both_sides() -> None:
    # 6 pairs: 4 concordant, none discordant, 1 tied in x only, 1 tied in y only.
    found = correlate([1, 1, 2, 3], [1, 2, 3, 3])
    assert found.kendall == pytest.approx(4 / np.sqrt((6 - 1) * (6 - 1)))


@settings(max_examples=50)
@given(st.lists(st.tuples(gaps, gaps), max_size=12))
def test_pairs_with_a_gap_are_left_out(pairs: list[tuple[float, float]]) -> None:
    kept = [pair for pair in pairs if not any(np.isnan(pair))]
    x, y = np.array(pairs).reshape(-1, 2).T
    a, b = np.array(kept).reshape(-1, 2).T
    assert correlate(x, y) == correlate(a, b)


@pytest.mark.parametrize("missing", [np.nan, np.inf, -np.inf])
def test_two_complete_pairs_are_too_few_and_an_infinity_completes_none(missing: float) -> None:
    found = correlate([1, 2, missing], [1, 3, 4])
    assert (found.pearson, found.spearman, found.kendall, found.reason) == (None, None, None, TOO_FEW)
    assert pearson([1, 2, missing], [1, 3, 4]) == (None, TOO_FEW)


def test_no_pairs_at_all_are_too_few() -> None:
    assert correlate([], []).reason == TOO_FEW


@pytest.mark.parametrize(
    "same",
    [
        [4.0, 4.0, 4.0, 4.0],
        [0.1 + 0.2, 0.3, 0.3, 0.1 * 3],
        [1 / 3 + 1 / 3 + 1 / 3 + 1 / 3, 4 / 3, (5 - 1) / 3, 4 - 8 / 3],
        [0.7 - 0.3 - 0.4, 0.0, 0.0, 0.3 - 0.1 - 0.2],
        [1e300, 1e300, 1e300, 1e300],
    ],
    ids=["equal", "tenths", "thirds", "zero but for rounding", "huge"],
)
def test_values_that_differ_only_by_rounding_are_constant(same: list[float]) -> None:
    for found in (correlate(same, [1, 2, 3, 5]), correlate([1, 2, 3, 5], same)):
        assert (found.pearson, found.spearman, found.kendall, found.reason) == (None, None, None, CONSTANT)
    assert pearson(same, [1, 2, 3, 5]) == (None, CONSTANT)


def test_a_vector_that_varies_little_is_not_constant() -> None:
    assert correlate([4.0, 4.0, 4.0, 4.001], [1, 2, 3, 4]).pearson == pytest.approx(0.7745966692414834)


def test_ties_survive_rounding() -> None:
    exact = correlate([4, 1, 4, 9], [1, 2, 3, 4])
    rounded = correlate([0.4, 0.1, 0.7 - 0.3, 0.9], [1, 2, 3, 4])
    assert 0.7 - 0.3 < 0.4
    assert (rounded.spearman, rounded.kendall) == (exact.spearman, exact.kendall)


def close(found: Correlation, expected: Correlation, sign: int = 1) -> bool:
    """Equal but for rounding, and for the sign of what is defined."""
    pairs = zip(astuple(found)[:3], astuple(expected)[:3], strict=True)
    same = all(a == b if a is None or b is None else abs(a - sign * b) < 1e-12 for a, b in pairs)
    return same and found.reason == expected.reason


@settings(max_examples=50)
@given(st.lists(st.tuples(gaps, gaps), max_size=15), st.integers(0, 99))
def test_neither_the_order_of_pairs_nor_that_of_vectors_nor_the_unit_matters(
    pairs: list[tuple[float, float]], seed: int
) -> None:
    x, y = np.array(pairs).reshape(-1, 2).T
    found = correlate(x, y)
    random.Random(seed).shuffle(pairs)
    a, b = np.array(pairs).reshape(-1, 2).T
    assert close(correlate(a, b), found)
    assert close(correlate(y, x), found)
    assert close(correlate(x * 25, y / 3 + 1), found)
    assert close(correlate(x, 5 - y), found, sign=-1)


@settings(max_examples=50)
@given(st.floats(1e-3, 1e300), st.floats(-1e3, 1e3))
def test_points_on_a_line_correlate_fully_whatever_their_size(slope: float, start: float) -> None:
    x = np.array([1.0, 2.0, 3.0, 7.0])
    found = correlate(x, slope * x + start)
    assert found.pearson == pytest.approx(1.0, abs=1e-6)
    assert found.pearson is not None
    assert found.pearson <= 1.0
    assert found.spearman == found.kendall == 1.0


@settings(max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6), max_size=20))
def test_levels_rank_values_and_merge_only_neighbours_within_rounding(values: list[float]) -> None:
    codes = levels(np.array(values))
    tolerance = 1e-12 * max(1.0, *map(abs, values), 1.0)
    for a, code_a in zip(values, codes, strict=True):
        for b, code_b in zip(values, codes, strict=True):
            assert code_a <= code_b or a > b
            assert code_a == code_b or abs(a - b) > tolerance / 2


def test_pearson_alone_is_that_of_pandas_and_of_all_three() -> None:
    values = np.random.default_rng(5).normal(size=(40, 4)).cumsum(axis=1)
    values[np.random.default_rng(6).random(values.shape) < 0.2] = np.nan
    theirs = pd.DataFrame(values).corr().to_numpy()
    for i, j in combinations(range(4), 2):
        r, reason = pearson(values[:, i], values[:, j])
        assert r == pytest.approx(theirs[i, j], abs=1e-12)
        assert (r, reason) == (correlate(values[:, i], values[:, j]).pearson, None)


def test_vectors_of_different_lengths_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="two vectors of one length"):
        correlate([1, 2, 3], [1, 2])
