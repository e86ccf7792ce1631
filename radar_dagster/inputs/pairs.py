"""Files with a row per pair of criteria: finished human correlations, and pair values to be compared with them.

Here: CSV, JSONL, JSON and Parquet of both kinds, our own tables included. Not here: ratings (`ratings.py`), and what
a comparison says (`stats/`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from radar_dagster.errors import BadInputError
from radar_dagster.inputs.cells import Faults, parse_column, parse_name, parse_number
from radar_dagster.inputs.matching import key_of, listed, same_name
from radar_dagster.inputs.raw import RawTable, column_names, read_columns, readable
from radar_dagster.stats.cell import FloatArray

_CRITERIA = ("criterion_a", "criterion_b")
_DIRECTED = ("leakage_ab", "leakage_ba")

#: Where a document of `--json` holds the rows.
_HUMAN, _MEASURED = "human_correlations", "criterion_pairs"

#: Couplings and correlations are of the order of 1. What is larger than this is a slip, and its square no number.
_LARGEST = 1_000_000


def is_pair_file(path: Path) -> bool:
    """Whether a file holds finished correlations (see `read_human_pairs`) rather than ratings."""
    with readable(path):
        return {*_CRITERIA, "pearson_r"} <= set(column_names(path, _HUMAN))


def read_human_pairs(path: Path, criteria: Sequence[str] | None = None) -> pd.DataFrame:
    """Read correlations from the columns criterion_a, criterion_b, pearson_r; other columns are left aside.

    CSV, TSV, JSONL, a JSON list of objects, or Parquet. The two criteria stand in either order, and an empty pearson_r
    is an unknown one (NaN). With `criteria` the rows come in the rubric's order under the rubric's ids, matched as in
    `read_ratings`; pairs with a criterion that the rubric lacks are left out.

    Raises BadInputError, naming the line: no number within [−1, 1], a criterion paired with itself, a repeated pair;
    naming both sides: no pair of the rubric is in the file.
    """
    with readable(path):
        table = read_columns(path, _required(path, column_names(path, _HUMAN), ["pearson_r"]), _HUMAN)
    frame = _frame(table, {"pearson_r": _correlation}, key_of(criteria or ()) if criteria else str)
    return frame if criteria is None else of_rubric(str(path), frame, criteria)


def read_pair_values(path: Path) -> pd.DataFrame:
    """Read a value per pair, to be compared with people's: columns criterion_a, criterion_b, sym (NaN: unreliable).

    The file has the columns criterion_a, criterion_b and sym, or leakage_ab and leakage_ba, whose mean sym is then;
    other columns are left aside. A criterion_pairs table of an audit is such a file, as CSV or Parquet, as JSON, and
    within a whole document of `--json`. Raises BadInputError as `read_human_pairs`, for any finite number.
    """
    with readable(path):
        names = column_names(path, _MEASURED)
        directed = "sym" not in names and set(_DIRECTED) <= set(names)
        values = list(_DIRECTED) if directed else ["sym"]
        table = read_columns(path, _required(path, names, values, "; or both leakage_ab and leakage_ba"), _MEASURED)
    frame = _frame(table, dict.fromkeys(values, _measured), same_name)
    # One criterion that is spelled in two ways would be two, each without most of its pairs.
    spelled: dict[str, str] = {}
    for side in _CRITERIA:
        frame[side] = [spelled.setdefault(same_name(name), name) for name in frame[side]]
    frame["sym"] = frame[values].mean(axis=1, skipna=False)
    return frame[[*_CRITERIA, "sym"]]


def of_rubric(place: str, frame: pd.DataFrame, criteria: Sequence[str]) -> pd.DataFrame:
    """The pairs of a rubric among correlations, under its ids and in its order; BadInputError when there is none."""
    key = key_of(criteria)
    pairs = zip(frame["criterion_a"], frame["criterion_b"], frame["pearson_r"], strict=True)
    known = {frozenset((key(a), key(b))): r for a, b, r in pairs}
    rows = [(a, b, known[pair]) for a, b in combinations(criteria, 2) if (pair := frozenset((key(a), key(b)))) in known]
    if not rows:
        there = dict.fromkeys([*frame["criterion_a"], *frame["criterion_b"]])
        raise BadInputError(
            f"{place}: no pair of the rubric's criteria; expected two of {listed(criteria)}, found {listed(there)}"
        )
    found = pd.DataFrame(rows, columns=[*_CRITERIA, "pearson_r"])
    return found.astype({**dict.fromkeys(_CRITERIA, object), "pearson_r": float})


def _required(path: Path, names: Sequence[str], values: Sequence[str], otherwise: str = "") -> list[str]:
    wanted = [*_CRITERIA, *values]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise BadInputError(f"{path}: expected the columns {listed(wanted)}{otherwise}; found {listed(names)}")
    return wanted


def _measured(text: str) -> float | None:
    value = parse_number(text)
    if value is not None and abs(value) > _LARGEST:
        raise ValueError(f"expected a value of a pair, within ±{_LARGEST:,}")
    return value


def _correlation(text: str) -> float | None:
    value = parse_number(text)
    if value is not None and abs(value) > 1:
        raise ValueError("expected a correlation from -1 to 1, or an empty cell")
    return value


def _frame(
    table: RawTable, values: dict[str, Callable[[str], float | None]], key: Callable[[str], str]
) -> pd.DataFrame:
    faults = Faults(table)
    names = {side: parse_column(table, side, parse_name, faults) for side in _CRITERIA}
    numbers = {name: parse_column(table, name, parse, faults) for name, parse in values.items()}
    faults.stop_if_any()
    frame = pd.DataFrame(
        {side: pd.Series(column.values, dtype=object).take(column.codes).array for side, column in names.items()}
    )
    _refuse_repeats(table, frame, key)
    for name, column in numbers.items():
        found: FloatArray = np.array(column.values, dtype=float)[column.codes]
        frame[name] = found
    return frame


def _refuse_repeats(table: RawTable, frame: pd.DataFrame, key: Callable[[str], str]) -> None:
    first: dict[frozenset[str], int] = {}
    for row, (a, b) in enumerate(zip(frame["criterion_a"], frame["criterion_b"], strict=True)):
        pair = frozenset((key(a), key(b)))
        if len(pair) == 1:
            raise BadInputError(f"{table.place(row)}: {a!r} with itself; expected two criteria")
        if pair in first:
            raise BadInputError(
                f"{table.place(row)}: repeats {table.line(first[pair])}: {a!r} and {b!r}; expected each pair once, in "
                "either order"
            )
        first[pair] = row
