"""What the command line prints and writes: null, escaping, plain tables, whole files."""

from __future__ import annotations

import csv
import enum
import io
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radar_dagster.cli import output
from radar_dagster.errors import BadInputError
from radar_dagster.tables import SCHEMAS

HOSTILE = "=cmd()|'/C calc'!A0\x1b[31m\ud800\u202e<script>"

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def expected(value: object) -> object:
    """The rules again, written down independently: only undefined numbers change."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [expected(item) for item in value]
    if isinstance(value, dict):
        return {key: expected(item) for key, item in value.items()}
    return value


@given(values)
def test_any_document_is_valid_strict_json_in_ascii_with_undefined_numbers_as_null(value: object) -> None:
    text = output.as_json({"value": value})
    assert text.isascii()

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads(text, parse_constant=refuse) == {"value": expected(value)}


def test_numpy_pandas_enums_and_paths_become_plain_values() -> None:
    class Colour(enum.Enum):
        RED = "red"

    document = [np.float64("nan"), np.int64(3), np.bool_(True), pd.NA, pd.NaT, np.inf, Colour.RED, Path("a/b"), (1, 2)]
    assert output.plain(document) == [None, 3, True, None, None, None, "red", "a/b", [1, 2]]


def test_rows_keep_the_order_of_columns_and_null_every_kind_of_missing_value() -> None:
    frame = pd.DataFrame(
        {
            "b": [1.5, np.nan],
            "a": pd.array([1, None], dtype="Int64"),
            "text": pd.Series(["x", None], dtype=object),
            "flag": [True, False],
        }
    )
    assert output.rows(frame) == [
        {"b": 1.5, "a": 1, "text": "x", "flag": True},
        {"b": None, "a": None, "text": None, "flag": False},
    ]
    assert [list(row) for row in output.rows(frame)] == [["b", "a", "text", "flag"]] * 2


def test_a_table_that_is_not_on_a_terminal_is_plain_aligned_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["name", "value"], [["a" * 300, "1"], [None, "12"]], right=(1,))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "name" + " " * 296 + "  value"
    assert lines[1] == "a" * 300 + "      1"
    assert lines[2].startswith(output.NOTHING)
    assert not any(line.endswith(" ") or "\x1b" in line or "│" in line for line in lines)


def test_markup_and_escape_sequences_in_cells_are_shown_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["x"], [["[red]bold[/red] :smile: \x1b[31m \n two"]])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[red]bold[/red] :smile:" in shown
    assert len(shown.splitlines()) == 2


def test_lines_for_people_lose_escape_sequences_but_keep_their_text(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("a\x1b]0;title\x07b é")
    output.note("c\x1bd")
    captured = capsys.readouterr()
    assert captured.out == "a\\x1b]0;title\\x07b é\n"
    assert captured.err == "note: c\\x1bd\n"


def test_csv_has_empty_cells_for_null_and_guards_formulas_and_parquet_keeps_declared_types(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "criterion": ["=1+1", "b"],
            "self_effect": [0.1 + 0.2, np.nan],
            "ci_low": [-0.5, np.nan],
            "ci_high": [np.inf, np.nan],
            "gate_pass_rate": [1.0, np.nan],
            "reliable": [True, False],
            "reason": pd.Series([None, "weak"], dtype=object),
            "tasks_used": [5, 0],
        }
    )
    output.write_tables(tmp_path / "new" / "folder", {"self_effects": frame})
    text = (tmp_path / "new" / "folder" / "self_effects.csv").read_text()
    assert list(csv.reader(io.StringIO(text)))[1:] == [
        ["'=1+1", "0.30000000000000004", "-0.5", "", "1.0", "True", "", "5"],
        ["b", "", "", "", "", "False", "weak", "0"],
    ]
    table = pq.read_table(tmp_path / "new" / "folder" / "self_effects.parquet")
    assert table.schema.equals(SCHEMAS["self_effects"])
    assert table["criterion"].to_pylist() == ["=1+1", "b"]
    assert table["ci_high"].to_pylist() == [None, None]


def test_a_table_with_half_a_surrogate_pair_in_a_cell_can_be_written_as_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": pd.Series([HOSTILE], dtype=object)})
    output.write_file(tmp_path / "x.csv", b"old")
    text = output.csv_of(frame)
    assert text.isascii()
    assert b"\x1b" not in text
    assert text.startswith(b"text\n'=cmd()")


def test_a_file_below_a_file_cannot_be_written_and_the_one_above_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(BadInputError, match=r"below\.html: cannot be written: "):
        output.write_file(tmp_path / "file" / "below.html", b"new")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_a_file_in_place_of_a_folder_cannot_be_written_and_leaves_no_rubble(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    with pytest.raises(BadInputError, match=r"x\.json: cannot be written: Is a directory"):
        output.write_file(tmp_path / "x.json", b"new")
    assert [path.name for path in tmp_path.rglob("*")] == ["x.json"]


def test_an_out_folder_below_a_file_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    output.check_folder(tmp_path / "new" / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["file"], "the trial leaves nothing"
    for place in (tmp_path / "new" / ("x" * 300), Path("/proc/new/folder")):
        with pytest.raises(BadInputError, match=r"--out .*: cannot be written: "):
            output.check_folder(place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    (tmp_path / "there").mkdir()
    output.check_folder(tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []
    with pytest.raises(BadInputError, match="file is not a folder"):
        output.check_folder(tmp_path / "file" / "below")
