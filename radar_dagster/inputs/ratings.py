"""Files of people's ratings: one row per item, one number per criterion, in the formats that benchmarks publish.

Here: which format a file has (told by its content), which column belongs to which criterion, and the mean over raters.
Not here: files of finished correlations (`pairs.py`), and correlations (`stats/human.py`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pandas as pd

from radar_dagster.errors import BadInputError
from radar_dagster.inputs.cells import Faults, parse_column, parse_number
from radar_dagster.inputs.matching import key_of, listed, same_name
from radar_dagster.inputs.raw import Format, RawTable, column_names, file_format, json_lines, read_columns, readable

Raters = Literal["all", "expert", "crowd"]

_HELPSTEER2 = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")
_SUMMEVAL = ("coherence", "consistency", "fluency", "relevance")
_SUMPUBMED = {"Non-Re": "non-redundancy", "Coh": "coherence", "Read": "readability", "IOF": "informativeness"}

#: SummEval's lists of annotations, each by raters of one kind.
_GROUPS = {"expert": "expert_annotations", "crowd": "turker_annotations"}

#: expert_mean_coherence, crowd_mode_fluency, turker_relevance.
_PREFIXED = re.compile(r"(expert|crowd|turker)s?_(?:(mean|mode|median)_)?(.+)", re.IGNORECASE)

_NO_COLUMNS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Ratings:
    """What people gave: one row per item, one column per criterion, the mean over the chosen raters; NaN is no rating.

    `notes` says in a sentence each what was left aside, what is missing, and who was averaged.
    """

    frame: pd.DataFrame
    raters: str
    format: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Layout:
    """How to read a file: the format's name, and criterion -> column."""

    format: str
    columns: dict[str, str]
    notes: tuple[str, ...] = ()


def read_ratings(
    path: Path,
    *,
    raters: Raters = "all",
    columns: Mapping[str, str] = _NO_COLUMNS,
    criteria: Sequence[str] | None = None,
) -> Ratings:
    """Read a file of ratings: HelpSteer2, SummEval, SumPubMed, or any table with a column per criterion.

    `criteria` are the rubric's ids; a column belongs to one if the two are the same but for case, spaces, hyphens and
    underscores. Without `criteria` every column of ratings is one. `columns` (criterion -> column) wins over that.
    `raters` chooses among those that the file tells apart; `all` is the mean over every single rating.

    Raises BadInputError, naming file, line and expectation: a file that can't be read, a cell that is no finite number,
    no column for any criterion, two for one, a mapped column that isn't there, raters that the file doesn't have.
    """
    with readable(path):
        names = column_names(path)
        given = _checked(path, columns, criteria)
        if file_format(path) is Format.JSON_LINES and set(names) & set(_GROUPS.values()):
            return _read_annotations(path, raters, given, criteria)
        layout = _layout(path, names, raters, given, criteria)
        _refuse_none(path, layout, names, criteria)
        table = read_columns(path, list(dict.fromkeys(layout.columns.values())))
    frame = _numbers(table, layout, criteria)
    notes = [*layout.notes, *_about_columns(layout, names, criteria), *_about_gaps(frame)]
    return Ratings(frame, raters, layout.format, tuple(notes))


# ---------------------------------------------------------------- which column is which criterion


def _checked(path: Path, columns: Mapping[str, str], criteria: Sequence[str] | None) -> dict[str, str]:
    """The mapping as given; its criteria must be the rubric's, and each needs a column of its own."""
    strange = [criterion for criterion in columns if criteria is not None and criterion not in criteria]
    if strange:
        raise BadInputError(
            f"{path}: columns: {strange[0]!r} is no criterion of the rubric; expected one of {listed(criteria or ())}"
        )
    twice = [column for column in columns.values() if list(columns.values()).count(column) > 1]
    if twice:
        raise BadInputError(f"{path}: columns: {twice[0]!r} is given to two criteria; expected a column for each")
    return dict(columns)


def _refuse_absent(path: Path, given: Mapping[str, str], names: Sequence[str]) -> None:
    absent = [column for column in given.values() if column not in names]
    if absent:
        raise BadInputError(f"{path}: columns: {absent[0]!r} is no column of the file; found {listed(names)}")


def _layout(
    path: Path, names: Sequence[str], raters: Raters, given: dict[str, str], criteria: Sequence[str] | None
) -> _Layout:
    _refuse_absent(path, given, names)
    free = [name for name in names if name not in given.values()]
    wanted = None if criteria is None else [criterion for criterion in criteria if criterion not in given]
    if wanted == []:
        return _Layout("columns as given", given)
    prefixed = {name: match for name in free if (match := _PREFIXED.fullmatch(name))}
    kind, meaning = _meaning(path, names, free, wanted, bool(prefixed))
    found = _matched(path, meaning, wanted)
    if found or not prefixed:
        return _one_kind(path, raters, _Layout(kind, {**given, **found}))
    return _of_raters(path, prefixed, raters, given, wanted)


