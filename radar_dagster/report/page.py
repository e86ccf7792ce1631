"""The report page as plain values, section by section: what is shown, in which order, in which words.

Here: everything the template prints. Not here: the pieces of a chart (`charts.py`), markup and style
(`templates/`), rendering (`html.py`), evidence (`evidence.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from radar_dagster.report.charts import Axis, HeatCell
from radar_dagster.report.data import READING_ORDER, Leak, Pair, ReportData, SelfEffect, number
from radar_dagster.report.words import (
    NOT_MEASURED,
    READING_WORDS,
    count,
    figure,
    pair_explanation,
    pair_phrase,
    reason_words,
    settling_sentence,
    span,
)
from radar_dagster.stats.numbers import reaches
from radar_dagster.stats.settings import Reading

#: Reasons of the verdict that are shown at once; the deciding ones come first.
REASONS_SHOWN = 6
#: Above this many pairs the table is folded, one group per reading.
PAIRS_SHOWN_FLAT = 45
#: Lines of the spread over tasks; the widest come first.
SPREAD_LINES = 10


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A source with its cells, in the order of the columns."""

    name: str
    note: str | None
    cells: tuple[HeatCell, ...]


def heat_rows(data: ReportData) -> tuple[HeatRow, ...]:
    """The leakage matrix, sources as rows, in the rubric's order."""
    effects = {effect.criterion: effect for effect in data.self_effects}
    return tuple(
        HeatRow(
            name=name,
            note=None if effects[source].reliable else reason_words(effects[source], data),
            cells=tuple(_heat_cell(data, effects[source], target) for target in data.names),
        )
        for source, name in data.names.items()
    )


def _heat_cell(data: ReportData, own: SelfEffect, target: str) -> HeatCell:
    source_name, target_name = data.names[own.criterion], data.names[target]
    if own.criterion == target:
        if own.reliable:
            return HeatCell("own", "1", None, 0, f"{source_name} itself: 1 by definition")
        return HeatCell("lost", "–", None, 0, f"{source_name} {READING_WORDS[Reading.UNRELIABLE]}")
    leak = data.leaks[own.criterion, target]
    where = f"{source_name} → {target_name}"
    if leak.leakage is None:
        return HeatCell("lost", "–", None, 0, f"{where}: {READING_WORDS[Reading.UNRELIABLE]}")
    interval = span(leak.ci_low, leak.ci_high)
    between = f", {data.settings.coupling.confidence:.0%} interval {interval}" if interval else ", no interval"
    return HeatCell(
        kind="against" if leak.leakage < 0 else "together",
        shown=_compact(leak.leakage) if len(data.names) > 16 else figure(leak.leakage),
        interval=interval.replace(" to ", " … ") if interval else None,
        strength=round(100 * min(1.0, abs(leak.leakage))),
        title=f"{where}: {figure(leak.leakage)}{between}, {count(leak.tasks_used, 'task')}",
    )


def _compact(value: float) -> str:
    """A number for a narrow cell: `.82`, `−.20`, `1.02`."""
    text = figure(value)
    return text.replace("0.", ".", 1) if text.lstrip("−").startswith("0.") else text


def example_of(data: ReportData) -> str | None:
    """The strongest cell of the matrix as a sentence; None where there is none."""
    measured = [leak for leak in data.leaks.values() if leak.leakage is not None]
    if not measured:
        return None
    top = max(measured, key=lambda leak: abs(leak.leakage or 0.0))
    source, target = data.names[top.source], data.names[top.target]
    moved = "raised" if top.sign > 0 else "lowered"
    return f"For example, every point of {source} {moved} {target} by {figure(abs(top.leakage or 0.0))}."


def raw_movements(data: ReportData) -> list[tuple[str, str, str]]:
    """(source, target, GenCoupling) of everything without a leakage: kept for inspection, compared with nothing."""
    lost = [leak for leak in data.leaks.values() if leak.leakage is None]
    return [
        (data.names[leak.source], data.names[leak.target], figure(leak.gen_coupling))
        for leak in sorted(lost, key=lambda leak: _place(data, leak))
    ]


def _place(data: ReportData, leak: Leak) -> tuple[int, int]:
    order = list(data.names)
    return order.index(leak.source), order.index(leak.target)


@dataclass(frozen=True, slots=True)
class EffectRow:
    """A self-effect with the places of its marks on the axis, in percent."""

    name: str
    shown: str
    interval: str | None
    reliable: bool
    note: str
    tasks: str
    pass_rate: str
    dot: str | None
    low: str | None
    high: str | None


def effect_axis(data: ReportData) -> Axis:
    """From 0 to 1, or from −1 where something lies below 0."""
    values = [value for e in data.self_effects for value in (e.self_effect, e.ci_low) if value is not None]
    return Axis(-1.0 if min(values, default=0.0) < -0.05 else 0.0, 1.0)


