"""Delta-method intervals against Welch's interval, numerical derivatives, simulation, and by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from radar_dagster.stats.cell import FloatArray, ScoreCube
from radar_dagster.stats.coupling import Coupling, Slices, average_over_tasks, slices_from_means, stratum_means
from radar_dagster.stats.intervals import (
    Bounds,
    Precision,
    around,
    combine,
    fold,
    include,
    leakage_precision,
    self_effect_precision,
    transpose,
)
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.stats.settings import Estimator

GATE = 0.40
Build = Callable[..., ScoreCube]


def estimates(cube: ScoreCube, estimator: Estimator = Estimator.MEAN_OF_TASKS) -> tuple[Slices, Coupling]:
    slices = slices_from_means(stratum_means(cube), GATE)
    return slices, average_over_tasks(slices, GATE, estimator)


def leakage_of(cube: ScoreCube, estimator: Estimator = Estimator.MEAN_OF_TASKS) -> tuple[FloatArray, Precision]:
    slices, coupling = estimates(cube, estimator)
    return coupling.leakage, leakage_precision(cube, slices, coupling, estimator, 0.95)


def planted(tasks: int = 3, probes: int = 6, seed: int = 0, noise: float = 0.2) -> ScoreCube:
    leakage = np.array([[1.0, 0.7, -0.2], [0.4, 1.0, 0.1], [0.9, 0.0, 1.0]])
    means = latent_means(leakage, np.array([0.9, 0.8, 0.7]))
    return draw_cube(means, noise=noise, tasks=tasks, probes=probes, rng=np.random.default_rng(seed), shared=0.3)


def test_with_one_task_the_self_effect_interval_is_welchs() -> None:
    cube = planted(tasks=1, probes=7)
    slices, coupling = estimates(cube)
    low, high = around(coupling.self_effect, self_effect_precision(cube, slices, 0.95).half_width(0.95))
    for i in range(3):
        plus, minus = cube.p[0, i, 0, :, i], cube.p[0, i, 1, :, i]
        welch = stats.ttest_ind(plus, minus, equal_var=False).confidence_interval(0.95)
        assert (low[i], high[i]) == pytest.approx((welch.low, welch.high))


def test_the_degrees_of_freedom_are_satterthwaites() -> None:
    cube = planted(tasks=2, probes=5)
    slices, _ = estimates(cube)
    precision = self_effect_precision(cube, slices, 0.95)
    parts = np.array([cube.p[t, 1, d, :, 1].var(ddof=1) / 5 / 4 for t in range(2) for d in range(2)])
    assert precision.variance[1] == pytest.approx(parts.sum())
    freedom = parts.sum() ** 2 / (parts**2 / 4).sum()
    expected = stats.t.ppf(0.975, freedom) * np.sqrt(parts.sum())
    assert precision.half_width(0.95)[1] == pytest.approx(expected)


def gradient_variance(cube: ScoreCube, estimator: Estimator) -> FloatArray:
    """∇ℓ·Σ·∇ℓ with numerical derivatives in the stratum means and the sample covariances of the probes."""
    means = stratum_means(cube)
    T, n, _, N, _ = cube.p.shape

    def leakage(m: FloatArray) -> FloatArray:
        return average_over_tasks(slices_from_means(m, GATE), GATE, estimator).leakage

    total, step = np.zeros((n, n)), 1e-6
    for stratum in np.ndindex(T, n, 2):
        slopes = []
        for k in range(n):
            up, down = means.copy(), means.copy()
            up[(*stratum, k)] += step
            down[(*stratum, k)] -= step
            slopes.append((leakage(up) - leakage(down)) / (2 * step))
        covariance = np.cov(cube.p[stratum].T) / N
        total += np.einsum("kij,kl,lij->ij", np.array(slopes), covariance, np.array(slopes))
    return total


@pytest.mark.parametrize("estimator", list(Estimator))
@pytest.mark.parametrize(("tasks", "probes"), [(1, 3), (3, 6), (4, 20)])
def test_the_variance_is_that_of_the_numerically_linearised_estimate(
    estimator: Estimator, tasks: int, probes: int
) -> None:
    cube = planted(tasks, probes)
    found = leakage_of(cube, estimator)[1].variance
    np.testing.assert_allclose(found, gradient_variance(cube, estimator), atol=1e-8, rtol=1e-5)


@pytest.mark.parametrize("estimator", list(Estimator))
def test_the_variance_is_right_on_average_over_repeated_experiments(estimator: Estimator) -> None:
    draws = [leakage_of(planted(2, 12, seed, noise=0.12), estimator) for seed in range(600)]
    observed = np.array([leakage for leakage, _ in draws]).var(axis=0, ddof=1)
    claimed = np.array([precision.variance for _, precision in draws]).mean(axis=0)
    off = ~np.eye(3, dtype=bool)
    # The variance of 600 draws has a relative standard error of √(2/600) = 6%; six of them are averaged here.
    assert (claimed[off] / observed[off]).mean() == pytest.approx(1.0, abs=0.1)
    assert ((claimed[off] / observed[off]) > 0.8).all()


def test_the_diagonal_has_no_width_and_unreliable_rows_no_interval(two_criteria: Build) -> None:
    cube = two_criteria([(0.3, 0.3)] * 2, [(0.8, 0.4)] * 2, (-0.05, 0.0, 0.05))
    _, precision = leakage_of(cube)
    half_width = precision.half_width(0.95)
    assert half_width[1, 1] == 0.0
    assert np.isnan(half_width[0]).all()
    assert half_width[1, 0] > 0


def test_scores_that_never_vary_within_strata_still_leave_a_width(two_criteria: Build) -> None:
    """The step is 0.1 (0.7 and 0.8 were given on b), six probes per direction: q = 1 − 0.05^(1/6)."""
    cube = two_criteria([(0.8, 0.4)] * 2, [(0.6, 0.2)] * 2, (0.0, 0.0, 0.0))
    slices, coupling = estimates(cube)
    _, precision = leakage_of(cube)
    assert precision.variance[0, 1] == 0.0
    unseen = 1 - 0.05 ** (1 / 6)
    # Scores given on a: 0.9, 0.1 and 0.6, 0.4; on b: 0.7, 0.3 and 0.8, 0.2.
    step_a, step_b, leakage, own = 0.2, 0.1, 0.5, 0.8
    expected = unseen * np.hypot(step_b, leakage * step_a) / own
    assert precision.half_width(0.95)[0, 1] == pytest.approx(expected)
    assert self_effect_precision(cube, slices, 0.95).half_width(0.95)[0] == pytest.approx(unseen * step_a)
    assert coupling.leakage[0, 1] == pytest.approx(0.5)


def test_the_floor_shrinks_with_the_number_of_probes(two_criteria: Build) -> None:
    widths = [
        leakage_of(two_criteria([(0.8, 0.4)] * 2, [(0.8, 0.4)] * 2, (0.0,) * N))[1].half_width(0.95)[0, 1]
        for N in (2, 5, 20)
    ]
    assert widths[0] > widths[1] > widths[2] > 0


def test_with_one_probe_per_stratum_the_interval_comes_from_the_spread_over_tasks(two_criteria: Build) -> None:
    effects = [(0.8, 0.4), (0.8, 0.6), (0.8, 0.2)]
    cube = two_criteria(effects, [(0.8, 0.4)] * 3)
    leakage, precision = leakage_of(cube)
    assert precision.over_tasks[0, 1]
    ratios = np.array([coupling / own for own, coupling in effects])
    expected = stats.t.ppf(0.975, 2) * ratios.std(ddof=1) / np.sqrt(3)
    assert precision.half_width(0.95)[0, 1] == pytest.approx(expected)
    assert leakage[0, 1] == pytest.approx(0.5)


def test_the_pooled_estimator_over_tasks_uses_the_residuals_of_the_ratio(two_criteria: Build) -> None:
    effects = [(0.9, 0.4), (0.6, 0.6), (0.8, 0.2)]
    _, precision = leakage_of(two_criteria(effects, [(0.8, 0.4)] * 3), Estimator.POOLED)
    own, coupling = np.array(effects).T
    residual = coupling - coupling.sum() / own.sum() * own
    assert precision.variance[0, 1] == pytest.approx(residual.var(ddof=1) / 3 / own.mean() ** 2)


def test_one_probe_and_one_task_give_no_interval(two_criteria: Build) -> None:
    cube = two_criteria([(0.8, 0.4)], [(0.8, 0.4)])
    slices, _ = estimates(cube)
    _, precision = leakage_of(cube)
    assert np.isnan(precision.half_width(0.95)[0, 1])
    assert not precision.over_tasks.any()
    assert np.isnan(self_effect_precision(cube, slices, 0.95).half_width(0.95)).all()


def test_a_stratum_with_one_score_borrows_the_variance_of_the_others() -> None:
    cube = planted(tasks=1, probes=4)
    cube.p[0, 0, 1, 1:, :] = np.nan
    slices, coupling = estimates(cube)
    precision = self_effect_precision(cube, slices, 0.95)
    known = cube.p[0, 0, 0, :, 0].var(ddof=1)
    assert precision.variance[0] == pytest.approx(known / 4 + known / 1)
    assert precision.half_width(0.95)[0] == pytest.approx(stats.t.ppf(0.975, 3) * np.sqrt(known * 1.25))
    assert np.isfinite(leakage_precision(cube, slices, coupling, Estimator.MEAN_OF_TASKS, 0.95).variance[0]).all()


def test_probes_that_lack_a_score_stay_out_of_the_variance_of_that_pair_only() -> None:
    cube = planted(tasks=1, probes=6)
    before = leakage_of(cube)[1].variance
    cube.p[0, 0, 0, 0, 1] = np.nan
    leakage, precision = leakage_of(cube)
    own, other = cube.p[0, 0, :, :, 0], cube.p[0, 0, :, :, 1]
    residual = other - leakage[0, 1] * own
    expected = (residual[0, 1:].var(ddof=1) / 5 + residual[1].var(ddof=1) / 6) / (own[0].mean() - own[1].mean()) ** 2
    assert precision.variance[0, 1] == pytest.approx(expected)
    assert precision.variance[0, 2] == before[0, 2]


def test_sums_of_independent_estimates_add_their_variances() -> None:
    _, precision = leakage_of(planted())
    both = combine(precision, transpose(precision), 0.5)
    np.testing.assert_allclose(both.variance, (precision.variance + precision.variance.T) / 4)
    assert both.resolution[0, 1] == pytest.approx(np.hypot(precision.resolution[0, 1], precision.resolution[1, 0]) / 2)


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(-1, 1))
def test_a_folded_interval_holds_the_absolute_value_of_whatever_the_signed_one_holds(
    centre: float, half: float, inside: float
) -> None:
    bounds = Bounds(np.array(centre - half), np.array(centre + half))
    value = abs(centre + inside * half)
    low, high = fold(bounds)
    assert low - 1e-12 <= value <= high + 1e-12
    assert low >= 0


def test_widening_includes_the_estimate_and_leaves_missing_intervals_missing() -> None:
    bounds = include(Bounds(np.array([0.2, np.nan]), np.array([0.4, np.nan])), np.array([0.5, 0.5]))
    assert (bounds.low[0], bounds.high[0]) == (0.2, 0.5)
    assert np.isnan(bounds.low[1])
