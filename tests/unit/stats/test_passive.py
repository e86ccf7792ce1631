"""Passive baselines against numpy, scipy and scikit-learn, against closed forms, and where there is nothing to say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import inv, sqrtm
from scipy.stats import pearsonr
from sklearn.covariance import ledoit_wolf
from sklearn.preprocessing import StandardScaler

from radar_dagster.stats.passive import (
    CONSTANT,
    CORRELATION,
    NEGATIVE_WEIGHT,
    PURPOSES,
    SINGULAR,
    TOO_FEW,
    WHITENING,
    baseline_tables,
    rrd,
    shrunk_correlation,
    synthetic_correlation,
    whitening_matrix,
)
from radar_dagster.tables import BASELINE_WEIGHTS, BASELINES

NAN = np.nan


def draws(seed: int, responses: int = 40, criteria: int = 4, common: float = 0.6) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((responses, criteria))
    return np.sqrt(common) * rng.standard_normal((responses, 1)) + np.sqrt(1 - common) * noise


def frame(p: np.ndarray, criteria: list[str], purpose: str) -> pd.DataFrame:
    rows = [
        {"response": f"{purpose}{r}", "purpose": purpose, "criterion": name, "p": p[r, j]}
        for r in range(len(p))
        for j, name in enumerate(criteria)
    ]
    return pd.DataFrame(rows)


def test_correlations_are_scipys_over_the_responses_with_both_scores() -> None:
    p = draws(1)
    p[3, 0] = p[5, 1] = p[5, 2] = NAN
    found = synthetic_correlation(p)
    for i in range(4):
        for j in range(i + 1, 4):
            both = np.isfinite(p[:, i]) & np.isfinite(p[:, j])
            assert found.values[i, j] == pytest.approx(pearsonr(p[both, i], p[both, j]).statistic)
            assert found.counts[i, j] == both.sum()
    assert np.array_equal(found.values, found.values.T, equal_nan=True)


def test_a_criterion_that_never_varies_correlates_with_nothing_and_says_so() -> None:
    p = np.column_stack([draws(2, criteria=2), np.full(40, 0.1 + 0.2)])
    p[::2, 2] = 0.3  # the same level but for rounding
    found = synthetic_correlation(p)
    assert np.isfinite(found.values[0, 1])
    assert np.isnan(found.values[0, 2])
    assert found.reasons[0] == (None, None, CONSTANT)


def test_two_common_responses_are_too_few_for_a_correlation() -> None:
    p = np.array([[0.0, 0.1], [1.0, 0.7], [0.5, NAN], [NAN, 0.2]])
    found = synthetic_correlation(p)
    assert (found.reasons[0][1], int(found.counts[0, 1])) == (TOO_FEW, 2)
    assert np.isnan(found.values).all()


@pytest.mark.parametrize("r", [-0.9, -0.3, 0.0, 0.5, 0.8])
def test_two_criteria_are_whitened_as_by_hand(r: float) -> None:
    # The eigenvalues of [[1, r], [r, 1]] are 1 ± r, with the vectors (1, ±1)/√2.
    whitening = whitening_matrix(np.array([[1.0, r], [r, 1.0]]))
    plus, minus = 1 / np.sqrt(1 + r), 1 / np.sqrt(1 - r)
    assert whitening == pytest.approx(np.array([[plus + minus, plus - minus], [plus - minus, plus + minus]]) / 2)


def test_redundancy_of_two_criteria_is_the_closed_form_of_the_shrunk_correlation() -> None:
    p = draws(3, criteria=2, common=0.8)
    found = rrd(p)
    r = (1 - found.shrinkage) * pearsonr(p[:, 0], p[:, 1]).statistic
    up, down = np.sqrt(1 + r), np.sqrt(1 - r)
    assert found.redundancy.values[0, 1] == pytest.approx((up - down) / (up + down))
    assert found.weights == pytest.approx([0.5, 0.5])


def test_a_correlation_of_point_8_is_a_redundancy_of_one_half() -> None:
    whitening = whitening_matrix(np.array([[1.0, 0.8], [0.8, 1.0]]))
    assert whitening is not None
    assert -whitening[0, 1] / whitening[0, 0] == pytest.approx(0.5)


def test_shrinkage_is_scikit_learns_on_standardised_scores() -> None:
    p = draws(4)
    p[:, 2] = p[:, 2] * 7 + 3
    expected, shrinkage = ledoit_wolf(StandardScaler().fit_transform(p))
    matrix, own = shrunk_correlation(p)
    assert own == pytest.approx(shrinkage)
    assert matrix == pytest.approx(expected)
    assert np.diagonal(matrix) == pytest.approx(1.0)


def test_whitening_is_the_inverse_square_root_of_the_shrunk_correlations() -> None:
    p = draws(5, criteria=5)
    expected = inv(sqrtm(ledoit_wolf(StandardScaler().fit_transform(p))[0]))
    found = rrd(p)
    assert found.matrix == pytest.approx(expected)
    assert found.weights == pytest.approx(expected.sum(axis=1) / expected.sum())
    scale = np.sqrt(np.outer(np.diagonal(expected), np.diagonal(expected)))
    off = ~np.eye(5, dtype=bool)
    assert found.redundancy.values[off] == pytest.approx((-expected / scale)[off])


def test_whitened_scores_are_uncorrelated() -> None:
    p = draws(6, responses=200)
    matrix, _ = shrunk_correlation(p)
    whitening = whitening_matrix(matrix)
    assert whitening is not None
    assert whitening @ matrix @ whitening == pytest.approx(np.eye(4))


def test_a_criterion_that_stands_alone_weighs_more_than_those_that_repeat_each_other() -> None:
    shared = draws(7, responses=300, criteria=2, common=0.9)
    weights = rrd(np.column_stack([shared, draws(8, responses=300, criteria=1)])).weights
    assert weights[2] > weights[0]
    assert weights[2] > weights[1]
    assert weights.sum() == pytest.approx(1)


def test_responses_that_miss_one_score_are_left_out_whole() -> None:
    p = draws(9)
    holed = p.copy()
    holed[:5, 1] = NAN
    assert rrd(holed).matrix == pytest.approx(rrd(p[5:]).matrix)
    assert rrd(holed).responses == 35


def test_constant_and_unscored_criteria_are_left_out_and_the_others_whitened_without_them() -> None:
    p = draws(10, criteria=3)
    wider = np.column_stack([p, np.full(40, 0.5), np.full(40, NAN)])
    found, alone = rrd(wider), rrd(p)
    assert found.matrix[:3, :3] == pytest.approx(alone.matrix)
    assert found.weights[:3] == pytest.approx(alone.weights)
    assert found.weight_reasons == (None, None, None, CONSTANT, TOO_FEW)
    assert found.redundancy.reasons[0] == (None, None, None, CONSTANT, TOO_FEW)
    assert np.isnan(found.weights[3:]).all()


def test_too_little_to_whiten_has_reasons_for_every_pair() -> None:
    for p in (draws(11, responses=2), np.empty((0, 4)), np.full((9, 4), NAN)):
        found = rrd(p)
        assert found.weight_reasons == (TOO_FEW,) * 4
        assert np.isnan(found.redundancy.values).all()
    one_left = rrd(np.column_stack([draws(12, criteria=1), np.ones(40)]))
    assert one_left.weight_reasons == (TOO_FEW, CONSTANT)


def test_two_balanced_yes_or_no_criteria_that_always_agree_are_singular_as_nothing_is_shrunk() -> None:
    # Of equally many 0 and 1 the estimated error of R is 0, so Ledoit–Wolf does not shrink.
    found = rrd(np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0))
    assert found.weight_reasons == (SINGULAR, SINGULAR)
    assert found.redundancy.reasons[0][1] == SINGULAR
    assert np.isnan(found.redundancy.values).all()


def test_no_criterion_has_a_weight_where_one_would_be_rewarded_for_failing() -> None:
    # One criterion that goes with two others, which hardly go with each other.
    rng = np.random.default_rng(13)
    parts = rng.standard_normal((2000, 2))
    p = np.column_stack([parts.sum(axis=1) + 0.05 * rng.standard_normal(2000), parts])
    found = rrd(p)
    assert found.matrix.sum(axis=1).min() < 0
    assert found.weight_reasons == (NEGATIVE_WEIGHT,) * 3
    assert np.isfinite(found.redundancy.values[0, 1])


@given(st.integers(0, 2**32), st.integers(3, 30), st.integers(2, 6), st.floats(0.1, 10), st.floats(-5, 5))
def test_no_method_knows_units_or_the_order_of_responses(
    seed: int, responses: int, criteria: int, scale: float, shift: float
) -> None:
    p = draws(seed, responses, criteria)
    order = np.random.default_rng(seed).permutation(responses)
    other = p[order] * scale + shift
    assert synthetic_correlation(other).values == pytest.approx(synthetic_correlation(p).values, abs=1e-6, nan_ok=True)
    first, second = rrd(p), rrd(other)
    assert second.weight_reasons == first.weight_reasons
    assert second.redundancy.values == pytest.approx(first.redundancy.values, abs=1e-5, nan_ok=True)


@given(st.integers(0, 2**32), st.integers(0, 25), st.integers(2, 5), st.integers(2, 5), st.floats(0, 0.9))
def test_every_number_is_within_bounds_or_missing_with_a_reason(
    seed: int, responses: int, criteria: int, levels: int, lost: float
) -> None:
    rng = np.random.default_rng(seed)
    p = rng.integers(0, levels, (responses, criteria)) / (levels - 1)
    p[rng.random(p.shape) < lost] = NAN
    whitening = rrd(p)
    for pairs in (synthetic_correlation(p), whitening.redundancy):
        for i in range(criteria):
            for j in range(criteria):
                if i != j:
                    assert np.isfinite(pairs.values[i, j]) == (pairs.reasons[i][j] is None)
        known = pairs.values[np.isfinite(pairs.values)]
        assert (np.abs(known) <= 1 + 1e-9).all()
    weighed = np.isfinite(whitening.weights)
    assert [reason is None for reason in whitening.weight_reasons] == list(weighed)
    if weighed.any():
        assert whitening.weights[weighed].sum() == pytest.approx(1)
        assert (whitening.weights[weighed] >= 0).all()


def test_tables_read_each_purpose_for_its_own_method() -> None:
    first, second, names = draws(14), draws(15), ["a", "b", "c", "d"]
    scores = pd.concat([frame(first, names, CORRELATION), frame(second, names, WHITENING)])
    pairs, weights = baseline_tables(scores.sample(frac=1, random_state=1), names, {"a": 2, "b": 1, "c": 1, "d": 0.5})
    assert list(pairs.columns) == BASELINES.names
    assert list(weights.columns) == BASELINE_WEIGHTS.names
    by_method = {method: rows.set_index(["criterion_a", "criterion_b"]) for method, rows in pairs.groupby("method")}
    assert by_method["synthetic_correlation"].loc[("a", "c"), "value"] == pytest.approx(
        pearsonr(first[:, 0], first[:, 2]).statistic
    )
    assert by_method["rrd"].loc[("b", "d"), "value"] == pytest.approx(rrd(second).redundancy.values[1, 3])
    assert weights["declared"].tolist() == pytest.approx([2 / 4.5, 1 / 4.5, 1 / 4.5, 0.5 / 4.5])
    assert weights["whitened"].tolist() == pytest.approx(rrd(second).weights.tolist())


def test_tables_hold_null_with_a_reason_and_never_a_text_for_a_number() -> None:
    scores = frame(np.array([[0.5, 0.1], [0.5, 0.2], [0.5, 0.3]]), ["a", "b"], CORRELATION)
    pairs, weights = baseline_tables(scores, ["a", "b"])
    assert pairs["value"].dtype == weights["whitened"].dtype == np.float64
    assert pairs["value"].isna().all()
    assert pairs["reason"].tolist() == [CONSTANT, TOO_FEW]
    assert pairs["responses"].tolist() == [3, 0]
    assert weights["reason"].tolist() == [TOO_FEW, TOO_FEW]
    known, _ = baseline_tables(pd.concat([frame(draws(16), ["a", "b", "c", "d"], p) for p in PURPOSES]), list("abcd"))
    assert all(reason is None for reason in known["reason"])


@pytest.mark.parametrize(
    ("change", "message"),
    [({"purpose": "other"}, "unknown purpose 'other'"), ({"criterion": "z"}, "unknown criterion 'z'")],
)
def test_scores_of_something_else_are_refused(change: dict[str, str], message: str) -> None:
    scores = frame(draws(17, criteria=2), ["a", "b"], CORRELATION).assign(**change)
    with pytest.raises(ValueError, match=message):
        baseline_tables(scores, ["a", "b"])


def test_two_scores_of_one_response_on_one_criterion_are_refused() -> None:
    scores = frame(draws(18, criteria=2), ["a", "b"], CORRELATION)
    with pytest.raises(ValueError, match="two scores of response 'correlation0' on criterion 'a'"):
        baseline_tables(pd.concat([scores, scores.head(1)]), ["a", "b"])


def test_a_redundancy_of_which_shrinkage_leaves_nothing_is_zero_and_not_minus_zero() -> None:
    """Twenty responses, of which one fails on all four criteria: a single response carries every correlation."""
    p = np.ones((20, 4))
    p[7] = 0.0
    found = rrd(p)
    pairs = found.redundancy.values[np.triu_indices(4, k=1)]
    assert found.shrinkage == 1
    assert (pairs == 0).all()
    assert not np.signbit(pairs).any()
