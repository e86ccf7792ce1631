"""Agreement at fewer probes: the shape that theory gives, brute force over all subsets, and named unknowns."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from radar_dagster.stats.cell import ScoreCube
from radar_dagster.stats.coupling import average_over_tasks, slices_from_means, stratum_means, symmetric_coupling
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.stats.probe_budget import probe_budget
from radar_dagster.stats.settings import CouplingSettings
from radar_dagster.tables import PROBE_BUDGET

SETTINGS = CouplingSettings()
LEAKAGE = np.array([[1.0, 0.8, 0.2, 0.1], [0.6, 1.0, 0.0, 0.3], [0.1, 0.4, 1.0, 0.0], [0.3, 0.0, 0.1, 1.0]])
HUMAN = np.array([[1.0, 0.6, 0.3, 0.1], [0.6, 1.0, 0.25, 0.05], [0.3, 0.25, 1.0, 0.15], [0.1, 0.05, 0.15, 1.0]])


def planted(probes: int, noise: float = 0.15, tasks: int = 5, seed: int = 0) -> ScoreCube:
    means = latent_means(LEAKAGE, np.full(4, 0.7))
    return draw_cube(means, noise=noise, tasks=tasks, probes=probes, rng=np.random.default_rng(seed))


def sym_of(cube: ScoreCube) -> np.ndarray:
    coupling = average_over_tasks(slices_from_means(stratum_means(cube), SETTINGS.gate), SETTINGS.gate)
    return symmetric_coupling(coupling.leakage)[np.triu_indices(len(cube.criteria), k=1)]


def test_the_spread_falls_with_one_over_root_n() -> None:
    """sd of the mean of N' out of N without replacement: s·√(1/N' − 1/N), the finite-population formula."""
    cube = planted(probes=100)
    curve = probe_budget(cube, SETTINGS, HUMAN, budgets=(1, 2, 4, 8, 16, 32), subsets=400)[:-1]
    theory = np.sqrt(1 / curve["probes"] - 1 / 100)
    for name in ("pearson_sd", "mae_sd"):
        # N' = 1 is left out: the gate and the division by a noisy self-effect bend the curve there.
        ratio = (curve[name] / theory)[1:]
        assert ratio.max() / ratio.min() < 1.35, (name, ratio.tolist())
        slope = np.polyfit(np.log(theory[1:]), np.log(curve[name][1:]), 1)[0]
        assert slope == pytest.approx(1, abs=0.15), name


def test_the_whole_cell_is_the_last_row_and_has_no_sd() -> None:
    cube = planted(probes=8)
    curve = probe_budget(cube, SETTINGS, HUMAN)
    assert curve["probes"].tolist() == [1, 2, 3, 4, 5, 8]
    assert curve["subsets"].tolist() == [30] * 5 + [1]
    last = curve.iloc[-1]
    reference = HUMAN[np.triu_indices(4, k=1)]
    assert last["pearson"] == pytest.approx(np.corrcoef(sym_of(cube), reference)[0, 1])
    assert last["mae"] == pytest.approx(np.abs(sym_of(cube) - reference).mean())
    assert last[["pearson_sd", "spearman_sd", "mae_sd"]].isna().all()
    assert list(curve.columns) == PROBE_BUDGET.names


def test_subsets_are_uniform_over_all_that_there_are() -> None:
    """One task, one of two probes per stratum: the mean over drawn subsets nears that over all 2^8 of them."""
    means = latent_means(LEAKAGE, np.full(4, 0.7))
    cube = draw_cube(means, noise=0.1, tasks=1, probes=2, rng=np.random.default_rng(4))
    reference = HUMAN[np.triu_indices(4, k=1)]
    everything = []
    for choice in product((0, 1), repeat=8):
        chosen = np.array(choice).reshape(1, 4, 2, 1, 1)
        p = np.take_along_axis(cube.p, np.broadcast_to(chosen, (1, 4, 2, 1, 4)), axis=3)
        one = ScoreCube(cube.tasks, cube.criteria, p, np.ones((1, 4, 2), dtype=np.int64))
        everything.append(np.corrcoef(sym_of(one), reference)[0, 1])
    drawn = probe_budget(cube, SETTINGS, HUMAN, budgets=(1,), subsets=4000).iloc[0]
    assert np.isfinite(everything).all()
    assert drawn["pearson"] == pytest.approx(np.mean(everything), abs=4 * np.std(everything) / np.sqrt(4000))
    assert drawn["pearson_sd"] == pytest.approx(np.std(everything), rel=0.08)


def test_a_subset_never_holds_a_probe_twice() -> None:
    """With N' = N − 1 of three equal-but-one probes, every value is one of the few that leaving one out gives."""
    means = latent_means(np.eye(2), np.full(2, 0.8))
    cube = draw_cube(means, noise=0.2, tasks=1, probes=3, rng=np.random.default_rng(1))
    scores = {round(float(np.mean(pair)), 12) for pair in combinations(cube.p[0, 0, 0, :, 0], 2)}
    from radar_dagster.stats.coupling import weighted_stratum_means
    from radar_dagster.stats.probe_budget import _choose

    weights = _choose(cube, np.arange(2), seed=1, size=2, subsets=50)
    assert set(np.unique(weights)) == {0.0, 1.0}
    assert (weights.sum(axis=-1) == 2).all()
    drawn = weighted_stratum_means(cube.p, weights)[0, 0, 0, :, 0]
    assert {round(float(value), 12) for value in drawn} == scores


