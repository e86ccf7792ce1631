"""`radar plan`: calls, tokens, money and time of an audit, before anything is spent.

Here: which models a configuration calls how often, and what is known of their tokens, prices and speed. No hosted model
is called and no key is needed. Not here: the products themselves (`stats/cost.py`), prices (`models/prices.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from radar_dagster.cli import output
from radar_dagster.cli.errors import PASSED
from radar_dagster.cli.workspace import AuditOptions, Selection, select
from radar_dagster.config import CONFIG_NAME
from radar_dagster.models.door import Door
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import Usage
from radar_dagster.models.hosted import HostedModel
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.providers import Generator, Verifier
from radar_dagster.models.requests import GenerationRequest, JudgementRequest
from radar_dagster.models.stages import probe_requests
from radar_dagster.rubric.model import Rubric
from radar_dagster.stats.cost import StageCost, TokenUsage, annotation_cost, audit_cost, total_cost

if TYPE_CHECKING:
    from radar_dagster.models.ledger.entries import Role

_COLUMNS = ("stage", "calls", "input_tokens", "output_tokens", "usd")

_CALLS_TIMED = 8
_Request = TypeVar("_Request", GenerationRequest, JudgementRequest)

Stage = Literal["generation", "verification"]
_STAGES: tuple[Stage, Stage] = ("generation", "verification")


@dataclass(frozen=True)
class _Usual:
    """What a call takes: tokens, `measured` where stored calls tell them; seconds, None where those tell none."""

    input_tokens: int
    output_tokens: int
    measured: bool = False
    latency_s: float | None = None


_DEFAULTS: Mapping[Stage, _Usual] = {
    "generation": _Usual(TokenUsage.generator_input, TokenUsage.generator_output),
    "verification": _Usual(TokenUsage.verifier_input, TokenUsage.verifier_output),
}


@dataclass(frozen=True)
class _Part:
    """One model's part in an audit; `hosted` is None for a model that runs in this process."""

    stage: Stage
    alias: str
    spec: ModelSpec
    hosted: HostedModel | None
    usual: _Usual

    @property
    def is_free(self) -> bool:
        """Whether a call costs nothing for certain: the package's own models. Anybody's own function may pay."""
        return self.spec.name.provider == "offline"

    @property
    def is_batched(self) -> bool:
        return self.hosted is not None and self.spec.mode == "batch"


@dataclass(frozen=True)
class _Line:
    """One model's share of a stage; `usd` and `seconds` are None where the price or the speed is unknown."""

    cost: StageCost
    usd: Decimal | None
    seconds: float | None


def run(options: AuditOptions, *, corpus: int | None, as_json: bool) -> int:
    """Print the plan of an audit; spends nothing and writes nothing."""
    selection = select(options)
    # Without a ledger: calls that measure a speed are neither kept there nor answered from there.
    door = Door(selection.workspace.door.model_copy(update={"ledger": None}))
    parts = _parts(selection, door)
    lines = [_line(selection, door, part) for part in parts]
    stages = [_summed([line for line in lines if line.cost.stage == stage]) for stage in _STAGES]
    total = _summed(stages, "total")
    document: dict[str, Any] = {
        "plan": [_row(line) for line in stages],
        "total": _row(total),
        "seconds": {line.cost.stage: line.seconds for line in (*stages, total)},
        "in_ledger": _in_ledger(selection, [line.usd for line in lines], parts),
        "settings": _settings(selection, door, parts),
        "notes": [*selection.notes, *_notes(selection, door, parts, total)],
    }
    if corpus is not None:
        judge = next(part for part in parts if part.stage == "verification")
        document["annotation"] = _annotation(selection.rubric, door, judge, corpus)
    output.print_json(document) if as_json else _show(selection, document)
    return PASSED


def hosted_part(selection: Selection) -> tuple[int, Decimal | None, list[str]]:
    """Calls to hosted models in an audit, what they may cost (None where a price is unknown), and the models."""
    door = Door(selection.workspace.door.model_copy(update={"ledger": None}))
    parts = [part for part in _parts(selection, door) if part.hosted is not None]
    lines = [_line(selection, door, part) for part in parts]
    known = [line.usd for line in lines if line.usd is not None]
    usd = sum(known, Decimal(0)) if len(known) == len(lines) else None
    return sum(line.cost.calls for line in lines), usd, list(dict.fromkeys(part.spec.model for part in parts))


