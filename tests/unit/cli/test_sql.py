"""`radar sql`: rows in three forms, nothing changed, nothing spelled NaN."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from radar_dagster.cli import sql
from radar_dagster.errors import BadInputError
from radar_dagster.lake import Lake
from radar_dagster.tables import AUDIT_REPORT


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose lake holds one table with two partitions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RADAR_WORKSPACE", raising=False)
    lake = Lake(str(tmp_path / ".radar" / "lake"))
    for pair, path in (("a~b", "=1+1"), ("a~c", "page \x1b[31m")):
        frame = pd.DataFrame([[path, 10, "x"]], columns=AUDIT_REPORT.names)
        lake.write("audit_report", frame, benchmark="mine", pair=pair)
    return tmp_path


def test_json_csv_and_people_get_the_same_rows(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT pair, path, bytes FROM audit_report ORDER BY pair"
    assert sql.run(query, as_json=True, as_csv=False) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["columns"] == ["pair", "path", "bytes"]
    assert document["rows"] == [
        {"pair": "a~b", "path": "=1+1", "bytes": 10},
        {"pair": "a~c", "path": "page \x1b[31m", "bytes": 10},
    ]
    sql.run(query, as_json=False, as_csv=True)
    assert capsys.readouterr().out == "pair,path,bytes\na~b,'=1+1,10\na~c,page \\x1b[31m,10\n"
    sql.run(query, as_json=False, as_csv=False)
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].split() == ["a~b", "=1+1", "10"]
    assert "\x1b" not in captured.out
    assert captured.err == "2 rows\n"


def test_undefined_numbers_are_null_or_an_empty_cell(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT CAST('nan' AS DOUBLE) a, CAST('inf' AS DOUBLE) b, NULL c, [1, NULL] d, DATE '2026-01-02' e"
    sql.run(query, as_json=True, as_csv=False)
    assert json.loads(capsys.readouterr().out)["rows"] == [
        {"a": None, "b": None, "c": None, "d": [1, None], "e": "2026-01-02"}
    ]
    sql.run("SELECT CAST('nan' AS DOUBLE) AS a, NULL AS b, 1 AS c", as_json=False, as_csv=True)
    assert capsys.readouterr().out == "a,b,c\n,,1\n"


def test_columns_of_one_name_are_told_apart(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql.run("SELECT 1 AS x, 2 AS x, 3 AS x", as_json=True, as_csv=False)
    assert json.loads(capsys.readouterr().out)["rows"] == [{"x": 1, "x_2": 2, "x_3": 3}]


def test_without_a_query_the_views_are_listed_with_their_columns(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql.run(None, as_json=True, as_csv=False)
    [row] = json.loads(capsys.readouterr().out)["rows"]
    assert (row["view"], row["rows"]) == ("audit_report", 2)
    assert row["columns"].split(", ")[:4] == ["path", "bytes", "sha256", "benchmark"]


@pytest.mark.parametrize("query", ["SHOW TABLES", "DESCRIBE audit_report", "FROM audit_report", "TABLE audit_report"])
def test_every_way_to_look_is_allowed(here: Path, query: str) -> None:
    assert sql.run(query, as_json=True, as_csv=False) == 0


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1) TO 'new.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'new.csv'",
        "CREATE TABLE t AS SELECT 1",
        "SELECT 1; COPY (SELECT 1) TO 'new.csv'",
        "ATTACH 'new.db'",
        "EXPORT DATABASE 'new'",
        "INSTALL httpfs",
        "SET threads = 1",
        "SELECT * FROM nowhere",
        "",
        "-- nothing",
        "no sql",
    ],
)
def test_what_is_no_select_or_does_not_run_is_refused_and_leaves_no_file(here: Path, query: str) -> None:
    with pytest.raises(BadInputError):
        sql.run(query, as_json=True, as_csv=False)
    assert [path.name for path in here.iterdir()] == [".radar"]


def test_two_forms_at_once_are_refused(here: Path) -> None:
    with pytest.raises(BadInputError, match="exclude each other"):
        sql.run("SELECT 1", as_json=True, as_csv=True)
