"""Weights and amplification."""

from __future__ import annotations

import numpy as np
import pytest

from radar_dagster.stats.aggregation import aggregate_effect, amplification, normalised_weights


def test_uncoupled_criteria_count_once_and_identical_ones_as_often_as_there_are() -> None:
    weights = normalised_weights("abcd")
    assert amplification(np.eye(4), weights).tolist() == [1.0] * 4
    assert amplification(np.ones((4, 4)), weights).tolist() == [4.0] * 4


def test_a_tradeoff_takes_part_of_the_effect_back() -> None:
    assert amplification(np.array([[1.0, -0.5], [0.0, 1.0]]), np.array([0.5, 0.5]))[0] == 0.5


def test_a_light_criterion_that_moves_a_heavy_one_is_amplified_by_the_ratio_of_weights() -> None:
    weights = normalised_weights("ab", {"a": 1, "b": 4})
    assert weights.tolist() == [0.2, 0.8]
    assert amplification(np.array([[1.0, 0.5], [0.0, 1.0]]), weights)[0] == pytest.approx(1 + 0.5 * 4)


def test_the_aggregate_moves_by_the_weighted_couplings() -> None:
    coupling = np.array([[0.8, 0.4], [0.1, 0.6]])
    assert aggregate_effect(coupling, np.array([0.25, 0.75])).tolist() == pytest.approx([0.5, 0.475])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"a": 1}, "no weight for 'b'"),
        ({"a": 1, "b": 1, "c": 1}, "weight for 'c'"),
        ({"a": 1, "b": 0}, "weight of 'b' must be a positive number"),
        ({"a": 1, "b": float("nan")}, "weight of 'b' must be a positive number"),
    ],
)
def test_weights_that_do_not_fit_are_errors_that_name_the_criterion(weights: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        normalised_weights("ab", weights)