def held_calls(selection: Selection, door: Door) -> dict[tuple[Stage, str], int]:
    """How many calls of each hosted model's part the ledger answers, by stage and alias or pair.

    Probes of somebody's own function are not looked up, whose module would have to be imported for it; nor are their
    scores.
    """
    stock = selection.stock(door)
    held: dict[tuple[Stage, str], int] = {}
    for pair in selection.pairs:
        provider = door.spec(pair.generator).name.provider
        if _hosted(selection, door, pair.generator) is not None:
            held["generation", pair.generator] = stock.held_texts(pair.generator).answered
        if _hosted(selection, door, pair.verifier) is not None and provider != "python":
            held["verification", pair.key] = stock.held_scores(pair).answered
    return held


def _in_ledger(selection: Selection, prices: Sequence[Decimal | None], parts: Sequence[_Part]) -> dict[str, Any]:
    """Calls to hosted models in all, those that the ledger answers, and what the others may cost."""
    hosted = [part for part in parts if part.hosted is not None]
    each = {stage: _stage_cost(selection, stage, TokenUsage()).calls for stage in _STAGES}
    held: Mapping[tuple[Stage, str], int] = {}
    if hosted and _ledger_file(selection) is not None:
        with Door(selection.workspace.door) as door:
            held = held_calls(selection, door)
    left: list[Decimal | None] = []
    names = [*dict.fromkeys(pair.generator for pair in selection.pairs), *(pair.key for pair in selection.pairs)]
    for part, name, usd in zip(parts, names, prices, strict=True):
        if part.hosted is not None:
            rest = each[part.stage] - held.get((part.stage, name), 0)
            left.append(Decimal(0) if not rest else None if usd is None else usd * rest / each[part.stage])
    known = [usd for usd in left if usd is not None]
    return {
        "calls": sum(each[part.stage] for part in hosted),
        "answered": sum(held.values()),
        "usd_left": float(sum(known, Decimal(0))) if len(known) == len(left) else None,
    }


def _annotation(rubric: Rubric, door: Door, judge: _Part, items: int) -> dict[str, Any]:
    """What judging a whole corpus once takes, with the first verifier."""
    whole = annotation_cost(items, len(rubric.criteria))
    return {"items": items, **_row(_Line(whole, _usd(door, judge, whole.calls, _DEFAULTS["verification"]), None))}


# Who is called, and what a call takes.


def _parts(selection: Selection, door: Door) -> list[_Part]:
    """Every generator makes the probes once; every pair's verifier judges them."""
    generators = dict.fromkeys(generator for generator, _ in selection.pairs)
    named: list[tuple[Stage, str]] = [("generation", alias) for alias in generators]
    named += [("verification", verifier) for _, verifier in selection.pairs]
    stored = _tokens_in_the_lake(selection)
    parts = []
    for stage, alias in named:
        spec = door.spec(alias)
        hosted = _hosted(selection, door, alias)
        usual = stored.get((stage, spec.model), _DEFAULTS[stage])
        if hosted is not None:
            usual = _by_the_ledger(selection, stage, hosted, usual)
        parts.append(_Part(stage, alias, spec, hosted, usual))
    return parts


def _hosted(selection: Selection, door: Door, alias: str) -> HostedModel | None:
    """The hosted model behind an alias. Somebody's own module is not imported for a plan."""
    if selection.workspace.door.endpoint(door.spec(alias)) is None:
        return None
    model = door.model(alias)
    return model if isinstance(model, HostedModel) else None


