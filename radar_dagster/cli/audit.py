"""`radar audit`: the Dagster assets of a coupling audit, run in this process, and what came of them.

Here: what is run, shown and written. Not here: choosing workspace and models (`workspace.py`), the order of runs
(`runs.py`), the tables in the terminal (`findings.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from radar_dagster.assets.grid import GRID_PAGE
from radar_dagster.assets.report import PAGE, baselines_of, report_data
from radar_dagster.cli import findings as shown
from radar_dagster.cli import output
from radar_dagster.cli.errors import INCONCLUSIVE, worst
from radar_dagster.cli.plan import held_calls, hosted_part
from radar_dagster.cli.spending import spending
from radar_dagster.cli.workspace import AuditOptions, Selection, select
from radar_dagster.errors import RadarError
from radar_dagster.inputs.human import configured_source, source_notes
from radar_dagster.lake import Lake
from radar_dagster.models.door import Door
from radar_dagster.models.hosted import HostedModel
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.preflight import look_up
from radar_dagster.models.stages import check_models, check_responders
from radar_dagster.partitions import BENCHMARK, GENERATOR, PAIR, Pair
from radar_dagster.report.data import REPORT_TABLES, ReportData
from radar_dagster.report.words import meaning, model_kind
from radar_dagster.runs import Cell, FailedCheck, Runner, exclusive, open_instance
from radar_dagster.stats.states import state_rates
from radar_dagster.tables import VALIDATION_TABLES


def run(options: AuditOptions, *, fresh: bool, yes: bool, out: Path | None, as_json: bool) -> int:
    """Audit each selected pair, show it, check the data, write; the exit code is the worst of the pairs' verdicts."""
    selection = _with_notes_on_people(select(options))
    if out is not None:
        output.check_folder(out)
    workspace = selection.workspace
    _before_the_first_call(selection, fresh=fresh, yes=yes)
    selection.save()
    for sentence in selection.notes:
        output.note(sentence)

    with exclusive(workspace, selection.benchmark, output.on_stderr), open_instance(workspace) as instance:
        runner = Runner(workspace, instance, output.on_stderr)
        with _accounted(selection, runner):
            with output.results_only(), output.progress():
                cells = runner.audit(selection.benchmark, selection.pairs, fresh=fresh, baselines=selection.baselines)
            results = [_Result(selection, runner.lake, cell) for cell in cells]
            grid = _grid_page(runner.lake, selection.benchmark) if len(cells) > 1 else None
            if not as_json:
                for result in results:
                    result.show()
                if grid is not None:
                    output.say(f"Grid: {grid}")
            with output.results_only():
                failed = runner.check_data(cells)
            for result in results if out is not None else ():
                result.write((out or Path()) / (result.pair if len(results) > 1 else ""), failed)
    if as_json:
        where = {} if grid is None else {"grid": grid}
        output.print_json({**_together(results), **where, **_about_all(selection, failed)})
    for check in failed:
        kind = "failed" if check.blocking else "warning"
        output.on_stderr(f"data check {kind}: {check.asset} of {check.partition}: {check.description}")
    # Data that break an expectation carry no verdict, whatever the statistics made of them.
    broken = any(check.blocking for check in failed)
    return worst([result.findings.exit_code for result in results] + [INCONCLUSIVE] * broken)


def _grid_page(lake: Lake, benchmark: str) -> str:
    return lake.path("coupling_grid", {BENCHMARK: benchmark}, GRID_PAGE)


def _with_notes_on_people(selection: Selection) -> Selection:
    """What of a source of human correlations is used and what is left aside, told before anything is spent."""
    source = configured_source(selection.workspace, selection.benchmark)
    if source is None:
        return selection
    notes = source_notes(source, [criterion.id for criterion in selection.rubric.criteria])
    return replace(selection, notes=(*selection.notes, *notes))