def effect_rows(data: ReportData, axis: Axis) -> list[EffectRow]:
    """Self-effects in the rubric's order."""
    return [
        EffectRow(
            name=data.names[effect.criterion],
            shown=figure(effect.self_effect),
            interval=span(effect.ci_low, effect.ci_high),
            reliable=effect.reliable,
            note="measured" if effect.reliable else reason_words(effect, data),
            tasks=f"{effect.tasks_used} of {len(data.rubric.tasks)}",
            pass_rate="unknown" if effect.gate_pass_rate is None else f"{effect.gate_pass_rate:.0%}",
            dot=_mark(axis, effect.self_effect),
            low=_mark(axis, effect.ci_low),
            high=_mark(axis, effect.ci_high),
        )
        for effect in data.self_effects
    ]


def _mark(axis: Axis, value: float | None) -> str | None:
    return None if value is None else axis.at(value)


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair in the table: words first, then the numbers with their intervals."""

    anchor: str
    reading: str
    phrase: str
    explanation: str
    notes: tuple[str, ...]
    numbers: tuple[tuple[str, str | None, str], ...]
    evidence: str | None


def pair_rows(data: ReportData, pairs: Iterable[Pair], with_evidence: Collection[Pair]) -> list[PairRow]:
    """Pairs as rows, in the given order; those `with_evidence` link to it."""
    place = {(pair.a, pair.b): position for position, pair in enumerate(data.pairs, start=1)}
    shown = {(pair.a, pair.b) for pair in with_evidence}
    return [
        PairRow(
            anchor=f"pair-{place[pair.a, pair.b]}",
            reading=pair.reading.value,
            phrase=pair_phrase(pair, data.names),
            explanation=pair_explanation(pair, data),
            notes=tuple(_pair_notes(pair, data)),
            numbers=tuple(_pair_numbers(pair, data)),
            evidence=f"evidence-{place[pair.a, pair.b]}" if (pair.a, pair.b) in shown else None,
        )
        for pair in pairs
    ]


def pair_groups(
    data: ReportData, pairs: Sequence[Pair], with_evidence: Collection[Pair]
) -> list[tuple[str, list[PairRow]]]:
    """(heading, rows): one group of all pairs, or one group per reading where there are many pairs."""
    if len(pairs) <= PAIRS_SHOWN_FLAT:
        return [("Pairs and their readings", pair_rows(data, pairs, with_evidence))]
    by_reading = [(reading, [pair for pair in pairs if pair.reading == reading]) for reading in READING_ORDER]
    return [
        (f"{READING_WORDS[reading].capitalize()}: {count(len(some), 'pair')}", pair_rows(data, some, with_evidence))
        for reading, some in by_reading
        if some
    ]


def _pair_notes(pair: Pair, data: ReportData) -> Iterable[str]:
    if pair.accepted:
        yield "Accepted: the policy lists this pair as known."
    if pair.uncertain and not pair.settling:
        yield "Uncertain: the interval lies around a threshold of the readings."
    for settling in pair.settling:
        yield settling_sentence(settling, pair, data.names)
    if pair.task_sensitive:
        yield "Depends on the task: the leakage differs widely from task to task."


def _pair_numbers(pair: Pair, data: ReportData) -> Iterable[tuple[str, str | None, str]]:
    """(value, interval, caption) of the four numbers of a pair, in the order in which its sentence tells them."""
    for source, target, value in pair.directions:
        leak = data.leaks[source, target]
        caption = f"{data.names[source]} → {data.names[target]}"
        yield figure(value, missing="–"), span(leak.ci_low, leak.ci_high), caption
    yield figure(pair.sym, missing="–"), span(pair.sym_low, pair.sym_high), "mean of both"
    yield figure(pair.asym, missing="–"), span(pair.asym_low, pair.asym_high), "difference"


@dataclass(frozen=True, slots=True)
class WeightRow:
    """What one point on a criterion does to the weighted total, against what its weight says."""

    name: str
    weight: str
    own: str
    aggregate: str
    times: str
    bar: str | None


def weight_axis(data: ReportData) -> Axis:
    """From 0 to the largest amplification, at least to 2."""
    largest = max((abs(row["amplification"] or 0.0) for row in data.rows("aggregation_sensitivity")), default=0.0)
    return Axis(0.0, max(2.0, largest))


def weight_rows(data: ReportData, axis: Axis) -> list[WeightRow]:
    """Aggregation sensitivity in the rubric's order."""
    return [
        WeightRow(
            name=data.names[row["criterion"]],
            weight=f"{row['weight']:.0%}",
            own=figure(row["own_effect"], 3, "–"),
            aggregate=figure(row["aggregate_effect"], 3, "–"),
            times=NOT_MEASURED if row["amplification"] is None else f"{figure(row['amplification'], 1)} times",
            bar=_mark(axis, number(row["amplification"])),
        )
        for row in data.rows("aggregation_sensitivity")
    ]


@dataclass(frozen=True, slots=True)
class WhitenedRow:
    """A criterion's declared weight and the one that the whitening would give it."""

    name: str
    declared: str
    whitened: str
    note: str