def _meaning(
    path: Path, names: Sequence[str], free: Sequence[str], wanted: Sequence[str] | None, prefixed: bool
) -> tuple[str, list[tuple[str, str]]]:
    """The format's name, and the columns with what each is named after."""
    if set(_SUMPUBMED) <= set(names):
        return "SumPubMed", [(name, _SUMPUBMED[name]) for name in free if name in _SUMPUBMED]
    if set(_HELPSTEER2) <= set(names):
        return "HelpSteer2", _with_repeats(name for name in free if wanted is not None or name in _HELPSTEER2)
    if wanted is None:
        return "one column per criterion", [] if prefixed else _with_repeats(_rating_columns(path, free))
    return "one column per criterion", _with_repeats(free)


def _with_repeats(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, name) for name in names]


def _matched(path: Path, meaning: Sequence[tuple[str, str]], wanted: Sequence[str] | None) -> dict[str, str]:
    """Criterion -> column, in the order of the rubric."""
    criteria = list({same_name(name): name for _, name in meaning}.values()) if wanted is None else wanted
    key = key_of(criteria)
    by_name: dict[str, list[str]] = {}
    for column, name in meaning:
        by_name.setdefault(key(name), []).append(column)
    found = {criterion: by_name.get(key(criterion), []) for criterion in criteria}
    for criterion, columns in found.items():
        if len(columns) > 1:
            raise BadInputError(
                f"{path}: the columns {listed(columns)} all match the criterion {criterion!r}; expected one, "
                "or a choice among them in columns"
            )
    return {criterion: columns[0] for criterion, columns in found.items() if columns}


def _one_kind(path: Path, raters: Raters, layout: _Layout) -> _Layout:
    """A file that doesn't tell raters apart has only `all` of them."""
    if raters != "all" and layout.columns:
        raise BadInputError(
            f"{path}: raters: found {layout.format}, which doesn't tell experts and crowd apart; expected all"
        )
    return layout


def _of_raters(
    path: Path,
    prefixed: Mapping[str, re.Match[str]],
    raters: Raters,
    given: dict[str, str],
    wanted: Sequence[str] | None,
) -> _Layout:
    """A table with columns of its own for experts and crowd, each the mean or the mode of several."""
    kinds = {name: "expert" if match[1].lower() == "expert" else "crowd" for name, match in prefixed.items()}
    there = sorted(set(kinds.values()))
    if raters == "all" and len(there) > 1:
        raise BadInputError(
            f"{path}: raters: the columns are summaries of experts and of crowd, from which no mean over all raters "
            "follows; expected expert or crowd"
        )
    if raters not in ("all", *there):
        raise BadInputError(f"{path}: raters: the columns are those of {listed(there)} only, found {raters!r}")
    chosen = {name: match for name, match in prefixed.items() if raters in ("all", kinds[name])}
    found = _matched(path, [(name, match[3]) for name, match in chosen.items()], wanted)
    summaries = sorted({(chosen[name][2] or "").lower() for name in found.values()} - {"", "mean"})
    notes = tuple(f"the file holds the {summary} of the raters, not their mean" for summary in summaries)
    return _Layout("columns by raters", {**given, **found}, notes)


def _rating_columns(path: Path, names: Sequence[str]) -> list[str]:
    """Columns at least half of whose cells that aren't empty are numbers; others are ids and texts."""
    found = [name for name in names if name and name.isprintable() and _holds_numbers(path, names, name)]
    if not found:
        if names:
            read_columns(path, list(dict.fromkeys(names)))  # a file that can't be read says why
        raise BadInputError(f"{path}: expected a column of ratings; none of {listed(names)} holds numbers")
    return found


def _holds_numbers(path: Path, names: Sequence[str], name: str) -> bool:
    if names.count(name) > 1:
        return True  # to be refused as one of two columns for a criterion
    try:
        texts = read_columns(path, [name]).columns[name].to_pylist()
    except BadInputError:
        return False
    cells = [text.strip() for text in texts if text.strip()]
    return 2 * sum(map(_is_number, cells)) >= max(1, len(cells))


def _is_number(text: str) -> bool:
    try:
        return parse_number(text) is not None
    except ValueError:
        return False


def _refuse_none(path: Path, layout: _Layout, names: Sequence[str], criteria: Sequence[str] | None) -> None:
    if not layout.columns:
        raise BadInputError(
            f"{path}: no column matches a criterion; the rubric's criteria are {listed(criteria or ())}, "
            f"the file's columns {listed(names)}; columns can say which belongs to which"
        )


# ---------------------------------------------------------------- numbers, one row per item


def _numbers(table: RawTable, layout: _Layout, criteria: Sequence[str] | None) -> pd.DataFrame:
    faults = Faults(table)
    parsed = {criterion: parse_column(table, name, parse_number, faults) for criterion, name in layout.columns.items()}
    faults.stop_if_any()
    values = {criterion: np.array(column.values, dtype=float)[column.codes] for criterion, column in parsed.items()}
    return pd.DataFrame({criterion: values[criterion] for criterion in _in_order(values, criteria)})


