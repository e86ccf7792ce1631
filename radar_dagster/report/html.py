"""The report and the grid as self-contained HTML files: no script, no network, every text of a model escaped.

Here: rendering. Not here: what the pages say (`page.py`, `agreement.py`, `budget.py`, `provenance.py`, `words.py`,
`evidence.py`, `grid.py`). Equal data give equal bytes: nothing on a page depends on the clock or the machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from radar_dagster.report import agreement, budget, grid, page, provenance
from radar_dagster.report.data import Pair, ReportData, sorted_pairs
from radar_dagster.report.escape import visible
from radar_dagster.report.evidence import (
    PAIRS_WITH_EVIDENCE,
    TASKS_PER_DIRECTION,
    Evidence,
    Exhibit,
    pairs_with_evidence,
)
from radar_dagster.report.grid import GridData
from radar_dagster.report.words import READING_WORDS, VERDICT_WORDS, count, figure, meaning, remedy

#: A text up to this length is shown in full as evidence; a longer one is cut there and shown in full once, below.
FULL_TEXT = 4_000
_EXCERPT = 1_200


def render(data: ReportData) -> str:
    """The report of one cell as an HTML document, to be written as UTF-8."""
    return _environment().get_template("report.html").render(_context(data))


def render_grid(data: GridData) -> str:
    """The grid of one benchmark as an HTML document, to be written as UTF-8."""
    verifiers, agreement_rows = grid.agreement_rows(data)
    axis, pairs = grid.pair_rows(data)
    return (
        _environment()
        .get_template("grid.html")
        .render(
            data=data,
            names=data.names,
            title=data.rubric.title or data.benchmark,
            rule_based=grid.rule_based(data),
            takeaway=grid.takeaway(data),
            details=list(grid.details(data)),
            has_people=grid.has_people(data),
            cell_facts=grid.cell_facts(data),
            verifiers=verifiers,
            agreement=agreement_rows,
            axis=axis,
            pairs=pairs,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("radar_dagster.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"count": count, "figure": figure}
    return environment


def _shown(value: Any) -> Any:
    """Applied to every value before it is escaped: characters without a glyph become visible."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@dataclass(frozen=True, slots=True)
class Passage:
    """A text on the page: in full, or its beginning and the place of the whole."""

    text: str
    length: int
    anchor: str | None


class LongTexts:
    """Texts that are too long to repeat beside every pair: each is shown in full once, at the end of the page."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def passage(self, text: str | None) -> Passage | None:
        """The text as it is shown where it is evidence."""
        if text is None or len(text) <= FULL_TEXT:
            return None if text is None else Passage(text, len(text), None)
        anchor = f"text-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
        self._texts[anchor] = text
        return Passage(text[:_EXCERPT], len(text), anchor)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """(anchor, text), in the order of their first mention."""
        return iter(self._texts.items())


@dataclass(frozen=True, slots=True)
class Direction:
    """The evidence for one direction of a pair."""

    source: str
    target: str
    value: str
    exhibits: tuple[Exhibit, ...]


def _context(data: ReportData) -> dict[str, Any]:
    pairs = sorted_pairs(data.pairs)
    headline, lede = VERDICT_WORDS.get(data.verdict.verdict, (data.verdict.verdict, ""))
    effect_axis, weight_axis = page.effect_axis(data), page.weight_axis(data)
    spread_axis, spread, spread_total = page.spread_rows(data)
    with_evidence = pairs_with_evidence(pairs)
    evidence = Evidence(data)
    return {
        "data": data,
        "names": data.names,
        "title": data.rubric.title or data.benchmark,
        "headline": headline,
        "lede": lede,
        "reasons_shown": page.REASONS_SHOWN,
        "remedy": remedy(data.verdict.verdict, data.pairs),
        "meaning": meaning(data),
        "heat": page.heat_rows(data),
        "example": page.example_of(data),
        "raw_movements": page.raw_movements(data),
        "effect_axis": effect_axis,
        "effects": page.effect_rows(data, effect_axis),
        "pair_groups": page.pair_groups(data, pairs, with_evidence),
        "weight_axis": weight_axis,
        "weights": page.weight_rows(data, weight_axis),
        "summary": page.summary_rows(data),
        "whitened": page.whitened_rows(data),
        "people": agreement.people(data),
        "budget": budget.budget(data),
        "task_effects": page.task_effects(data),
        "spread_axis": spread_axis,
        "spread": spread,
        "spread_total": spread_total,
        "roles": provenance.roles(data),
        "probe_facts": provenance.probe_facts(data),
        "setting_facts": provenance.setting_facts(data.settings.coupling, data.settings.probes),
        "policy_facts": provenance.policy_facts(data.settings.policy, data.names, READING_WORDS),
        "probe_losses": provenance.losses(data.tables["probes"], "target", data.names),
        "score_losses": provenance.losses(data.tables["scores"], "criterion", data.names),
        "evidence": [
            (row, _directions(data, evidence, pair))
            for row, pair in zip(page.pair_rows(data, with_evidence, with_evidence), with_evidence, strict=True)
        ],
        "tasks_per_direction": TASKS_PER_DIRECTION,
        "pairs_with_evidence": PAIRS_WITH_EVIDENCE,
        "long_texts": LongTexts(),
    }


def _directions(data: ReportData, evidence: Evidence, pair: Pair) -> list[Direction]:
    return [
        Direction(
            source=data.names[source],
            target=data.names[target],
            value=figure(data.leaks[source, target].leakage),
            exhibits=exhibits,
        )
        for source, target, exhibits in evidence.of_pair(pair)
    ]
