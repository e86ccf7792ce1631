"""The simulator: its latent means, its discretisation, and its exact expectations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from radar_dagster.stats.planted import (
    discretise,
    draw_cube,
    expected_leakage,
    expected_p,
    latent_means,
)


def test_the_intervention_moves_the_target_by_its_self_effect_and_others_by_their_share() -> None:
    means = latent_means(np.array([[1.0, -0.5], [2.0, 1.0]]), np.array([0.8, 0.4]))
    np.testing.assert_allclose(means[0, 0] - means[0, 1], [0.8, -0.4])
    np.testing.assert_allclose(means[1, 0] - means[1, 1], [0.8, 0.4])
    np.testing.assert_allclose(means.mean(axis=1), 0.5)


def test_a_mean_off_the_scale_is_an_error_that_names_the_entry() -> None:
    with pytest.raises(ValueError, match=r"self_effects\[1\]·leakage\[1, 0\]/2 = 0.6"):
        latent_means(np.array([[1.0, 0.0], [1.5, 1.0]]), np.array([0.8, 0.8]))


def test_a_matrix_without_a_unit_diagonal_or_of_the_wrong_shape_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"leakage\[1, 1\] must be 1"):
        latent_means(np.array([[1.0, 0.0], [0.0, 0.9]]), np.array([0.8, 0.8]))
    with pytest.raises(ValueError, match="must be square"):
        latent_means(np.ones((2, 3)), np.array([0.8, 0.8]))
    with pytest.raises(ValueError, match="out of"):
        latent_means(np.array([[1.0, np.nan], [0.0, 1.0]]), np.array([0.8, 0.8]))


@given(st.floats(0, 1), st.floats(0.01, 0.5), st.integers(2, 11))
def test_the_expectation_is_that_of_a_rounded_and_clipped_normal(mean: float, noise: float, levels: int) -> None:
    top = levels - 1
    latent = stats.norm(mean, noise)
    probabilities = [
        (latent.cdf((k + 0.5) / top) if k < top else 1.0) - (latent.cdf((k - 0.5) / top) if k else 0.0)
        for k in range(levels)
    ]
    mean_p = np.dot(probabilities, np.arange(levels)) / top
    assert expected_p(np.array([mean]), noise, levels)[0] == pytest.approx(mean_p, abs=1e-12)


def test_criteria_may_have_scales_of_their_own() -> None:
    means = np.array([0.3, 0.3])
    both = expected_p(means, 0.2, levels=(2, 5))
    assert both[0] == expected_p(means[:1], 0.2, 2)[0]
    assert both[1] == expected_p(means[:1], 0.2, 5)[0]
    assert discretise(means, (2, 5)).tolist() == [0, 1]


def test_without_noise_the_expectation_is_the_rounded_mean() -> None:
    assert expected_p(np.array([0.1, 0.6]), 0.0, 5).tolist() == [0.0, 0.5]


def test_drawn_scores_have_the_exact_expectation() -> None:
    leakage, effects = np.array([[1.0, 0.6], [-0.3, 1.0]]), np.array([0.9, 0.6])
    means = latent_means(leakage, effects)
    cube = draw_cube(means, noise=0.2, tasks=4, probes=4000, rng=np.random.default_rng(0), shared=0.5)
    sampling_error = 0.5 / np.sqrt(16000)
    np.testing.assert_allclose(cube.p.mean(axis=(0, 3)), expected_p(means, 0.2), atol=4 * sampling_error)
    assert set(np.unique(cube.p)) <= {0.0, 0.25, 0.5, 0.75, 1.0}
    truth, own = expected_leakage(leakage, effects, 0.2)
    drawn = (cube.p[:, :, 0] - cube.p[:, :, 1]).mean(axis=(0, 2))
    np.testing.assert_allclose(drawn / np.diag(drawn)[:, None], truth, atol=0.03)
    np.testing.assert_allclose(np.diag(drawn), own, atol=0.02)


def test_the_ends_of_the_scale_bend_the_recoverable_leakage_away_from_the_nominal_one() -> None:
    truth, own = expected_leakage(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([0.95, 0.95]), 0.3)
    assert own[0] < 0.95
    assert truth[0, 1] > 0.5


def test_shared_noise_makes_the_scores_of_a_probe_move_together() -> None:
    means = latent_means(np.eye(2), np.array([0.5, 0.5]))
    correlations = []
    for shared in (0.0, 0.8):
        cube = draw_cube(means, noise=0.2, tasks=1, probes=3000, rng=np.random.default_rng(1), shared=shared)
        correlations.append(np.corrcoef(cube.p[0, 0, 0].T)[0, 1])
    assert abs(correlations[0]) < 0.06
    assert correlations[1] > 0.6


def test_failures_are_missing_scores_at_the_asked_rate() -> None:
    means = latent_means(np.eye(2), np.array([0.5, 0.5]))
    cube = draw_cube(means, noise=0.1, tasks=5, probes=500, rng=np.random.default_rng(2), failure_rate=0.1)
    assert np.isnan(cube.p).mean() == pytest.approx(0.1, abs=0.01)


def test_impossible_noise_and_scales_are_errors() -> None:
    with pytest.raises(ValueError, match="two levels"):
        discretise(np.array([0.5]), 1)
    with pytest.raises(ValueError, match="negative"):
        expected_p(np.array([0.5]), -0.1)
