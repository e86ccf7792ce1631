"""What it costs to compare a grid with people: 36 cells with N = 20, probe budget and exact p-values included.

Usage: python benchmarks/validation.py [--cells 36] [--probes 20] [--criteria 5] [--tasks 5]

Prints seconds per step for all cells together, and ratios to plain loops over scipy on one cell, in the same run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from radar_dagster.stats.audit import analyse_cube
from radar_dagster.stats.cell import ScoreCube
from radar_dagster.stats.coupling import average_over_tasks, slices_from_means, stratum_means, symmetric_coupling
from radar_dagster.stats.grid import average_over_cells
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.stats.probe_budget import BUDGETS, SUBSETS, probe_budget
from radar_dagster.stats.settings import CouplingSettings
from radar_dagster.stats.validation import EXACT_CRITERIA, matrix_of, permutation_p, validation_table

SETTINGS = CouplingSettings()
GOAL_S = 10.0


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def planted_cells(cells: int, criteria: int, tasks: int, probes: int) -> list[ScoreCube]:
    """Cells of one rubric whose judges differ a little."""
    rng = np.random.default_rng(0)
    leakage = np.where(np.eye(criteria, dtype=bool), 1.0, rng.uniform(0, 0.8, (criteria, criteria)))
    drawn = []
    for _ in range(cells):
        theirs = np.where(np.eye(criteria, dtype=bool), 1.0, np.clip(leakage + rng.normal(0, 0.1, leakage.shape), 0, 1))
        means = latent_means(theirs, np.full(criteria, 0.7))
        drawn.append(draw_cube(means, noise=0.2, tasks=tasks, probes=probes, rng=rng))
    return drawn


def plain_budget(cube: ScoreCube, human: np.ndarray) -> None:
    """The probe budget as one would write it first: a loop over N', subsets and strata, scipy for each correlation."""
    rng = np.random.default_rng(0)
    tasks, n, _, probes, _ = cube.p.shape
    pairs = np.triu_indices(n, k=1)
    for size in (budget for budget in BUDGETS if budget < probes):
        for _ in range(SUBSETS):
            means = np.empty((tasks, n, 2, n))
            for t in range(tasks):
                for i in range(n):
                    for d in range(2):
                        means[t, i, d] = cube.p[t, i, d, rng.choice(probes, size, replace=False)].mean(axis=0)
            coupling = average_over_tasks(slices_from_means(means, SETTINGS.gate), SETTINGS.gate)
            values = symmetric_coupling(coupling.leakage)[pairs]
            if np.isfinite(values).all():
                stats.pearsonr(values, human[pairs])
                stats.spearmanr(values, human[pairs])


def plain_permutation(values: np.ndarray, human: np.ndarray) -> None:
    """The exact p-value as a loop over relabellings."""
    pairs = np.triu_indices(len(values), k=1)
    for order in permutations(range(len(values))):
        stats.pearsonr(values[pairs], human[np.ix_(order, order)][pairs])


def main() -> None:
    """Time every step and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("cells", 36), ("probes", 20), ("criteria", 5), ("tasks", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    cubes = planted_cells(given.cells, given.criteria, given.tasks, given.probes)
    criteria = list(cubes[0].criteria)
    human = np.asarray(np.corrcoef(np.random.default_rng(1).normal(size=(given.criteria, 30))))

    analysis_s, tables = timed(lambda: [analyse_cube(cube, SETTINGS) for cube in cubes])
    matrices = [matrix_of(table.criterion_pairs, "sym", criteria) for table in tables]
    validation_s, _ = timed(lambda: [validation_table({"radar": matrix}, human) for matrix in matrices])
    budget_s, _ = timed(lambda: [probe_budget(cube, SETTINGS, human) for cube in cubes])
    pairs: list[pd.DataFrame] = [table.criterion_pairs for table in tables]
    grid_s, _ = timed(lambda: average_over_cells(pairs, SETTINGS.thresholds))
    plain_budget_s, _ = timed(lambda: plain_budget(cubes[0], human))

    total = validation_s + budget_s + grid_s
    print(f"{given.cells} cells, {given.criteria} criteria, {given.tasks} tasks, N = {given.probes}")
    print(f"  coupling statistics        {analysis_s:7.2f} s (for comparison)")
    print(f"  agreement with people      {validation_s:7.2f} s")
    print(f"  probe budget, 6 × 30       {budget_s:7.2f} s")
    print(f"  grid over cells            {grid_s:7.2f} s")
    print(f"  validation of the grid     {total:7.2f} s")
    print(f"  goal, under {GOAL_S:g} s: {'met' if total < GOAL_S else 'missed'}")
    print(f"  probe budget of one cell: plain loops take {plain_budget_s / (budget_s / given.cells):.0f} times as long")
    if given.criteria <= EXACT_CRITERIA:
        plain_p_s, _ = timed(lambda: plain_permutation(matrices[0], human))
        p_s, _ = timed(lambda: permutation_p(matrices[0], human))
        print(f"  exact p-value of one cell: plain loops take {plain_p_s / p_s:.0f} times as long")
    memory = stratum_means(cubes[0]).nbytes * SUBSETS / 1e6
    print(f"  largest array of the probe budget: {memory:.1f} MB")


if __name__ == "__main__":
    main()
