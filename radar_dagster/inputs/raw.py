"""Files of tables (CSV, JSONL, Parquet) as columns of text, with the line that every row came from.

Here: formats, encodings, delimiters, headers. Not here: what a cell means (`cells.py`).
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import stat
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Any, TextIO, cast

import pyarrow as pa

from radar_dagster.errors import BadInputError

_CHUNK_ROWS = 5_000
_HEAD_BYTES = 100_000
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class RawTable:
    """The wanted columns of a file as text. An empty cell, a null and an absent key are all the empty string."""

    path: Path
    columns: Mapping[str, pa.ChunkedArray]
    #: Per row the line of the file on which it starts; None where there are no lines (Parquet).
    lines: Sequence[int] | None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def place(self, row: int) -> str:
        """`scores.csv:12`, or `scores.parquet: row 11` (rows count from one)."""
        return f"{self.path}: {self.line(row)}" if self.lines is None else f"{self.path}:{self.lines[row]}"

    def line(self, row: int) -> str:
        """`line 12`, or `row 11`."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"


def read_table(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> RawTable:
    """Read the named columns of a CSV/TSV, JSONL or Parquet file; all others are kept out of the way.

    CSV is UTF-8 (with or without a byte order mark) or UTF-16 with one, separated by commas, semicolons or tabs.
    Raises BadInputError when the file can't be read, is empty, is not of the format that its name says, lacks a
    required column, or has a row whose width differs from the header's.
    """
    with readable(path):
        return _with_rows(_reader(path)(path, required, optional))


class Format(Enum):
    """What a file is by its content."""

    DELIMITED = "CSV"
    JSON_LINES = "JSON Lines"
    JSON = "JSON"
    PARQUET = "Parquet"


def file_format(path: Path, under: str | None = None) -> Format:
    """Recognise a file by how it begins; what is nothing else is CSV. A gzipped file is judged by what is in it.

    An object of one line is a document, and no row, if it has the key `under`.
    """
    with open_bytes(path) as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(b"PAR1"):
        return Format.PARQUET
    text = head.decode(_encoding(path), errors="replace").lstrip()
    if not text.startswith(("{", "[")):
        return Format.DELIMITED
    # Objects of one line each are rows; a bracket with nothing beside it opens a document over many lines.
    if text.startswith("[") or text.split("\n", 1)[0].strip() == "{":
        return Format.JSON
    return Format.JSON if under is not None and under in next(json_lines(path))[1] else Format.JSON_LINES


def column_names(path: Path, under: str | None = None) -> list[str]:
    """The columns of a file whose format its content tells: as they stand there, repeated ones included.

    JSON is a list of objects, or an object that holds such a list as `under`. Errors as in `read_table`, if `readable`
    is put around it.
    """
    kind = file_format(path, under)
    if kind is Format.PARQUET:
        import pyarrow.parquet as pq

        with _parquet_faults(path), pq.ParquetFile(path) as parquet:
            return list(parquet.schema_arrow.names)
    if kind is Format.DELIMITED:
        with _open_delimited(path) as file:
            return _header(path, csv.reader(file, delimiter=_widest_delimiter(file), strict=True))
    rows = json_lines(path) if kind is Format.JSON_LINES else _document_rows(path, under)
    return list(dict.fromkeys(name for _, row in rows for name in row))


def read_columns(path: Path, names: Sequence[str], under: str | None = None) -> RawTable:
    """Read some of the columns that `column_names` found. Errors as in `read_table`, if `readable` is put around it."""
    kind = file_format(path, under)
    if kind is Format.PARQUET:
        return _with_rows(_read_parquet(path, names, ()))
    if kind is Format.DELIMITED:
        with _open_delimited(path) as file:
            return _with_rows(_delimited_rows(path, file, _widest_delimiter(file), names, ()))
    if kind is Format.JSON_LINES:
        return _with_rows(_read_json_lines(path, names, ()))
    columns = _TextColumns(names)
    for number, row in _document_rows(path, under):
        columns.add([_json_text(f"{path}: row {number}", name, row.get(name)) for name in names], number)
    return _with_rows(RawTable(path, columns.table(path, names).columns, None))


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON Lines file, gzipped or not, with their lines; BadInputError at a line that is no object."""
    with open_bytes(path) as file:
        for number, line in enumerate(io.TextIOWrapper(file, encoding=_encoding(path), newline="\n"), start=1):
            if not line.isspace():
                yield number, _json_object(path, number, line)


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """A file for reading, decompressed if it is gzipped."""
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP_MAGIC
    with cast(IO[bytes], gzip.open(path, "rb")) if zipped else path.open("rb") as file:
        yield file


def _with_rows(table: RawTable) -> RawTable:
    if not len(table):
        raise BadInputError(f"{table.path}: holds no rows, only a header; expected at least one row")
    return table


def _reader(path: Path) -> Callable[[Path, Sequence[str], Sequence[str]], RawTable]:
    suffix = path.suffix.lower()
    if suffix not in _READERS:
        raise BadInputError(f"{path}: the name must end in one of {', '.join(_READERS)}: it tells the format")
    return _READERS[suffix]


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what may go wrong while a file is read into BadInputError."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode):  # reading one may wait for ever
            raise BadInputError(f"{path}: is no file")
        if stat.S_ISREG(mode) and path.stat().st_size == 0:
            raise BadInputError(f"{path}: is empty")
        yield
    except UnicodeDecodeError:
        raise BadInputError(_undecodable(path)) from None
    except MemoryError:
        raise BadInputError(f"{path}: does not fit into memory, or is damaged") from None
    except (EOFError, zlib.error) as error:
        raise BadInputError(f"{path}: a damaged gzip file: {error}") from None
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _undecodable(path: Path) -> str:
    """Find the place again, which a reader in chunks doesn't know."""
    with open_bytes(path) as file:
        data = file.read()
    encoding = _encoding(path)
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, errors="replace").count("\n") + 1
        return f"{path}:{line}: not {error.encoding.upper()} text (byte {error.start}); save the file as UTF-8"
    return f"{path}: not UTF-8 text"


