"""What a report is made of: the input type, and its tables as typed rows without NaN.

Here: reading frames into values and plain look-ups. Not here: words (`words.py`), probes as evidence (`evidence.py`),
layout (`page.py`, `html.py`), statistics (`stats/`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import pandas as pd

from radar_dagster.config import AuditSection
from radar_dagster.models.naming import ModelSpec, is_rule_based
from radar_dagster.rubric.model import Rubric
from radar_dagster.stats.settings import Reading
from radar_dagster.tables import BASELINE_TABLES, COUPLING_TABLES, SCHEMAS, VALIDATION_TABLES

#: The tables that a report reads: all of Stage 3, and the rows they were computed from.
REPORT_TABLES = ("probes", "scores", *COUPLING_TABLES)

#: Those that it shows where they are: agreement with people, and what it is compared with.
OPTIONAL_TABLES = (*VALIDATION_TABLES, *BASELINE_TABLES)

Record = dict[str, Any]

#: Readings in the order in which pairs are listed: what needs a decision comes first.
READING_ORDER = (Reading.CLUSTER, Reading.TRADEOFF, Reading.DIRECTIONAL, Reading.UNRELIABLE, Reading.SEPARABLE)


def number(value: Any) -> float | None:
    """A cell of a float column: None where the table holds null."""
    return None if pd.isna(value) else float(value)


def records(frame: pd.DataFrame) -> Iterator[Record]:
    """The rows of a frame with every kind of null (NaN, NaT, pd.NA) as None."""
    columns = [values(frame[name]) for name in frame.columns]
    names = [str(name) for name in frame.columns]
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def values(column: pd.Series[Any]) -> list[Any]:
    """The cells of a column as Python values, null as None."""
    found, missing = column.astype(object).tolist(), column.isna().tolist()
    return [None if gone else value for value, gone in zip(found, missing, strict=True)]


def named_state(detail: str | None) -> str:
    """The named state that a detail or a reason begins with: `too_few` of `too_few: 2 items …`; "" of None."""
    return (detail or "").partition(":")[0]


def other_of(criterion: str, a: str, b: str) -> str:
    """The other one of a pair."""
    return b if criterion == a else a


def require_tables(page: str, tables: Mapping[str, pd.DataFrame], names: Iterable[str]) -> None:
    """ValueError, naming the page, unless every table is there with all columns of its schema."""
    for name in names:
        if name not in tables:
            raise ValueError(f"a {page} needs the table {name!r}; there are {', '.join(tables)}")
        missing = [column for column in SCHEMAS[name].names if column not in tables[name].columns]
        if missing:
            raise ValueError(f"the table {name!r} has no column {missing[0]!r}")


def display_names(rubric: Rubric) -> dict[str, str]:
    """Criterion id -> what a reader sees: its label, with the id where two criteria share a label."""
    shared = Counter(criterion.label for criterion in rubric.criteria)
    return {c.id: c.label if shared[c.label] == 1 else f"{c.label} ({c.id})" for c in rubric.criteria}


@dataclass(frozen=True, slots=True)
class Leak:
    """One cell of the leakage matrix. `leakage` is None where the source's row is unreliable."""

    source: str
    target: str
    leakage: float | None
    sigma: float | None
    ci_low: float | None
    ci_high: float | None
    gen_coupling: float | None
    reliable: bool
    tasks_used: int

    @property
    def sign(self) -> int:
        """+1 when the target follows the source, −1 when it goes the other way; the raw movement if need be."""
        value = self.leakage if self.leakage is not None else self.gen_coupling
        return -1 if value is not None and value < 0 else 1


@dataclass(frozen=True, slots=True)
class SelfEffect:
    """How far a criterion's own interventions moved it, and whether that passed the gate."""

    criterion: str
    self_effect: float | None
    ci_low: float | None
    ci_high: float | None
    gate_pass_rate: float | None
    reliable: bool
    reason: str | None
    tasks_used: int


