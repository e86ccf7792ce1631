"""The page's section on people as plain values: how the judge agrees with them, pair by pair and method by method.

Not here: computing agreement (`stats/validation.py`), fewer probes (`budget.py`), markup (`templates/`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from radar_dagster.report.charts import UNIT, Axis, Mark, placed, unit_axis
from radar_dagster.report.data import ComparedPair, Record, ReportData, named_state
from radar_dagster.report.page import PAIRS_SHOWN_FLAT
from radar_dagster.report.words import METHOD_WORDS, count, figure, listed, people_words
from radar_dagster.stats.correlation import MIN_PAIRS, pearson
from radar_dagster.stats.passive import RRD
from radar_dagster.stats.validation import DRAWN_RELABELLINGS, EXACT_CRITERIA, RADAR

#: From this Pearson correlation on agreement is called so; below the last of them there is none.
_STRONG, _MODERATE, _WEAK = 0.7, 0.4, 0.2
#: A larger p is a result that swapped names reach often enough to be chance.
_CHANCE = 0.05
#: Pairs that are named in a sentence.
_NAMED = 6


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One pair: what the judge does, what people say, and what the baselines see, in the order of the columns."""

    a: str
    b: str
    judge: Mark
    people: Mark
    #: The places between which the two lie apart.
    gap: tuple[str, str] | None
    difference: str
    baselines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MethodRow:
    """The agreement of one method with people."""

    name: str
    numbers: tuple[str, ...]
    note: str | None


@dataclass(frozen=True, slots=True)
class People:
    """The section on people; where nobody's ratings are known, only `known` says so."""

    known: bool
    takeaway: str = ""
    details: tuple[str, ...] = ()
    whose: str = ""
    axis: Axis = UNIT
    pairs: tuple[ComparedRow, ...] = ()
    pairs_total: int = 0
    baselines: tuple[str, ...] = ()
    methods: tuple[MethodRow, ...] = ()
    caveats: tuple[str, ...] = ()


def people(data: ReportData) -> People:
    """What people's ratings say of the pairs, beside what the judge does."""
    human = data.tables.get("human_correlations")
    own = {row["method"]: row for row in data.rows("validation")} if "validation" in data.tables else {}
    if human is None or human.empty or RADAR not in own:
        return People(known=False)
    used = [pair for pair in data.compared if pair.sym is not None and pair.people is not None]
    methods = _baseline_methods(data)
    axis = unit_axis(
        [v for p in data.compared for v in (p.sym, p.sym_low, p.sym_high, p.people, p.people_low, p.people_high)]
    )
    rated = any(pair.people is not None for pair in data.compared)
    shown = _by_difference(data.compared) if rated else []
    return People(
        known=True,
        takeaway=takeaway(own[RADAR]) if rated else _no_correlation(human["reason"].dropna()),
        details=tuple(_details(own[RADAR], used, data.names)),
        whose=people_words(human),
        axis=axis,
        pairs=tuple(_compared_row(pair, data.names, axis, methods) for pair in shown[:PAIRS_SHOWN_FLAT]),
        pairs_total=len(shown),
        baselines=tuple(map(_method_name, methods)),
        methods=tuple(_method_row(row) for row in own.values()) if _any_number(own.values()) else (),
        caveats=tuple(_caveats(data, methods)) if rated else (),
    )


def takeaway(row: Record) -> str:
    """How the judge agrees with people, in one sentence; `row` is the audit's row of `validation`."""
    pairs, r = count(int(row["pairs_used"]), "pair"), row["pearson"]
    if r is None:
        return _no_agreement(row)
    if r >= _WEAK and row["p_permutation"] is not None and row["p_permutation"] > _CHANCE:
        return (
            f"Over {pairs} of criteria, this judge’s couplings and those of people’s ratings correlate (Pearson "
            f"{figure(r)}, ranks {figure(row['spearman'])}), but chance does as well too often to build on it."
        )
    likeness, called = _strength(r)
    ranks = f", ranks {figure(row['spearman'])}" if row["spearman"] is not None else ""
    return f"This judge {likeness}: over {pairs} of criteria, {called} (Pearson {figure(r)}{ranks})."


