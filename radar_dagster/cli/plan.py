"""`radar plan`: calls, tokens, money and time of an audit, before anything is spent.

Here: which models a configuration calls how often, and what is known of their tokens, prices and speed. Not here: the
products themselves (`stats/cost.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from radar_dagster.cli import output
from radar_dagster.cli.errors import PASSED
from radar_dagster.cli.workspace import AuditOptions, Selection, select
from radar_dagster.models.door import Door
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.providers import Generator, Verifier
from radar_dagster.models.requests import GenerationRequest, JudgementRequest
from radar_dagster.models.stages import probe_requests
from radar_dagster.rubric.model import Rubric
from radar_dagster.stats.cost import StageCost, TokenUsage, annotation_cost, audit_cost, total_cost

_COLUMNS = ("stage", "calls", "input_tokens", "output_tokens", "usd")

_CALLS_TIMED = 8
_Request = TypeVar("_Request", GenerationRequest, JudgementRequest)

#: Median input and output tokens of a model's stored calls.
Medians = tuple[int, int]


@dataclass(frozen=True)
class _Line:
    """One model's share of a stage; `usd` and `seconds` are None where the price or the speed is unknown."""

    cost: StageCost
    usd: float | None
    seconds: float | None


def run(options: AuditOptions, *, corpus: int | None, as_json: bool) -> int:
    """Print the plan of an audit; spends nothing and writes nothing."""
    selection = select(options)
    measured = _measured_tokens(selection)
    lines = _lines(selection, measured)
    stages = [_summed([line for line in lines if line.cost.stage == stage]) for stage in ("generation", "verification")]
    total = _summed(stages, "total")
    document: dict[str, Any] = {
        "plan": [_row(line) for line in stages],
        "total": _row(total),
        "seconds": {line.cost.stage: line.seconds for line in (*stages, total)},
        "settings": _settings(selection, measured),
        "notes": [*selection.notes, *_notes(selection, measured)],
    }
    if corpus is not None:
        document["annotation"] = _annotation(selection, corpus)
    output.print_json(document) if as_json else _show(selection, document)
    return PASSED


def _annotation(selection: Selection, items: int) -> dict[str, Any]:
    """What judging a whole corpus once takes, with the first verifier."""
    spec = selection.workspace.models[selection.pairs[0][1]]
    whole = annotation_cost(items, len(selection.rubric.criteria))
    return {"items": items, **_row(_Line(whole, _usd(spec), None))}


def _lines(selection: Selection, measured: Mapping[str, Medians]) -> list[_Line]:
    """Every generator makes the probes once; every pair's verifier judges them."""
    models = selection.workspace.models
    door = Door(models, plugins=selection.workspace.root)
    size = len(selection.rubric.tasks), len(selection.rubric.criteria), selection.workspace.audit.probes
    lines = []
    for generator in dict.fromkeys(generator for generator, _ in selection.pairs):
        spec = models[generator]
        reads, writes = measured.get(spec.model, (TokenUsage.generator_input, TokenUsage.generator_output))
        generation, _ = audit_cost(*size, TokenUsage(generator_input=reads, generator_output=writes))
        pace = _seconds_per_generation(selection.rubric, door, generator) if _is_free(spec) else None
        lines.append(_Line(generation, _usd(spec), _times(generation.calls, pace)))
    for _, verifier in selection.pairs:
        spec = models[verifier]
        reads, writes = measured.get(spec.model, (TokenUsage.verifier_input, TokenUsage.verifier_output))
        _, verification = audit_cost(*size, TokenUsage(verifier_input=reads, verifier_output=writes))
        pace = _seconds_per_judgement(selection.rubric, door, verifier) if _is_free(spec) else None
        lines.append(_Line(verification, _usd(spec), _times(verification.calls, pace)))
    return lines


def _is_free(spec: ModelSpec) -> bool:
    """Whether a call costs nothing for certain: the package's own models. Anybody's own function may pay for calls."""
    return spec.name.provider == "offline"


def _seconds_per_generation(rubric: Rubric, door: Door, alias: str) -> float:
    """Measured with a few calls of a model that is free."""
    door.check(alias, Generator, rubric)
    return _pace(lambda request: door.generate(alias, [request]), probe_requests(rubric, 1))


def _seconds_per_judgement(rubric: Rubric, door: Door, alias: str) -> float:
    """Measured with a few calls of a model that is free, on the tasks' own texts."""
    door.check(alias, Verifier, rubric)
    requests = [
        JudgementRequest(task=task, criterion=criterion, response=task.reference or task.prompt)
        for task in rubric.tasks
        for criterion in rubric.criteria
    ]
    return _pace(lambda request: door.judge(alias, [request]), requests)


