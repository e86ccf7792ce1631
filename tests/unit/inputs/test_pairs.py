"""Files with a row per pair: correlations of people, values of an audit, in every form that we write ourselves."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.cli.output import as_json
from radar_dagster.errors import BadInputError
from radar_dagster.inputs.pairs import is_pair_file, read_human_pairs, read_pair_values

Read = Callable[[Path], pd.DataFrame | bool]
HEAD = "criterion_a,criterion_b,pearson_r\n"


def write(folder: Path, content: str | bytes, name: str = "pairs.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_or_message(read: Read, path: Path) -> pd.DataFrame | bool | str:
    try:
        return read(path)
    except BadInputError as error:
        return str(error)


def test_pairs_read_in_the_order_of_the_file_and_an_empty_cell_is_unknown(tmp_path: Path) -> None:
    got = read_human_pairs(write(tmp_path, "note," + HEAD + "x,tone,wit,0.5\ny,pace,tone,\nz,wit,pace,-1\n"))
    assert list(got.columns) == ["criterion_a", "criterion_b", "pearson_r"]
    assert got["criterion_a"].tolist() == ["tone", "pace", "wit"]
    assert got["pearson_r"].tolist() == pytest.approx([0.5, np.nan, -1], nan_ok=True)


def test_pairs_of_a_rubric_come_under_its_ids_in_its_order_whichever_way_round(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "Tone,non redundancy,0.5\npace,TONE,0.2\nother,tone,0.9\n")
    got = read_human_pairs(path, ["non-redundancy", "tone", "pace"])
    assert got.to_numpy().tolist() == [["non-redundancy", "tone", 0.5], ["tone", "pace", 0.2]]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            "a,b,0.5\na,c,1.01\n",
            r"pairs\.csv:3: column 'pearson_r': expected a correlation from -1 to 1.*found '1\.01'",
        ),
        ("a,b,NaN\n", r"pairs\.csv:2: column 'pearson_r': expected a finite number or an empty cell"),
        ("a,b,0.5\na,a,1\n", r"pairs\.csv:3: 'a' with itself; expected two criteria"),
        ("a,b,0.5\n\nb,a,0.5\n", r"pairs\.csv:4: repeats line 2: 'b' and 'a'; expected each pair once"),
        (",b,0.5\n", r"pairs\.csv:2: column 'criterion_a': expected a name"),
        ("a,b\n", r"pairs\.csv:2: expected 3 cells"),
        ("", r"pairs\.csv: holds no rows"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        read_human_pairs(write(tmp_path, HEAD + rows))


def test_two_spellings_of_a_pair_of_the_rubric_are_a_repetition(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "a-b,c,0.5\nC,A B,0.6\n")
    assert len(read_human_pairs(path)) == 2
    with pytest.raises(BadInputError, match=r"pairs\.csv:3: repeats line 2"):
        read_human_pairs(path, ["ab", "c"])


def test_no_pair_of_the_rubric_lists_both_sides(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"expected two of 'tone', 'wit', found 'a', 'b'"):
        read_human_pairs(write(tmp_path, HEAD + "a,b,0.5\n"), ["tone", "wit"])


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    path = write(tmp_path, "criterion_a,criterion_b,r\na,b,1\n")
    with pytest.raises(
        BadInputError, match=r"expected the columns 'criterion_a', 'criterion_b', 'pearson_r'; found .*'r'"
    ):
        read_human_pairs(path)
    with pytest.raises(BadInputError, match=r"'sym'; or both leakage_ab and leakage_ba; found .*'r'"):
        read_pair_values(path)


def test_a_pair_file_is_told_from_ratings_by_its_columns(tmp_path: Path) -> None:
    assert is_pair_file(write(tmp_path, HEAD + "a,b,0.5\n", "a.tsv"))
    assert is_pair_file(write(tmp_path, '{"criterion_a": "a", "criterion_b": "b", "pearson_r": null}\n', "b.csv"))
    assert not is_pair_file(write(tmp_path, "tone,wit\n1,2\n", "c.csv"))


# ---------------------------------------------------------------- values of an audit

PAIRS = pd.DataFrame(
    {
        "criterion_a": ["tone", "tone", "wit"],
        "criterion_b": ["wit", "pace", "pace"],
        "leakage_ab": [0.5, 0.25, np.nan],
        "leakage_ba": [0.25, -0.75, 0.5],
        "sym": [0.375, -0.25, np.nan],
        "reading": ["entangled", "opposed", "unreliable"],
    }
)


def write_table(folder: Path, frame: pd.DataFrame, kind: str) -> Path:
    path = folder / f"criterion_pairs.{kind}"
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    document = {"notes": [], "criterion_pairs": rows, "verdict": {"verdict": "passed"}}
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    else:
        texts = {
            "jsonl": "\n".join(map(json.dumps, rows)),
            "list.json": json.dumps(rows, indent=2),
            "line.json": json.dumps(document) + "\n",
            "document.json": as_json(document) + "\n",
        }
        path.write_text(texts[kind], encoding="utf-8")
    return path


KINDS = ["csv", "tsv", "parquet", "jsonl", "list.json", "line.json", "document.json"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_an_audit_reads_as_it_is_in_every_form(tmp_path: Path, kind: str) -> None:
    got = read_pair_values(write_table(tmp_path, PAIRS, kind))
    assert list(got.columns) == ["criterion_a", "criterion_b", "sym"]
    assert got["criterion_b"].tolist() == PAIRS["criterion_b"].tolist()
    assert got["sym"].tolist() == pytest.approx(PAIRS["sym"].tolist(), nan_ok=True)


@pytest.mark.parametrize("kind", ["csv", "document.json"])
def test_sym_is_the_mean_of_both_leakages_and_unknown_if_one_is(tmp_path: Path, kind: str) -> None:
    got = read_pair_values(write_table(tmp_path, PAIRS.drop(columns="sym"), kind))
    assert got["sym"].tolist() == pytest.approx([0.375, -0.25, np.nan], nan_ok=True)


def test_a_sym_that_is_null_stays_unknown_beside_leakages(tmp_path: Path) -> None:
    got = read_pair_values(write_table(tmp_path, PAIRS.assign(sym=np.nan), "csv"))
    assert got["sym"].isna().all()


def test_leakages_may_exceed_one(tmp_path: Path) -> None:
    assert read_pair_values(write(tmp_path, "criterion_a,criterion_b,sym\na,b,1.5\n"))["sym"].tolist() == [1.5]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            '{\n"criterion_pairs": 3\n}',
            r"expected a list of objects, or an object with such a list under 'criterion_pai",
        ),
        ('{\n"notes": []\n}', r"expected a list of objects, or an object with such a list"),
        ('{"criterion_pairs": [1]}', r"pairs\.csv: row 1: expected a JSON object, found 1"),
        ('{\n"criterion_pairs": [\n}', r"pairs\.csv:3: not valid JSON"),
        (
            '[{"criterion_a": "a", "criterion_b": "b", "sym": "x"}]',
            r"pairs\.csv: row 1: column 'sym': expected a finite",
        ),
        ("[]", r"found none"),
        ("[" * 100_000, r"pairs\.csv.*: not valid JSON"),
    ],
)
def test_a_document_of_another_shape_is_bad_input(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        read_pair_values(write(tmp_path, content))


@settings(max_examples=150)
@given(
    head=st.sampled_from(
        [
            b"",
            HEAD.encode(),
            b"criterion_a,criterion_b,sym\na,b,",
            b'{"criterion_pairs": [',
            b'[{"sym": ',
            b"PAR1",
            b"\x1f\x8b",
        ]
    ),
    tail=st.one_of(st.binary(max_size=30), st.text('01ab.,;\t\n"[]{}:eN- ', max_size=40).map(str.encode)),
)
def test_any_bytes_give_pairs_or_a_bad_input_error_that_names_the_file(head: bytes, tail: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), head + tail)
        for read in (read_pair_values, read_human_pairs, is_pair_file):
            got = read_or_message(read, path)
            assert str(path) in got if isinstance(got, str) else isinstance(got, bool) or len(got) > 0
