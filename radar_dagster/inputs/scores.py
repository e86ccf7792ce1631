"""Somebody's own scores for the coupling audit: one row per probe × criterion.

Here: the columns, what makes a design usable, and what is filled in or left out, always with a note. Not here:
whether the scores suffice for a conclusion (`stats/`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from radar_dagster.errors import BadInputError
from radar_dagster.inputs.cells import (
    Column,
    Faults,
    parse_column,
    parse_direction,
    parse_name,
    parse_state,
    score_parser,
)
from radar_dagster.inputs.raw import RawTable, read_table
from radar_dagster.models.replies import State
from radar_dagster.rubric.model import Scale

SCORE_COLUMNS = ("task", "target", "direction", "probe", "criterion", "score")
_PROBE = ["task", "target", "direction", "probe"]

#: A table with fewer than one score in so many (probe, criterion) cells is a misread one, not a design with gaps.
_SPARSEST = 4
_SHOWN = 5


class ScoreFile(NamedTuple):
    """What `read_scores` made of a file.

    `scores` has the columns task, target, direction (`+`/`-`), probe, criterion, state, score and p (the score mapped
    onto [0, 1]), with one row for every probe × criterion. `notes` says in a sentence each what was left out or
    filled in.
    """

    scores: pd.DataFrame
    notes: tuple[str, ...]


def read_scores(path: Path, scale: Scale) -> ScoreFile:
    """Read scores from CSV, JSONL or Parquet: the columns `SCORE_COLUMNS`, and `state` if there is one.

    A probe is identified by task, target, direction and its id together. A score may be any number within the scale;
    an empty score is in the state `missing`, and so is a (probe, criterion) for which the file has no row. Criteria
    that are scored but never targeted are left out.

    Raises BadInputError, naming the line, for a cell that can't be read, a repeated row, or a score that contradicts
    its state; and naming the criterion, for a target that is never scored or has probes in one direction only.
    """
    table = read_table(path, SCORE_COLUMNS, ("state",))
    faults = Faults(table)
    columns: dict[str, Column[str]] = {
        name: parse_column(table, name, parse_direction if name == "direction" else parse_name, faults)
        for name in (*_PROBE, "criterion")
    }
    score = parse_column(table, "score", score_parser(scale), faults)
    state = parse_column(table, "state", parse_state, faults) if "state" in table.columns else None
    faults.stop_if_any(_other_scale(table, scale))

    frame = pd.DataFrame({name: column.codes for name, column in columns.items()})
    _refuse_repeats(table, frame)
    frame["score"] = np.array(score.values, dtype=float)[score.codes]
    frame["state"] = _states(table, frame["score"].isna().to_numpy(), state)

    notes: list[str] = []
    frame = _square(table, frame, columns, notes)
    frame = _complete(table, frame, columns, notes)
    _note_one_sided_slices(frame, columns, notes)
    return ScoreFile(_named(frame, columns, scale), tuple(notes))


#: One score in so many outside the scale, or a single one, is a slip rather than another scale.
_STRAY = 50
#: Scales that people use; of two that fit, the narrower one comes first.
_COMMON_SCALES = ((1, 5), (0, 5), (1, 7), (1, 10), (0, 10), (1, 100), (0, 100))


def _other_scale(table: RawTable, scale: Scale) -> str | None:
    """A question, where the scores do not fit the scale but are whole numbers that reach the top of a common one."""
    counts = [(row["values"].strip(), row["counts"]) for row in table.columns["score"].value_counts().to_pylist()]
    numbers = {float(text): n for text, n in counts if re.fullmatch(r"-?\d{1,6}(\.\d*)?", text, re.ASCII)}
    outside = sum(n for number, n in numbers.items() if not scale.min <= number <= scale.max)
    if outside < max(2, sum(numbers.values()) / _STRAY) or not all(number.is_integer() for number in numbers):
        return None
    fits = [(low, high) for low, high in _COMMON_SCALES if low <= min(numbers) and max(numbers) == high]
    if not fits:
        return None
    low, high = fits[0]
    return f"{table.path}: is the scale {low}:{high}? give --scale {low}:{high}"


def _refuse_repeats(table: RawTable, frame: pd.DataFrame) -> None:
    key = [*_PROBE, "criterion"]
    again = np.flatnonzero(frame.duplicated(key).to_numpy())
    if not len(again):
        return
    row = int(again[0])
    first = int(np.flatnonzero((frame[key] == frame.loc[row, key]).all(axis=1).to_numpy())[0])
    more = f"; {len(again) - 1:,} more rows are repeated" if len(again) > 1 else ""
    raise BadInputError(
        f"{table.place(row)}: repeats {table.line(first)}: the same {', '.join(key)}; expected one score each{more}"
    )


def _states(table: RawTable, missing: np.ndarray, state: Column[str | None] | None) -> np.ndarray:
    """A state for every row; a given one must agree with whether there is a score."""
    deduced = np.where(missing, State.MISSING.value, State.OK.value).astype(object)
    if state is None:
        return deduced
    given = np.array(state.values, dtype=object)[state.codes]
    told = np.array([value is not None for value in state.values])[state.codes]
    ok = given == State.OK.value
    faults = Faults(table)
    faults.add(np.flatnonzero(ok & missing), lambda _: "column 'score': expected a number beside the state 'ok'")
    faults.add(
        np.flatnonzero(told & ~ok & ~missing),
        lambda row: f"column 'score': expected an empty cell beside the state {given[row]!r}",
    )
    faults.stop_if_any()
    return np.where(told, given, deduced)


def _square(table: RawTable, frame: pd.DataFrame, columns: dict[str, Column[str]], notes: list[str]) -> pd.DataFrame:
    """Check that every target is scored and has both directions; leave criteria out that are never targeted."""
    targets, criteria = columns["target"].values, columns["criterion"].values
    first_rows = [int(row) for row in frame.drop_duplicates("target").index]  # in the order of the codes
    scored = set(criteria)
    for target, row in zip(targets, first_rows, strict=True):
        if target not in scored:
            known = _listed(map(repr, criteria))
            raise BadInputError(
                f"{table.place(row)}: column 'target': {target!r} is never scored; the criteria are {known}"
            )
    sides = frame.groupby("target")["direction"].nunique()
    for code in sides.index[sides == 1][:1]:
        row = first_rows[code]
        there = columns["direction"].values[frame["direction"][row]]
        absent = "-" if there == "+" else "+"
        raise BadInputError(
            f"{table.path}: target {targets[code]!r} has only {there!r} probes ({table.line(row)} is the first); "
            f"expected {absent!r} probes too, since every effect is the difference between the two"
        )
    if len(targets) < 2:
        raise BadInputError(f"{table.path}: only {targets[0]!r} is ever targeted; coupling needs two targets or more")
    extra = [code for code, name in enumerate(criteria) if name not in set(targets)]
    if extra:
        left_out = frame["criterion"].isin(extra)
        names = _listed(repr(criteria[code]) for code in extra)
        notes.append(f"left out, because no probe targets it: {names} ({int(left_out.sum()):,} scores)")
        frame = frame[~left_out]
    return frame


def _complete(table: RawTable, frame: pd.DataFrame, columns: dict[str, Column[str]], notes: list[str]) -> pd.DataFrame:
    """Add a `missing` row for every (probe, criterion) that the file lacks."""
    empty = int((frame["state"] == State.MISSING.value).sum())
    if empty:
        notes.append(f"{empty:,} of {len(frame):,} scores are missing (empty cells)")
    probes = frame[_PROBE].drop_duplicates(ignore_index=True)
    criteria = np.unique(frame["criterion"].to_numpy())
    cells = len(probes) * len(criteria)
    if cells == len(frame):
        return frame
    if cells > _SPARSEST * len(frame):
        raise BadInputError(
            f"{table.path}: {len(probes):,} probes × {len(criteria):,} criteria, but only {len(frame):,} scores; "
            "expected every probe (task, target, direction, probe) to be scored on every criterion"
        )
    grid = probes.merge(pd.DataFrame({"criterion": criteria}), how="cross")
    full = grid.merge(frame, how="left", on=[*_PROBE, "criterion"])
    absent = full["state"].isna()
    full.loc[absent, "state"] = State.MISSING.value
    first = full[absent].iloc[0]
    place = ", ".join(f"{name} {columns[name].values[int(first[name])]!r}" for name in [*_PROBE, "criterion"])
    notes.append(f"{int(absent.sum()):,} of {cells:,} scores have no row and count as missing; the first is {place}")
    return full


def _note_one_sided_slices(frame: pd.DataFrame, columns: dict[str, Column[str]], notes: list[str]) -> None:
    """A (task, target) without probes in both directions gives no estimate."""
    sides = frame.groupby(["task", "target"])["direction"].nunique()
    tasks, targets = columns["task"].values, columns["target"].values
    full = {key for key, count in sides.items() if count == 2}
    count = len(tasks) * len(targets) - len(full)
    if count:
        short = (
            f"{task!r} × {target!r}"
            for i, task in enumerate(tasks)
            for j, target in enumerate(targets)
            if (i, j) not in full
        )
        shown = _listed(islice(short, _SHOWN), count)
        notes.append(f"no estimate from {count:,} slices (task × target) that lack '+' or '-' probes: {shown}")


def _named(frame: pd.DataFrame, columns: dict[str, Column[str]], scale: Scale) -> pd.DataFrame:
    """Codes back to names, in the file's order of columns."""
    named = {
        name: pd.Series(column.values, dtype="str").take(frame[name].to_numpy()).array
        for name, column in columns.items()
    }
    out = pd.DataFrame(named)
    out["state"] = pd.array(frame["state"].to_numpy(), dtype="str")
    out["score"] = frame["score"].to_numpy()
    proportions = {score: scale.proportion(score) for score in out["score"].dropna().unique()}
    out["p"] = out["score"].map(proportions).astype(float)
    return out


def _listed(items: Iterable[str], count: int | None = None) -> str:
    """The first few items and how many more there are; `count` where not all items are handed over."""
    everything = list(items)
    more = (len(everything) if count is None else count) - _SHOWN
    return ", ".join(everything[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