def _encoding(path: Path) -> str:
    with open_bytes(path) as file:
        mark = file.read(2)
    return "utf-16" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def _select(path: Path, found: Sequence[str], required: Sequence[str], optional: Sequence[str]) -> dict[str, int]:
    """Wanted column -> its position; BadInputError when a required one is missing or a wanted one is there twice."""
    missing = [name for name in required if name not in found]
    if missing:
        shown = ", ".join(f"{name!r:.60}" for name in found[:20]) + (", …" if len(found) > 20 else "")
        raise BadInputError(
            f"{path}: missing column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; found {shown or 'none'}"
        )
    wanted = [*required, *(name for name in optional if name in found)]
    twice = [name for name in wanted if found.count(name) > 1]
    if twice:
        raise BadInputError(f"{path}: column {twice[0]!r} is there {found.count(twice[0])} times; expected once")
    return {name: found.index(name) for name in wanted}


class _TextColumns:
    """Collects rows of text and keeps them as Arrow chunks, a fraction of the size of Python's lists."""

    def __init__(self, names: Sequence[str]) -> None:
        self._chunks: dict[str, list[pa.Array]] = {name: [] for name in names}
        self._rows: list[Sequence[str]] = []
        self._lines = array("q")

    def add(self, row: Sequence[str], line: int) -> None:
        self._rows.append(row)
        self._lines.append(line)
        if len(self._rows) == _CHUNK_ROWS:
            self._flush()

    def _flush(self) -> None:
        # Without rows there are no cells to zip, and the chunks stay as they are.
        for chunks, cells in zip(self._chunks.values(), zip(*self._rows, strict=True), strict=False):
            chunks.append(pa.array(cells, pa.large_string()))
        self._rows.clear()

    def table(self, path: Path, names: Iterable[str]) -> RawTable:
        self._flush()
        columns = {name: pa.chunked_array(self._chunks[name], pa.large_string()) for name in names}
        return RawTable(path, columns, self._lines)


def _read_delimited(path: Path, required: Sequence[str], optional: Sequence[str]) -> RawTable:
    with _open_delimited(path) as file:
        delimiter = _sniff_delimiter(file, required)
        return _delimited_rows(path, file, delimiter, required, optional)


@contextmanager
def _open_delimited(path: Path) -> Iterator[TextIO]:
    # Columns that nobody asked for may hold whole responses; the module's own limit is 128 kB a cell.
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with open_bytes(path) as file:
            yield io.TextIOWrapper(file, encoding=_encoding(path), newline="")
    finally:
        csv.field_size_limit(limit)


def _sniff_delimiter(file: TextIO, required: Sequence[str]) -> str:
    """The delimiter under which the header shows the most of the required columns."""
    headers = _headers_by_delimiter(file)
    return max(headers, key=lambda delimiter: len(set(required) & {name.strip() for name in headers[delimiter]}))


