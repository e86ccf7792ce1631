"""The lake: one Parquet file per table and partition, written whole or not at all, and DuckDB's views over it.

Here: where a partition lies, how it is written and read. Not here: what the tables mean (`tables.py`), and Dagster
(`resources/lake.py`), which `radar sql` and `radar trace` can do without.

Partitions are written by parallel runs, which one DuckDB file would not stand: a single process may write to it, and
nobody may read meanwhile. Hence files.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping, Sequence
from functools import reduce
from io import BytesIO
from operator import and_
from pathlib import Path
from urllib.parse import quote, unquote

import duckdb
import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from radar_dagster.errors import BadInputError
from radar_dagster.tables import MAY_BE_EMPTY, SCHEMAS

TABLE_FILE = "data.parquet"


class Lake:
    """Tables by asset name and partition under one root, a local folder or any URL that fsspec knows."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        # A path is a path, whatever fsspec would read into it.
        plain = "://" not in self.url
        self._root: str
        self._fs, self._root = (LocalFileSystem(), self.url) if plain else fsspec.core.url_to_fs(self.url)
        self._local = "file" in (self._fs.protocol if isinstance(self._fs.protocol, tuple) else (self._fs.protocol,))

    def path(self, asset: str, dims: Mapping[str, str], name: str = TABLE_FILE) -> str:
        """`<root>/<asset>/<dim>=<value>/…/<name>`, the values URL-encoded as Hive partitioning has it."""
        folders = [f"{dim}={quote(value, safe='~')}" for dim, value in dims.items()]
        return "/".join([self._root, asset, *folders, name])

    def absolute(self, path: str) -> str:
        """The full path of one that is given below the root."""
        return f"{self._root}/{path}"

    def exists(self, asset: str, **dims: str) -> bool:
        """Whether this partition of the table was ever written."""
        return bool(self._fs.exists(self.path(asset, dims)))

    def read(self, asset: str, **dims: str) -> pd.DataFrame:
        """One partition as a frame; BadInputError when it was never made, naming what makes it."""
        try:
            with self._fs.open(self.path(asset, dims), "rb") as file:
                table = pq.read_table(file)
        except FileNotFoundError:
            where = ", ".join(f"{dim} {value}" for dim, value in dims.items())
            raise BadInputError(f"{asset} has no data for {where} in {self.url}: run the audit first") from None
        except pa.ArrowException as error:
            raise BadInputError(f"{self.path(asset, dims)} is not a readable Parquet file ({error})") from None
        if table.schema.names != SCHEMAS[asset].names:
            path = self.path(asset, dims)
            raise BadInputError(
                f"{path} was written by another version of radar: make it again with radar audit --fresh"
            )
        return frame_of(table)

    def write(self, asset: str, frame: pd.DataFrame, **dims: str) -> str:
        """Write one partition, replacing it as a whole, and return its path.

        Raises ValueError, with the old data untouched, when the frame does not fit the asset's declared schema.
        """
        table = table_of(asset, frame)
        buffer = BytesIO()
        # The statistics of a probe's text would repeat up to 100 kB of it in the footer.
        pq.write_table(table, buffer, compression="zstd", write_statistics=_statistics_columns(table.schema))
        path = self.path(asset, dims)
        self._write_bytes(path, buffer.getvalue())
        return path

    def write_text(self, asset: str, name: str, text: str, **dims: str) -> tuple[str, int, str]:
        """Write a file beside the table; returns its path below the root, its size in bytes and its SHA-256 (hex)."""
        data = text.encode("utf-8")
        path = self.path(asset, dims, name)
        self._write_bytes(path, data)
        return path.removeprefix(f"{self._root}/"), len(data), hashlib.sha256(data).hexdigest()

    def read_text(self, asset: str, name: str, **dims: str) -> str:
        """A file written by `write_text`; BadInputError when there is none."""
        try:
            with self._fs.open(self.path(asset, dims, name), "rb") as file:
                return str(file.read().decode("utf-8"))
        except FileNotFoundError:
            raise BadInputError(f"{self.path(asset, dims, name)} does not exist: run the audit first") from None

    def partitions(self, asset: str) -> list[dict[str, str]]:
        """The dimensions of every partition of the table that exists, sorted."""
        return sorted((self._dims_of(asset, path) for path in self._files(asset)), key=lambda dims: list(dims.items()))

    def _files(self, asset: str) -> list[str]:
        """Every partition's file. Not a glob: the root is a path, whatever characters it holds."""
        found: list[str] = self._fs.find(f"{self._root}/{asset}")
        return sorted(path for path in found if path.endswith(f"/{TABLE_FILE}"))

    def _dims_of(self, asset: str, path: str) -> dict[str, str]:
        folders = path.removeprefix(f"{self._root}/{asset}/").split("/")[:-1]
        return {dim: unquote(value) for dim, value in (folder.split("=", 1) for folder in folders)}

    def _write_bytes(self, path: str, data: bytes) -> None:
        if not self._local:
            # An object store shows an object only when its upload is complete; a rename there is a copy.
            self._fs.pipe_file(path, data)
            return
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        try:
            with unfinished.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)

    def create_views(self, connection: duckdb.DuckDBPyConnection) -> list[str]:
        """One view per table that has data; the partition's dimensions become columns. Returns the view names.

        The connection loses its access to files and to its own settings: what is queried is the lake, and read only.
        """
        made = []
        for asset in SCHEMAS:
            paths = self._files(asset)
            if paths:
                dataset = self._dataset(asset, paths)
                # A scan within a query waits for ever now and then when its files are read by Python code, as fsspec's
                # are: DuckDB holds the interpreter's lock meanwhile. What is not local is therefore read beforehand.
                connection.register(asset, dataset if self._local else dataset.to_table())
                made.append(asset)
        connection.execute("SET enable_external_access = false; SET lock_configuration = true")
        return made

    def _dataset(self, asset: str, paths: Sequence[str]) -> pds.Dataset:
        """A table's files as one Arrow dataset; the dimensions come from our own folders, never from those above."""
        places = [_with_models(self._dims_of(asset, path)) for path in paths]
        conditions = [
            reduce(and_, (pds.field(dim) == value for dim, value in place.items()), pds.scalar(True))
            for place in places
        ]
        dims = [pa.field(dim, pa.string()) for dim in places[0]]
        return pds.FileSystemDataset.from_paths(
            paths,
            schema=pa.schema([*SCHEMAS[asset], *dims]),
            format=pds.ParquetFileFormat(),
            filesystem=pa_fs.LocalFileSystem() if self._local else pa_fs.PyFileSystem(pa_fs.FSSpecHandler(self._fs)),
            partitions=conditions,
        )


