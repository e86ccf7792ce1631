"""Self-effects, leakage and the gate, on cells whose answers are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from radar_dagster.stats.cell import ScoreCube
from radar_dagster.stats.coupling import (
    Coupling,
    asymmetry,
    average_over_tasks,
    slices_from_means,
    stratum_means,
    symmetric_coupling,
    unreliable_reasons,
)
from radar_dagster.stats.settings import Estimator

GATE = 0.40
B = (0.8, 0.4)  # an unremarkable second criterion: self-effect 0.8, leakage 0.5

Build = Callable[..., ScoreCube]


def coupling_of(cube: ScoreCube, estimator: Estimator = Estimator.MEAN_OF_TASKS) -> Coupling:
    return average_over_tasks(slices_from_means(stratum_means(cube), GATE), GATE, estimator)


def reason_of(cube: ScoreCube) -> str | None:
    return unreliable_reasons(coupling_of(cube), GATE, len(cube.tasks))[0]


def test_leakage_is_the_mean_of_the_slices_ratios_and_sigma_their_spread(two_criteria: Build) -> None:
    found = coupling_of(two_criteria([(0.8, 0.4), (0.5, 0.5)], [B, B]))
    assert found.leakage[0, 1] == pytest.approx((0.5 + 1.0) / 2)
    assert found.sigma[0, 1] == pytest.approx(0.25)
    assert found.pooled[0, 1] == pytest.approx((0.4 + 0.5) / (0.8 + 0.5))
    assert found.coupling[0, 1] == pytest.approx(0.45)
    assert found.self_effect[0] == pytest.approx(0.65)


def test_the_pooled_estimator_is_the_ratio_of_the_means(two_criteria: Build) -> None:
    found = coupling_of(two_criteria([(0.8, 0.4), (0.5, 0.5)], [B, B]), Estimator.POOLED)
    assert found.leakage[0, 1] == found.pooled[0, 1]


def test_the_diagonal_of_a_reliable_row_is_exactly_one(two_criteria: Build) -> None:
    found = coupling_of(two_criteria([(0.7, 0.1), (0.9, 0.3)], [B, B]))
    assert np.diag(found.leakage).tolist() == [1.0, 1.0]
    assert np.diag(found.sigma).tolist() == [0.0, 0.0]


def test_leakage_is_never_clipped(two_criteria: Build) -> None:
    found = coupling_of(two_criteria([(0.5, 0.9)], [(0.5, -0.9)]))
    assert found.leakage[0, 1] == pytest.approx(1.8)
    assert found.leakage[1, 0] == pytest.approx(-1.8)


def test_a_slice_under_the_gate_gives_no_leakage(two_criteria: Build) -> None:
    cube = two_criteria([(0.8, 0.4), (0.39, 0.39), (0.6, 0.3)], [B, B, B])
    slices = slices_from_means(stratum_means(cube), GATE)
    assert slices.passed[:, 0].tolist() == [True, False, True]
    assert np.isnan(slices.leakage[1, 0]).all()
    found = coupling_of(cube)
    assert found.leakage[0, 1] == pytest.approx(0.5)
    assert found.tasks_used[0] == 2
    assert found.entry_tasks[0, 1] == 2


def test_a_self_effect_of_exactly_the_gate_passes(two_criteria: Build) -> None:
    cube = two_criteria([(0.40, 0.2)], [B])
    assert coupling_of(cube).reliable[0]


def test_half_of_the_slices_suffice_and_fewer_do_not(two_criteria: Build) -> None:
    strong, weak = (0.9, 0.45), (0.3, 0.3)
    enough = two_criteria([strong, strong, weak, weak], [B] * 4)
    assert coupling_of(enough).reliable[0]
    too_few = two_criteria([strong, strong, weak, weak, weak], [B] * 5)
    found = coupling_of(too_few)
    assert found.self_effect[0] >= GATE
    assert not found.reliable[0]
    assert reason_of(too_few) == "too_few_tasks"


def test_a_mean_below_the_gate_is_weak_even_if_half_of_the_slices_pass(two_criteria: Build) -> None:
    cube = two_criteria([(0.5, 0.2), (0.1, 0.1)], [B, B])
    assert not coupling_of(cube).reliable[0]
    assert reason_of(cube) == "weak"


def test_a_negative_self_effect_is_called_negative(two_criteria: Build) -> None:
    assert reason_of(two_criteria([(-0.5, 0.2)], [B])) == "negative"


def test_a_self_effect_of_zero_gives_undefined_leakage_and_no_warning(two_criteria: Build) -> None:
    cube = two_criteria([(0.0, 0.3)], [B])
    found = coupling_of(cube)
    assert np.isnan(found.leakage[0]).all()
    assert np.isnan(found.pooled[0]).all()
    assert found.coupling[0, 1] == pytest.approx(0.3)
    assert reason_of(cube) == "weak"


def test_unreliable_rows_are_undefined_in_every_leakage_and_keep_their_raw_coupling(two_criteria: Build) -> None:
    found = coupling_of(two_criteria([(0.3, 0.3)], [B]))
    for values in (found.leakage, found.pooled, found.sigma):
        assert np.isnan(values[0]).all()
        assert np.isfinite(values[1]).all()
    assert found.coupling[0].tolist() == pytest.approx([0.3, 0.3])


def without_scores(cube: ScoreCube, tasks: slice, criterion: int) -> ScoreCube:
    p = cube.p.copy()
    p[tasks, ..., criterion] = np.nan
    return ScoreCube(cube.tasks, cube.criteria, p, cube.probes)


def test_a_criterion_all_of_whose_scores_are_missing_says_so(two_criteria: Build) -> None:
    cube = without_scores(two_criteria([(0.8, 0.4)] * 2, [B] * 2), slice(None), 0)
    found = coupling_of(cube)
    assert reason_of(cube) == "missing_scores"
    assert np.isnan(found.self_effect[0])
    assert np.isnan(found.leakage[1, 0])
    assert not found.entry_reliable[1, 0]
    assert found.reliable[1]
    assert found.leakage[1, 1] == 1.0


def test_missing_scores_are_the_reason_when_those_slices_would_have_sufficed(two_criteria: Build) -> None:
    # Of five slices one passes, one fails and three lack scores: with them, four could have passed.
    cube = without_scores(two_criteria([(0.9, 0.4), (0.3, 0.3), *[(0.8, 0.4)] * 3], [B] * 5), slice(2, None), 0)
    assert coupling_of(cube).self_effect[0] == pytest.approx(0.6)
    assert reason_of(cube) == "missing_scores"


def test_a_weak_mean_is_weak_although_scores_are_missing_too(two_criteria: Build) -> None:
    cube = without_scores(two_criteria([(0.3, 0.4), (0.9, 0.3)], [B] * 2), slice(1, None), 0)
    assert reason_of(cube) == "weak"


def test_a_leakage_with_fewer_than_half_of_the_slices_is_undefined_although_its_row_is_reliable(
    two_criteria: Build,
) -> None:
    whole = two_criteria([(0.8, 0.4)] * 5, [B] * 5)
    three_lost, two_lost = (without_scores(whole, slice(0, k), 1) for k in (3, 2))
    found = coupling_of(three_lost)
    assert found.reliable[0]
    assert found.entry_tasks[0, 1] == 2
    assert np.isnan(found.leakage[0, 1])
    assert coupling_of(two_lost).leakage[0, 1] == pytest.approx(0.5)


def test_means_use_the_scores_that_exist(two_criteria: Build) -> None:
    cube = two_criteria([(0.6, 0.4)], [B], (-0.05, 0.05))
    cube.p[0, 0, 0, 0, 0] = np.nan
    assert stratum_means(cube)[0, 0, 0, 0] == pytest.approx(0.8 + 0.05)


def test_pooled_uses_every_slice_and_agrees_with_the_columns_of_the_tables(two_criteria: Build) -> None:
    cube = two_criteria([(0.8, 0.4), (0.2, 0.2)], [B, B])
    found = coupling_of(cube, Estimator.POOLED)
    assert found.pooled[0, 1] == pytest.approx(found.coupling[0, 1] / found.self_effect[0])
    assert found.entry_tasks[0, 1] == 2
    assert found.tasks_used[0] == 1


def test_symmetric_coupling_and_asymmetry_need_both_directions() -> None:
    leakage = np.array([[1.0, 0.8, np.nan], [0.2, 1.0, 0.3], [0.1, 0.1, 1.0]])
    assert symmetric_coupling(leakage)[0, 1] == pytest.approx(0.5)
    assert asymmetry(leakage)[1, 0] == pytest.approx(0.6)
    assert np.isnan(symmetric_coupling(leakage)[[0, 2], [2, 0]]).all()
    assert np.isnan(asymmetry(leakage)[0, 2])


def test_batches_give_what_single_cells_give() -> None:
    rng = np.random.default_rng(3)
    means = rng.random((7, 4, 3, 2, 3))
    means[2, 1, 0, 0, 2] = np.nan
    batch = average_over_tasks(slices_from_means(means, GATE), GATE)
    for k in range(7):
        one = average_over_tasks(slices_from_means(means[k], GATE), GATE)
        np.testing.assert_array_equal(batch.leakage[k], one.leakage)
        np.testing.assert_array_equal(batch.reliable[k], one.reliable)
        np.testing.assert_array_equal(batch.sigma[k], one.sigma)


def test_pooled_leakage_is_not_divided_by_the_weak_slices_alone() -> None:
    """Task 0 moves its target by 0.9 and lacks scores on b; task 1 has them, but moves its target by 0.06."""
    means = np.full((2, 2, 2, 2), 0.5)
    means[:, 1, :, 1] = [[1.0, 0.0], [1.0, 0.0]]
    means[0, 0, :, 0], means[1, 0, :, 0] = [0.95, 0.05], [0.53, 0.47]
    means[0, 0, :, 1], means[1, 0, :, 1] = np.nan, [1.0, 0.0]
    slices = slices_from_means(means, gate=0.4)
    coupling = average_over_tasks(slices, 0.4, Estimator.POOLED)
    assert coupling.reliable.tolist() == [True, True]
    assert not coupling.entry_reliable[0, 1]
    assert np.isnan(coupling.leakage[0, 1])