@dataclass(frozen=True, slots=True)
class Settling:
    """What would settle an uncertain reading."""

    quantity: str
    value: float | None
    low: float | None
    high: float | None
    threshold: float
    other_reading: str
    probes_now: int
    probes_needed: int | None


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair of criteria with its reading."""

    a: str
    b: str
    leakage_ab: float | None
    leakage_ba: float | None
    sym: float | None
    sym_low: float | None
    sym_high: float | None
    asym: float | None
    asym_low: float | None
    asym_high: float | None
    reading: Reading
    upstream: str | None
    uncertain: bool
    task_sensitive: bool
    accepted: bool
    settling: tuple[Settling, ...]

    @property
    def downstream(self) -> str | None:
        """The criterion that is carried along, where the reading has a direction."""
        return None if self.upstream is None else other_of(self.upstream, self.a, self.b)

    @property
    def directions(self) -> tuple[tuple[str, str, float | None], tuple[str, str, float | None]]:
        """(source, target, leakage) there and back: a ride begins with the direction that carries it along."""
        there, back = (self.a, self.b, self.leakage_ab), (self.b, self.a, self.leakage_ba)
        return (back, there) if self.upstream == self.b else (there, back)

    @property
    def strength(self) -> float:
        """The larger absolute leakage of the two directions; 0 where neither was measured. Orders pairs only."""
        return max((abs(value) for value in (self.leakage_ab, self.leakage_ba) if value is not None), default=0.0)


def pairs_of(tables: Mapping[str, pd.DataFrame], accepted: Iterable[tuple[str, str]] = ()) -> tuple[Pair, ...]:
    """The rows of criterion_pairs with what settling says of them, in the table's order."""
    known = {frozenset(pair) for pair in accepted}
    settling = _settling_of(tables["settling"])
    return tuple(
        Pair(
            a=row["criterion_a"],
            b=row["criterion_b"],
            accepted=frozenset((row["criterion_a"], row["criterion_b"])) in known,
            settling=settling.get(frozenset((row["criterion_a"], row["criterion_b"])), ()),
            **_fields(Pair, row) | {"reading": Reading(row["reading"])},
        )
        for row in records(tables["criterion_pairs"])
    )


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """What an audit, people and the passive baselines say of one pair; None where one says nothing."""

    a: str
    b: str
    sym: float | None
    sym_low: float | None
    sym_high: float | None
    people: float | None
    people_low: float | None
    people_high: float | None
    #: method -> value
    baselines: Mapping[str, float | None]


def compared_pairs(
    criterion_pairs: pd.DataFrame, human: pd.DataFrame, baselines: pd.DataFrame | None = None
) -> tuple[ComparedPair, ...]:
    """The pairs of which people say something, in the order of criterion_pairs; matched in either order of names."""
    people = {frozenset((row["criterion_a"], row["criterion_b"])): row for row in records(human)}
    passive: dict[frozenset[str], dict[str, float | None]] = {}
    for row in records(baselines) if baselines is not None else ():
        passive.setdefault(frozenset((row["criterion_a"], row["criterion_b"])), {})[row["method"]] = row["value"]
    found = []
    for row in records(criterion_pairs):
        key = frozenset((row["criterion_a"], row["criterion_b"]))
        if key not in people:
            continue
        theirs = people[key]
        found.append(
            ComparedPair(
                a=row["criterion_a"],
                b=row["criterion_b"],
                sym=row["sym"],
                sym_low=row["sym_low"],
                sym_high=row["sym_high"],
                people=theirs["pearson_r"],
                people_low=theirs["ci_low"],
                people_high=theirs["ci_high"],
                baselines=passive.get(key, {}),
            )
        )
    return tuple(found)


def _settling_of(frame: pd.DataFrame) -> dict[frozenset[str], tuple[Settling, ...]]:
    found: dict[frozenset[str], tuple[Settling, ...]] = {}
    for row in records(frame):
        key = frozenset((row["criterion_a"], row["criterion_b"]))
        needed = row["probes_needed"]
        one = Settling(**_fields(Settling, row) | {"probes_needed": None if needed is None else int(needed)})
        found[key] = (*found.get(key, ()), one)
    return found


