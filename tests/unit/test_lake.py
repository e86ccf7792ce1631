"""The lake: schemas are enforced, a write is whole or not at all, and DuckDB reads it back."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radar_dagster.errors import BadInputError
from radar_dagster.lake import Lake
from radar_dagster.tables import COUPLING_SUMMARY, MAY_BE_EMPTY, SCHEMAS, SELF_EFFECTS

CELL = {"benchmark": "b", "pair": "g~v"}


def summary(value: float | None = 0.5, detail: str = "of 3 criteria") -> pd.DataFrame:
    return pd.DataFrame([["global_positive", value, None, None, detail]], columns=COUPLING_SUMMARY.names)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def test_a_partition_is_one_file_in_a_folder_named_by_its_dimensions(lake: Lake, tmp_path: Path) -> None:
    lake.write("coupling_summary", summary(), **CELL)
    files = [path for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    assert files == [tmp_path / "lake" / "coupling_summary" / "benchmark=b" / "pair=g~v" / "data.parquet"]


def test_null_comes_back_as_null_and_numbers_as_they_were(lake: Lake) -> None:
    frame = pd.DataFrame(
        [["a", 0.1 + 0.2, None, None, 1.0, True, None, 5], ["b", None, None, None, None, False, "weak", 0]],
        columns=SELF_EFFECTS.names,
    )
    lake.write("self_effects", frame, **CELL)
    read = lake.read("self_effects", **CELL)
    assert read["self_effect"].iloc[0] == 0.1 + 0.2
    assert read["self_effect"].isna().tolist() == [False, True]
    assert read["reason"].tolist() == [None, "weak"]
    assert read["tasks_used"].tolist() == [5, 0]


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_storable_text_survives(lake: Lake, text: str) -> None:
    lake.write("coupling_summary", summary(detail=text), **CELL)
    assert lake.read("coupling_summary", **CELL)["detail"].tolist() == [text]


@pytest.mark.parametrize(
    ("frame", "fault"),
    [
        (summary().drop(columns="detail"), "expected the columns"),
        (summary().assign(extra=1), "expected the columns"),
        (summary().iloc[:0], "refusing to write an empty table"),
        (summary(value=np.inf), "coupling_summary.value: holds an infinite number"),
        (summary(detail=None), "coupling_summary.detail: null in a column that may hold none"),  # type: ignore[arg-type]
        (summary().assign(value="much"), "does not fit the declared column types"),
        (summary().assign(detail=pd.Series(["lone \ud800"], dtype=object)), "does not fit the declared column types"),
    ],
    ids=["missing column", "extra column", "empty", "infinite", "null", "wrong type", "lone surrogate"],
)
def test_what_does_not_fit_is_refused_and_the_old_data_stay(lake: Lake, frame: pd.DataFrame, fault: str) -> None:
    lake.write("coupling_summary", summary(0.25), **CELL)
    with pytest.raises(ValueError, match=fault):
        lake.write("coupling_summary", frame, **CELL)
    assert lake.read("coupling_summary", **CELL)["value"].tolist() == [0.25]


def test_only_tables_that_may_be_empty_are_written_empty(lake: Lake) -> None:
    for asset, schema in SCHEMAS.items():
        frame = pd.DataFrame(columns=schema.names)
        if asset in MAY_BE_EMPTY:
            lake.write(asset, frame, **CELL)
            assert lake.read(asset, **CELL).empty
        else:
            with pytest.raises(ValueError, match="empty"):
                lake.write(asset, frame, **CELL)


def test_the_same_frame_is_the_same_bytes(lake: Lake) -> None:
    path = Path(lake.write("coupling_summary", summary(), **CELL))
    first = path.read_bytes()
    lake.write("coupling_summary", summary(), **CELL)
    assert path.read_bytes() == first


def test_a_file_that_is_broken_or_of_another_version_is_named(lake: Lake) -> None:
    path = Path(lake.write("coupling_summary", summary(), **CELL))
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(BadInputError, match=f"{path} is not a readable Parquet file"):
        lake.read("coupling_summary", **CELL)
    summary().drop(columns="detail").to_parquet(path)
    with pytest.raises(BadInputError, match="written by another version of radar: make it again"):
        lake.read("coupling_summary", **CELL)


def test_a_partition_that_was_never_made_is_named(lake: Lake) -> None:
    with pytest.raises(
        BadInputError, match="coupling_summary has no data for benchmark b, pair g~v .*run the audit first"
    ):
        lake.read("coupling_summary", **CELL)


def test_the_views_carry_the_partition_and_its_models(lake: Lake) -> None:
    lake.write("coupling_summary", summary(0.25), **CELL)
    lake.write("coupling_summary", summary(0.75), benchmark="01", pair="g~w")
    with duckdb.connect() as connection:
        lake.create_views(connection)
        rows = connection.execute(
            "SELECT benchmark, pair, generator, verifier, value FROM coupling_summary ORDER BY value"
        ).fetchall()
    assert rows == [("b", "g~v", "g", "v", 0.25), ("01", "g~w", "g", "w", 0.75)]


@pytest.mark.parametrize(
    "attack",
    [
        "COPY (SELECT 1) TO '{path}' (FORMAT parquet)",
        "WITH x AS (COPY (SELECT 'passed' AS metric) TO '{path}' (FORMAT parquet)) SELECT 1",
        "SELECT * FROM read_text('{path}')",
        "SELECT * FROM glob('/*')",
        "SET enable_external_access = true",
        "ATTACH '{path}.db'",
    ],
)
def test_a_query_can_neither_write_files_nor_read_others(lake: Lake, attack: str) -> None:
    path = Path(lake.write("coupling_summary", summary(0.25), **CELL))
    before = path.read_bytes()
    with duckdb.connect() as connection:
        lake.create_views(connection)
        with pytest.raises(duckdb.Error):
            connection.execute(attack.format(path=path)).fetchall()
        assert connection.execute("SELECT value FROM coupling_summary").fetchall() == [(0.25,)]
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["data.parquet"]


@pytest.mark.parametrize(
    "folder", ["coupling_summary", "a::b", "model=gpt-5", "c[draft]", "benchmark=x/pair=y~z", "it's * ?", "ünï"]
)
def test_the_folder_of_the_store_may_have_any_name(tmp_path: Path, folder: str) -> None:
    lake = Lake(str(tmp_path / folder / "coupling_summary" / "store"))
    lake.write("coupling_summary", summary(0.25), **CELL)
    assert lake.partitions("coupling_summary") == [CELL]
    with duckdb.connect() as connection:
        assert lake.create_views(connection) == ["coupling_summary"]
        rows = connection.execute("SELECT benchmark, generator, verifier, value FROM coupling_summary").fetchall()
    assert rows == [("b", "g", "v", 0.25)]


def test_a_lake_may_be_any_file_system_that_fsspec_knows() -> None:
    lake = Lake("memory://test-lake/root")
    lake.write("coupling_summary", summary(0.25), **CELL)
    assert lake.read("coupling_summary", **CELL)["value"].tolist() == [0.25]
    assert lake.partitions("coupling_summary") == [CELL]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_query_that_joins_tables_always_ends(tmp_path: Path, kind: str) -> None:
    """In a process of its own: a scan and the interpreter's lock that wait for each other can't be interrupted."""
    url = str(tmp_path / "lake") if kind == "local" else "memory://joined/root"
    script = textwrap.dedent(
        f"""
        import duckdb, pandas as pd
        from radar_dagster.lake import Lake
        from radar_dagster.tables import COUPLING_SUMMARY, SELF_EFFECTS
        lake = Lake({url!r})
        for number in range(6):
            cell = dict(benchmark="b", pair=f"g~v{{number}}")
            rows = [["metric", float(number), None, None, "x"]] * 500
            lake.write("coupling_summary", pd.DataFrame(rows, columns=COUPLING_SUMMARY.names), **cell)
            rows = [["a", 0.5, None, None, 1.0, True, None, 5]] * 500
            lake.write("self_effects", pd.DataFrame(rows, columns=SELF_EFFECTS.names), **cell)
        query = (
            "SELECT count(*) FROM coupling_summary WHERE benchmark = 'b' AND pair IN (SELECT pair FROM self_effects "
            "WHERE benchmark = 'b' GROUP BY pair HAVING min(criterion) = 'a')"
        )
        for _ in range(150):
            with duckdb.connect() as connection:
                lake.create_views(connection)
                assert connection.execute(query).fetchone() == (3000,)
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_the_previous_partition_whole(tmp_path: Path) -> None:
    """Kill a process that writes again and again, at ten moments: a reader always finds one of the written tables."""
    script = textwrap.dedent(
        f"""
        import pandas as pd
        from radar_dagster.lake import Lake
        from radar_dagster.tables import COUPLING_SUMMARY
        lake = Lake({str(tmp_path / "lake")!r})
        row = 0
        while True:
            row += 1
            rows = [["metric", float(row), None, None, "x" * 100_000]] * 20
            frame = pd.DataFrame(rows, columns=COUPLING_SUMMARY.names)
            lake.write("coupling_summary", frame, benchmark="b", pair="g~v")
        """
    )
    lake = Lake(str(tmp_path / "lake"))
    lake.write("coupling_summary", summary(0.0), **CELL)
    for moment in range(10):
        process = subprocess.Popen([sys.executable, "-c", script])
        deadline = time.monotonic() + 30
        while lake.read("coupling_summary", **CELL)["value"].iloc[0] < 2 + moment and time.monotonic() < deadline:
            time.sleep(0.003)
        process.kill()
        process.wait()
        values = lake.read("coupling_summary", **CELL)["value"]
        assert values.nunique() == 1
        assert values.iloc[0] > 0