def _in_order(found: Iterable[str], criteria: Sequence[str] | None) -> list[str]:
    known = list(found)
    return known if criteria is None else [criterion for criterion in criteria if criterion in known]


def _about_columns(layout: _Layout, names: Sequence[str], criteria: Sequence[str] | None) -> list[str]:
    notes = []
    without = [criterion for criterion in criteria or () if criterion not in layout.columns]
    if without:
        notes.append(f"no ratings for the criteria {listed(without)}")
    aside = [name for name in names if name not in layout.columns.values()]
    if aside:
        notes.append(f"columns left aside: {listed(aside)}")
    return notes


def _about_gaps(frame: pd.DataFrame) -> list[str]:
    missing = int(frame.isna().to_numpy().sum())
    return [f"{missing:,} of {frame.size:,} ratings are missing (empty cells)"] if missing else []


# ---------------------------------------------------------------- SummEval: every rater's annotation by itself


@dataclass(frozen=True)
class _Item:
    """The annotations of one line by kind of rater."""

    line: int
    annotations: dict[str, list[dict[str, Any]]]


def _read_annotations(path: Path, raters: Raters, given: dict[str, str], criteria: Sequence[str] | None) -> Ratings:
    items = [_Item(line, _annotations(path, line, record)) for line, record in json_lines(path)]
    kinds = _chosen_kinds(path, items, raters)
    everyone = [one for item in items for kind in kinds for one in item.annotations[kind]]
    keys = list(dict.fromkeys(key for one in everyone for key in one))
    layout = _annotation_layout(path, keys, given, criteria)
    _refuse_none(path, layout, keys, criteria)
    order = _in_order(layout.columns, criteria)
    rows, lost = [], 0
    for item in items:
        by_kind = [(kind, one) for kind in kinds for one in item.annotations[kind]]
        cells = [[_rating(path, item.line, kind, one, layout.columns[c]) for kind, one in by_kind] for c in order]
        lost += sum(cell is None for column in cells for cell in column)
        rows.append([_mean([cell for cell in column if cell is not None]) for column in cells])
    frame = pd.DataFrame(np.array(rows, dtype=float).reshape(-1, len(order)), columns=order)
    notes = [*_about_raters(items, kinds, raters), *_about_columns(layout, keys, criteria), *_about_gaps(frame)]
    if lost:
        notes.append(f"{lost:,} of {len(everyone) * len(order):,} single ratings are missing; means are over the rest")
    return Ratings(frame, raters, layout.format, tuple(notes))


def _annotations(path: Path, line: int, record: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for kind, name in _GROUPS.items():
        value = record.get(name) or []
        if not (isinstance(value, list) and all(isinstance(one, dict) for one in value)):
            raise BadInputError(f"{path}:{line}: {name}: expected a list of objects, found {json.dumps(value):.60}")
        found[kind] = value
    return found


def _chosen_kinds(path: Path, items: Sequence[_Item], raters: Raters) -> list[str]:
    there = [kind for kind in _GROUPS if any(item.annotations[kind] for item in items)]
    if not there:
        raise BadInputError(f"{path}: expected annotations under {listed(_GROUPS.values())}; all of them are empty")
    if raters not in ("all", *there):
        raise BadInputError(f"{path}: raters: the file has annotations by {listed(there)} only, found {raters!r}")
    return there if raters == "all" else [raters]


def _annotation_layout(
    path: Path, keys: Sequence[str], given: dict[str, str], criteria: Sequence[str] | None
) -> _Layout:
    _refuse_absent(path, given, keys)
    free = [key for key in keys if key not in given.values()]
    if criteria is None:
        free = [key for key in free if key in _SUMMEVAL]
    wanted = None if criteria is None else [criterion for criterion in criteria if criterion not in given]
    return _Layout("SummEval", {**given, **_matched(path, _with_repeats(free), wanted)})


def _rating(path: Path, line: int, kind: str, annotation: dict[str, Any], key: str) -> float | None:
    value = annotation.get(key)
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        with suppress(OverflowError):  # an integer of hundreds of digits
            if math.isfinite(value):
                return float(value)
    raise BadInputError(
        f"{path}:{line}: {_GROUPS[kind]}: {key!r}: expected a finite number or null, found {json.dumps(value):.60}"
    )


def _mean(ratings: Sequence[float]) -> float:
    return math.fsum(rating / len(ratings) for rating in ratings) if ratings else math.nan


def _about_raters(items: Sequence[_Item], kinds: Sequence[str], raters: Raters) -> list[str]:
    if raters != "all":
        return []
    counts = {kind: sum(len(item.annotations[kind]) for item in items) for kind in kinds}
    shown = " and ".join(f"{count:,} by {kind}" for kind, count in counts.items())
    return [f"all is the mean over every single rating of an item, whoever gave it; annotations: {shown}"]
