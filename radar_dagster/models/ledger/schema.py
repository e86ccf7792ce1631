"""The ledger's tables, the same on SQLite and PostgreSQL, and how a database gets them.

Here: columns and indices, creating them once however many processes open a new ledger together, telling a database of
another program or a newer version. Not here: connecting (`store.py`), reading and writing rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)

from radar_dagster.errors import OperationalError

#: Raise it when tables change, and add the way from the older ones to `prepare`.
VERSION = 2

#: Serialises creation on PostgreSQL; any number that nobody else uses.
_CREATION_LOCK = 0x7261646172
_VERSION_NAME = "schema_version"
#: Keys in one question to the database. SQLite takes at most 32,766; more than this makes nothing faster.
_CHUNK = 1_000

METADATA = MetaData()

# Rowids on SQLite must be declared as Integer.
_Id = BigInteger().with_variant(Integer(), "sqlite")
# Byte order, so that processes lock rows in the order in which Python sorts keys.
_Key = Text().with_variant(Text(collation="C"), "postgresql")

META = Table("meta", METADATA, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

#: The fields of `Entry`. Long texts come last: SQLite then reads the others without walking through them.
CALLS = Table(
    "calls",
    METADATA,
    Column("id", _Id, Identity(), primary_key=True),
    Column("key", _Key, nullable=False),
    Column("session", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("status", BigInteger),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cached_input_tokens", BigInteger),
    Column("cache_write_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("usd", Double),
    Column("usd_at_most", Double),
    Column("latency_s", Double),
    Column("served_model", Text),
    Column("provider_id", Text),
    Column("finished_at", Text, nullable=False),
    Column("detail", Text),
    Column("parameters", Text, nullable=False),
    Column("parsed", Text),
    Column("reply", Text),
    Column("request", Text, nullable=False),
    Index("calls_key", "key"),
    Index("calls_session", "session"),
    Index("calls_run_id", "run_id"),
)

#: Which process is busy with a key. A row without a living worker counts for nothing.
CLAIMS = Table(
    "claims",
    METADATA,
    Column("key", _Key, primary_key=True),
    Column("worker", Text, nullable=False),
    sqlite_with_rowid=False,
)

#: One row per process and ledger that has claimed something: where it runs, and when it last gave a sign of life.
WORKERS = Table(
    "workers",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started", BigInteger),
    Column("heartbeat", Double, nullable=False),
)

BATCHES = Table(
    "batches",
    METADATA,
    Column("token", Text, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("provider_id", Text),
)

BATCH_ITEMS = Table(
    "batch_items",
    METADATA,
    Column("token", Text, primary_key=True),
    Column("custom_id", Text, primary_key=True),
    Column("key", _Key, nullable=False),
    Column("request", Text, nullable=False),
    Index("batch_items_key", "key"),
)


def chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    """The keys in their order, each once, in portions that one statement can name."""
    rest = iter(dict.fromkeys(keys))
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def prefer_indices(connection: Connection) -> None:
    """For this transaction: PostgreSQL has no statistics of a table that has just grown, and would read all of it."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        connection.execute(text("SET LOCAL max_parallel_workers_per_gather = 0"))


def prepare(connection: Connection) -> None:
    """Create the tables in an empty database; OperationalError if it is not a ledger that this version can use.

    The connection's transaction must exclude other writers on SQLite (BEGIN IMMEDIATE).
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_CREATION_LOCK)))
    present = [name for name in METADATA.tables if inspect(connection).has_table(name)]
    if not present:
        METADATA.create_all(connection, checkfirst=False)
        connection.execute(insert(META), {"name": _VERSION_NAME, "value": str(VERSION)})
    elif len(present) < len(METADATA.tables):
        raise OperationalError(f"it has tables of another program ({', '.join(present)}); choose an empty database")
    else:
        _upgrade(connection, _version(connection.scalar(select(META.c.value).where(META.c.name == _VERSION_NAME))))


def _upgrade(connection: Connection, found: int) -> None:
    """Bring the tables of an older version up to date; rows stay as they are."""
    if found < 2:
        connection.execute(text("ALTER TABLE calls ADD COLUMN usd_at_most DOUBLE PRECISION"))
    if found < VERSION:
        connection.execute(update(META).where(META.c.name == _VERSION_NAME).values(value=str(VERSION)))


def _version(found: str | None) -> int:
    if found is None or not found.isascii() or not found.isdigit():
        raise OperationalError("it has tables of another program; choose an empty database")
    if int(found) > VERSION:
        raise OperationalError(
            f"it was written by a newer radar (schema {found}, this one knows {VERSION}): upgrade radar-dagster"
        )
    return int(found)