def _strength(r: float) -> tuple[str, str]:
    if r >= _STRONG:
        return "couples these criteria much as people’s ratings do", "the agreement is strong"
    if r >= _MODERATE:
        return "couples these criteria partly as people’s ratings do", "the agreement is moderate"
    if r >= _WEAK:
        return "couples these criteria hardly as people’s ratings do", "the agreement is weak"
    if r > -_WEAK:
        return "does not couple these criteria as people’s ratings do", "there is no agreement"
    return "couples most what people’s ratings couple least", "the agreement is negative"


def _no_agreement(row: Record) -> str:
    pairs = int(row["pairs_used"])
    state = named_state(row["detail"])
    apart = "" if row["mae"] is None else f" On average the two lie {figure(row['mae'])} apart."
    if state == "too_few_pairs":
        have = "1 has" if pairs == 1 else f"{pairs or 'none'} have"
        return f"Too few pairs to compare with people: {have} a number on both sides, and {MIN_PAIRS} are needed."
    if state == "constant_values":
        return f"This judge couples all {pairs} pairs alike, so there is no order that people could agree with.{apart}"
    if state == "constant_reference":
        return f"People’s ratings couple all {pairs} pairs alike, so there is no order to agree with.{apart}"
    return f"Agreement with people could not be computed: {row['detail'] or 'no reason was recorded'}."


_REASONS = {
    "too_few": "too few items were rated on both criteria",
    "constant": "ratings of a criterion are all the same",
}


def _no_correlation(reasons: Iterable[str]) -> str:
    states = {named_state(reason) for reason in reasons}
    why = [words for state, words in _REASONS.items() if state in states]
    return f"These ratings give no correlation for any pair{': ' + listed(why) if why else ''}."


def _details(row: Record, used: Sequence[ComparedPair], names: Mapping[str, str]) -> Iterator[str]:
    if row["p_permutation"] is not None:
        yield chance_sentence(row["p_permutation"], len({name for pair in used for name in (pair.a, pair.b)}))
    if row["pearson"] is not None and len(used) > MIN_PAIRS:
        yield from _weightiest_sentence(used, names)
    if used:
        yield disagreement_sentence(max(used, key=_apart), names)


def _weightiest_sentence(used: Sequence[ComparedPair], names: Mapping[str, str]) -> Iterator[str]:
    """What Pearson is without the pair that it rests on most; a few pairs are easily carried by one."""
    judge, theirs = (np.array([getattr(pair, side) for pair in used], dtype=float) for side in ("sym", "people"))
    whole, _ = pearson(judge, theirs)
    without = [pearson(np.delete(judge, k), np.delete(theirs, k))[0] for k in range(len(used))]
    changes = [(abs(r - whole), k) for k, r in enumerate(without) if r is not None and whole is not None]
    if changes:
        k = max(changes)[1]
        yield (
            f"It rests most on {names[used[k].a]} and {names[used[k].b]}: without that pair Pearson is "
            f"{figure(without[k])}."
        )


def chance_sentence(p: float, criteria: int) -> str:
    """How often swapped names agree as well, and what bounds that; `criteria` are those with a pair that was used."""
    if criteria <= EXACT_CRITERIA:
        ways = math.factorial(criteria)
        return (
            f"Of all {ways:,} ways to give the criteria each other’s names, {round(p * ways):,} "
            f"{'agrees' if round(p * ways) == 1 else 'agree'} as well (the true one included): p = {_p(p)}. "
            f"With {criteria} criteria p can’t be below 1/{ways:,}."
        )
    return (
        f"Of {DRAWN_RELABELLINGS:,} random ways to give the criteria each other’s names, "
        f"{round(p * (DRAWN_RELABELLINGS + 1)) - 1:,} agree as well: p = {_p(p)}. By drawing, p can’t be below "
        f"1/{DRAWN_RELABELLINGS + 1:,}."
    )


def _p(p: float) -> str:
    """A p-value to three digits, or to as many as its size needs: 1/40,320 is not 0."""
    return figure(p, max(3, 1 + math.ceil(-math.log10(p))))


