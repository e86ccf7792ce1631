"""Files of tables: every format reads back what was written, and nothing but BadInputError ever comes out."""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.errors import BadInputError
from radar_dagster.inputs.raw import RawTable, read_table

COLUMNS = ("task", "criterion", "score")


def write(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def texts(path: Path, *columns: str) -> list[tuple[str, ...]]:
    table = read_table(path, columns)
    return list(zip(*(table.columns[name].to_pylist() for name in columns), strict=True))


def table_or_message(path: Path) -> RawTable | str:
    try:
        return read_table(path, COLUMNS)
    except BadInputError as error:
        return str(error)


# Lone surrogates can't be encoded. NUL can't be written by the csv module of every Python, and a bare carriage return
# it leaves unquoted, where readers take it for a line break.
cells = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=8)
rows = st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    rows=rows,
    delimiter=st.sampled_from([",", ";", "\t"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    newline=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_a_csv_reads_back_as_written_whatever_the_quoting_delimiter_and_encoding(
    rows: list[tuple[str, str, str]], delimiter: str, quoting: int, newline: str, encoding: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        with path.open("w", encoding=encoding, newline="") as file:
            writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=newline)
            writer.writerow(COLUMNS)
            writer.writerows(rows)
        assert texts(path, *COLUMNS) == rows


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), cells), min_size=1))
def test_the_reported_line_is_where_the_record_starts_in_the_file(rows: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writerow(["id", "note"])
            starts = []
            for number, (name, note) in enumerate(rows):
                file.flush()
                # An independent count: line breaks of any of the three kinds before this record.
                before = path.read_bytes().decode().replace("\r\n", "\n").replace("\r", "\n")
                starts.append(before.count("\n") + 1)
                writer.writerow([f"{number}{name}", note])
        table = read_table(path, ["id"])
        assert list(table.lines or ()) == starts


@settings(max_examples=300, deadline=None)
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.binary(max_size=60).map(lambda tail: b"task,criterion,score\n" + tail),
        st.binary(max_size=60).map(lambda tail: b'{"task": "a", "criterion": "b", "score": 1}\n' + tail),
        st.binary(max_size=60).map(lambda body: b"PAR1" + body + b"PAR1"),
    ),
    suffix=st.sampled_from([".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".parquet", ".pq"]),
)
def test_any_bytes_give_a_table_or_a_bad_input_error_that_names_the_file(content: bytes, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), content, f"t{suffix}")
        got = table_or_message(path)
        assert str(path) in got if isinstance(got, str) else len(got) > 0


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_damaged_parquet_file_is_a_bad_input_error(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        pq.write_table(pa.table({"task": ["a", "b"], "criterion": ["x", "y"], "score": [1, 2]}), path)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
        got = table_or_message(path)
        assert str(path) in got if isinstance(got, str) else len(got) == 2


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(
        st.tuples(cells.filter(bool), st.one_of(st.none(), st.integers(-9, 9), st.floats(-9, 9), cells)), min_size=1
    )
)
def test_json_lines_keep_text_and_write_numbers_so_that_they_parse_back(rows: list[tuple[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), "\n".join(json.dumps({"task": a, "score": b}) for a, b in rows), "t.jsonl")
        for (task, score), (task_text, score_text) in zip(rows, texts(path, "task", "score"), strict=True):
            assert task_text == task
            assert score_text == ("" if score is None else score if isinstance(score, str) else repr(score))


def test_extra_columns_are_kept_out_of_the_way_even_when_a_cell_holds_megabytes(tmp_path: Path) -> None:
    path = write(tmp_path, "note,task\n" + "x" * 2_000_000 + ",a\n")
    assert texts(path, "task") == [("a",)]


def test_blank_lines_are_no_rows_but_count_as_lines(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "\n\ntask,score\n\na,1\n\n\nb,2\n"), ["task"])
    assert list(table.lines or ()) == [5, 8]


def test_a_row_of_another_width_is_named_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, 'task,score\n"a\nb",1\nc,2,3\n')
    with pytest.raises(BadInputError, match=r"t\.csv:4: expected 2 cells as in the header, found 3"):
        read_table(path, ["task"])


def test_an_unclosed_quote_is_named_with_the_line_on_which_its_record_starts(tmp_path: Path) -> None:
    path = write(tmp_path, 'task,score\na,1\n"b,2\nc,3\n')
    with pytest.raises(BadInputError, match=r"t\.csv:3: not valid CSV"):
        read_table(path, ["task"])


def test_missing_columns_are_all_named_beside_what_was_found(tmp_path: Path) -> None:
    path = write(tmp_path, "task,Score\na,1\n")
    with pytest.raises(BadInputError, match=r"missing columns criterion, score; found 'task', 'Score'"):
        read_table(path, COLUMNS)


def test_a_wanted_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="column 'task' is there 2 times"):
        read_table(write(tmp_path, "task,task\na,b\n"), ["task"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "is empty"),
        ("t.jsonl", b"", "is empty"),
        ("t.parquet", b"", "is empty"),
        ("t.csv", b"\n\n", "is empty"),
        ("t.csv", b"\xef\xbb\xbf", "is empty"),
        ("t.csv", b"task\n", "no rows"),
        ("t.csv", b"task\na\nb\xff\n", r"t\.csv:3: not UTF-8 text \(byte 8\)"),
        ("t.jsonl", b'{"task": "a"}\nnope\n', r"t\.jsonl:2: not valid JSON"),
        ("t.jsonl", b'{"task": "a"}\n[1]\n', r"t\.jsonl:2: expected a JSON object, found '\[1\]'"),
        ("t.jsonl", b'{"task": "a"}\n{"task": true}\n', r"t\.jsonl:2: column 'task': expected text or a number, found"),
        ("t.jsonl", b'{"task": "\\ud800"}\n', r"t\.jsonl:1: column 'task': half a surrogate pair"),
        ("t.jsonl", b"[" * 100_000, r"t\.jsonl:1: not valid JSON"),
        ("t.jsonl", b'{"other": 1}\n', "missing column task"),
        ("t.parquet", b"PAR1 nonsense PAR1", "not a readable Parquet file"),
        ("t.xlsx", b"PK", "must end in one of .csv"),
    ],
)
def test_every_unusable_file_has_its_own_message(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        read_table(write(tmp_path, content, name), ["task"])


def test_a_file_that_is_not_there_and_a_folder_are_bad_input(tmp_path: Path) -> None:
    (tmp_path / "d.csv").mkdir()
    for name in ("none.csv", "d.csv"):
        with pytest.raises(BadInputError, match="cannot be read"):
            read_table(tmp_path / name, ["task"])


def test_parquet_reads_text_numbers_categories_and_nulls_as_text(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"task": pd.Categorical(["a", "b"]), "probe": [1, 2], "score": pd.array([1.5, None], dtype="Float64")}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    assert texts(tmp_path / "t.parquet", "task", "probe", "score") == [("a", "1", "1.5"), ("b", "2", "")]


def test_a_parquet_column_of_another_type_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"task": [[1], [2]]}), tmp_path / "t.parquet")
    with pytest.raises(BadInputError, match="column 'task': expected text or numbers, found the type list"):
        read_table(tmp_path / "t.parquet", ["task"])