_WEIGHT_REASONS = {
    "constant": "its scores were the same on every response",
    "too_few": "too few responses have the scores that are needed",
    "singular": "one criterion follows exactly from the others",
    "negative_weight": "a weight would have been below 0, so none is given",
}


def whitened_rows(data: ReportData) -> list[WhitenedRow]:
    """Declared and whitened weights in the rubric's order; empty where the baselines were not made."""
    if "baseline_weights" not in data.tables:
        return []
    return [
        WhitenedRow(
            name=data.names[row["criterion"]],
            declared=f"{row['declared']:.0%}",
            whitened="–" if row["whitened"] is None else f"{row['whitened']:.0%}",
            note=_WEIGHT_REASONS.get(row["reason"] or "", row["reason"] or ""),
        )
        for row in data.rows("baseline_weights")
    ]


#: metric -> (name on the page, what it says)
_METRICS = {
    "effective_criteria": ("Effective criteria", "how many independent criteria the matrix amounts to"),
    "global_positive": ("Mean positive leakage", "how far scores follow criteria they should not follow"),
    "global_tension": ("Mean tension", "how far scores go against criteria that were pushed"),
    "max_coupling": ("Largest leakage", "the strongest pull of one criterion on another"),
}


def summary_rows(data: ReportData) -> list[tuple[str, str, str, str | None, str]]:
    """(name, what it says, value, interval, detail) of the global summaries."""
    rows = []
    for metric, row in data.summary.items():
        name, says = _METRICS.get(metric, (metric, ""))
        digits = 1 if metric == "effective_criteria" else 2
        interval = span(row["ci_low"], row["ci_high"], digits)
        rows.append((name, says, figure(row["value"], digits), interval, row["detail"]))
    return rows


@dataclass(frozen=True, slots=True)
class TaskCell:
    """The self-effect of one task, and whether it passed the gate."""

    shown: str
    passed: bool
    title: str


def task_effects(data: ReportData) -> tuple[list[str], list[tuple[str, list[TaskCell]]]]:
    """Tasks, and for every criterion its self-effect on each."""
    tasks = [task.id for task in data.rubric.tasks]
    own = {(row["source"], row["task"]): row for row in data.rows("task_slices") if row["source"] == row["target"]}
    rows = []
    for criterion, name in data.names.items():
        slices = [own.get((criterion, task)) for task in tasks]
        rows.append((name, [_task_cell(row) for row in slices]))
    return tasks, rows


def _task_cell(row: dict[str, object] | None) -> TaskCell:
    if row is None or row["self_effect"] is None:
        return TaskCell("–", False, "no score on one side")
    passed = bool(row["passed_gate"])
    title = f"{row['n_plus']} + and {row['n_minus']} − scores; " + ("passed the gate" if passed else "below the gate")
    return TaskCell(figure(number(row["self_effect"])), passed, title)


@dataclass(frozen=True, slots=True)
class SpreadRow:
    """The leakage of one direction on every task that gave one."""

    source: str
    target: str
    sigma: str
    mean: str
    mean_at: str
    dots: tuple[tuple[str, str], ...]
    lowest: str
    highest: str
    sensitive: bool


def spread_rows(data: ReportData) -> tuple[Axis, list[SpreadRow], int]:
    """The axis, the directions that differ most between tasks, and how many directions there are to choose from."""
    by_direction: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for row in data.rows("task_slices"):
        if row["source"] != row["target"] and row["leakage"] is not None:
            by_direction.setdefault((row["source"], row["target"]), []).append((row["task"], row["leakage"]))
    found = [
        (leak, by_direction[key])
        for key, leak in data.leaks.items()
        if leak.sigma is not None and leak.leakage is not None and len(by_direction.get(key, [])) > 1
    ]
    found.sort(key=lambda item: -(item[0].sigma or 0.0))
    shown = found[:SPREAD_LINES]
    values = [value for _, slices in shown for _, value in slices]
    axis = Axis(min([-0.25, *values]), max([1.0, *values]))
    return axis, [_spread_row(data, axis, leak, slices) for leak, slices in shown], len(found)


def _spread_row(data: ReportData, axis: Axis, leak: Leak, slices: Sequence[tuple[str, float]]) -> SpreadRow:
    thresholds = data.settings.coupling.thresholds
    lowest, highest = min(slices, key=lambda item: item[1]), max(slices, key=lambda item: item[1])
    mean, sigma = leak.leakage or 0.0, leak.sigma or 0.0
    return SpreadRow(
        source=data.names[leak.source],
        target=data.names[leak.target],
        sigma=figure(sigma),
        mean=figure(mean),
        mean_at=axis.at(mean),
        dots=tuple((axis.at(value), f"{task}: {figure(value)}") for task, value in slices),
        lowest=f"{figure(lowest[1])} on {lowest[0]}",
        highest=f"{figure(highest[1])} on {highest[0]}",
        sensitive=bool(
            reaches(sigma, thresholds.task_sensitive_sigma) & reaches(abs(mean), thresholds.task_sensitive_leakage)
        ),
    )
