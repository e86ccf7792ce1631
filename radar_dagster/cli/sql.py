"""`radar sql`: DuckDB over the lake, one view per table; reads only.

Not here: the views (`lake.py`).
"""

from __future__ import annotations

import csv
import io
from typing import Any

import duckdb

from radar_dagster.cli import output
from radar_dagster.cli.errors import PASSED
from radar_dagster.config import current_workspace
from radar_dagster.errors import BadInputError
from radar_dagster.lake import Lake


def run(query: str | None, *, as_json: bool, as_csv: bool) -> int:
    """Print the rows of a query, or without one the views that there are."""
    if as_json and as_csv:
        raise BadInputError("--json and --csv exclude each other")
    store = current_workspace().store_url
    with duckdb.connect() as connection:
        views = Lake(store).create_views(connection)
        if not views:
            raise BadInputError(f"{store} holds no tables yet: run `radar audit` first")
        columns, rows = _views(connection, views) if query is None else _selected(connection, query)
    if as_json:
        output.print_json({"columns": columns, "rows": [dict(zip(columns, row, strict=True)) for row in rows]})
    elif as_csv:
        output.emit(_csv(columns, rows))
    else:
        output.print_table(columns, [[_shown(value) for value in row] for row in rows])
        output.on_stderr(f"{len(rows):,} rows" if len(rows) != 1 else "1 row")
    return PASSED


def _views(connection: duckdb.DuckDBPyConnection, views: list[str]) -> tuple[list[str], list[tuple[Any, ...]]]:
    rows = []
    for view in views:
        counted = connection.execute(f'SELECT count(*) FROM "{view}"').fetchone()
        described = connection.execute(f'DESCRIBE "{view}"').fetchall()
        rows.append((view, counted[0] if counted else 0, ", ".join(row[0] for row in described)))
    return ["view", "rows", "columns"], rows


def _selected(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    try:
        statements = connection.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise BadInputError("radar sql reads the lake and changes nothing: expected one SELECT (or SHOW, DESCRIBE)")
        found = connection.execute(statements[0])
        return _distinct([name for name, *_ in found.description or []]), found.fetchall()
    except duckdb.Error as error:
        raise BadInputError(str(error)) from None


def _distinct(names: list[str]) -> list[str]:
    """Columns of one name get a number, since rows are mappings in JSON."""
    out: list[str] = []
    for name in names:
        count = 2
        candidate = name
        while candidate in out:
            candidate, count = f"{name}_{count}", count + 1
        out.append(candidate)
    return out


def _shown(value: Any) -> str | None:
    clean = output.plain(value)
    return f"{clean:.6g}" if isinstance(clean, float) else None if clean is None else str(clean)


def _csv(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    from radar_dagster.report.escape import csv_text

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([csv_text(name) for name in columns])
    for row in rows:
        values = [output.plain(value) for value in row]
        writer.writerow([csv_text(value) if isinstance(value, str) else value for value in values])
    return buffer.getvalue()
