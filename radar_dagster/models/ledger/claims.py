"""Claims: of all processes on one ledger, one alone pays for a call.

A claim belongs to a worker (one ledger in one process) and counts for as long as the worker lives: its process runs, as
far as this machine can tell, or else its last heartbeat is recent. A process that is suspended runs.

Here: who a worker is, telling the dead from the living, the statements that take and give back claims. Not here: when
that happens (`ledger.py`, `writer.py`).
"""

from __future__ import annotations

import os
import socket
import time
import uuid
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Dialect,
    Double,
    Executable,
    Row,
    bindparam,
    delete,
    false,
    func,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from radar_dagster.models.ledger.schema import CLAIMS, WORKERS

#: A worker gives a sign of life this often. One whose process can't be seen is taken for dead after so much silence.
HEARTBEAT_S: Final = 15.0
SILENCE_S: Final = 60.0

#: Unix seconds; None for the system's clock, or the server's where the database is one.
Clock = Callable[[], float] | None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Worker:
    """One ledger in one process. `started` tells the process from a later one of the same id (None: unknown)."""

    id: str
    host: str
    pid: int
    started: int | None

    @classmethod
    def here(cls) -> Worker:
        """A new worker in this process."""
        pid = os.getpid()
        process = _process(pid)
        worker = cls(uuid.uuid4().hex, _host(), pid, process.started if process else None)
        _HERE[worker.id] = worker
        return worker


#: The workers of this process, for as long as they are in use.
_HERE: weakref.WeakValueDictionary[str, Worker] = weakref.WeakValueDictionary()


class _Process(NamedTuple):
    state: str
    #: In clock ticks after the machine's start.
    started: int


def heartbeat(connection: Connection, worker: Worker, clock: Clock) -> None:
    """Note that the worker is alive; make its row if it has none (or others buried it while it was suspended)."""
    row = {"id": worker.id, "host": worker.host, "pid": worker.pid, "started": worker.started}
    beat, _, now = _timed(connection, clock)
    connection.execute(beat, {**row, **now})


def find_dead(connection: Connection, worker: Worker, clock: Clock) -> list[str]:
    """The ids of the workers that are dead; never `worker` itself."""
    _, others, now = _timed(connection, clock)
    rows = connection.execute(others, {"worker": worker.id, **now})
    return [row.id for row in rows if not _lives(row)]


def take(connection: Connection, worker: Worker, keys: Iterable[str], dead: Collection[str]) -> set[str]:
    """Claim the keys that nobody holds, or somebody dead; returns those that were taken.

    One statement decides for all keys, so two processes never get the same one. All who lock claims do it in the order
    of the keys: nobody waits for somebody who waits for him.
    """
    rows = [{"key": key, "worker": worker.id} for key in sorted(keys)]
    return set(connection.scalars(_take(connection.dialect.name, tuple(dead)), rows)) if rows else set()


def give_back(connection: Connection, worker: Worker, keys: Iterable[str]) -> None:
    """Free the worker's claims on these keys."""
    text, names = _give_back(connection.dialect)
    rows = [{"holder": worker.id, "held": key} for key in sorted(keys)]
    if rows:
        # Straight to the driver, key by key: a run does it with every row, and a list of keys takes longer to write
        # into a statement than a few statements to run.
        connection.exec_driver_sql(text, [tuple(map(row.__getitem__, names)) for row in rows] if names else rows)


def leave(connection: Connection, worker: Worker) -> None:
    """Free all that the worker holds and forget the worker."""
    connection.execute(_LEAVE, {"holder": worker.id})
    connection.execute(delete(WORKERS).where(WORKERS.c.id == worker.id))


def bury(connection: Connection, dead: Collection[str]) -> None:
    """Remove dead workers and what they held; leave rows that another process has locked to a later time."""
    of_the_dead = select(CLAIMS.c.key).where(CLAIMS.c.worker.in_(dead)).with_for_update(skip_locked=True)
    connection.execute(delete(CLAIMS).where(CLAIMS.c.key.in_(of_the_dead)))
    holders = select(CLAIMS.c.worker)
    idle = select(WORKERS.c.id).where(WORKERS.c.id.in_(dead), WORKERS.c.id.not_in(holders))
    connection.execute(delete(WORKERS).where(WORKERS.c.id.in_(idle.with_for_update(skip_locked=True))))


