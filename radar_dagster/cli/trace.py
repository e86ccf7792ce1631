"""`radar trace`: from one leakage value down to the probes, scores and rationales behind it.

Here: how a trace is printed. Not here: making it (`report/trace.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from radar_dagster.cli import output
from radar_dagster.cli.errors import PASSED
from radar_dagster.cli.workspace import configured_cell
from radar_dagster.lake import Lake
from radar_dagster.models.naming import ModelSpec
from radar_dagster.partitions import BENCHMARK, GENERATOR, Pair, parse_pair
from radar_dagster.report.data import Judgement
from radar_dagster.report.escape import shorten
from radar_dagster.report.trace import TRACE_TABLES, LeakageTrace, TraceProbe, recompute, trace_leakage
from radar_dagster.report.words import model_kind, span
from radar_dagster.stats.settings import CouplingSettings

_TEXT_SHOWN = 600


def run(benchmark: str, pair: str, source: str, target: str, *, limit: int, as_json: bool) -> int:
    """Print the trace of leakage(source → target); `--json` holds every probe in full."""
    workspace, dims = configured_cell(benchmark, pair)
    lake = Lake(workspace.store_url)
    by_generator = {BENCHMARK: benchmark, GENERATOR: parse_pair(pair).generator}
    tables = {name: lake.read(name, **(by_generator if name == "probes" else dims)) for name in TRACE_TABLES}
    trace = trace_leakage(tables, _settings(tables["verdict"]), source, target)
    rule_based = _rule_based(tables, parse_pair(pair))
    recomputed = recompute(trace)
    if as_json:
        head: dict[str, Any] = {"benchmark": benchmark, "pair": pair, "rule_based": rule_based}
        output.print_json({**head, **trace.to_json_dict(), "recomputed": recomputed})
    else:
        _show_value(trace)
        _show_kinds(tables, parse_pair(pair))
        _show_slices(trace, recomputed)
        _show_probes(trace.probes, limit)
    return PASSED


def _settings(verdict: pd.DataFrame) -> CouplingSettings:
    """The settings with which the tables were computed, whatever radar.yaml says by now."""
    return CouplingSettings.model_validate(json.loads(verdict["settings"].item())["coupling"])


def _rule_based(tables: Mapping[str, pd.DataFrame], pair: Pair) -> list[str]:
    """Aliases of those of the two models that follow fixed rules, as their rows record it."""
    made = {pair.generator: tables["probes"], pair.verifier: tables["scores"]}
    return [alias for alias, frame in made.items() if bool(frame["rule_based"].any())]


def _show_kinds(tables: Mapping[str, pd.DataFrame], pair: Pair) -> None:
    """What the two models are, as their rows record it."""
    for alias, frame in ((pair.generator, tables["probes"]), (pair.verifier, tables["scores"])):
        for model in frame["model"].dropna().unique():
            kind = model_kind(ModelSpec(model=str(model)))
            if kind:
                output.say(f"{alias} ({model}) is {kind}{', no language model' if kind == 'rule-based' else ''}")


def _show_value(trace: LeakageTrace) -> None:
    output.say(f"Leakage {trace.source} → {trace.target}: {output.number(trace.leakage, 4)}")
    interval = span(trace.ci_low, trace.ci_high)
    if interval:
        output.say(f"Interval {interval}, sigma over tasks {output.number(trace.sigma)}, estimator {trace.estimator}")
    if trace.reason:
        output.say(f"{trace.source} failed the gate {trace.gate:.2f}: {trace.reason}")


def _show_slices(trace: LeakageTrace, recomputed: float | None) -> None:
    output.say()
    output.say(f"Tasks: means of p over + and − probes; leakage = {trace.target} moved / {trace.source} moved")
    columns = ["task", f"{trace.source} + / −", "moved", f"{trace.target} + / −", "moved", "leakage", "gate"]
    rows = [
        [
            one.task,
            f"{output.number(one.source_plus)} / {output.number(one.source_minus)}",
            output.number(one.self_effect),
            f"{output.number(one.target_plus)} / {output.number(one.target_minus)}",
            output.number(one.gen_coupling),
            output.number(one.leakage, 4),
            "passed" if one.passed else "failed",
        ]
        for one in trace.slices
    ]
    output.print_table(columns, rows, right=range(1, 6))
    output.say(f"Recomputed from these rows: {output.number(recomputed, 4)}")
    if recomputed != trace.leakage:
        output.say("That is not the stored value: these tables are not all of one audit. Audit again.")


def _show_probes(probes: Sequence[TraceProbe], limit: int) -> None:
    shown = probes[:limit]
    output.say()
    output.say(f"Probes, those that pull hardest first ({len(shown)} of {len(probes)}; --json holds all of them)")
    if any(probe.influence is not None for probe in shown):
        output.say(
            "Pull: by how much the leakage would fall if the probe had the mean scores of its task and direction"
        )
    for probe in shown:
        pull = "" if probe.influence is None else f", pull {output.number(probe.influence, 3)}"
        output.say()
        output.say(f"{probe.probe}: task {probe.task}, direction {probe.direction}, state {probe.state}{pull}")
        output.say(f"  call {probe.call_key}")
        for judgement in (probe.on_source, probe.on_target):
            _show_judgement(judgement)
        if probe.detail:
            output.say(f"  made by: {shorten(probe.detail, _TEXT_SHOWN)}")
        for line in shorten(probe.text or "", _TEXT_SHOWN).splitlines():
            output.say(f"  | {line}")


def _show_judgement(one: Judgement) -> None:
    value = one.state if one.score is None else f"{one.score} (p = {output.number(one.p)})"
    output.say(f"  {one.criterion}: {value}" + (f" - {shorten(one.said, _TEXT_SHOWN)}" if one.said else ""))
    if one.call_key:
        output.say(f"    call {one.call_key}")
