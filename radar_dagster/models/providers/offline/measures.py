"""One text against its task: each aspect as a value in [0, 1] with the sentence that says how it was measured.

Here: the comparison with reference, source and prompt, and the fixed maps from measured quantities to values. A value
is None where the aspect can't be measured. Not here: which aspects a criterion asks for (`aspects.py`), scores.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from radar_dagster.models.providers.offline.aspects import Aspect
from radar_dagster.models.providers.offline.dictionary import is_known, zipf
from radar_dagster.models.providers.offline.features import TextFeatures, Unit, features
from radar_dagster.models.providers.offline.lexicon import BACK_REFERENCES, CONNECTIVES, antonyms
from radar_dagster.models.providers.offline.phrasing import plural
from radar_dagster.rubric.model import Task


class Measured(NamedTuple):
    """`value` is in [0, 1], more of the aspect is higher; `words` names the quantities behind it."""

    value: float | None
    words: str


#: At most so many units are aligned, so that a hostile text costs no more than a long one.
_MAX_UNITS = 400
#: At most so many key terms are taken from a source or prompt when there is no reference.
_KEY_TERMS = 30
#: Aspects that need an English dictionary.
ENGLISH_ONLY = frozenset({Aspect.COMPLEXITY, Aspect.GRAMMAR, Aspect.READABILITY})


@dataclass(frozen=True)
class Evidence:
    """What a task offers to measure against. `yardstick` is the reference, else the source, else the prompt."""

    yardstick: TextFeatures
    yardstick_name: str
    has_reference: bool
    parts: tuple[TextFeatures, ...]
    #: The parts that say what belongs into a response: the source only where there is no reference.
    wanted: tuple[TextFeatures, ...]

    @cached_property
    def terms(self) -> frozenset[str]:
        """All terms of reference, source and prompt."""
        return frozenset(t for part in self.parts for t in part.terms)

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of them, in lower case."""
        return frozenset(w.removesuffix("'s").removesuffix("’s") for part in self.parts for w in part.words)

    @cached_property
    def figures(self) -> frozenset[str]:
        """All figures of them."""
        return frozenset(f for part in self.parts for f in part.figures)

    @cached_property
    def negated(self) -> frozenset[str]:
        """All terms that they deny somewhere."""
        return frozenset(t for part in self.parts for t in part.negated)

    @cached_property
    def affirmed(self) -> frozenset[str]:
        """All terms that some sentence holds without denying it."""
        return frozenset(t for part in self.parts for unit in part.units for t in unit.term_set - unit.negated)

    @cached_property
    def errors(self) -> Counter[str]:
        """What the grammar rules find in them; it is no error in a response either."""
        return sum((part.errors for part in self.parts), Counter())

    @cached_property
    def code_lines(self) -> frozenset[str]:
        """All their lines of code."""
        return frozenset(line for part in self.parts for line in part.code_lines)

    @cached_property
    def wanted_terms(self) -> frozenset[str]:
        """The terms of what belongs into a response."""
        return frozenset(t for part in self.wanted for t in part.terms)

    @cached_property
    def key_terms(self) -> tuple[str, ...]:
        """What a response should cover: all terms of a reference, the most frequent ones of a source or prompt."""
        terms = self.yardstick.terms
        return tuple(terms) if self.has_reference else tuple(t for t, _ in terms.most_common(_KEY_TERMS))

    @cached_property
    def specifics(self) -> tuple[str, ...]:
        """Figures, names and rare words among the key terms; all key terms where these are fewer than three."""
        figures, names = self.yardstick.figures, self.yardstick.names
        chosen = tuple(t for t in self.key_terms if t in figures or t in names or (is_known(t) and zipf(t) < 4))
        return chosen if len(chosen) >= 3 else self.key_terms

    @cached_property
    def index(self) -> UnitIndex:
        """The yardstick's sentences by their terms."""
        return UnitIndex(self.yardstick.units[:_MAX_UNITS])

    @cached_property
    def all_units(self) -> UnitIndex:
        """The sentences of reference and source by their terms."""
        return UnitIndex([unit for part in self.parts for unit in part.units[:_MAX_UNITS]])