def _widest_delimiter(file: TextIO) -> str:
    """The delimiter that splits the header into the most cells."""
    headers = _headers_by_delimiter(file)
    return max(headers, key=lambda delimiter: len(headers[delimiter]))


def _headers_by_delimiter(file: TextIO) -> dict[str, list[str]]:
    head = file.read(_HEAD_BYTES)
    file.seek(0)

    def header(delimiter: str) -> list[str]:
        try:
            return next((row for row in csv.reader(io.StringIO(head, newline=""), delimiter=delimiter) if row), [])
        except csv.Error:
            return []

    return {delimiter: header(delimiter) for delimiter in (",", ";", "\t")}


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    try:
        names = next((row for row in reader if row), [])
    except csv.Error as error:
        raise BadInputError(f"{path}:1: not valid CSV: {error}") from None
    if not names:
        raise BadInputError(f"{path}: is empty")
    return [name.strip() for name in names]


def _delimited_rows(
    path: Path, file: TextIO, delimiter: str, required: Sequence[str], optional: Sequence[str]
) -> RawTable:
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    header = _header(path, reader)
    start = 1
    try:
        chosen = _select(path, header, required, optional)
        positions, width = list(chosen.values()), len(header)
        columns = _TextColumns(list(chosen))
        # A quoted cell may hold line breaks, so a record starts after the last line that the one before it took.
        start = reader.line_num + 1
        for row in reader:
            if row:
                if len(row) != width:
                    raise BadInputError(f"{path}:{start}: expected {width} cells as in the header, found {len(row)}")
                columns.add([row[position] for position in positions], start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise BadInputError(f"{path}:{start}: not valid CSV: {error}") from None
    return columns.table(path, chosen)


def _read_json_lines(path: Path, required: Sequence[str], optional: Sequence[str]) -> RawTable:
    names = (*required, *optional)
    columns = _TextColumns(names)
    found: dict[str, None] = {}
    for number, record in json_lines(path):
        found.update(dict.fromkeys(record))
        columns.add([_json_text(f"{path}:{number}", name, record.get(name)) for name in names], number)
    return columns.table(path, _select(path, list(found), required, optional))


def _json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise BadInputError(f"{path}:{number}: not valid JSON ({reason}); expected one object per line") from None
    if not isinstance(record, dict):
        raise BadInputError(f"{path}:{number}: expected a JSON object, found {line.strip()!r:.60}")
    return record


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key that is given twice, JSON readers keep the last value; it may be the wrong one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for k, (name, _) in enumerate(pairs) if name in dict(pairs[:k]))
        raise ValueError(f"the key {twice!r:.60} is given twice")
    return found


def _document_rows(path: Path, under: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a JSON document, counted from one."""
    with open_bytes(path) as file:
        text = file.read().decode(_encoding(path))
    try:
        content = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise BadInputError(f"{path}{line}: not valid JSON ({reason})") from None
    rows = content.get(under) if isinstance(content, dict) else content
    if not isinstance(rows, list):
        place = f", or an object with such a list under {under!r}" if under else ""
        raise BadInputError(f"{path}: expected a list of objects{place}")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise BadInputError(f"{path}: row {number}: expected a JSON object, found {json.dumps(row):.60}")
        yield number, row


def _json_text(place: str, name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        if value.isascii() or value.isprintable() or not any("\ud800" <= char <= "\udfff" for char in value):
            return value
        raise BadInputError(f"{place}: column {name!r}: half a surrogate pair is not text, found {value!a:.80}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    found = json.dumps(value)
    raise BadInputError(f"{place}: column {name!r}: expected text or a number, found {found:.60}")


def _read_parquet(path: Path, required: Sequence[str], optional: Sequence[str]) -> RawTable:
    import pyarrow.parquet as pq

    with _parquet_faults(path), pq.ParquetFile(path) as file:
        chosen = _select(path, file.schema_arrow.names, required, optional)
        table = file.read(columns=list(chosen))
        return RawTable(path, {name: _parquet_text(path, name, table[name]) for name in chosen}, None)


@contextmanager
def _parquet_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, ValueError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInputError(f"{path}: not a readable Parquet file: {reason:.200}") from None


def _parquet_text(path: Path, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not (number or text or pa.types.is_null(kind)):
        raise BadInputError(f"{path}: column {name!r}: expected text or numbers, found the type {kind}")
    return pc.fill_null(column.cast(pa.large_string()), "")


_READERS: Mapping[str, Callable[[Path, Sequence[str], Sequence[str]], RawTable]] = {
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".txt": _read_delimited,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
}
