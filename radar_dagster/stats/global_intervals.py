"""The table coupling_summary: the global summaries of a cell with bootstrap intervals and what they cover.

Not here: the summaries themselves (`summaries.py`), which need only a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from radar_dagster.stats.bootstrap import MIN_RESAMPLES, Resamples, percentile_interval
from radar_dagster.stats.cell import FloatArray, IntArray
from radar_dagster.stats.coupling import Coupling
from radar_dagster.stats.intervals import Bounds, Precision, include
from radar_dagster.stats.numbers import TOLERANCE
from radar_dagster.stats.summaries import (
    MIN_RELIABLE,
    effective_criteria,
    global_positive,
    global_tension,
    max_coupling,
)

_NONE = (np.nan, np.nan)


def summary_table(
    criteria: Sequence[str],
    coupling: Coupling,
    resamples: Resamples,
    precisions: tuple[Precision, Precision],
    confidence: float,
) -> pd.DataFrame:
    """Columns metric, value, ci_low, ci_high, detail; `detail` says what is covered and why something is missing.

    `precisions` are those of the self-effects and of the leakages: they tell what could be resampled at all.
    A resample counts with the leakages that are reliable both in the cell and in the resample; for effective_criteria,
    which needs a complete matrix, only resamples with all of them count.
    """
    n, rows = len(criteria), np.flatnonzero(coupling.reliable)
    if len(rows) < MIN_RELIABLE:
        reason = f"{len(rows)} of {n} criteria passed the gate; at least {MIN_RELIABLE} are needed"
        return _table([(name, np.nan, _NONE, reason) for name in _METRICS])
    matrix = coupling.leakage
    resampled = np.where(coupling.entry_reliable, resamples.leakage, np.nan)
    block = np.ix_(rows, rows)
    own = precisions[0]
    informative = bool((np.isfinite(own.variance) & ~own.over_tasks)[rows].any())
    scope = _scope(coupling, rows, n) + _interval_note(precisions)

    table = []
    for name, (statistic, remark) in _METRICS.items():
        square = name == "effective_criteria"
        value = float(statistic(matrix[block] if square else matrix))
        draws = statistic(resampled[:, rows[:, None], rows] if square else resampled)
        draws = draws if informative else draws[:0]
        bounds, problem = _interval(value, draws, confidence, reflect=name == "max_coupling")
        detail = [scope, remark, problem]
        if name == "max_coupling":
            where = max_coupling(matrix)
            detail.insert(0, f"{criteria[int(where.source)]} → {criteria[int(where.target)]}")
            if not problem:
                detail.append(_MAXIMUM_COVERAGE)
        if square:
            detail[0] = f"out of {len(rows)} criteria that passed the gate (of {n})"
            if np.isnan(value):
                detail.append("undefined: a leakage between two of them is missing")
        table.append((name, value, bounds, "; ".join(part for part in detail if part)))
    return _table(table)


#: From the tables in docs/statistics.md: five tasks, three probes, little and ordinary noise.
_MAXIMUM_COVERAGE = (
    "the interval allows for that only in part: with 3 probes per stratum, 75 to 84% of such 95% intervals hold the "
    "true value"
)

_METRICS: dict[str, tuple[Callable[[FloatArray], FloatArray], str]] = {
    "global_positive": (global_positive, ""),
    "global_tension": (global_tension, ""),
    "max_coupling": (
        lambda leakage: max_coupling(leakage).value,
        "the largest of several noisy values, hence biased upward",
    ),
    "effective_criteria": (effective_criteria, ""),
}


def _interval(value: float, draws: FloatArray, confidence: float, *, reflect: bool) -> tuple[tuple[float, float], str]:
    """Percentile interval, widened to the value, or none and the reason.

    The maximum of a resample tends to exceed the cell's own maximum as much as that exceeds the true one; reflecting
    the percentiles at the value (the basic bootstrap) makes up for part of it. The other summaries are covered about as
    well or better without (docs/statistics.md has the table).
    """
    if np.isnan(value):
        return _NONE, ""
    if not len(draws):
        return _NONE, "no interval: one probe per stratum can't be resampled"
    usable = draws[np.isfinite(draws)]
    if len(usable) < MIN_RESAMPLES:
        return _NONE, f"no interval: only {len(usable)} of {len(draws)} resamples stayed above the gate"
    if np.ptp(usable) <= TOLERANCE:
        return _NONE, "no interval: no resample differs, as the scores hardly vary within strata"
    low, high = percentile_interval(usable, confidence)
    if reflect:
        low, high = 2 * value - high, 2 * value - low
    bounds = include(Bounds(low, high), np.asarray(value))
    return (float(bounds.low), float(bounds.high)), ""


def _scope(coupling: Coupling, rows: IntArray, n: int) -> str:
    defined = int(coupling.entry_reliable[rows].sum()) - len(rows)
    possible = len(rows) * (n - 1)
    lacking = f", without {possible - defined} of {possible} leakages for lack of scores" if defined < possible else ""
    return f"covers {len(rows)} of {n} criteria as sources{lacking}"


def _interval_note(precisions: tuple[Precision, ...]) -> str:
    """Name the kind of interval in the other tables when it is not the configured one."""
    if not any(p.over_tasks.any() for p in precisions):
        return ""
    return "; with one probe per stratum, intervals in the other tables come from the spread over tasks"


def _table(rows: list[tuple[str, float, tuple[float, float], str]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "metric": [row[0] for row in rows],
            "value": [row[1] for row in rows],
            "ci_low": [row[2][0] for row in rows],
            "ci_high": [row[2][1] for row in rows],
            "detail": [row[3] for row in rows],
        }
    )
