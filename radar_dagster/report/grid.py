"""The page of a benchmark's grid as plain values: all cells side by side, against people and pair by pair.

Not here: means over cells (`stats/grid.py`), rendering (`html.py`), markup (`templates/`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from radar_dagster.report.charts import Axis, HeatCell, Mark, spread, unit_axis
from radar_dagster.report.data import (
    READING_ORDER,
    Record,
    display_names,
    named_state,
    other_of,
    records,
    require_tables,
)
from radar_dagster.report.words import count, figure, listed, pair_phrase, plus_minus
from radar_dagster.rubric.model import Rubric
from radar_dagster.stats.settings import Reading
from radar_dagster.tables import GRID_TABLES

#: Pairs in the table; those whose reading needs a decision come first.
PAIRS_SHOWN = 300
#: Pairs that are named in a sentence.
_NAMED = 3

#: Readings in which one criterion moves the other.
_COUPLED = (Reading.CLUSTER, Reading.TRADEOFF, Reading.DIRECTIONAL)


@dataclass(frozen=True)
class GridData:
    """The cells of one benchmark: `tables` holds all of GRID_TABLES by name.

    `rule_based` are the aliases of models that follow fixed rules.
    """

    rubric: Rubric
    benchmark: str
    tables: Mapping[str, pd.DataFrame]
    rule_based: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_tables("grid", self.tables, GRID_TABLES)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Criterion id -> display name, in the rubric's order."""
        return display_names(self.rubric)

    @cached_property
    def pairs(self) -> tuple[GridPair, ...]:
        """In the table's order."""
        return tuple(_grid_pair(row) for row in records(self.tables["coupling_grid"]))

    @cached_property
    def cells(self) -> tuple[Record, ...]:
        """Rows of grid_agreement, generators before verifiers."""
        return tuple(records(self.tables["grid_agreement"]))

    @property
    def audited(self) -> int:
        """How many cells were audited."""
        return max((pair.cells for pair in self.pairs), default=0)


@dataclass(frozen=True, slots=True)
class GridPair:
    """One pair over all cells: means, standard deviations (None for one cell), and the reading of the means."""

    a: str
    b: str
    cells: int
    cells_reliable: int
    leakage_ab: tuple[float | None, float | None]
    leakage_ba: tuple[float | None, float | None]
    sym: tuple[float | None, float | None]
    asym: tuple[float | None, float | None]
    reading: Reading
    upstream: str | None
    same_reading: int

    @property
    def downstream(self) -> str | None:
        """The criterion that is carried along, where the reading has a direction."""
        return None if self.upstream is None else other_of(self.upstream, self.a, self.b)

    @property
    def is_shared(self) -> bool:
        """Whether every cell that could measure the pair reads it as the means do."""
        return 0 < self.cells_reliable == self.same_reading


def _grid_pair(row: Record) -> GridPair:
    return GridPair(
        a=row["criterion_a"],
        b=row["criterion_b"],
        cells=int(row["cells"]),
        cells_reliable=int(row["cells_reliable"]),
        leakage_ab=(row["leakage_ab"], row["leakage_ab_sd"]),
        leakage_ba=(row["leakage_ba"], row["leakage_ba_sd"]),
        sym=(row["sym"], row["sym_sd"]),
        asym=(row["asym"], row["asym_sd"]),
        reading=Reading(row["reading"]),
        upstream=row["upstream"],
        same_reading=int(row["same_reading"]),
    )