def test_without_people_the_reference_is_the_whole_cell() -> None:
    curve = probe_budget(planted(probes=10), SETTINGS)
    assert set(curve["reference"]) == {"full"}
    assert curve["probes"].tolist() == [1, 2, 3, 4, 5]
    assert curve["pearson"].is_monotonic_increasing
    assert curve["mae"].is_monotonic_decreasing
    nothing_known = np.full((4, 4), np.nan)
    pd.testing.assert_frame_equal(curve, probe_budget(planted(probes=10), SETTINGS, nothing_known))


def test_one_probe_per_stratum_leaves_no_curve() -> None:
    assert probe_budget(planted(probes=1), SETTINGS).empty
    alone = probe_budget(planted(probes=1), SETTINGS, HUMAN)
    assert alone["probes"].tolist() == [1]


def test_subsets_without_enough_reliable_pairs_are_counted_and_not_averaged() -> None:
    curve = probe_budget(planted(probes=6, noise=0.9, tasks=1), SETTINGS, HUMAN)
    first = curve.iloc[0]
    assert 0 < first["subsets"] < 30
    assert f"undefined in {30 - first['subsets']} of 30 subsets" in first["detail"]
    assert np.isfinite(first["pearson"])


def test_strata_with_fewer_probes_give_all_they_have_and_missing_scores_stay_missing() -> None:
    cube = planted(probes=5)
    p, probes = cube.p.copy(), cube.probes.copy()
    p[0, 0, 0, 2:] = np.nan
    probes[0, 0, 0] = 2
    p[1, 1, 1, 3, 2] = np.nan
    ragged = ScoreCube(cube.tasks, cube.criteria, p, probes)
    curve = probe_budget(ragged, SETTINGS, HUMAN)
    assert curve["probes"].tolist() == [1, 2, 3, 4, 5]
    assert curve["pearson"].notna().all()


def test_the_same_seed_gives_the_same_curve_and_another_gives_another() -> None:
    cube = planted(probes=6)
    again = probe_budget(cube, SETTINGS, HUMAN)
    pd.testing.assert_frame_equal(probe_budget(cube, SETTINGS, HUMAN), again)
    other = probe_budget(cube, SETTINGS.model_copy(update={"seed": 1}), HUMAN)
    assert not np.allclose(other["pearson"][:-1], again["pearson"][:-1])
