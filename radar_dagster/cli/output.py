"""What the command line prints and writes: JSON, tables, notes, files. One place for the rules of null and escaping.

Rules: an undefined number (None, NaN, an infinity) is null in JSON and an empty cell in CSV, never text. Results go to
stdout; notes, progress and errors to stderr. Text that a model or a file wrote is escaped for where it is shown.

Not here: what is said (a module per command), and the escaping itself (`report/escape.py`).
"""

from __future__ import annotations

import io
import json
import math
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radar_dagster.errors import BadInputError

if TYPE_CHECKING:
    import pandas as pd

Document = dict[str, Any]

#: A cell that holds nothing, in a table for people.
NOTHING = "–"

_PIECE = 16_384


def prepare_streams() -> None:
    """A terminal of another encoding, or half a surrogate pair in a text, must not end in an exception."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def emit(text: str) -> None:
    """Put text on stdout. In pieces: of a single large write Python forgets that the reader went away half-way."""
    for start in range(0, len(text), _PIECE):
        sys.stdout.write(text[start : start + _PIECE])


@contextmanager
def results_only() -> Iterator[None]:
    """While this lasts, whatever others print (a model of the user's own, a library) goes to stderr."""
    with redirect_stdout(sys.stderr):
        yield


# ---------------------------------------------------------------- JSON


def plain(value: Any) -> Any:
    """A value as JSON has it: numpy's numbers as Python's, enums by value, paths as text, undefined numbers as None."""
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return _foreign(value)


def _foreign(value: Any) -> Any:
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "tolist"):  # numpy's scalars and arrays
        return plain(value.tolist())
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)


def rows(frame: pd.DataFrame) -> list[Document]:
    """The rows of a table as JSON-able mappings, in the order of its columns."""
    columns = [frame[name].astype(object).tolist() for name in frame.columns]
    names = [str(name) for name in frame.columns]
    return [dict(zip(names, map(plain, row), strict=True)) for row in zip(*columns, strict=True)]


def as_json(document: Mapping[str, Any]) -> str:
    """One JSON document. ASCII, so that no terminal and no encoding can change what it says."""
    return json.dumps(plain(document), indent=2, allow_nan=False)


def print_json(document: Mapping[str, Any]) -> None:
    """The one thing that `--json` puts on stdout."""
    emit(as_json(document) + "\n")


# ---------------------------------------------------------------- for people


def say(line: str = "") -> None:
    """A line of the result, on stdout."""
    emit(_escaped(line) + "\n")


def on_stderr(message: str) -> None:
    """A note, progress or an error, on stderr."""
    sys.stderr.write(_escaped(message) + "\n")
    sys.stderr.flush()


@contextmanager
def progress() -> Iterator[None]:
    """Show on stderr how far the calls of every stage are: a live line on a terminal, a plain one now and then else."""
    from rich.console import Console

    from radar_dagster.models.progress import terminal_progress

    with terminal_progress(Console(stderr=True)):
        yield


def note(message: str) -> None:
    """Something that the person should know about the result, on stderr."""
    on_stderr(f"note: {message}")


def _escaped(text: str) -> str:
    # The common case without the import, which takes a second.
    if text.isascii() and all(line.isprintable() for line in text.split("\n")):
        return text
    from radar_dagster.report.escape import terminal

    return terminal(text, multiline=True)


def number(value: object, digits: int = 2) -> str:
    """A number for people; a dash where there is none."""
    from radar_dagster.report.words import figure

    clean = plain(value)
    return figure(None if clean is None else float(clean), digits, missing=NOTHING)


def about_usd(usd: object) -> str:
    """A sum of money for people: `about $1.23`, `under one cent`, or that nobody knows."""
    if usd is None:
        return "at an unknown price"
    amount = float(str(usd))
    return "under one cent" if amount < 0.01 else f"about ${amount:,.2f}"


def print_table(columns: Sequence[str], cells: Iterable[Sequence[object]], right: Iterable[int] = ()) -> None:
    """A table on stdout: ruled on a terminal, plain columns elsewhere. `right` lists the columns to align right.

    Cells are text as it is to be shown; None is shown as a dash.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    terminal = console.is_terminal
    table = Table(box=SIMPLE_HEAD if terminal else None, pad_edge=False, show_edge=False, header_style="bold")
    aligned = set(right)
    for index, name in enumerate(columns):
        table.add_column(Text(_one_line(name)), justify="right" if index in aligned else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(NOTHING if cell is None else _one_line(str(cell))) for cell in row))
    if terminal:
        console.print(table)
        return
    # Elsewhere nobody wraps lines: as wide as the table is, and no blanks at the ends of lines.
    wide = Console(width=100_000, no_color=True, highlight=False, force_terminal=False)
    with wide.capture() as captured:
        wide.print(table)
    emit("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def _one_line(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    from radar_dagster.report.escape import one_line

    return one_line(text)


# ---------------------------------------------------------------- files


def check_folder(folder: Path) -> None:
    """Raise BadInputError now, rather than after the work, when nothing could be written there; leaves no trace."""
    made: list[Path] = []
    try:
        for place in (folder, *folder.absolute().parents):
            if place.is_dir():
                break
            if place.exists():
                raise BadInputError(f"--out {folder}: {place} is not a folder")
            made.append(place)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".radar-"):
            pass
    except OSError as error:
        raise BadInputError(f"--out {folder}: cannot be written: {error.strerror or error}") from None
    finally:
        for place in made:
            with suppress(OSError):  # not made after all, or in use by now
                place.rmdir()


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Every table as `<name>.csv` and `<name>.parquet`; known tables have the column types of `tables.SCHEMAS`."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from radar_dagster.tables import SCHEMAS

    for name, frame in tables.items():
        numbers = frame.select_dtypes("float").columns
        finite = frame.assign(**{column: frame[column].where(np.isfinite(frame[column])) for column in numbers})
        table = pa.Table.from_pandas(finite, schema=SCHEMAS.get(name), preserve_index=False)
        buffer = io.BytesIO()
        pq.write_table(table.replace_schema_metadata(None), buffer)
        write_file(folder / f"{name}.parquet", buffer.getvalue())
        write_file(folder / f"{name}.csv", csv_of(finite))


def csv_of(frame: pd.DataFrame) -> bytes:
    """A table as CSV in UTF-8: null is an empty cell, and no cell starts a formula in a spreadsheet."""
    from radar_dagster.report.escape import csv_frame

    text: str = csv_frame(frame).to_csv(index=False, lineterminator="\n")
    return text.encode("utf-8", errors="backslashreplace")


def write_summary(folder: Path, document: Mapping[str, Any]) -> None:
    """The document of `--json` as `summary.json`."""
    write_file(folder / "summary.json", (as_json(document) + "\n").encode("ascii"))


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, making the folders it lies in; BadInputError when that is not possible."""
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except OSError as error:
        with suppress(OSError):  # where nothing could be written there may be nothing to remove either
            unfinished.unlink(missing_ok=True)
        raise BadInputError(f"{path}: cannot be written: {error.strerror or error}") from None