@contextmanager
def _accounted(selection: Selection, runner: Runner) -> Iterator[None]:
    """However the audit ends, tell what its hosted models have cost; after Ctrl-C, also how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        output.on_stderr("What is done is kept: run the same command again to go on where this one was.")
        raise
    finally:
        with suppress(RadarError):  # of what ended the audit, if anything did, its own error tells more
            _tell_spending(selection, runner)


def _tell_spending(selection: Selection, runner: Runner) -> None:
    with Door(selection.workspace.door) as door:
        if any(isinstance(door.model(alias), HostedModel) for alias in chain(*selection.pairs)):
            in_all = selection.stock(door).spent(selection.pairs)
            output.on_stderr(spending(*runner.spent(), in_all, selection.workspace.budget_usd))


def _before_the_first_call(selection: Selection, *, fresh: bool, yes: bool) -> None:
    """Whatever can be known to go wrong goes wrong here, where nothing is paid yet; asks before money is spent."""
    generators, verifiers = zip(*selection.pairs, strict=True)
    with Door(selection.workspace.door) as door:
        with output.results_only():
            check_models(selection.rubric, door, generators, verifiers)
            if selection.baselines:
                check_responders(selection.rubric, door, generators)
            to_call = _to_call(selection, door, fresh=fresh)
            for alias in to_call:
                door.check_calls(alias)
        if not yes:
            _ask_before_spending(selection, door, fresh=fresh)
        with output.results_only():
            found = look_up(model for model in map(door.model, to_call) if isinstance(model, HostedModel))
    for sentence in found:
        output.note(sentence)


def _to_call(selection: Selection, door: Door, *, fresh: bool) -> list[str]:
    """The hosted models that will be called; none where stored tables and the ledger have all the answers."""
    if fresh:
        return [alias for alias in dict.fromkeys(chain(*selection.pairs)) if isinstance(door.model(alias), HostedModel)]
    return selection.stock(door).to_call(selection.pairs)


def _ask_before_spending(selection: Selection, door: Door, *, fresh: bool) -> None:
    """On a terminal, have the person agree to calls that cost money; typer.Abort when they don't."""
    calls, usd, models = hosted_part(selection)
    if not models or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    import typer

    there = 0 if fresh else sum(held_calls(selection, door).values())
    output.on_stderr(f"This audit makes {calls:,} calls to {', '.join(models)}, {output.about_usd(usd)} in all.")
    if there:
        output.on_stderr(f"{there:,} of them are in the ledger already and cost nothing.")
    if selection.workspace.budget_usd is not None:
        output.on_stderr(f"It stops before it costs more than ${selection.workspace.budget_usd:g}.")
    with output.results_only():  # the prompt's last space would go to stdout
        typer.confirm("Go on?", abort=True, err=True)


def _about_all(selection: Selection, failed: Sequence[FailedCheck]) -> dict[str, Any]:
    """What a document says once, however many pairs it holds: notes, and the data checks that failed."""
    checks = [
        {
            "severity": "error" if check.blocking else "warning",
            "table": check.asset,
            "partition": check.partition,
            "message": check.description,
        }
        for check in failed
    ]
    return {"notes": list(selection.notes), "data_checks": checks}


class _Result:
    """One audited cell as it is shown, written and put into the document."""

    def __init__(self, selection: Selection, lake: Lake, cell: Cell) -> None:
        self.pair = cell.pair.key
        self._selection = selection
        self._cell = cell
        self._lake = lake
        tables = _read_cell(lake, cell.benchmark, cell.pair)
        self.data = report_data(cell.dims, tables)
        self.findings = _findings_of(self.data)
        self.page = lake.path("audit_report", cell.dims, PAGE)

    def document(self) -> dict[str, Any]:
        """One key per table, the settings, and where the report is."""
        return {
            **shown.document(self.findings),
            "settings": _cell_settings(self.data),
            "stopped_by": list(self._cell.stopped_by),
            "report": self.page,
        }

    def show(self) -> None:
        """Everything a person needs to know first, ending with the path of the page."""
        data = self.data
        writer, judge = _model(data.generator_alias, data.generator), _model(data.verifier_alias, data.verifier)
        output.say(f"{data.benchmark}: {writer} writes, {judge} judges")
        output.say()
        shown.show(self.findings)
        output.say()
        output.say(meaning(data))
        if len(data.rule_based) == 2:
            output.say("Both models follow fixed rules: this says what they do, not what a language model would do.")
        for reason in self._cell.stopped_by:
            output.say(f"Stopped by a gate: {_not_told_yet(reason, data.verdict.reasons)}")
        output.say()
        output.say(f"Report: {self.page}")
        output.say()

    def write(self, folder: Path, failed: Sequence[FailedCheck]) -> None:
        """The page, every table as CSV and Parquet, and the document with the failed checks that concern it."""
        checks = [check for check in failed if check.concerns(self._cell)]
        document = {**self.document(), **_about_all(self._selection, checks)}
        output.write_tables(folder, {**self.data.tables, "states": self.findings.states})
        html = self._lake.read_text("audit_report", PAGE, **self._cell.dims)
        output.write_file(folder / PAGE, html.encode("utf-8"))
        output.write_summary(folder, document)
        output.on_stderr(f"wrote {folder}")