def _with_models(dims: dict[str, str]) -> dict[str, str]:
    """The dimensions of a partition, with the two models of a pair beside it."""
    if "pair" not in dims:
        return dims
    generator, _, verifier = dims["pair"].partition("~")
    return {**dims, "generator": generator, "verifier": verifier}


def table_of(asset: str, frame: pd.DataFrame) -> pa.Table:
    """The frame as an Arrow table of the asset's declared schema; ValueError names what does not fit."""
    schema = SCHEMAS[asset]
    if list(frame.columns) != schema.names:
        raise ValueError(f"{asset}: expected the columns {', '.join(schema.names)}; found {', '.join(frame.columns)}")
    if frame.empty and asset not in MAY_BE_EMPTY:
        raise ValueError(f"{asset}: refusing to write an empty table over what is there")
    for column in frame.select_dtypes("number"):
        values = frame[column].to_numpy(dtype=float, na_value=np.nan)
        if np.isinf(values).any():
            raise ValueError(f"{asset}.{column}: holds an infinite number")
    for field in schema:
        if not field.nullable and frame[field.name].isna().any():
            raise ValueError(f"{asset}.{field.name}: null in a column that may hold none")
    try:
        return pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise ValueError(f"{asset}: does not fit the declared column types: {error}") from None


def frame_of(table: pa.Table) -> pd.DataFrame:
    """An Arrow table as a frame: integers that may be null as Int64, texts that are null as None."""
    frame: pd.DataFrame = table.to_pandas()
    for field in table.schema:
        if pa.types.is_integer(field.type) and field.nullable:
            frame[field.name] = table.column(field.name).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
        elif pa.types.is_string(field.type) and field.nullable:
            frame[field.name] = pd.Series(table.column(field.name).to_pylist(), dtype=object)
    return frame


def _statistics_columns(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if not pa.types.is_string(field.type)]
