"""Stage 3 in one call: a frame of scores in, the tables of the coupling audit out.

Here: the order of the steps and the layout of the tables. Not here: the statistics themselves, one module each, and
reading or writing files. In every table an undefined number is missing (NaN or None), which the lake stores as null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from radar_dagster.stats.aggregation import aggregate_effect, amplification, normalised_weights
from radar_dagster.stats.bootstrap import Resamples, percentile_interval, resample
from radar_dagster.stats.cell import FloatArray, IntArray, ScoreCube, cube_from_scores
from radar_dagster.stats.coupling import (
    Coupling,
    Slices,
    asymmetry,
    average_over_tasks,
    slices_from_means,
    stratum_means,
    symmetric_coupling,
    unreliable_reasons,
)
from radar_dagster.stats.global_intervals import summary_table
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
from radar_dagster.stats.readings import find_crossings, read_pairs, task_sensitive
from radar_dagster.stats.settings import CouplingSettings, Interval
from radar_dagster.stats.settling import probes_per_stratum, settle


@dataclass(frozen=True)
class CouplingTables:
    """The tables of one cell; columns as in `radar_dagster.tables`."""

    self_effects: pd.DataFrame
    leakage: pd.DataFrame
    criterion_pairs: pd.DataFrame
    coupling_summary: pd.DataFrame
    task_slices: pd.DataFrame
    aggregation_sensitivity: pd.DataFrame
    settling: pd.DataFrame


def analyse(
    scores: pd.DataFrame,
    *,
    settings: CouplingSettings,
    criteria: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    weights: Mapping[str, float] | None = None,
) -> CouplingTables:
    """Self-effects, leakage, pairs, summaries, aggregation sensitivity and what would settle uncertain pairs.

    `scores` has the columns task, target, direction (+ or −), probe, criterion, p (in [0, 1], null when missing); extra
    columns are ignored. `criteria` and `tasks` give the rubric's order and may name what has no scores at all; without
    them the ids of the frame are used, sorted. `weights` defaults to equal ones.

    ValueError names the row or id when the scores contradict themselves; see `cube_from_scores`.
    """
    return analyse_cube(cube_from_scores(scores, criteria, tasks), settings, weights)


def analyse_cube(
    cube: ScoreCube, settings: CouplingSettings, weights: Mapping[str, float] | None = None
) -> CouplingTables:
    """`analyse` for scores that are a cube already."""
    share = normalised_weights(cube.criteria, weights)
    cell = _measure(cube, settings)
    pairs, settling = _pair_tables(cell)
    return CouplingTables(
        self_effects=_self_effect_table(cell),
        leakage=_leakage_table(cell),
        criterion_pairs=pairs,
        coupling_summary=summary_table(
            cube.criteria, cell.coupling, cell.resamples, (cell.self_precision, cell.precision), settings.confidence
        ),
        task_slices=_slice_table(cell),
        aggregation_sensitivity=_aggregation_table(cell, share),
        settling=settling,
    )


@dataclass(frozen=True)
class _Cell:
    """All that the tables are laid out from."""

    cube: ScoreCube
    settings: CouplingSettings
    means: FloatArray
    slices: Slices
    coupling: Coupling
    resamples: Resamples
    self_precision: Precision
    precision: Precision


def _measure(cube: ScoreCube, settings: CouplingSettings) -> _Cell:
    means = stratum_means(cube)
    slices = slices_from_means(means, settings.gate)
    coupling = average_over_tasks(slices, settings.gate, settings.estimator)
    return _Cell(
        cube=cube,
        settings=settings,
        means=means,
        slices=slices,
        coupling=coupling,
        resamples=resample(cube, settings),
        self_precision=self_effect_precision(cube, slices, settings.confidence),
        precision=leakage_precision(cube, slices, coupling, settings.estimator, settings.confidence),
    )


def _bounds(cell: _Cell, estimate: FloatArray, precision: Precision, resampled: FloatArray) -> Bounds:
    """The interval of the configured kind; with one probe per stratum there is nothing to resample.

    A percentile interval is widened to its estimate and to the resolution of the scores, like the t interval.
    """
    half_width = precision.half_width(cell.settings.confidence)
    closed = around(estimate, half_width)
    if cell.settings.interval is Interval.T:
        return closed
    percentile = percentile_interval(resampled, cell.settings.confidence)
    at_least = around(estimate, precision.resolution)
    low, high = include(
        Bounds(np.minimum(percentile.low, at_least.low), np.maximum(percentile.high, at_least.high)), estimate
    )
    # Only the diagonal, 1 by definition, has no width at all.
    use_closed = precision.over_tasks | np.isnan(half_width) | (half_width == 0)
    return Bounds(np.where(use_closed, closed.low, low), np.where(use_closed, closed.high, high))


def _self_effect_table(cell: _Cell) -> pd.DataFrame:
    coupling = cell.coupling
    bounds = _bounds(cell, coupling.self_effect, cell.self_precision, cell.resamples.self_effect)
    resampling_informs = np.isfinite(cell.self_precision.variance) & ~cell.self_precision.over_tasks
    reasons = unreliable_reasons(coupling, cell.settings.gate, len(cell.cube.tasks))
    return pd.DataFrame(
        {
            "criterion": list(cell.cube.criteria),
            "self_effect": coupling.self_effect,
            "ci_low": bounds.low,
            "ci_high": bounds.high,
            "gate_pass_rate": np.where(resampling_informs, cell.resamples.gate_pass_rate, np.nan),
            "reliable": coupling.reliable,
            "reason": pd.Series(reasons, dtype=object),
            "tasks_used": coupling.tasks_used,
        }
    )


def _leakage_table(cell: _Cell) -> pd.DataFrame:
    coupling = cell.coupling
    bounds = _bounds(cell, coupling.leakage, cell.precision, cell.resamples.leakage)
    n = len(cell.cube.criteria)
    source, target = np.divmod(np.arange(n * n), n)
    names = np.array(cell.cube.criteria, dtype=object)
    return pd.DataFrame(
        {
            "source": names[source],
            "target": names[target],
            "leakage": coupling.leakage.ravel(),
            "sigma": coupling.sigma.ravel(),
            "pooled": coupling.pooled.ravel(),
            "ci_low": bounds.low.ravel(),
            "ci_high": bounds.high.ravel(),
            "gen_coupling": coupling.coupling.ravel(),
            "reliable": coupling.entry_reliable.ravel(),
            "tasks_used": coupling.entry_tasks.ravel(),
        }
    )


def _slice_table(cell: _Cell) -> pd.DataFrame:
    """One row per task × source × target. Leakage is shown only where it enters the source's leakage."""
    T, n = len(cell.cube.tasks), len(cell.cube.criteria)
    index = np.arange(T * n * n)
    task, source, target = index // (n * n), index // n % n, index % n
    names = np.array(cell.cube.criteria, dtype=object)
    counts = np.isfinite(cell.cube.p).sum(axis=3)
    leakage = np.where(cell.coupling.entry_reliable, cell.slices.leakage, np.nan)
    return pd.DataFrame(
        {
            "task": np.array(cell.cube.tasks, dtype=object)[task],
            "source": names[source],
            "target": names[target],
            "mean_plus": cell.means[:, :, 0].ravel(),
            "mean_minus": cell.means[:, :, 1].ravel(),
            "n_plus": counts[:, :, 0].ravel(),
            "n_minus": counts[:, :, 1].ravel(),
            "gen_coupling": cell.slices.coupling.ravel(),
            "self_effect": cell.slices.self_effect[task, source],
            "leakage": leakage.ravel(),
            "passed_gate": cell.slices.passed[task, source],
        }
    )