def takeaway(data: GridData) -> str:
    """What is the rubric's doing, in one sentence: couplings that every cell has."""
    if data.audited < 2:
        return (
            "Only one cell was audited, so what the rubric does and what these models do can’t be told apart: audit "
            "the same rubric with another judge or generator."
        )
    measured = [pair for pair in data.pairs if pair.cells_reliable]
    if not measured:
        return "No cell could measure any pair, so nothing is known of the rubric."
    shared = [pair for pair in measured if pair.is_shared and pair.reading in _COUPLED]
    cells = f"all {data.audited} cells" if data.audited > 2 else "both cells"
    if any(pair.cells_reliable < pair.cells for pair in (shared or measured)):
        cells = "every cell that could measure it"
    if len(measured) == len(data.pairs) and all(p.is_shared and p.reading == Reading.SEPARABLE for p in measured):
        return f"In {cells}, all criteria are independent of each other."
    if not shared:
        return f"No coupling has the same reading in {cells}: what moves together here depends on the models."
    phrases = [pair_phrase(pair, data.names) for pair in _strongest_first(shared)]
    its = "This is" if len(shared) == 1 else "These are"
    return f"In {cells}, {_listed(phrases)}. {its} the rubric’s doing, as far as these models can tell."


def details(data: GridData) -> Iterator[str]:
    """What depends on the models, what is independent everywhere, and what no cell could measure; sentences."""
    if data.audited < 2:
        return
    split = [pair for pair in data.pairs if pair.cells_reliable and not pair.is_shared]
    if split:
        named = [f"{data.names[pair.a]} with {data.names[pair.b]}" for pair in _strongest_first(split)]
        reads, they = ("reads", "it depends") if len(split) == 1 else ("read", "they depend")
        yield (
            f"{count(len(split), 'pair')} {reads} differently from cell to cell, so {they} on the model, or on the "
            f"noise of few probes: {listed(named, _NAMED)}."
        )
    else:
        yield "Every pair has the same reading in all cells that could measure it."
    apart = sum(pair.is_shared and pair.reading == Reading.SEPARABLE for pair in data.pairs)
    if apart:
        yield f"{count(apart, 'pair')} {'is' if apart == 1 else 'are'} independent in every cell that could measure it."
    lost = sum(pair.cells_reliable == 0 for pair in data.pairs)
    if lost:
        yield f"{count(lost, 'pair')} could not be measured in any cell."


def _listed(phrases: Sequence[str]) -> str:
    """Clauses in one sentence: joined by semicolons, since each may hold an `and`."""
    shown = list(phrases[:_NAMED])
    if len(phrases) > _NAMED:
        shown.append(f"and {count(len(phrases) - _NAMED, 'further pair')}")
    return "; ".join(shown)


def _strongest_first(pairs: Sequence[GridPair]) -> list[GridPair]:
    return sorted(pairs, key=lambda pair: -abs(pair.sym[0] or 0.0))


def rule_based(data: GridData) -> list[str]:
    """Those of the rule-based models that a cell was audited with."""
    audited = [cell for cell in data.cells if named_state(cell["detail"]) not in _NOT_AUDITED]
    aliases = {cell[role] for cell in audited for role in ("generator", "verifier")}
    return [alias for alias in data.rule_based if alias in aliases]


@dataclass(frozen=True, slots=True)
class AgreementCell:
    """A generator with a verifier: Pearson with people as a heat cell, and the other numbers as lines below it."""

    heat: HeatCell
    lines: tuple[str, ...]


def agreement_rows(data: GridData) -> tuple[list[str], list[tuple[str, list[AgreementCell]]]]:
    """Verifiers, and for every generator its cells with each of them."""
    verifiers = list(dict.fromkeys(cell["verifier"] for cell in data.cells))
    generators = dict.fromkeys(cell["generator"] for cell in data.cells)
    known = {(cell["generator"], cell["verifier"]): cell for cell in data.cells}
    return verifiers, [(one, [_agreement_cell(known[one, other]) for other in verifiers]) for one in generators]


def has_people(data: GridData) -> bool:
    """Whether any cell could be compared with people."""
    return any(cell["mae"] is not None for cell in data.cells)


