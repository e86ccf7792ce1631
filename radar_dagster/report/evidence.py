"""Which probes to show for a pair of criteria: those that speak most for the coupling, + and − side by side.

Here: the choice and the values that go with it. Not here: how it looks, and tracing a value to all of its probes
(`trace.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from radar_dagster.report.data import JUDGEMENT_COLUMNS, Judgement, Pair, Record, ReportData, judgement_of, values

#: Tasks shown per direction of a pair (source → target). Each gives a + and a − probe.
TASKS_PER_DIRECTION = 2
#: Pairs with evidence in one report: all pairs of a rubric of up to 14 criteria, else the most strongly coupled ones.
PAIRS_WITH_EVIDENCE = 100


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe's text with its judgements on both criteria of a pair."""

    probe: str
    task: str
    direction: str
    text: str
    detail: str | None
    call_key: str
    on_source: Judgement
    on_target: Judgement


@dataclass(frozen=True, slots=True)
class Exhibit:
    """The + and the − probe of `source` on one task whose scores on `target` lie furthest apart."""

    source: str
    target: str
    task: str
    plus: Probe
    minus: Probe


class Evidence:
    """Looks up telling probes. Build it once per report: it indexes all probes and scores."""

    def __init__(self, data: ReportData) -> None:
        self._data = data
        self._probes: dict[tuple[str, str, str], list[Record]] = {}
        for row in data.rows("probes"):
            if row["text"] is not None:
                self._probes.setdefault((row["target"], row["task"], row["direction"]), []).append(row)

    @cached_property
    def _row_of(self) -> Mapping[tuple[str, str], int]:
        """(probe, criterion) -> position in the scores. Positions, not rows: a large cell has hundreds of thousands."""
        scores = self._data.tables["scores"]
        return {key: i for i, key in enumerate(zip(scores["probe"], scores["criterion"], strict=True))}

    @cached_property
    def _columns(self) -> Mapping[str, list[Any]]:
        scores = self._data.tables["scores"]
        return {name: values(scores[name]) for name in JUDGEMENT_COLUMNS}

    def of_pair(self, pair: Pair) -> Iterator[tuple[str, str, tuple[Exhibit, ...]]]:
        """(source, target, exhibits) for both directions, the stronger direction first."""
        directions = [(pair.a, pair.b), (pair.b, pair.a)]
        if pair.upstream == pair.b or (pair.upstream is None and _size(pair.leakage_ba) > _size(pair.leakage_ab)):
            directions.reverse()
        for source, target in directions:
            yield source, target, self.exhibits(source, target)

    def exhibits(self, source: str, target: str) -> tuple[Exhibit, ...]:
        """The most telling probes for source → target, at most one + and one − per task, the widest contrast first.

        With s = the sign of the leakage (of the raw coupling where the row is unreliable), each task offers the + probe
        of `source` with the highest s·p on `target` and the − probe with the lowest. Tasks are ranked by the contrast
        s·(p⁺ − p⁻) between the two, then by the same contrast on `source`, then by their order in the rubric. Probes
        without a score on `target` are no evidence. Comparing within a task keeps the prompt the same on both sides.
        """
        sign = self._data.leaks[source, target].sign
        found = [self._exhibit(source, target, task.id, sign) for task in self._data.rubric.tasks]
        ranked = sorted((exhibit for exhibit in found if exhibit), key=lambda exhibit: _rank(exhibit, sign))
        return tuple(ranked[:TASKS_PER_DIRECTION])

    def _exhibit(self, source: str, target: str, task: str, sign: int) -> Exhibit | None:
        plus = self._extreme(source, target, task, "+", sign)
        minus = self._extreme(source, target, task, "-", sign)
        return Exhibit(source, target, task, plus, minus) if plus and minus else None

    def _extreme(self, source: str, target: str, task: str, direction: str, sign: int) -> Probe | None:
        """The probe whose target score lies furthest the coupling's way; ties go to the clearer intervention."""
        way = 1 if direction == "+" else -1
        rows = self._probes.get((source, task, direction), [])
        scored = [probe for row in rows if (probe := self._probe(row, source, target)).on_target.p is not None]
        return max(
            scored, key=lambda probe: (way * sign * _p(probe.on_target), way * _p(probe.on_source)), default=None
        )

    def _probe(self, row: Record, source: str, target: str) -> Probe:
        return Probe(
            probe=row["probe"],
            task=row["task"],
            direction=row["direction"],
            text=row["text"],
            detail=row["detail"],
            call_key=row["call_key"],
            on_source=self._judgement(row["probe"], source),
            on_target=self._judgement(row["probe"], target),
        )

    def _judgement(self, probe: str, criterion: str) -> Judgement:
        position = self._row_of.get((probe, criterion))
        if position is None:
            return judgement_of(None, criterion)
        return judgement_of({name: column[position] for name, column in self._columns.items()}, criterion)


def _rank(exhibit: Exhibit, sign: int) -> tuple[float, float]:
    on_target = _p(exhibit.plus.on_target) - _p(exhibit.minus.on_target)
    return -sign * on_target, -(_p(exhibit.plus.on_source) - _p(exhibit.minus.on_source))


def _p(judgement: Judgement) -> float:
    """p, with a lost score in the middle: for ordering only, it is never shown."""
    return 0.5 if judgement.p is None else judgement.p


def _size(value: float | None) -> float:
    return 0.0 if value is None else abs(value)


def pairs_with_evidence(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The pairs whose probes are shown: all, or the PAIRS_WITH_EVIDENCE most strongly coupled, in the given order."""
    strongest = sorted(range(len(pairs)), key=lambda i: -pairs[i].strength)[:PAIRS_WITH_EVIDENCE]
    return tuple(pairs[i] for i in sorted(strongest))