def _pair_tables(cell: _Cell) -> tuple[pd.DataFrame, pd.DataFrame]:
    """criterion_pairs and settling: unordered pairs in the rubric's order."""
    a, b = np.triu_indices(len(cell.cube.criteria), k=1)
    values, bounds = _pair_quantities(cell, a, b)
    thresholds = cell.settings.thresholds
    readings = read_pairs(values["sym"], values["asym"], values["leakage_ab"], values["leakage_ba"], thresholds)
    crossings = find_crossings(values, bounds, thresholds)
    sensitive = task_sensitive(cell.coupling.leakage, cell.coupling.sigma, thresholds)

    names = np.array(cell.cube.criteria, dtype=object)
    upstream = [
        {"a": one, "b": other}.get(side) for side, one, other in zip(readings.upstream, names[a], names[b], strict=True)
    ]
    table = pd.DataFrame(
        {
            "criterion_a": names[a],
            "criterion_b": names[b],
            "leakage_ab": values["leakage_ab"],
            "leakage_ba": values["leakage_ba"],
            "sym": values["sym"],
            "sym_low": bounds["sym"].low,
            "sym_high": bounds["sym"].high,
            "asym": values["asym"],
            "asym_low": bounds["asym"].low,
            "asym_high": bounds["asym"].high,
            "reading": readings.reading,
            "upstream": pd.Series(upstream, dtype=object),
            "uncertain": crossings.uncertain,
            "task_sensitive": sensitive[a, b] | sensitive[b, a],
        }
    )
    per_criterion = probes_per_stratum(cell.cube)
    over_tasks = cell.precision.over_tasks
    rows = settle(crossings, (per_criterion[a] + per_criterion[b]) / 2, over_tasks[a, b] | over_tasks[b, a])
    columns = {
        "criterion_a": [names[a[row.pair]] for row in rows],
        "criterion_b": [names[b[row.pair]] for row in rows],
        "quantity": [row.quantity for row in rows],
        "value": [values[row.quantity][row.pair] for row in rows],
        "low": [bounds[row.quantity].low[row.pair] for row in rows],
        "high": [bounds[row.quantity].high[row.pair] for row in rows],
        "threshold": [row.threshold for row in rows],
        "other_reading": [row.other_reading for row in rows],
        "probes_now": np.array([row.now for row in rows], dtype=np.int64),
        "probes_needed": pd.array([row.needed for row in rows], dtype="Int64"),
    }
    settling = pd.DataFrame(columns).astype(dict.fromkeys(("value", "low", "high", "threshold"), np.float64))
    return table, settling