def _pace(ask: Callable[[_Request], object], requests: Sequence[_Request]) -> float:
    """Seconds per call, over requests from all of the rubric; the first call loads dictionaries and does not count."""
    sample = requests[:: max(1, len(requests) // _CALLS_TIMED)]
    ask(sample[0])
    started = time.perf_counter()
    for request in sample:
        ask(request)
    return (time.perf_counter() - started) / len(sample)


def _times(calls: int, pace: float | None) -> float | None:
    return None if pace is None else calls * pace


def _usd(spec: ModelSpec) -> float | None:
    """What the calls cost: nothing for a model of the package itself, unknown for anybody's own."""
    return 0.0 if _is_free(spec) else None


def _summed(lines: Sequence[_Line], stage: str | None = None) -> _Line:
    cost = total_cost(tuple(line.cost for line in lines))
    return _Line(
        StageCost(stage or lines[0].cost.stage, cost.calls, cost.input_tokens, cost.output_tokens),
        _sum_if_known([line.usd for line in lines]),
        _sum_if_known([line.seconds for line in lines]),
    )


def _sum_if_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _row(line: _Line) -> dict[str, Any]:
    cost = line.cost
    return dict(zip(_COLUMNS, (cost.stage, cost.calls, cost.input_tokens, cost.output_tokens, line.usd), strict=True))


def _measured_tokens(selection: Selection) -> dict[str, Medians]:
    """Model -> median tokens of the calls that the lake holds; models that count no tokens have none."""
    store = selection.workspace.store_url
    if "://" not in store and not Path(store).is_dir():
        return {}
    import duckdb

    from radar_dagster.lake import Lake

    found: dict[str, Medians] = {}
    with duckdb.connect() as connection:
        for table in set(Lake(store).create_views(connection)) & {"probes", "scores"}:
            rows = connection.execute(
                f"SELECT model, median(input_tokens), median(output_tokens) FROM {table} "
                "WHERE input_tokens IS NOT NULL AND output_tokens IS NOT NULL GROUP BY model"
            ).fetchall()
            found |= {model: (round(reads), round(writes)) for model, reads, writes in rows}
    used = {selection.workspace.models[alias].model for pair in selection.pairs for alias in pair}
    return {model: medians for model, medians in found.items() if model in used}


def _settings(selection: Selection, measured: Mapping[str, Medians]) -> dict[str, Any]:
    models = selection.workspace.models
    return {
        "benchmark": selection.benchmark,
        "criteria": len(selection.rubric.criteria),
        "tasks": len(selection.rubric.tasks),
        "probes": selection.workspace.audit.probes,
        "pairs": [
            {"generator": models[generator].model, "verifier": models[verifier].model}
            for generator, verifier in selection.pairs
        ],
        "measured_tokens": {
            model: {"input": reads, "output": writes} for model, (reads, writes) in sorted(measured.items())
        },
    }


def _notes(selection: Selection, measured: Mapping[str, Medians]) -> list[str]:
    specs = {
        selection.workspace.models[alias].model: selection.workspace.models[alias]
        for pair in selection.pairs
        for alias in pair
    }
    offline = [name for name, spec in specs.items() if _usd(spec) is not None]
    unpriced = [name for name, spec in specs.items() if _usd(spec) is None]
    notes = []
    if offline:
        notes.append(
            f"rule-based, no provider to bill: {', '.join(offline)}; the tokens are those of a language model in their "
            "place; the time was measured with a few calls on this machine"
        )
    if unpriced:
        notes.append(f"price unknown: {', '.join(unpriced)}")
    if measured:
        notes.append(f"tokens per call are medians of stored calls for {', '.join(sorted(measured))}")
    notes.append("probes that are stored and current are used again, so that their calls do not recur")
    return notes


def _show(selection: Selection, document: Mapping[str, Any]) -> None:
    settings = document["settings"]
    output.say(
        f"{settings['benchmark']}: {settings['criteria']} criteria × {settings['tasks']} tasks × 2 directions × "
        f"{settings['probes']} probes, {len(selection.pairs)} pair{'s' if len(selection.pairs) > 1 else ''}"
    )
    output.say()
    rows = [_cells(row, document["seconds"][row["stage"]]) for row in (*document["plan"], document["total"])]
    output.print_table((*_COLUMNS, "time"), rows, right=range(1, 6))
    total = document["total"]["input_tokens"] + document["total"]["output_tokens"]
    output.say()
    output.say(f"Total: {_million(total)} tokens.")
    if "annotation" in document:
        whole = document["annotation"]
        tokens = whole["input_tokens"] + whole["output_tokens"]
        share = f", {tokens / total:,.0f} times this audit" if tokens >= total else ""
        output.say(f"Judging {whole['items']:,} items on every criterion: {_million(tokens)} tokens{share}.")
    for sentence in document["notes"]:
        output.note(sentence)


def _cells(row: Mapping[str, Any], seconds: float | None) -> list[str]:
    usd = "unknown" if row["usd"] is None else f"{row['usd']:,.2f}"
    return [row["stage"], *(f"{row[name]:,}" for name in _COLUMNS[1:4]), usd, _duration(seconds)]


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds >= 600:
        return f"{seconds / 60:,.0f} min"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:,.1f} s"


def _million(tokens: int) -> str:
    """Millions of tokens to two digits."""
    return f"{tokens / 1e6:,.2f} million"