def sorted_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    """By reading, what needs a decision first; within a reading the strongest first."""
    return sorted(pairs, key=lambda pair: (READING_ORDER.index(pair.reading), -pair.strength))


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judgement of a probe: its score and p in [0, 1], or the state in which it was lost."""

    criterion: str
    state: str
    score: int | None
    p: float | None
    rationale: str | None
    reasoning: str | None
    detail: str | None
    call_key: str | None

    @property
    def said(self) -> str | None:
        """The judge's grounds, its reasoning where it gave no rationale; of a lost judgement, why it was lost."""
        if self.score is None:
            return self.detail
        return self.reasoning if self.rationale is None else self.rationale


#: The columns of the scores that a Judgement is made of.
JUDGEMENT_COLUMNS = tuple(field.name for field in fields(Judgement))


def judgement_of(row: Record | None, criterion: str) -> Judgement:
    """A row of the scores as a Judgement; without a row it is in the state `missing`."""
    if row is None:
        return Judgement(criterion, "missing", None, None, None, None, "the scores hold no row for this probe", None)
    return Judgement(**_fields(Judgement, row) | {"score": None if row["score"] is None else int(row["score"])})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The policy's answer."""

    verdict: str
    exit_code: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class ReportData:
    """One cell of an audit: what was run and every table that came of it.

    `tables` holds all of REPORT_TABLES by name, and those of OPTIONAL_TABLES that exist.
    """

    rubric: Rubric
    benchmark: str
    pair: str
    generator: ModelSpec
    verifier: ModelSpec
    settings: AuditSection
    tables: Mapping[str, pd.DataFrame]

    def __post_init__(self) -> None:
        there = [name for name in OPTIONAL_TABLES if name in self.tables]
        require_tables("report", self.tables, (*REPORT_TABLES, *there))

    def rows(self, table: str) -> Iterator[Record]:
        """The rows of one table, null as None."""
        return records(self.tables[table])

    @property
    def generator_alias(self) -> str:
        """The generator's name in radar.yaml."""
        return self.pair.partition("~")[0]

    @property
    def verifier_alias(self) -> str:
        """The verifier's name in radar.yaml."""
        return self.pair.partition("~")[2]

    @property
    def rule_based(self) -> tuple[str, ...]:
        """Aliases of those of the two models that follow fixed rules."""
        models = {self.generator_alias: self.generator, self.verifier_alias: self.verifier}
        return tuple(alias for alias, spec in models.items() if is_rule_based(spec))

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Criterion id -> display name, in the rubric's order."""
        return display_names(self.rubric)

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict with its reasons as sentences."""
        row = next(self.rows("verdict"))
        return Verdict(row["verdict"], int(row["exit_code"]), tuple(json.loads(row["reasons"])))

    @cached_property
    def self_effects(self) -> tuple[SelfEffect, ...]:
        """In the table's order, which is the rubric's."""
        return tuple(
            SelfEffect(**_fields(SelfEffect, row) | {"tasks_used": int(row["tasks_used"])})
            for row in self.rows("self_effects")
        )

    @cached_property
    def leaks(self) -> Mapping[tuple[str, str], Leak]:
        """(source, target) -> cell, without the diagonal."""
        rows = (row for row in self.rows("leakage") if row["source"] != row["target"])
        return {(row["source"], row["target"]): Leak(**_fields(Leak, row)) for row in rows}

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """In the table's order."""
        return pairs_of(self.tables, self.settings.policy.accepted_pairs)

    @cached_property
    def compared(self) -> tuple[ComparedPair, ...]:
        """The pairs of which people say something; empty where nobody was asked."""
        if "human_correlations" not in self.tables:
            return ()
        return compared_pairs(
            self.tables["criterion_pairs"], self.tables["human_correlations"], self.tables.get("baselines")
        )

    @cached_property
    def summary(self) -> Mapping[str, Record]:
        """metric -> its row of coupling_summary."""
        return {row["metric"]: row for row in self.rows("coupling_summary")}

    @property
    def effective_criteria(self) -> float | None:
        """How many independent criteria the judge's matrix amounts to, or None where that is undefined."""
        return number(self.summary.get("effective_criteria", {}).get("value"))


def _fields(kind: type, row: Record) -> Record:
    """The columns of a row that are fields of `kind`."""
    return {field.name: row[field.name] for field in fields(kind) if field.name in row}
