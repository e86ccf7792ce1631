"""Comparisons and means that skip what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radar_dagster.stats.numbers import at_most, divide, nanmean, nanvar, reaches


def test_a_difference_of_scores_that_is_exactly_the_gate_reaches_it() -> None:
    assert 0.7 - 0.3 < 0.4
    assert reaches(0.7 - 0.3, 0.4)
    assert not reaches(0.3999, 0.4)


def test_a_negative_threshold_is_met_at_equality() -> None:
    assert at_most(0.1 - 0.3, -0.2)
    assert not at_most(-0.1999, -0.2)


def test_comparisons_with_nan_are_false() -> None:
    assert not reaches(np.nan, 0.0)
    assert not at_most(np.nan, 0.0)


def test_dividing_by_zero_or_nan_gives_nan_without_a_warning() -> None:
    assert np.isnan(divide(1.0, [0.0, np.nan])).all()
    assert divide([3.0], [2.0]).tolist() == [1.5]


def test_an_empty_mean_is_nan_without_a_warning() -> None:
    assert np.isnan(nanmean(np.array([np.nan, np.nan]), axis=0))


@given(st.lists(st.one_of(st.floats(0, 1), st.just(np.nan)), min_size=1, max_size=12))
def test_mean_and_variance_agree_with_numpy(values: list[float]) -> None:
    array = np.array(values)
    present = array[np.isfinite(array)]
    if len(present) >= 1:
        assert nanmean(array, axis=0) == pytest.approx(present.mean(), abs=1e-12)
    if len(present) >= 2:
        assert nanvar(array, axis=0, ddof=1) == pytest.approx(present.var(ddof=1), abs=1e-12)
    else:
        assert np.isnan(nanvar(array, axis=0, ddof=1))


@given(st.floats(0, 1), st.integers(2, 9))
def test_the_variance_of_equal_values_is_exactly_zero(value: float, count: int) -> None:
    assert nanvar(np.full(count, value), axis=0, ddof=1) == 0.0