# Statements are built once: building one takes longer than running it.


def _free(*conditions: ColumnElement[bool]) -> Delete:
    in_order = select(CLAIMS.c.key).where(*conditions).order_by(CLAIMS.c.key).with_for_update()
    return delete(CLAIMS).where(CLAIMS.c.key.in_(in_order))


_LEAVE = _free(CLAIMS.c.worker == bindparam("holder"))
_GIVE_BACK = delete(CLAIMS).where(CLAIMS.c.worker == bindparam("holder"), CLAIMS.c.key == bindparam("held"))


@cache
def _give_back(dialect: Dialect) -> tuple[str, Sequence[str]]:
    """The statement as the driver takes it, and the order of its values where they go without names."""
    compiled = _GIVE_BACK.compile(dialect=dialect)
    return str(compiled), compiled.positiontup or ()


def _timed(connection: Connection, clock: Clock) -> tuple[Executable, Executable, dict[str, float]]:
    """The statements that need the time, and the parameter that tells it.

    Several machines need not agree on the time: their server's clock counts for all of them.
    """
    dialect = connection.dialect.name
    if clock is None and dialect == "postgresql":
        return *_statements(dialect, server_clock=True), {}
    return *_statements(dialect, server_clock=False), {"now": time.time() if clock is None else clock()}


@cache
def _statements(dialect: str, server_clock: bool) -> tuple[Executable, Executable]:
    """Give a sign of life; list the other workers with their silence in seconds."""
    now: ColumnElement[float] = bindparam("now", type_=Double)
    if server_clock:
        now = func.extract("epoch", func.clock_timestamp()).cast(Double)
    values: dict[str, Any] = {name: bindparam(name) for name in ("id", "host", "pid", "started")}
    row = _upsert(dialect)(WORKERS).values(**values, heartbeat=now)
    beat = row.on_conflict_do_update(index_elements=["id"], set_={"heartbeat": row.excluded.heartbeat})
    silence = (now - WORKERS.c.heartbeat).label("silence_s")
    return beat, select(WORKERS, silence).where(WORKERS.c.id != bindparam("worker")).order_by(WORKERS.c.id)


@lru_cache(maxsize=8)
def _take(dialect: str, dead: tuple[str, ...]) -> Executable:
    row = _upsert(dialect)(CLAIMS)
    # The dead are named one by one: somebody who has only just come would be missing from a list of the living.
    of_the_dead = or_(false(), *(CLAIMS.c.worker == other for other in dead))
    take: Executable = row.on_conflict_do_update(
        index_elements=["key"], set_={"worker": row.excluded.worker}, where=of_the_dead
    ).returning(CLAIMS.c.key)
    return take


def _upsert(dialect: str) -> Any:
    """The dialect's own `insert`, which knows ON CONFLICT."""
    return postgresql.insert if dialect == "postgresql" else sqlite.insert


def _lives(other: Row[Any]) -> bool:
    runs = _runs(other.id, other.pid, other.started) if other.host == _host() else None
    # A clock may jump, and a process be suspended while its calls are under way: silence only counts without proof.
    return other.silence_s <= SILENCE_S if runs is None else runs


def _runs(worker: str, pid: int, started: int | None) -> bool | None:
    """Whether the process of this id and start, which is or was of this machine, still runs; None: can't be told."""
    process = _process(pid)
    if pid == os.getpid() and (process is None or process.started == started):
        return worker in _HERE
    if os.name != "posix":
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, and /proc may hide it
    if process is None:
        return None
    if process.state in "ZX" or started not in (None, process.started):
        return False
    return None if started is None else True


def _process(pid: int) -> _Process | None:
    """What /proc tells of a process; None where there is no /proc or no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name, in brackets, may itself hold spaces and brackets; state is field 3, start is field 22.
    fields = text.rpartition(")")[2].split()
    return _Process(fields[0], int(fields[19]))


@cache
def _host() -> str:
    """Where process ids mean the same: this machine since its last start, and this container's view of it."""
    return " ".join([socket.gethostname(), _boot(), _namespace()])


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "-"


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "-"
