"""From one leakage value down to the model calls behind it, and back up: the rows recompute the value exactly.

Here: the trace as plain values, independent of how the command line or a page shows it. Not here: choosing evidence for
a report (`evidence.py`), statistics (`stats/`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from radar_dagster.errors import BadInputError
from radar_dagster.report.data import Judgement, Record, judgement_of, records
from radar_dagster.stats.cell import cube_from_scores
from radar_dagster.stats.coupling import average_over_tasks, slices_from_means, stratum_means
from radar_dagster.stats.settings import CouplingSettings, Estimator

#: The tables that a trace reads.
TRACE_TABLES = ("probes", "scores", "task_slices", "leakage", "self_effects", "verdict")


@dataclass(frozen=True, slots=True)
class TraceProbe:
    """One probe that targets the source, with its judgements on source and target.

    `influence` is this probe's pull on the leakage: by how much, to first order, the value would fall if its two
    scores were the means of its stratum. None where the value is undefined or the probe's slice does not enter it.
    """

    probe: str
    task: str
    direction: str
    sample: int
    state: str
    text: str | None
    detail: str | None
    call_key: str
    on_source: Judgement
    on_target: Judgement
    influence: float | None


@dataclass(frozen=True, slots=True)
class TraceSlice:
    """One task's contribution: the stratum means of both criteria, each with the number of scores, and the gate.

    `leakage` = `gen_coupling` / `self_effect`, None where the slice did not pass or the whole value is undefined.
    Every difference is the mean over + probes less the mean over − probes; counts of scores are (+, −).
    """

    task: str
    passed: bool
    self_effect: float | None
    gen_coupling: float | None
    leakage: float | None
    source_plus: float | None
    source_minus: float | None
    source_n: tuple[int, int]
    target_plus: float | None
    target_minus: float | None
    target_n: tuple[int, int]


@dataclass(frozen=True, slots=True)
class LeakageTrace:
    """What stands behind leakage(source → target).

    `leakage` is None where the value is undefined; `reason` then says why the source's row failed, if it did. `slices`
    keep the order of the audit; `probes` are sorted by |influence|, the largest first.
    """

    source: str
    target: str
    leakage: float | None
    ci_low: float | None
    ci_high: float | None
    sigma: float | None
    reliable: bool
    reason: str | None
    gate: float
    estimator: str
    slices: tuple[TraceSlice, ...]
    probes: tuple[TraceProbe, ...]

    def to_json_dict(self) -> dict[str, Any]:
        """The trace as JSON-able values; undefined numbers are null."""
        document: dict[str, Any] = json.loads(json.dumps(asdict(self)))  # the tuples become lists
        return document


def trace_leakage(
    tables: Mapping[str, pd.DataFrame], settings: CouplingSettings, source: str, target: str
) -> LeakageTrace:
    """Trace leakage(source → target) through the tables of one cell (names in TRACE_TABLES).

    BadInputError when a criterion is unknown, or when both are the same: a criterion's leakage into itself is 1 by
    definition.
    """
    _check_criteria(tables["self_effects"], source, target)
    value = _one(tables["leakage"], source=source, target=target)
    own = _one(tables["self_effects"], criterion=source)
    slices = _slices(tables["task_slices"], source, target)
    probes = _probes(tables, source, target)
    pull = _influences(value["leakage"], settings, slices, probes)
    traced = [replace(probe, influence=pull.get(probe.probe)) for probe in probes]
    return LeakageTrace(
        source=source,
        target=target,
        leakage=value["leakage"],
        ci_low=value["ci_low"],
        ci_high=value["ci_high"],
        sigma=value["sigma"],
        reliable=bool(value["reliable"]),
        reason=own["reason"],
        gate=settings.gate,
        estimator=settings.estimator.value,
        slices=slices,
        probes=tuple(sorted(traced, key=lambda probe: -abs(probe.influence or 0.0))),
    )


def recompute(trace: LeakageTrace) -> float | None:
    """The leakage from nothing but the trace's rows, gate and estimator; bit for bit the value of the audit.

    Floating-point sums depend on their order, so the rows go through the audit's own arithmetic: probes by id within a
    stratum, tasks in the order of the slices. Another value means that the tables are of different audits.
    """
    tasks = [one.task for one in trace.slices]
    rows = [
        {
            "task": probe.task, "target": trace.source, "direction": probe.direction, "probe": probe.probe,
            "criterion": score.criterion, "p": np.nan if score.p is None else score.p,
        }
        for probe in trace.probes
        if probe.task in tasks
        for score in (probe.on_source, probe.on_target)
    ]  # fmt: skip
    if not rows:
        return None
    cube = cube_from_scores(pd.DataFrame(rows), (trace.source, trace.target), tasks)
    slices = slices_from_means(stratum_means(cube), trace.gate)
    value = average_over_tasks(slices, trace.gate, Estimator(trace.estimator)).leakage[0, 1]
    return None if np.isnan(value) else float(value)


def _check_criteria(self_effects: pd.DataFrame, source: str, target: str) -> None:
    known = list(self_effects["criterion"])
    for criterion in (source, target):
        if criterion not in known:
            raise BadInputError(f"no criterion {criterion!r}; there are {', '.join(known)}")
    if source == target:
        raise BadInputError(
            f"{source!r} is source and target; the leakage of a criterion into itself is 1 by definition"
        )


def _one(frame: pd.DataFrame, **wanted: str) -> Record:
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    return next(records(frame))


def _slices(task_slices: pd.DataFrame, source: str, target: str) -> tuple[TraceSlice, ...]:
    of_source = task_slices[task_slices["source"] == source]
    own = {row["task"]: row for row in records(of_source[of_source["target"] == source])}
    rows = records(of_source[of_source["target"] == target])
    return tuple(_slice(own[row["task"]], row) for row in rows)


def _slice(own: Record, row: Record) -> TraceSlice:
    return TraceSlice(
        task=row["task"],
        passed=bool(row["passed_gate"]),
        self_effect=row["self_effect"],
        gen_coupling=row["gen_coupling"],
        leakage=row["leakage"],
        source_plus=own["mean_plus"],
        source_minus=own["mean_minus"],
        source_n=(int(own["n_plus"]), int(own["n_minus"])),
        target_plus=row["mean_plus"],
        target_minus=row["mean_minus"],
        target_n=(int(row["n_plus"]), int(row["n_minus"])),
    )


def _probes(tables: Mapping[str, pd.DataFrame], source: str, target: str) -> list[TraceProbe]:
    scores = tables["scores"]
    wanted = scores[(scores["target"] == source) & scores["criterion"].isin([source, target])]
    found = {(row["probe"], row["criterion"]): row for row in records(wanted)}
    probes = tables["probes"]
    return [
        TraceProbe(
            probe=row["probe"],
            task=row["task"],
            direction=row["direction"],
            sample=int(row["sample"]),
            state=row["state"],
            text=row["text"],
            detail=row["detail"],
            call_key=row["call_key"],
            on_source=judgement_of(found.get((row["probe"], source)), source),
            on_target=judgement_of(found.get((row["probe"], target)), target),
            influence=None,
        )
        for row in records(probes[probes["target"] == source])
    ]


def _influences(
    leakage: float | None, settings: CouplingSettings, slices: Sequence[TraceSlice], probes: Sequence[TraceProbe]
) -> dict[str, float]:
    """probe -> its first-order pull on the leakage.

    The derivative of the ratio ℓ = (p̄_j⁺ − p̄_j⁻) / (p̄_i⁺ − p̄_i⁻) gives a probe of direction d = ±1 the pull
    d·[(p_j − p̄_j)/n_j − ℓ·(p_i − p̄_i)/n_i] / SelfEffect, with n the scores of its stratum. For the mean of tasks, ℓ and
    SelfEffect are the slice's, and the pull is divided by the number of slices used; for the pooled estimator they are
    the pooled value and the sum of self-effects.
    """
    if leakage is None:
        return {}
    pooled = settings.estimator is Estimator.POOLED
    used = {one.task: one for one in slices if _enters(one, pooled)}
    total = sum(one.self_effect or 0.0 for one in used.values())
    pull = {}
    for probe in probes:
        one = used.get(probe.task)
        if one is None:
            continue
        ratio = leakage if pooled else one.leakage or 0.0
        scale = total if pooled else (one.self_effect or 0.0) * len(used)
        pull[probe.probe] = _pull(probe, one, ratio) / scale
    return pull


def _enters(one: TraceSlice, pooled: bool) -> bool:
    return one.gen_coupling is not None and one.self_effect is not None if pooled else one.leakage is not None


def _pull(probe: TraceProbe, one: TraceSlice, ratio: float) -> float:
    side = 0 if probe.direction == "+" else 1
    on_target = _deviation(probe.on_target.p, (one.target_plus, one.target_minus)[side], one.target_n[side])
    on_source = _deviation(probe.on_source.p, (one.source_plus, one.source_minus)[side], one.source_n[side])
    return (on_target - ratio * on_source) * (1 if side == 0 else -1)


def _deviation(p: float | None, mean: float | None, n: int) -> float:
    """(p − mean)/n: what one score adds to its stratum's mean; a lost score adds nothing."""
    return 0.0 if p is None or mean is None or n == 0 else (p - mean) / n
