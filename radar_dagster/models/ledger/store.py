"""The database under the ledger: which one a URL means, connections, transactions, errors for people.

Here: all that differs between SQLite and PostgreSQL. Not here: tables (`schema.py`) and what is done with them.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from radar_dagster.errors import BadInputError, OperationalError, RadarError
from radar_dagster.models.ledger.schema import prepare

T = TypeVar("T")

#: How long a writer waits for another process's transaction.
BUSY_S: Final = 60.0
_CONNECT_TIMEOUT_S = 10
_IS_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+._-]*://")
_POSTGRES = ("postgres", "postgresql", "postgresql+psycopg")
_SQLITE = ("sqlite", "sqlite+pysqlite")
#: Parts of a PostgreSQL URL's query that nobody may see.
_SECRET_OPTIONS = ("password", "sslpassword")
#: What PostgreSQL reports when it has undone a transaction that may simply be run again: deadlock, serialisation.
_TRY_AGAIN = ("40P01", "40001")
_MOST_TRIES = 5

#: Connections that a forked process got from its parent. They are the parent's: never used here, and never closed.
_INHERITED: list[Engine] = []


class Store:
    """A database that is ready for use. Thread-safe; a forked process gets connections of its own.

    `where` is a path, `sqlite:///path` or `postgresql://user@host/database`. BadInputError when it is none of those,
    OperationalError when the database can't be reached or used; no message holds a password.
    """

    def __init__(self, where: str | Path) -> None:
        self._url = _read_url(where)
        #: How the ledger is called in messages: its path, or its URL without a password.
        self.name = self._url.database or "" if self.is_sqlite else _shown(self._url)
        self._engine: Engine | None = None
        #: Which file it is (device, inode), whatever comes to stand at its path later.
        self._file: tuple[int, int] | None = None
        if self.is_sqlite:
            self._create_file(Path(self.name))
        self.write(prepare)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is SQLite, which has one machine and one clock."""
        return self._url.get_backend_name() == "sqlite"

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work`, which changes nothing, in one transaction."""
        with self._errors():
            engine = self._connected()
            self._require_same_file()
            with engine.connect() as connection:
                return work(connection)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in one transaction; when this returns, its effect is on disk. It may run several times."""
        with self._errors():
            for _ in range(_MOST_TRIES - 1):
                try:
                    return self._write_once(work)
                except DBAPIError as error:
                    if getattr(error.orig, "sqlstate", None) not in _TRY_AGAIN:
                        raise
            return self._write_once(work)

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        if self._engine is not None:
            self._engine.dispose()
        self._file = None

    def forget(self) -> None:
        """To be called in a forked process, before anything else: leave the parent's connections alone."""
        if self._engine is not None:
            _INHERITED.append(self._engine)
            self._engine = None

    def _write_once(self, work: Callable[[Connection], T]) -> T:
        engine = self._connected()
        self._require_same_file()
        with engine.connect() as connection:
            connection.execution_options(radar_writes=True)
            with connection.begin():
                result = work(connection)
                self._require_same_file()
                return result

    def _connected(self) -> Engine:
        if self.is_sqlite and self._file is None:
            self._file = _identity(self.name)
            if self._file is None:
                raise OperationalError("its file is gone")
        if self._engine is None:
            self._engine = _sqlite(self._url) if self.is_sqlite else _postgres(self._url)
        return self._engine

    def _require_same_file(self) -> None:
        """What is written into a file that nobody can open any more is lost, and SQLite would not say so."""
        if self._file is not None and _identity(self.name) != self._file:
            raise OperationalError("its file was deleted, moved or replaced while it was in use")

    def _create_file(self, path: Path) -> None:
        """Create an empty file that its owner alone can read; SQLite gives its -wal and -shm the same permissions."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            if path.exists():
                return
            raise OperationalError(f"the call ledger {self.name}: can't be created there") from None
        except OSError as error:
            raise OperationalError(f"the call ledger {self.name}: {error.strerror}") from None
        try:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)  # the umask may have taken from the owner as well
        finally:
            os.close(descriptor)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the database's errors into ones for people. Broken constraints stay as they are: they are bugs."""
        try:
            yield
        except (IntegrityError, DataError):
            raise
        except (DBAPIError, NoFreeConnection) as error:
            raise OperationalError(self._message(error)) from None
        except RadarError as error:
            raise type(error)(f"the call ledger {self.name}: {error}") from None

    def _message(self, error: DBAPIError | NoFreeConnection) -> str:
        words = " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())
        if self.is_sqlite and "locked" in words:
            words += f"; another process has kept it for more than {BUSY_S:.0f} s"
        if not self.is_sqlite and isinstance(error, DBAPIError) and error.statement is None:
            words += "; set the ledger's URL to a server that runs (PGPASSWORD may hold its password)"
        for secret in _secrets(self._url):
            words = words.replace(secret, "***")
        return f"the call ledger {self.name}: {words}"


def _read_url(where: str | Path) -> URL:
    if not isinstance(where, str) or not _IS_URL.match(where):
        return _file_url(str(where))
    scheme = where.partition("://")[0].lower()
    if scheme not in _SQLITE + _POSTGRES:
        raise BadInputError(f"a call ledger can't be kept in {scheme!r}: expected a path, sqlite:/// or postgresql://")
    try:
        url = make_url(scheme + where[len(scheme) :])
    except (ArgumentError, ValueError):
        url = None
    if url is None or (scheme in _POSTGRES and _is_misread(where, url)):
        raise BadInputError(
            "the call ledger's URL can't be read: expected postgresql://user:password@host:port/database, "
            "special characters of a password as %40 (for @) and the like"
        )
    if scheme in _POSTGRES:
        return url.set(drivername="postgresql+psycopg")
    if url.host or url.query:
        raise BadInputError("the call ledger's URL can't be read: expected sqlite:///path without options")
    return _file_url(url.database or "")


def _is_misread(where: str, url: URL) -> bool:
    """Whether a part of the password may have become a host or a database, which messages show."""
    return where.count("@") > 1 or ("@" in where and url.username is None)


def _file_url(path: str) -> URL:
    if not path or path == ":memory:":
        raise BadInputError("a call ledger must outlive its process: expected the path of a file")
    return URL.create("sqlite", database=str(Path(path).expanduser().absolute()))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _shown(url: URL) -> str:
    return url.difference_update_query(_SECRET_OPTIONS).render_as_string(hide_password=True)


def _secrets(url: URL) -> list[str]:
    """Every spelling of a password in the URL, the longest first."""
    plain = [url.password, *(url.query.get(name) for name in _SECRET_OPTIONS)]
    spellings = {how(text) for text in plain if isinstance(text, str) and text for how in (str, quote, quote_plus)}
    return sorted(spellings, key=len, reverse=True)


def _postgres(url: URL) -> Engine:
    # Without a limit, a host that swallows packets is waited for by the minute.
    limit = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_TIMEOUT_S}
    try:
        return create_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args=limit)
    except ImportError:
        raise OperationalError('PostgreSQL needs a driver: pip install "radar-dagster[postgres]"') from None


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _set_up(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun by `_begin`, not by the driver
    _use_write_ahead_log(connection)
    # A row is on disk when its commit returns, even if the power fails next; many rows share one commit.
    connection.execute("PRAGMA synchronous=FULL")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """WAL mode, which stays with the file. SQLite does not wait when two processes switch a new file at once."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin(connection: Connection) -> None:
    # Writers queue at once: one that begins as a reader fails when another has written meanwhile.
    writes = connection.get_execution_options().get("radar_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