def _read_cell(lake: Lake, benchmark: str, pair: Pair) -> dict[str, pd.DataFrame]:
    """Every table of a cell; BadInputError when it was not audited."""
    whole = {BENCHMARK: benchmark}
    place = {"rubric": whole, "human_correlations": whole, "probes": {BENCHMARK: benchmark, GENERATOR: pair.generator}}
    cell = {BENCHMARK: benchmark, PAIR: pair.key}
    there = {name: lake.read(name, **place.get(name, cell)) for name in ("rubric", *REPORT_TABLES)}
    compared = {name: lake.read(name, **place.get(name, cell)) for name in VALIDATION_TABLES}
    return {**there, **compared, **baselines_of(lake, there["rubric"], cell)}


def _findings_of(data: ReportData) -> shown.Findings:
    """The cell as the terminal and the document show it."""
    return shown.Findings(
        tables=data.tables,
        states=state_rates(data.tables["scores"]),
        names=data.names,
        gate=data.settings.coupling.gate,
        examples=shown.loss_examples(data.tables["scores"]),
        audited=True,
    )


def _cell_settings(data: ReportData) -> dict[str, Any]:
    """What determined the cell: models, design, statistics, policy."""
    settings = data.settings
    return {
        "benchmark": data.benchmark,
        "pair": data.pair,
        "generator": data.generator.model_dump(mode="json"),
        "verifier": data.verifier.model_dump(mode="json"),
        "rule_based": list(data.rule_based),
        "probes": settings.probes,
        "tasks": [task.id for task in data.rubric.tasks],
        **settings.coupling.model_dump(mode="json"),
        "policy": settings.policy.model_dump(mode="json"),
    }


def _model(alias: str, spec: ModelSpec) -> str:
    kind = model_kind(spec)
    return f"{alias} ({spec.model}{f', {kind}' if kind else ''})"


def _not_told_yet(stopped_by: str, reasons: Sequence[str]) -> str:
    """The table at which a gate stopped the run, and why unless the verdict's reasons have told that already."""
    table, _, why = stopped_by.partition(": ")
    told = table == "self_effects" or why in " ".join(reasons)
    return f"{table}, for the reasons above" if told else stopped_by


def _together(results: Sequence[_Result]) -> dict[str, Any]:
    """One document for all pairs: with several, every row ends with its `pair`, and other values are kept by pair."""
    documents = [result.document() for result in results]
    if len(documents) == 1:
        return documents[0]
    merged: dict[str, Any] = {}
    # A pair may lack a table that another has: baselines are made for some pairs only.
    for key in dict.fromkeys(key for document in documents for key in document):
        values = [document.get(key, []) for document in documents]
        if isinstance(values[0], list) and key != "stopped_by":
            merged[key] = [
                {**row, "pair": result.pair} for result, rows in zip(results, values, strict=True) for row in rows
            ]
        else:
            merged[key] = _by_pair(results, values)
    return merged


def _by_pair(results: Sequence[_Result], values: Sequence[Any]) -> Mapping[str, Any]:
    return {result.pair: value for result, value in zip(results, values, strict=True)}