class UnitIndex:
    """Sentences by their terms, to find the one that another sentence comes from."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = units
        self._posting: dict[str, list[int]] = {}
        for i, unit in enumerate(units):
            for t in unit.term_set:
                self._posting.setdefault(t, []).append(i)
        self.starts = _running_totals(len(unit.terms) for unit in units)

    def closest(self, unit: Unit, share: float = 0.4) -> int | None:
        """The sentence that shares most terms with `unit`: at least two, and that share of the smaller one's terms."""
        shared = Counter(i for t in unit.term_set for i in self._posting.get(t, ()))
        if not shared:
            return None
        best, count = min(shared.items(), key=lambda item: (-item[1], item[0]))
        smaller = min(len(unit.term_set), len(self.units[best].term_set))
        return best if count >= 2 and count >= share * smaller else None

    def position(self, unit: Unit, best: int) -> float:
        """Where in the running text the terms that `unit` shares with sentence `best` stand, on average."""
        places = [i for i, t in enumerate(self.units[best].terms) if t in unit.term_set]
        return self.starts[best] + sum(places) / len(places)


@lru_cache(maxsize=256)
def evidence(task: Task) -> Evidence:
    """The evidence of a task, from a cache."""
    named = [("reference answer", task.reference), ("source", task.source), ("prompt", task.prompt)]
    present = [(name, features(text)) for name, text in named if text]
    name, yardstick = present[0]
    wanted = [part for part_name, part in present if part_name != "source" or task.reference is None]
    return Evidence(yardstick, name, task.reference is not None, tuple(part for _, part in present), tuple(wanted))


@lru_cache(maxsize=8192)
def measure(text: str, task: Task, aspect: Aspect) -> Measured:
    """Measure one aspect of a text that answers `task`; `Aspect.TERMS` has a function of its own."""
    found = features(text)
    if not found.length:
        return Measured(0.0, "the text holds no words")
    if aspect in ENGLISH_ONLY and not found.is_english:
        share = "none" if found.english_share is None else f"{found.english_share:.0%}"
        return Measured(None, f"{aspect.value} is measured on English prose only ({share} of the words are English)")
    return _MEASURES[aspect](found, evidence(task))


def measure_terms(text: str, terms: Sequence[str]) -> Measured:
    """The share of a criterion's terms that the text holds; seven in ten count as all of them."""
    present = [t for t in terms if t in features(text).terms]
    value = _ramp(len(present) / len(terms), 0.0, 0.7) if terms else None
    named = f" ({_quoted(present)})" if present else ""
    return Measured(value, f"{len(present)} of {plural(len(terms), 'content word')} of the definition occur{named}")


def order_agreement(found: TextFeatures, index: UnitIndex) -> tuple[float | None, int]:
    """Share of sentence pairs in the same order as in the yardstick, and the number of sentences that could be placed.

    None with fewer than two placed sentences. 1 is the same order, 0.5 a random one, 0 the reverse (this is Kendall's
    τ moved to 0..1). A sentence that only retells an earlier one is not placed.
    """
    retold = set(found.retold)
    placed: list[float] = []
    for i, unit in enumerate(found.units[:_MAX_UNITS]):
        best = None if i in retold else index.closest(unit)
        if best is not None:
            placed.append(index.position(unit, best))
    return agreement_with_order(placed) if len(placed) > 1 else None, len(placed)


def agreement_with_order(places: Sequence[float]) -> float:
    """Share of pairs of unequal places that stand in ascending order, 0..1; 1 when there is no such pair."""
    seen: list[float] = []
    ascending = descending = 0
    for place in places:
        at = bisect_left(seen, place)
        ascending += at
        descending += len(seen) - bisect_right(seen, place)
        insort(seen, place)
    return ascending / (ascending + descending) if ascending + descending else 1.0


def _length(found: TextFeatures, task: Evidence) -> Measured:
    expected, name = 150.0, "the 150 expected where a task has no reference"
    if task.yardstick_name == "reference answer":
        expected, name = task.yardstick.length, "the reference answer"
    elif task.yardstick_name == "source":
        expected, name = task.yardstick.length / 4, "a quarter of the source"
    ratio = found.length / max(1, expected)
    # 0.4 times the expected length is 0, 2.5 times is 1, evenly on the logarithm.
    value = _ramp(math.log(ratio), math.log(0.4), math.log(2.5))
    return Measured(value, f"the text has {plural(found.length, 'word')}, {ratio:.2f} times {name}")


def _complexity(found: TextFeatures, task: Evidence) -> Measured:
    grade, frequency = _language_baseline(task)
    longer, rarer = found.grade - grade, frequency - found.word_frequency
    # Six school grades or 0.8 Zipf units above the expected answer are the high end, as much below the low end.
    value = _ramp((longer / 6 + rarer / 0.8) / 2, -1, 1)
    return Measured(
        value,
        f"Flesch-Kincaid grade {found.grade:.1f} against {grade:.1f} expected, content words of mean Zipf frequency "
        f"{found.word_frequency:.2f} against {frequency:.2f} (lower is rarer)",
    )