def _pair_quantities(cell: _Cell, a: IntArray, b: IntArray) -> tuple[dict[str, FloatArray], dict[str, Bounds]]:
    """Values and intervals of the four quantities that decide readings, each (pairs,).

    ℓ_ij and ℓ_ji come from probes with different targets, hence are independent. The interval of the asymmetry is that
    of the signed difference, folded: percentiles of |δ| itself would be biased away from 0.
    """
    leakage, precision = cell.coupling.leakage, cell.precision
    resampled = cell.resamples.leakage
    back = np.swapaxes(resampled, 1, 2)
    both = transpose(precision)
    each = _bounds(cell, leakage, precision, resampled)
    sym = _bounds(cell, symmetric_coupling(leakage), combine(precision, both, 0.5), (resampled + back) / 2)
    difference = _bounds(cell, leakage - leakage.T, combine(precision, both), resampled - back)
    values = {
        "sym": symmetric_coupling(leakage)[a, b],
        "asym": asymmetry(leakage)[a, b],
        "leakage_ab": leakage[a, b],
        "leakage_ba": leakage[b, a],
    }
    bounds = {
        "sym": Bounds(sym.low[a, b], sym.high[a, b]),
        "asym": fold(Bounds(difference.low[a, b], difference.high[a, b])),
        "leakage_ab": Bounds(each.low[a, b], each.high[a, b]),
        "leakage_ba": Bounds(each.low[b, a], each.high[b, a]),
    }
    return values, bounds


def _aggregation_table(cell: _Cell, weights: FloatArray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "criterion": list(cell.cube.criteria),
            "weight": weights,
            "own_effect": weights * cell.coupling.self_effect,
            "aggregate_effect": aggregate_effect(cell.coupling.coupling, weights),
            "amplification": amplification(cell.coupling.leakage, weights),
        }
    )