def _tokens_in_the_lake(selection: Selection) -> dict[tuple[Stage, str], _Usual]:
    """Medians of the calls that the lake holds, by stage and model; models that count no tokens have none."""
    store = selection.workspace.store_url
    if "://" not in store and not Path(store).is_dir():
        return {}
    import duckdb

    from radar_dagster.lake import Lake

    tables: dict[Stage, str] = {"generation": "probes", "verification": "scores"}
    found: dict[tuple[Stage, str], _Usual] = {}
    with duckdb.connect() as connection:
        present = set(Lake(store).create_views(connection))
        for stage in [stage for stage, table in tables.items() if table in present]:
            rows = connection.execute(
                f"SELECT model, median(input_tokens), median(output_tokens) FROM {tables[stage]} "
                "WHERE input_tokens IS NOT NULL AND output_tokens IS NOT NULL GROUP BY model"
            ).fetchall()
            found |= {(stage, model): _Usual(round(reads), round(writes), True) for model, reads, writes in rows}
    return found


def _by_the_ledger(selection: Selection, stage: Stage, model: HostedModel, otherwise: _Usual) -> _Usual:
    """Medians of the calls that the ledger holds. A ledger on a server is not asked: a plan needs no network."""
    path = _ledger_file(selection)
    if path is None:
        return otherwise
    from radar_dagster.models.ledger.store import Store
    from radar_dagster.models.ledger.typical import typical_call

    role: Role = "generate" if stage == "generation" else "judge"
    store = Store(path)
    try:
        found = store.read(lambda connection: typical_call(connection, role, model.spec.model))
    finally:
        store.close()
    if found.input_tokens is None or found.output_tokens is None:
        return _Usual(otherwise.input_tokens, otherwise.output_tokens, otherwise.measured, found.latency_s)
    return _Usual(round(found.input_tokens), round(found.output_tokens), True, found.latency_s)


def _ledger_file(selection: Selection) -> str | None:
    """The ledger's file; None where there is none yet, or where it is on a server."""
    path = (selection.workspace.door.ledger_url or "").removeprefix("sqlite:///")
    return path if path and "://" not in path and Path(path).expanduser().is_file() else None


# What it comes to.


def _line(selection: Selection, door: Door, part: _Part) -> _Line:
    usual = part.usual
    tokens = TokenUsage(usual.input_tokens, usual.output_tokens, usual.input_tokens, usual.output_tokens)
    cost = _stage_cost(selection, part.stage, tokens)
    return _Line(cost, _usd(door, part, cost.calls, usual), _seconds(selection.rubric, door, part, cost))


def _stage_cost(selection: Selection, stage: Stage, tokens: TokenUsage) -> StageCost:
    """A stage of the selected audit, that of one pair."""
    rubric, audit = selection.rubric, selection.workspace.audit
    responses = audit.passive_responses if selection.baselines else 0
    stages = audit_cost(len(rubric.tasks), len(rubric.criteria), audit.probes, tokens, responses)
    return stages[_STAGES.index(stage)]


def _usd(door: Door, part: _Part, calls: int, usual: _Usual) -> Decimal | None:
    """Nothing for a model of the package itself, unknown for anybody's own and where no price is known."""
    if part.is_free:
        return Decimal(0)
    if part.hosted is None:
        return None
    usage = Usage(usual.input_tokens, usual.output_tokens)
    each = door.prices.cost(
        part.hosted.spec.model, part.hosted.endpoint, usage, batch=part.is_batched, sent=part.hosted.options.extra
    )
    return None if each is None else each * calls


def _seconds(rubric: Rubric, door: Door, part: _Part, cost: StageCost) -> float | None:
    """Measured with a few calls where those are free; by stored calls' latency for hosted models, else unknown."""
    if part.is_free:
        return cost.calls * _pace_of(rubric, door, part)
    if part.hosted is None or part.is_batched or part.usual.latency_s is None:
        return None
    return _hosted_seconds(part.hosted.endpoint, cost, part.usual.latency_s)


def _hosted_seconds(endpoint: Endpoint, cost: StageCost, latency_s: float) -> float:
    """All calls at the endpoint's full concurrency, but not faster than its limits per minute allow."""
    seconds = math.ceil(cost.calls / endpoint.concurrency) * latency_s
    if endpoint.requests_per_minute is not None:
        seconds = max(seconds, 60 * cost.calls / endpoint.requests_per_minute)
    if endpoint.tokens_per_minute is not None:
        seconds = max(seconds, 60 * cost.tokens / endpoint.tokens_per_minute)
    return seconds