def disagreement_sentence(pair: ComparedPair, names: Mapping[str, str]) -> str:
    """The pair on which the judge and people differ most, and who couples it more; both numbers are there."""
    judge, people = pair.sym or 0.0, pair.people or 0.0
    if figure(_apart(pair)) == figure(0.0):
        return "No pair differs by as much as 0.01."
    where = f"The two differ most on {names[pair.a]} and {names[pair.b]}"
    if judge > people:
        return f"{where}: the judge couples them more ({figure(judge)}) than people’s ratings do ({figure(people)})."
    return f"{where}: people’s ratings couple them more ({figure(people)}) than the judge does ({figure(judge)})."


def _apart(pair: ComparedPair) -> float:
    """How far judge and people lie apart; −1 where one of them says nothing, which sorts those last."""
    return -1.0 if pair.sym is None or pair.people is None else abs(pair.sym - pair.people)


def _by_difference(pairs: Sequence[ComparedPair]) -> list[ComparedPair]:
    return sorted(pairs, key=lambda pair: -_apart(pair))


def _baseline_methods(data: ReportData) -> list[str]:
    return list(dict.fromkeys(data.tables["baselines"]["method"])) if "baselines" in data.tables else []


def _compared_row(pair: ComparedPair, names: Mapping[str, str], axis: Axis, methods: Sequence[str]) -> ComparedRow:
    judge = placed(axis, pair.sym, pair.sym_low, pair.sym_high)
    theirs = placed(axis, pair.people, pair.people_low, pair.people_high)
    both = None if pair.sym is None or pair.people is None else sorted((pair.sym, pair.people))
    return ComparedRow(
        a=names[pair.a],
        b=names[pair.b],
        judge=judge,
        people=theirs,
        gap=None if both is None else (axis.at(both[0]), axis.at(both[1])),
        difference="–" if pair.sym is None or pair.people is None else signed(pair.sym - pair.people),
        baselines=tuple(figure(pair.baselines.get(method), missing="–") for method in methods),
    )


def signed(value: float) -> str:
    """A difference with its sign.

    >>> signed(0.2), signed(-0.2), signed(-0.001)
    ('+0.20', '−0.20', '0.00')
    """
    shown = figure(value)
    return f"+{shown}" if value > 0 and shown != figure(0.0) else shown


def _any_number(rows: Iterable[Record]) -> bool:
    return any(row["mae"] is not None for row in rows)


def _method_row(row: Record) -> MethodRow:
    numbers = [figure(row[name], missing="–") for name in ("pearson", "spearman", "kendall", "mae")]
    p = "–" if row["p_permutation"] is None else _p(row["p_permutation"])
    return MethodRow(
        name="This audit (RADAR)" if row["method"] == RADAR else _method_name(row["method"]),
        numbers=(*numbers, p, str(int(row["pairs_used"]))),
        note=_method_note(row),
    )


def _method_name(method: str) -> str:
    """Its name with a capital letter; other letters stay as they are (RRD)."""
    words = METHOD_WORDS.get(method, method)
    return words[:1].upper() + words[1:]


def _method_note(row: Record) -> str | None:
    state = named_state(row["detail"])
    return {
        "too_few_pairs": "too few pairs",
        "constant_values": "the same value for all pairs",
        "constant_reference": "people’s values are the same for all pairs",
    }.get(state)


def _caveats(data: ReportData, methods: Sequence[str]) -> Iterator[str]:
    yield (
        "A correlation in people’s ratings is no measure of a defect: good answers tend to be good in several ways. A "
        "judge that couples as people do does what people do, and no more is said."
    )
    names = data.names
    rated = {(pair.a, pair.b) for pair in data.compared if pair.people is not None}
    silent = [pair for pair in data.pairs if (pair.a, pair.b) not in rated]
    lost = [f"{names[pair.a]} with {names[pair.b]}" for pair in data.compared if pair.sym is None]
    if lost:
        yield f"Left out, because this audit could not measure them reliably: {listed(lost, _NAMED)}."
    if silent:
        unrated = [f"{names[pair.a]} with {names[pair.b]}" for pair in silent]
        yield f"Left out, because people’s ratings give no number: {listed(unrated, _NAMED)}."
    if RRD in methods:
        yield (
            "RRD-style redundancy is not on the scale of a correlation: compare its order with people’s, not its "
            "distance."
        )
    if data.rule_based:
        yield "Offline models follow fixed rules: their agreement with people says nothing about a language model."
