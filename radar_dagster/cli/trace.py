"""`radar trace`: from one leakage value down to the probes, scores and rationales behind it."""

from __future__ import annotations

from collections.abc import Sequence

from radar_dagster.cli import output
from radar_dagster.cli.errors import PASSED
from radar_dagster.cli.workspace import configured_cell
from radar_dagster.lake import Lake
from radar_dagster.partitions import BENCHMARK, GENERATOR, parse_pair
from radar_dagster.report.escape import shorten
from radar_dagster.report.trace import TRACE_TABLES, LeakageTrace, TraceProbe, TraceScore, trace_leakage
from radar_dagster.report.words import span

_TEXT_SHOWN = 600


def run(benchmark: str, pair: str, source: str, target: str, *, limit: int, as_json: bool) -> int:
    """Print the trace of leakage(source → target); `--json` holds every probe in full."""
    workspace, dims = configured_cell(benchmark, pair)
    lake = Lake(workspace.store_url)
    by_generator = {BENCHMARK: benchmark, GENERATOR: parse_pair(pair).generator}
    tables = {name: lake.read(name, **(by_generator if name == "probes" else dims)) for name in TRACE_TABLES}
    trace = trace_leakage(tables, workspace.audit.coupling, source, target)
    if as_json:
        output.print_json({"benchmark": benchmark, "pair": pair, **trace.to_json_dict()})
    else:
        _show(trace, limit)
    return PASSED


def _show(trace: LeakageTrace, limit: int) -> None:
    output.say(f"Leakage {trace.source} → {trace.target}: {output.number(trace.leakage, 4)}")
    interval = span(trace.ci_low, trace.ci_high)
    if interval:
        output.say(f"Interval {interval}, sigma over tasks {output.number(trace.sigma)}, estimator {trace.estimator}")
    if trace.reason:
        output.say(f"{trace.source} failed the gate {trace.gate:.2f}: {trace.reason}")
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
    _show_probes(trace.probes, limit)


def _show_probes(probes: Sequence[TraceProbe], limit: int) -> None:
    shown = probes[:limit]
    output.say()
    output.say(f"Probes, those that pull hardest first ({len(shown)} of {len(probes)}; --json holds all of them)")
    for probe in shown:
        pull = "" if probe.influence is None else f", pull {output.number(probe.influence, 3)}"
        output.say()
        output.say(f"{probe.probe}: task {probe.task}, direction {probe.direction}, state {probe.state}{pull}")
        output.say(f"  call {probe.call_key}")
        for score in (probe.on_source, probe.on_target):
            _show_score(score)
        if probe.detail:
            output.say(f"  made by: {shorten(probe.detail, _TEXT_SHOWN)}")
        for line in shorten(probe.text or "", _TEXT_SHOWN).splitlines():
            output.say(f"  | {line}")


def _show_score(score: TraceScore) -> None:
    said = score.rationale or score.detail or score.reasoning
    value = score.state if score.score is None else f"{score.score} (p = {output.number(score.p)})"
    output.say(f"  {score.criterion}: {value}" + (f" - {shorten(said, _TEXT_SHOWN)}" if said else ""))
    if score.call_key:
        output.say(f"    call {score.call_key}")