def _pace_of(rubric: Rubric, door: Door, part: _Part) -> float:
    """Seconds per call of a model that is free, measured with a few calls; a verifier judges the tasks' own texts."""
    if part.stage == "generation":
        door.check(part.alias, Generator, rubric)
        return _pace(lambda request: door.generate(part.alias, [request]), probe_requests(rubric, 1))
    door.check(part.alias, Verifier, rubric)
    requests = [
        JudgementRequest(task=task, criterion=criterion, response=task.reference or task.prompt)
        for task in rubric.tasks
        for criterion in rubric.criteria
    ]
    return _pace(lambda request: door.judge(part.alias, [request]), requests)


def _pace(ask: Callable[[_Request], object], requests: Sequence[_Request]) -> float:
    """Seconds per call, over requests from all of the rubric; the first call loads dictionaries and does not count."""
    sample = requests[:: max(1, len(requests) // _CALLS_TIMED)]
    ask(sample[0])
    started = time.perf_counter()
    for request in sample:
        ask(request)
    return (time.perf_counter() - started) / len(sample)


def _summed(lines: Sequence[_Line], stage: str | None = None) -> _Line:
    cost = total_cost(tuple(line.cost for line in lines))
    prices = [line.usd for line in lines if line.usd is not None]
    seconds = [line.seconds for line in lines if line.seconds is not None]
    return _Line(
        StageCost(stage or lines[0].cost.stage, cost.calls, cost.input_tokens, cost.output_tokens),
        sum(prices, Decimal(0)) if len(prices) == len(lines) else None,
        sum(seconds) if len(seconds) == len(lines) else None,
    )


# What is said.


def _row(line: _Line) -> dict[str, Any]:
    cost, usd = line.cost, None if line.usd is None else float(line.usd)
    return dict(zip(_COLUMNS, (cost.stage, cost.calls, cost.input_tokens, cost.output_tokens, usd), strict=True))


def _settings(selection: Selection, door: Door, parts: Sequence[_Part]) -> dict[str, Any]:
    models = selection.workspace.models
    return {
        "benchmark": selection.benchmark,
        "criteria": len(selection.rubric.criteria),
        "tasks": len(selection.rubric.tasks),
        "probes": selection.workspace.audit.probes,
        "passive_responses": selection.workspace.audit.passive_responses if selection.baselines else 0,
        "pairs": [
            {"generator": models[generator].model, "verifier": models[verifier].model}
            for generator, verifier in selection.pairs
        ],
        "measured_tokens": {
            stage: {
                part.spec.model: {"input": part.usual.input_tokens, "output": part.usual.output_tokens}
                for part in parts
                if part.stage == stage and part.usual.measured
            }
            for stage in _STAGES
        },
        "prices": _prices(door, parts),
    }


def _prices(door: Door, parts: Sequence[_Part]) -> dict[str, Any]:
    """US dollars per million tokens of every hosted model and who says so; None where nobody does."""
    prices: dict[str, Any] = {}
    for model in [part.hosted for part in parts if part.hosted is not None]:
        quote = door.prices.describe(model.spec.model, model.endpoint)
        prices[model.spec.model] = quote and {
            "input": float(quote.input),
            "output": float(quote.output),
            "source": quote.source,
        }
    return prices


def _notes(selection: Selection, door: Door, parts: Sequence[_Part], total: _Line) -> list[str]:
    notes = []
    offline = _names(part for part in parts if part.is_free)
    if offline:
        notes.append(
            f"rule-based, no provider to bill: {offline}; the tokens are those of a language model in their place; the "
            "time was measured with a few calls on this machine"
        )
    notes += _notes_on_money(selection, door, parts, total)
    measured = _names(part for part in parts if part.usual.measured)
    if measured:
        notes.append(f"tokens per call are medians of stored calls for {measured}")
    guessed = _names(part for part in parts if part.hosted is not None and not part.usual.measured)
    if guessed:
        notes.append(
            f"nothing is known yet of the tokens of {guessed}: those of the paper's models are taken, and a model that "
            "reasons writes many more; a small audit (--probes 1 --tasks 1) tells"
        )
    if any(part.hosted is not None for part in parts):
        notes.append("repairs, retries and caches are not in the estimate")
    notes.append("probes that are stored and current are used again, so that their calls do not recur")
    return notes


def _notes_on_money(selection: Selection, door: Door, parts: Sequence[_Part], total: _Line) -> list[str]:
    hosted = [part for part in parts if part.hosted is not None]
    unpriced = _names(part for part in hosted if _usd(door, part, 1, part.usual) is None)
    notes = []
    for name, price in _prices(door, parts).items():
        if price is not None:
            rates = f"${price['input']:g} read, ${price['output']:g} written per million tokens"
            notes.append(f"{name}: {rates} ({price['source']})")
    batched = _names(part for part in hosted if part.is_batched)
    if batched:
        notes.append(f"in batches, at their lower price: {batched}; a batch takes up to a day")
    own = _names(part for part in parts if not part.is_free and part.hosted is None)
    if own:
        notes.append(f"price unknown: {own}")
    if unpriced:
        notes.append(f"price unknown: {unpriced}; give it under `prices:` in {CONFIG_NAME}")
    budget = selection.workspace.budget_usd
    if budget is not None and unpriced:
        notes.append(f"the budget is ${budget:g}, and with one an audit with a model of unknown price is refused")
    if budget is not None and total.usd is not None and total.usd > Decimal(str(budget)):
        notes.append(f"the budget is ${budget:g}: it is likely to stop this audit before the end")
    return notes


def _names(parts: Iterable[_Part]) -> str:
    return ", ".join(sorted({part.spec.model for part in parts}))


def _show(selection: Selection, document: Mapping[str, Any]) -> None:
    settings = document["settings"]
    output.say(
        f"{settings['benchmark']}: {settings['criteria']} criteria × {settings['tasks']} tasks × 2 directions × "
        f"{settings['probes']} probes, {len(selection.pairs)} pair{'s' if len(selection.pairs) > 1 else ''}"
    )
    if selection.baselines:
        output.say(
            f"Passive baselines: 2 × {settings['passive_responses']} responses to each task, among the calls below"
        )
    output.say()
    rows = [_cells(row, document["seconds"][row["stage"]]) for row in (*document["plan"], document["total"])]
    output.print_table((*_COLUMNS, "time"), rows, right=range(1, 6))
    total = document["total"]["input_tokens"] + document["total"]["output_tokens"]
    output.say()
    output.say(f"Total: {_million(total)} tokens.")
    there = document["in_ledger"]
    if there["answered"]:
        rest = "at an unknown price" if there["usd_left"] is None else f"${_dollars(there['usd_left'])}"
        calls = f"{there['answered']:,} of {there['calls']:,} calls to hosted models"
        output.say(f"{calls} are in the ledger already and cost nothing; the others: {rest}.")
    if "annotation" in document:
        whole = document["annotation"]
        tokens = whole["input_tokens"] + whole["output_tokens"]
        share = f", {tokens / total:,.0f} times this audit" if tokens >= total else ""
        money = f", ${_dollars(whole['usd'])}" if whole["usd"] else ""
        output.say(f"Judging {whole['items']:,} items on every criterion: {_million(tokens)} tokens{share}{money}.")
    for sentence in document["notes"]:
        output.note(sentence)


def _cells(row: Mapping[str, Any], seconds: float | None) -> list[str]:
    usd = "unknown" if row["usd"] is None else _dollars(row["usd"])
    return [row["stage"], *(f"{row[name]:,}" for name in _COLUMNS[1:4]), usd, _duration(seconds)]


def _dollars(usd: float) -> str:
    """To the cent; less than ten cents to two digits, so that little is not nothing."""
    return f"{usd:.2g}" if 0 < usd < 0.1 else f"{usd:,.2f}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    if seconds >= 600:
        return f"{seconds / 60:,.0f} min"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:,.1f} s"


def _million(tokens: int) -> str:
    """Millions of tokens to two digits."""
    return f"{tokens / 1e6:,.2f} million"
