"""How long and how much memory does a large cell take? Goal: 60 criteria, 5 tasks, N = 5 under 20 s and 2 GB.

Usage: python benchmarks/large_cell.py [--criteria 60] [--tasks 5] [--probes 5]

Runs the whole of Stage 3 from a frame of scores (180,000 rows by default) to the tables, in this process, and prints
wall time, processor time, and the peak memory of the process with the share that was there before.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pandas as pd

from radar_dagster.stats.audit import analyse
from radar_dagster.stats.cell import scores_from_cube
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.stats.settings import CouplingSettings


def planted_frame(criteria: int, tasks: int, probes: int) -> pd.DataFrame:
    """Scores of a planted cell in the layout of the table `scores`."""
    rng = np.random.default_rng(11)
    leakage = rng.uniform(-0.2, 0.8, (criteria, criteria))
    np.fill_diagonal(leakage, 1.0)
    means = latent_means(leakage, rng.uniform(0.5, 0.9, criteria))
    return scores_from_cube(draw_cube(means, noise=0.15, tasks=tasks, probes=probes, rng=rng))


def peak_megabytes() -> float:
    """Peak resident memory of this process (Linux reports kilobytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Build, analyse, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--criteria", type=int, default=60)
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--probes", type=int, default=5)
    options = parser.parse_args()
    frame = planted_frame(options.criteria, options.tasks, options.probes)
    before = peak_megabytes()
    wall, processor = time.perf_counter(), time.process_time()
    tables = analyse(frame, settings=CouplingSettings())
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(
        f"{options.criteria} criteria, {options.tasks} tasks, N={options.probes}: {len(frame):,} scores, "
        f"{len(tables.criterion_pairs):,} pairs, {int(tables.self_effects['reliable'].sum())} criteria reliable"
    )
    print(f"{wall:.2f} s wall, {processor:.2f} s processor")
    print(f"peak memory {peak_megabytes():,.0f} MB, of which {before:,.0f} MB before the analysis")


if __name__ == "__main__":
    main()