_NOT_AUDITED = {"not_audited": "Not audited", "self_pair": "Self-pairs, left out"}
_WHY = {
    "self_pair": "self-pair",
    "not_audited": "not audited",
    "no_human_correlations": "no people",
    "too_few_pairs": "too few pairs",
    "constant_values": "all pairs alike",
    "constant_reference": "people: all pairs alike",
}


def _agreement_cell(cell: Record) -> AgreementCell:
    where = f"{cell['generator']} → {cell['verifier']}"
    distance = None if cell["mae"] is None else f"{figure(cell['mae'])} apart"
    if cell["pearson"] is None:
        state = named_state(cell["detail"])
        why = _WHY.get(state, state or "unknown")
        heat = HeatCell("own" if state == "self_pair" else "lost", why, None, 0, f"{where}: {cell['detail'] or why}")
        return AgreementCell(heat, (distance,) if distance else ())
    r, p = cell["pearson"], cell["p_permutation"]
    chance = "" if p is None else f", p = {figure(p, 3)}"
    heat = HeatCell(
        kind="against" if r < 0 else "together",
        shown=figure(r),
        interval=None,
        strength=round(100 * abs(r)),
        title=f"{where}: Pearson {figure(r)}{chance}, {count(int(cell['pairs_used']), 'pair')}",
    )
    ranks = f"ranks {figure(cell['spearman'])}" if cell["spearman"] is not None else None
    return AgreementCell(heat, tuple(line for line in (ranks, distance) if line))


def cell_facts(data: GridData) -> list[tuple[str, str]]:
    """(term, cells) by what is known of them: for a grid without people, where a table would hold nothing."""
    told: dict[str, list[str]] = {"Audited": [], "Not audited": [], "Self-pairs, left out": []}
    for cell in data.cells:
        term = _NOT_AUDITED.get(named_state(cell["detail"]), "Audited")
        told[term].append(f"{cell['generator']} → {cell['verifier']}")
    return [(term, ", ".join(cells)) for term, cells in told.items() if cells]


@dataclass(frozen=True, slots=True)
class GridRow:
    """One pair in the table; `numbers` are (value, caption)."""

    reading: str
    phrase: str
    mark: Mark
    numbers: tuple[tuple[str, str], ...]
    same: str
    shared: bool


def pair_rows(data: GridData) -> tuple[Axis, list[GridRow]]:
    """The axis, and pairs as rows: couplings first, within a reading the strongest first."""
    order = sorted(data.pairs, key=lambda pair: (READING_ORDER.index(pair.reading), -abs(pair.sym[0] or 0.0)))
    shown = order[:PAIRS_SHOWN]
    ends = [pair.sym[0] + way * (pair.sym[1] or 0.0) for pair in shown for way in (-1, 1) if pair.sym[0] is not None]
    axis = unit_axis(ends)
    return axis, [_grid_row(pair, data.names, axis) for pair in shown]


def _grid_row(pair: GridPair, names: Mapping[str, str], axis: Axis) -> GridRow:
    a, b = names[pair.a], names[pair.b]
    captions = (f"{a} → {b}", f"{b} → {a}", "mean of both", "difference")
    values = (pair.leakage_ab, pair.leakage_ba, pair.sym, pair.asym)
    if pair.upstream == pair.b:
        captions, values = (captions[1], captions[0], *captions[2:]), (values[1], values[0], *values[2:])
    return GridRow(
        reading=pair.reading.value,
        phrase=pair_phrase(pair, names),
        mark=spread(axis, *pair.sym, missing="–"),
        numbers=tuple(
            (plus_minus(*value, missing="–"), caption) for value, caption in zip(values, captions, strict=True)
        ),
        same=_same(pair),
        shared=pair.is_shared,
    )


def _same(pair: GridPair) -> str:
    if not pair.cells_reliable:
        return "not measured in any cell"
    told = f"same reading in {pair.same_reading} of {count(pair.cells_reliable, 'cell')}"
    lost = pair.cells - pair.cells_reliable
    return f"{told}; not measured in {lost} more" if lost else told