def _readability(found: TextFeatures, task: Evidence) -> Measured:
    grade, frequency = _language_baseline(task)
    harder = (found.grade - grade) / 10 + (frequency - found.word_frequency) / 1.5
    # As readable as the expected answer is 0.9; ten grades, or 1.5 Zipf units, harder is 0.
    return Measured(
        _ramp(0.9 - harder, 0, 1),
        f"Flesch-Kincaid grade {found.grade:.1f} against {grade:.1f} expected, mean Zipf frequency "
        f"{found.word_frequency:.2f} against {frequency:.2f}",
    )


def _language_baseline(task: Evidence) -> tuple[float, float]:
    """Grade and word frequency that the task leads one to expect; those of general prose without English to compare."""
    yardstick = task.yardstick
    return (yardstick.grade, yardstick.word_frequency) if yardstick.is_english else (9.0, 4.5)


def _coverage(found: TextFeatures, task: Evidence) -> Measured:
    covered = sum(t in found.terms for t in task.key_terms)
    share = covered / max(1, len(task.key_terms))
    words = f"{covered} of {plural(len(task.key_terms), 'key term')} of the {task.yardstick_name} are covered"
    if task.has_reference:
        units = [unit for unit in task.yardstick.units if unit.term_set]
        traced = sum(sum(t in found.terms for t in u.term_set) >= 0.4 * len(u.term_set) for u in units)
        share = (share + traced / max(1, len(units))) / 2
        words += f"; {traced} of its {plural(len(units), 'sentence')} leave a trace"
    return Measured(_ramp(share, 0.1, 0.9), words)


def _substance(found: TextFeatures, task: Evidence) -> Measured:
    present = sum(t in found.terms for t in task.specifics)
    value = _ramp(present / max(1, len(task.specifics)), 0.1, 0.9)
    return Measured(
        value,
        f"{present} of {len(task.specifics)} specific items (figures, names, rare words) of the {task.yardstick_name} "
        "occur",
    )


def _accuracy(found: TextFeatures, task: Evidence) -> Measured:
    faults = contradictions(found, task)
    claims = max(
        8, len(found.figures) + len(found.inner_names) + min(len(found.units), _MAX_UNITS) + len(found.code_lines)
    )
    count = sum(len(items) for items in faults.values())
    known = sum(t in task.terms for t in found.terms)
    support = known / max(1, len(found.terms))
    # One contradiction in nine claims costs half; a text that shares no terms with the task can't be confirmed.
    value = math.exp(-6 * count / claims) * (0.25 + 0.75 * _ramp(support, 0.2, 0.7))
    named = "; ".join(f"{plural(len(v), k)} ({_quoted(v)})" for k, v in faults.items() if v) or "no contradiction found"
    return Measured(value, f"{named} in {claims} checkable items; {support:.0%} of the terms are known from the task")


def contradictions(found: TextFeatures, task: Evidence) -> Mapping[str, list[str]]:
    """What in a text speaks against its task, by kind: foreign figures and names, reversed statements, altered code."""
    figures = [f for f in found.figures if f not in task.figures]
    # A capital does not make a name of an everyday word ("Key Points"), though "Grace" passes unseen thereby.
    names = [name for low, name in found.inner_names.items() if low not in task.words and zipf(low) < 4.5]
    reversed_terms: list[str] = []
    for unit in found.units[:_MAX_UNITS]:
        reversed_terms += _reversals(unit, task)
    altered = [line for line in dict.fromkeys(found.code_lines[:_MAX_UNITS]) if _is_altered(line, task.code_lines)]
    return {
        "foreign figure": figures,
        "foreign name": names,
        "reversed statement": list(dict.fromkeys(reversed_terms)),
        "altered code line": altered,
    }


def _reversals(unit: Unit, task: Evidence) -> list[str]:
    """Words of a sentence that deny, affirm or turn round what the closest sentence of the task says."""
    denied = [f"not {t}" for t in sorted(unit.negated) if t in task.terms and t not in task.negated]
    best = task.all_units.closest(unit)
    if best is None:
        return denied
    other = task.all_units.units[best]
    affirmed = [t for t in sorted(other.negated & unit.term_set - unit.negated) if t not in task.affirmed]
    turned = [
        word
        for word in unit.word_set - other.word_set
        if (opposite := antonyms().get(word)) and opposite in other.word_set and opposite not in unit.word_set
    ]
    return denied + affirmed + sorted(turned)


def _is_altered(line: str, known: Iterable[str]) -> bool:
    """Whether a line of code is a known line with something changed."""
    if line in known:
        return False
    tokens = _code_tokens(line)
    return len(tokens) >= 3 and any(len(tokens & _code_tokens(other)) >= 0.6 * len(tokens) for other in known)


