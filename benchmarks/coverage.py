"""How often do the intervals cover the planted truth? Prints the tables of docs/statistics.md.

Usage: python benchmarks/coverage.py [--replications 400] [--seed 1] [--estimator pooled]

Every replication plants a random leakage matrix (2 to 8 criteria, entries from −0.4 to 1, self-effects from 0.5 to
0.9, a noise level of its own), draws a cell of 0–4 scores from it, and compares the intervals with the exact
expectation-level values. Values that fail the gate have no interval and are not counted.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from radar_dagster.stats.bootstrap import percentile_interval, resample
from radar_dagster.stats.cell import BoolArray, FloatArray, ScoreCube
from radar_dagster.stats.coupling import average_over_tasks, slices_from_means, stratum_means
from radar_dagster.stats.intervals import (
    Bounds,
    Precision,
    around,
    combine,
    fold,
    leakage_precision,
    self_effect_precision,
    transpose,
)
from radar_dagster.stats.planted import draw_cube, expected_leakage, latent_means
from radar_dagster.stats.settings import CouplingSettings, Estimator
from radar_dagster.stats.summaries import effective_criteria, global_positive, global_tension, max_coupling

#: (tasks, probes per stratum, lowest and highest noise standard deviation on the 0–1 scale)
DESIGNS = [
    (T, N, low, high)
    for low, high in ((0.10, 0.25), (0.03, 0.07), (0.25, 0.35))
    for T, N in ((5, 3), (5, 5), (5, 10), (5, 20), (1, 3))
]
SUMMARIES = {
    "global positive": global_positive,
    "global tension": global_tension,
    "max coupling": lambda leakage: max_coupling(leakage).value,
    "effective criteria": effective_criteria,
}


@dataclass
class Tally:
    """Covered and counted intervals, their total width, and the sum of errors of the estimates."""

    covered: int = 0
    counted: int = 0
    width: float = 0.0
    error: float = 0.0

    def add(self, truth: FloatArray, estimate: FloatArray, bounds: Bounds, where: BoolArray) -> None:
        """Count the entries `where`; an interval that is missing there counts as a miss."""
        slack = 1e-9
        inside = (bounds.low - slack <= truth) & (truth <= bounds.high + slack)
        self.covered += int(inside[where].sum())
        self.counted += int(where.sum())
        self.width += float((bounds.high - bounds.low)[where].sum())
        self.error += float((estimate - truth)[where].sum())

    @property
    def coverage(self) -> float:
        """In percent."""
        return 100 * self.covered / max(self.counted, 1)


def planted_cell(
    rng: np.random.Generator, tasks: int, probes: int, noise: float, shared: float
) -> tuple[FloatArray, FloatArray, ScoreCube]:
    """A random planted matrix: expected leakage, expected self-effects, and a cell drawn from it."""
    n = int(rng.integers(2, 9))
    leakage = rng.uniform(-0.4, 1.0, (n, n))
    np.fill_diagonal(leakage, 1.0)
    effects = rng.uniform(0.5, 0.9, n)
    truth, own = expected_leakage(leakage, effects, noise)
    cube = draw_cube(latent_means(leakage, effects), noise=noise, tasks=tasks, probes=probes, rng=rng, shared=shared)
    return truth, own, cube


def without_floor(precision: Precision) -> Precision:
    """The same precision, but free to claim zero width."""
    return replace(precision, resolution=np.zeros_like(precision.resolution))


def intervals(cube: ScoreCube, settings: CouplingSettings) -> Iterator[tuple[str, str, FloatArray, Bounds, BoolArray]]:
    """(quantity, method, estimate, bounds, which entries count) of one cell."""
    confidence = settings.confidence
    slices = slices_from_means(stratum_means(cube), settings.gate)
    coupling = average_over_tasks(slices, settings.gate, settings.estimator)
    draws = resample(cube, settings)
    n = len(cube.criteria)
    leakage, drawn = coupling.leakage, draws.leakage
    off = coupling.entry_reliable & ~np.eye(n, dtype=bool)
    pairs = off & off.T & np.triu(np.ones((n, n), dtype=bool), 1)
    back = np.swapaxes(drawn, 1, 2)

    each = leakage_precision(cube, slices, coupling, settings.estimator, confidence)
    own = self_effect_precision(cube, slices, confidence)
    quantities = (
        ("self-effect", coupling.self_effect, own, draws.self_effect, coupling.reliable),
        ("leakage", leakage, each, drawn, off),
        ("sym", (leakage + leakage.T) / 2, combine(each, transpose(each), 0.5), (drawn + back) / 2, pairs),
        ("asym", leakage - leakage.T, combine(each, transpose(each)), drawn - back, pairs),
    )
    for name, estimate, precision, resampled, where in quantities:
        methods = {
            "t": around(estimate, precision.half_width(confidence)),
            "t, no floor": around(estimate, without_floor(precision).half_width(confidence)),
            "percentile": percentile_interval(resampled, confidence),
        }
        for method, bounds in methods.items():
            if name == "asym":
                yield name, method, np.abs(estimate), fold(bounds), where
            else:
                yield name, method, estimate, bounds, where


def summary_intervals(
    cube: ScoreCube, settings: CouplingSettings
) -> Iterator[tuple[str, str, FloatArray, Bounds, BoolArray]]:
    """The same for the global summaries, by two ways to read a bootstrap distribution."""
    slices = slices_from_means(stratum_means(cube), settings.gate)
    coupling = average_over_tasks(slices, settings.gate, settings.estimator)
    draws = resample(cube, settings).leakage
    where = np.asarray(coupling.reliable.all())
    for name, statistic in SUMMARIES.items():
        value, resampled = statistic(coupling.leakage), statistic(draws)
        if not where:
            continue
        raw = percentile_interval(resampled, settings.confidence)
        yield name, "percentile", value, raw, where
        yield name, "basic", value, Bounds(2 * value - raw.high, 2 * value - raw.low), where


def true_value(quantity: str, truth: FloatArray, own: FloatArray) -> FloatArray:
    """The planted value of a quantity."""
    if quantity in SUMMARIES:
        return SUMMARIES[quantity](truth)
    return {
        "self-effect": own,
        "leakage": truth,
        "sym": (truth + truth.T) / 2,
        "asym": np.abs(truth - truth.T),
    }[quantity]


def simulate(
    design: tuple[int, int, float, float],
    replications: int,
    rng: np.random.Generator,
    settings: CouplingSettings,
    shared: float = 0.2,
) -> dict[tuple[str, str], Tally]:
    """Tallies by (quantity, method) for one design."""
    tasks, probes, low, high = design
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    for _ in range(replications):
        truth, own, cube = planted_cell(rng, tasks, probes, rng.uniform(low, high), shared)
        for found in (intervals(cube, settings), summary_intervals(cube, settings)):
            for quantity, method, estimate, bounds, where in found:
                tallies[quantity, method].add(true_value(quantity, truth, own), estimate, bounds, where)
    return tallies


def print_table(title: str, results: dict[tuple[int, int, float, float], dict[tuple[str, str], Tally]]) -> None:
    """One row per quantity and method, one column per design."""
    print(f"\n{title}\n")
    designs = list(results)
    print("| quantity | interval | " + " | ".join(f"T={T}, N={N}" for T, N, *_ in designs) + " |")
    print("|---|---|" + "---:|" * len(designs))
    for quantity, method in next(iter(results.values())):
        cells = [f"{results[design][quantity, method].coverage:.1f}" for design in designs]
        print(f"| {quantity} | {method} | " + " | ".join(cells) + " |")
    bias = [results[d]["leakage", "t"] for d in designs]
    print("| leakage | bias | " + " | ".join(f"{b.error / max(b.counted, 1):+.4f}" for b in bias) + " |")
    print("| leakage | intervals counted | " + " | ".join(f"{b.counted:,}" for b in bias) + " |")


def main() -> None:
    """Run all designs and print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--estimator", choices=[e.value for e in Estimator], default=Estimator.MEAN_OF_TASKS.value)
    options = parser.parse_args()
    settings = CouplingSettings(estimator=Estimator(options.estimator))
    started = time.perf_counter()
    for low, high in dict.fromkeys(design[2:] for design in DESIGNS):
        rng = np.random.default_rng(options.seed)
        chosen = [design for design in DESIGNS if design[2:] == (low, high)]
        results = {design: simulate(design, options.replications, rng, settings) for design in chosen}
        print_table(f"Coverage of 95% intervals in percent; noise {low:g} to {high:g}", results)
    print(f"\n{options.replications} cells per column, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
