"""The report in words that somebody who owns a product, not the statistics, understands.

Here: readings, reasons, verdicts and numbers as phrases. Not here: what is shown where (`page.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pandas as pd

from radar_dagster.models.naming import ModelSpec, is_rule_based
from radar_dagster.report.data import Pair, ReportData, SelfEffect, Settling
from radar_dagster.stats.passive import RRD, SYNTHETIC_CORRELATION
from radar_dagster.stats.settings import Reading
from radar_dagster.stats.settling import MAX_PROBES, MIN_PROBES
from radar_dagster.stats.validation import RADAR

READING_WORDS: Mapping[str, str] = {
    Reading.CLUSTER: "counted twice",
    Reading.DIRECTIONAL: "rides on",
    Reading.TRADEOFF: "pulls against",
    Reading.SEPARABLE: "independent here",
    Reading.UNRELIABLE: "could not be measured",
}

VERDICT_WORDS: Mapping[str, tuple[str, str]] = {
    "passed": ("Passed", "Under this judge, nothing in the rubric breaks the policy."),
    "violated": (
        "Violated",
        "Under this judge, criteria move with or against each other in ways that the policy does not allow.",
    ),
    "inconclusive": ("Inconclusive", "The data do not carry a verdict yet."),
}

_QUANTITIES: Mapping[str, str] = {
    "sym": "the mean of both directions",
    "asym": "the difference between the directions",
}

NOT_MEASURED = "not measured"


def figure(value: float | None, digits: int = 2, missing: str = NOT_MEASURED) -> str:
    """A number with a real minus sign and no negative zero; `missing` for None.

    >>> figure(-0.204), figure(-0.001), figure(None)
    ('−0.20', '0.00', 'not measured')
    """
    if value is None:
        return missing
    rounded = round(value, digits)
    return f"{rounded if rounded else 0.0:.{digits}f}".replace("-", "−")


def plus_minus(value: float | None, sd: float | None, missing: str = NOT_MEASURED) -> str:
    """A mean with its standard deviation, where there is one.

    >>> plus_minus(0.5, 0.021), plus_minus(0.5, None), plus_minus(None, None, "–")
    ('0.50 ± 0.02', '0.50', '–')
    """
    return figure(value, missing=missing) if value is None or sd is None else f"{figure(value)} ± {figure(sd)}"


def span(low: float | None, high: float | None, digits: int = 2) -> str | None:
    """An interval as `0.10 to 0.35`; None where there is none."""
    if low is None or high is None:
        return None
    return f"{figure(low, digits)} to {figure(high, digits)}"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: `1 pair`, `1,770 pairs`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def listed(items: Sequence[str], most: int = 3) -> str:
    """`a`, `a and b`, `a, b and c`, `a, b, c and 4 more`.

    >>> listed(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    shown = list(items[:most])
    if len(items) > most:
        shown.append(f"{len(items) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


class Read(Protocol):
    """A pair of criteria that was read: in one cell (`data.Pair`), or over several."""

    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...
    @property
    def reading(self) -> Reading: ...
    @property
    def upstream(self) -> str | None: ...
    @property
    def downstream(self) -> str | None: ...


def pair_phrase(pair: Read, names: Mapping[str, str]) -> str:
    """The reading of a pair as a short clause, e.g. `Correctness rides on Coherence`."""
    a, b = names[pair.a], names[pair.b]
    if pair.reading == Reading.DIRECTIONAL and pair.upstream and pair.downstream:
        return f"{names[pair.downstream]} rides on {names[pair.upstream]}"
    if pair.reading == Reading.TRADEOFF:
        return f"{a} pulls against {b}"
    if pair.reading == Reading.CLUSTER:
        return f"{a} and {b} are counted twice"
    if pair.reading == Reading.SEPARABLE:
        return f"{a} and {b} are independent here"
    return f"{a} with {b} could not be measured"


def pair_explanation(pair: Pair, data: ReportData) -> str:
    """What the reading means in points of the judge's score, or why there is none."""
    a, b, ab, ba = data.names[pair.a], data.names[pair.b], pair.leakage_ab, pair.leakage_ba
    if pair.reading == Reading.UNRELIABLE or ab is None or ba is None:
        return _why_not_measured(pair, data)
    if pair.reading == Reading.CLUSTER:
        return (
            f"Whichever of the two is pushed, the other follows: {figure(ab)} for every point of {a}, {figure(ba)} for "
            f"every point of {b}. A total of both counts one quality twice."
        )
    if pair.reading == Reading.DIRECTIONAL:
        up, down, there, back = (a, b, ab, ba) if pair.upstream == pair.a else (b, a, ba, ab)
        return f"Every point of {up} moves {down} by {figure(there)}; a point of {down} moves {up} by {figure(back)}."
    if pair.reading == Reading.TRADEOFF:
        source, target, value = (a, b, ab) if ab <= ba else (b, a, ba)
        return f"Every point that {source} gains moves {target} by {figure(value)}: the judge trades one for the other."
    return f"A point of {a} moves {b} by {figure(ab)}; a point of {b} moves {a} by {figure(ba)}: below the thresholds."


def _why_not_measured(pair: Pair, data: ReportData) -> str:
    own = {effect.criterion: effect for effect in data.self_effects}
    sentences = []
    for source, target in ((pair.a, pair.b), (pair.b, pair.a)):
        if not own[source].reliable:
            sentences.append(f"{data.names[source]}: {reason_words(own[source], data)}.")
        elif data.leaks[source, target].leakage is None:
            sentences.append(
                f"{data.names[target]}: too many of its scores on probes of {data.names[source]} are missing."
            )
    return " ".join(sentences)


def reason_words(effect: SelfEffect, data: ReportData) -> str:
    """Why a criterion could not be measured."""
    gate = figure(data.settings.coupling.gate)
    known = {
        "weak": f"its own probes moved it by only {figure(effect.self_effect)}, and the gate asks for {gate}",
        "negative": f"its own probes moved it the wrong way ({figure(effect.self_effect)})",
        "too_few_tasks": f"it passed the gate in only {effect.tasks_used} of {count(len(data.rubric.tasks), 'task')}",
        "missing_scores": "scores are missing, so that its own effect could not be computed",
    }
    return known.get(effect.reason or "", effect.reason or "no reason was recorded")


def settling_sentence(settling: Settling, pair: Pair, names: Mapping[str, str]) -> str:
    """How an uncertain reading could turn out, and how many probes would settle it."""
    quantity = {
        **_QUANTITIES,
        "leakage_ab": f"{names[pair.a]} → {names[pair.b]}",
        "leakage_ba": f"{names[pair.b]} → {names[pair.a]}",
    }.get(settling.quantity, settling.quantity)
    other = READING_WORDS.get(settling.other_reading, settling.other_reading)
    interval = span(settling.low, settling.high)
    about = f" ({interval})" if interval else ""
    first = (
        f"Uncertain: {quantity} is {figure(settling.value)}{about}, around the threshold {figure(settling.threshold)}; "
        f"on its other side the pair reads “{other}”."
    )
    if settling.probes_needed is None and settling.probes_now < MIN_PROBES:
        return f"{first} {_NO_FORECAST}, and this audit drew {settling.probes_now}."
    if interval is None:
        return f"{first} There is no interval, so nothing can be said about how many probes would settle it."
    if settling.probes_needed is None:
        return f"{first} Even {MAX_PROBES} probes would not settle it: the value lies too near the threshold."
    return (
        f"{first} About {count(settling.probes_needed, 'probe')} per task, criterion and direction would settle it; "
        f"this audit drew {settling.probes_now}."
    )


_NO_FORECAST = (
    f"How many probes would settle it can be forecast from {MIN_PROBES} per task, criterion and direction upwards"
)


def remedy(verdict: str, pairs: Sequence[Pair]) -> str | None:
    """What would settle the uncertain pairs together; None where the verdict stands or nothing is uncertain."""
    rows = [settling for pair in pairs for settling in pair.settling]
    if verdict != "inconclusive" or not rows:
        return None
    known = [row.probes_needed for row in rows if row.probes_needed is not None]
    each = "per task, criterion and direction"
    if known:
        most = max(known)
        some = _uncertain(len(rows)) if len(known) == len(rows) else f"{len(known)} of {_uncertain(len(rows))}"
        return f"About {count(most, 'probe')} {each} would settle {some}: --probes {most}"
    if min(row.probes_now for row in rows) < MIN_PROBES:
        those = _uncertain(len(rows))
        return f"{MIN_PROBES} probes {each} would tell how many it takes to settle {those}: --probes {MIN_PROBES}"
    return None


def _uncertain(n: int) -> str:
    return "the uncertain pair" if n == 1 else f"the {n} uncertain pairs"


def model_kind(spec: ModelSpec) -> str | None:
    """What a model is, where it is no language model behind a provider: `rule-based` or `your own function`."""
    if is_rule_based(spec):
        return "rule-based"
    return "your own function" if spec.name.provider == "python" else None


def meaning(data: ReportData) -> str:
    """The short paragraph under the verdict: what the matrix says about the rubric, in at most six sentences."""
    by_reading = {reading: [p for p in _strongest_first(data) if p.reading == reading] for reading in Reading}
    sentences = [_dimensions(data)]
    for reading in (Reading.CLUSTER, Reading.DIRECTIONAL, Reading.TRADEOFF):
        if by_reading[reading]:
            sentences.append(_some_pairs(by_reading[reading], data.names))
    sentences += [_the_rest(by_reading, len(data.pairs)), _heaviest(data)]
    return " ".join(sentence for sentence in sentences if sentence)


def _strongest_first(data: ReportData) -> list[Pair]:
    return sorted(data.pairs, key=lambda pair: -pair.strength)


def _dimensions(data: ReportData) -> str:
    listed_n, measured = len(data.rubric.criteria), sum(effect.reliable for effect in data.self_effects)
    if data.effective_criteria is None:
        return f"Of the {listed_n} criteria you list, {measured} could be measured under this judge."
    used = f"this judge uses {figure(data.effective_criteria, 1)}"
    if measured == listed_n:
        return f"You list {listed_n} criteria; {used}."
    return f"You list {listed_n} criteria, of which {measured} could be measured; of those, {used}."


def _some_pairs(pairs: Sequence[Pair], names: Mapping[str, str], most: int = 2) -> str:
    clauses = [pair_phrase(pair, names) for pair in pairs[:most]]
    rest = len(pairs) - most
    if rest > 0:
        clauses.append(f"{count(rest, 'further pair')} {'reads' if rest == 1 else 'read'} the same")
    return "; ".join(clauses) + "."


def _the_rest(by_reading: Mapping[Reading, Sequence[Pair]], total: int) -> str:
    lost = len(by_reading[Reading.UNRELIABLE])
    text = f"Of {count(total, 'pair')}, {_independent(by_reading[Reading.SEPARABLE])}"
    return f"{text} and {lost} could not be measured." if lost else f"{text}."


def _independent(pairs: Sequence[Pair]) -> str:
    n, uncertain = len(pairs), sum(pair.uncertain for pair in pairs)
    if not uncertain:
        return f"{n} {'is' if n == 1 else 'are'} independent here"
    if n == 1:
        return "1 looks independent, but is uncertain"
    return f"{n} look independent, {'all ' if uncertain == n else ''}{uncertain} of them uncertain"


def _heaviest(data: ReportData) -> str:
    rows = [row for row in data.rows("aggregation_sensitivity") if row["amplification"] is not None]
    if not rows:
        return ""
    top = max(rows, key=lambda row: row["amplification"])
    if top["amplification"] < 1.2:
        return ""
    return (
        f"In a weighted total, {data.names[top['criterion']]} weighs {figure(top['amplification'], 1)} times what its "
        "weight says, because it brings others along."
    )


def tokens_words(rows: Sequence[Mapping[str, object]], rule_based: bool) -> str:
    """Tokens over calls: the sum where all are known, and never a zero for what nobody counted."""
    known = [row for row in rows if row["input_tokens"] is not None and row["output_tokens"] is not None]
    if not known:
        return "none: rule-based models count no tokens" if rule_based else "unknown"
    read, written = (sum(int(str(row[name])) for row in known) for name in ("input_tokens", "output_tokens"))
    sums = f"{read:,} in, {written:,} out"
    unknown = len(rows) - len(known)
    return f"{sums} in {count(len(known), 'call')}; unknown for {unknown:,}" if unknown else sums


def cost_words(spec: ModelSpec, costs: Sequence[float | None]) -> str:
    """What calls to a model cost: `costs` are the US dollars of each call, None where nobody knows."""
    if spec.name.provider == "offline":
        return "nothing: it runs on this machine, without a network"
    known = [cost for cost in costs if cost is not None]
    if not known:
        return "unknown: it is your own function" if spec.name.provider == "python" else "unknown"
    unknown = len(costs) - len(known)
    total = f"{math.fsum(known):,.4f} US dollars"
    return f"{total}; unknown for {count(unknown, 'call')}" if unknown else total


#: Method -> its name for readers.
METHOD_WORDS = {
    RADAR: "RADAR",
    SYNTHETIC_CORRELATION: "synthetic correlation",
    RRD: "RRD-style redundancy",
    "given": "these pairs",
}


def people_words(human: pd.DataFrame) -> str:
    """Whose correlations they are: `published; raters: crowd`, `50 items of ratings.tsv; raters: all`."""
    source = ", ".join(dict.fromkeys(human["source"]))
    items = human["items"].dropna()
    told = f"{int(items.max()):,} items of {source}" if len(items) else source
    return f"{told}; raters: {', '.join(dict.fromkeys(human['raters']))}"


def budget_sentence(curve: Sequence[Mapping[str, Any]]) -> str:
    """The probe budget in one line: Pearson at every N', with its spread over subsets."""
    reference = "people" if curve[0]["reference"] == "human" else "all probes"
    steps = (f"{row['probes']}: {plus_minus(row['pearson'], row['pearson_sd'], 'undefined')}" for row in curve)
    return f"Pearson with {reference} by probes per task, criterion and direction: {', '.join(steps)}"