@lru_cache(maxsize=1024)
def _code_tokens(line: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+|[^\w\s]+", line[:400]))


def _focus(found: TextFeatures, task: Evidence) -> Measured:
    total = sum(found.terms.values())
    wanted = sum(n for t, n in found.terms.items() if t in task.wanted_terms)
    share = wanted / max(1, total)
    return Measured(
        _ramp(share, 0.3, 0.9), f"{share:.0%} of the content words belong to the {task.yardstick_name} or the prompt"
    )


def _cohesion(found: TextFeatures, task: Evidence) -> Measured:
    order, placed = order_agreement(found, task.index)
    ties, expected = _ties(found), max(0.2, _ties(task.yardstick) if task.has_reference else 0.5)
    linked = min(1.0, ties / expected)
    words = f"{ties:.0%} of the sentences are tied to the one before ({expected:.0%} expected)"
    dangling = bool(found.units and found.units[0].words and found.units[0].words[0] in BACK_REFERENCES)
    if order is None or not task.has_reference:
        value = linked
    else:
        value = 0.65 * _ramp(order, 0.5, 1.0) + 0.35 * linked
        words = f"{order:.0%} of the pairs among {plural(placed, 'sentence')} stand in the expected order; {words}"
    if dangling and found.units[0].words[0] not in task.yardstick.units[0].words[:1]:
        value -= 0.15
        words += f"; the opening word “{found.units[0].words[0]}” points back at nothing"
    return Measured(_ramp(value, 0.0, 1.0), words)


def _ties(found: TextFeatures) -> float:
    """Share of sentences (the first aside) that are tied to the one before, by a connective or, half, by a shared term.

    A long sentence is tied within itself as well, so a text of one sentence counts its connectives: 1 with any, else 0.
    """
    units = found.units[:_MAX_UNITS]
    if len(units) < 2:
        return float(any(unit.word_set & CONNECTIVES for unit in units))
    tied = 0.0
    for before, unit in pairwise(units):
        if unit.word_set & CONNECTIVES or set(unit.words[:1]) & BACK_REFERENCES:
            tied += 1
        elif unit.term_set & before.term_set:
            tied += 0.5
    return tied / (len(units) - 1)


def _economy(found: TextFeatures, task: Evidence) -> Measured:
    units = max(1, len(found.units))
    told, grams = len(found.retold), found.repeated_grams
    usual_told = len(task.yardstick.retold) / max(1, len(task.yardstick.units)) if task.has_reference else 0.0
    usual_grams = task.yardstick.repeated_grams if task.has_reference else 0.0
    # What the reference itself repeats is its style. A text that says everything twice is at 0.
    excess = max(0.0, told / units - usual_told) + max(0.0, grams - usual_grams)
    return Measured(
        _ramp(1 - excess, 0, 1),
        f"{told} of {plural(units, 'sentence')} only retell an earlier one; {grams:.0%} of the four-word sequences are "
        "repetitions",
    )


def _grammar(found: TextFeatures, task: Evidence) -> Measured:
    faults = [e for e in found.errors if e not in task.errors and e not in task.words]
    count = sum(found.errors[e] for e in faults)
    rate = 100 * count / max(1, len(found.prose_words))
    # An error in every twentieth word leaves 0.43, one in every tenth 0.19.
    named = f" ({_quoted(faults)})" if faults else ""
    return Measured(
        math.exp(-rate / 6), f"{plural(count, 'language error')} found{named}, {rate:.1f} per hundred words"
    )


_MEASURES: Mapping[Aspect, Callable[[TextFeatures, Evidence], Measured]] = {
    Aspect.LENGTH: _length,
    Aspect.COMPLEXITY: _complexity,
    Aspect.COVERAGE: _coverage,
    Aspect.SUBSTANCE: _substance,
    Aspect.ACCURACY: _accuracy,
    Aspect.FOCUS: _focus,
    Aspect.COHESION: _cohesion,
    Aspect.ECONOMY: _economy,
    Aspect.GRAMMAR: _grammar,
    Aspect.READABILITY: _readability,
}


def _ramp(x: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, linear between."""
    return min(1.0, max(0.0, (x - low) / (high - low)))


def _running_totals(lengths: Iterable[int]) -> list[int]:
    totals = [0]
    for length in lengths:
        totals.append(totals[-1] + length)
    return totals


def _quoted(items: Sequence[str]) -> str:
    """The first few items, each cut short: they come from a text that nobody vouches for."""
    shown = ", ".join(item if len(item) <= 24 else item[:23] + "…" for item in items[:4])
    return shown + (", …" if len(items) > 4 else "")
