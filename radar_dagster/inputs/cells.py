"""What the cells of tables from outside mean: names, directions, scores, states; and how bad cells are reported.

Here: one parser per kind of cell, from text to a value or a ValueError that says what was expected. Not here: files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from radar_dagster.errors import BadInputError
from radar_dagster.inputs.raw import RawTable
from radar_dagster.models.replies import State
from radar_dagster.rubric.model import Scale, printable

_FAULTS_SHOWN = 5

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Column(Generic[_Value]):
    """A parsed column: `values` holds each distinct value once, in order of appearance, and `codes` indexes it."""

    values: list[_Value]
    codes: np.ndarray


@dataclass
class Faults:
    """Bad cells found so far, reported together: the first few with their lines, the rest as a number."""

    table: RawTable
    _shown: list[tuple[int, str]] = field(default_factory=list)
    _count: int = 0

    def add(self, rows: np.ndarray, message: Callable[[int], str]) -> None:
        """Note a fault in each of these rows (from 0, ascending); `message` is asked only about those to be shown."""
        self._shown.extend((int(row), message(int(row))) for row in rows[:_FAULTS_SHOWN])
        self._count += len(rows)

    def stop_if_any(self, hint: str | None = None) -> None:
        """Raise BadInputError with the faults in the order of the file and then the hint, if there are any."""
        if not self._count:
            return
        self._shown.sort(key=itemgetter(0))
        lines = [f"{self.table.place(row)}: {message}" for row, message in self._shown[:_FAULTS_SHOWN]]
        if self._count > _FAULTS_SHOWN:
            lines.append(f"… and {self._count - _FAULTS_SHOWN:,} more cells that can't be read")
        if hint:
            lines.append(hint)
        raise BadInputError("\n".join(lines))


def parse_column(table: RawTable, name: str, parse: Callable[[str], _Value], faults: Faults) -> Column[_Value]:
    """Parse each distinct text of a column once; a ValueError of `parse` becomes a fault of every row that holds it."""
    encoded = pa.concat_arrays(table.columns[name].chunks).dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    text_codes = encoded.indices.to_numpy(zero_copy_only=False)
    known: dict[_Value, int] = {}
    value_codes = np.full(len(texts), -1, dtype=np.int64)
    expected: dict[int, str] = {}
    for position, text in enumerate(texts):
        try:
            value_codes[position] = known.setdefault(parse(text.strip()), len(known))
        except ValueError as error:
            expected[position] = str(error)

    def message(row: int) -> str:
        position = int(text_codes[row])
        return f"column {name!r}: {expected[position]}, found {texts[position]!r:.80}"

    codes = value_codes[text_codes]
    faults.add(np.flatnonzero(codes < 0), message)
    return Column(list(known), codes)


def parse_name(text: str) -> str:
    """An id or a name by the rules of a rubric's: one printable line that is not empty, in Unicode's composed form."""
    if not text:
        raise ValueError("expected a name")
    return printable(text)


_DIRECTIONS = {"+": "+", "-": "-", "−": "-", "high": "+", "low": "-"}


def parse_direction(text: str) -> str:
    """`+` or `-`; `high` and `low` (in any case) mean the same."""
    if text.lower() not in _DIRECTIONS:
        raise ValueError("expected + or - (or high, low)")
    return _DIRECTIONS[text.lower()]


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_NOT_AVAILABLE = frozenset({"", "na", "n/a", "nan", "null", "none"})


def score_parser(scale: Scale) -> Callable[[str], float | None]:
    """A parser of scores: any number from `scale.min` to `scale.max` (an average is no level), None if missing."""

    def parse(text: str) -> float | None:
        if text.lower() in _NOT_AVAILABLE:
            return None
        value = float(text) if _NUMBER.fullmatch(text) else float("nan")
        if not scale.min <= value <= scale.max:
            raise ValueError(f"expected a number from {scale.min} to {scale.max}")
        return value

    return parse


def parse_number(text: str) -> float | None:
    """Any finite number; None where the cell is empty. Words such as NaN are no numbers: they may mean anything."""
    if not text:
        return None
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    if not math.isfinite(value):
        hint = f"; is it {text.replace(',', '.')}, with a decimal point?" if _DECIMAL_COMMA.fullmatch(text) else ""
        raise ValueError(f"expected a finite number or an empty cell{hint}")
    return value


_STATES = frozenset(state.value for state in State)


def parse_state(text: str) -> str | None:
    """The name of a state (in any case); None where the cell is empty."""
    state = text.lower()
    if state and state not in _STATES:
        raise ValueError(f"expected one of {', '.join(sorted(_STATES))}")
    return state or None
