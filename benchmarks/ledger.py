"""What the call ledger costs beside SQLite alone: commits in batches, one by one and from asyncio; finding answers.

Usage: python benchmarks/ledger.py [--rows 6000] [--batch 30] [--keys 100000] [--postgres postgresql://user@host/db]

Every figure comes from this run; ratios are to the plain `sqlite3` module writing the same columns, with the same
indices and the same durability. Processor time counts all threads of this process, not the server's.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from radar_dagster.models.ledger import Entry, Ledger, Writer
from radar_dagster.models.ledger.entries import ENTRY_FIELDS

REQUEST_CHARACTERS = 4_000
REPLY_CHARACTERS = 800
GOAL_US = 60.0


@dataclass(frozen=True)
class Cost:
    """Microseconds per row."""

    wall: float
    processor: float


def entry(number: int) -> Entry:
    """A finished call of the usual size; not all ASCII, as texts are in life."""
    return Entry(
        key=hashlib.sha256(str(number).encode()).hexdigest(),
        session="benchmark",
        run_id="run",
        role="judge",
        endpoint="openai",
        model="a-model",
        mode="live",
        attempt=1,
        final=True,
        state="ok",
        status=200,
        request="é" + "q" * REQUEST_CHARACTERS,
        parameters='{"temperature": 0}',
        reply="é" + "r" * REPLY_CHARACTERS,
        parsed='{"score": 4}',
        input_tokens=1_000,
        output_tokens=200,
        usd=0.001,
        latency_s=1.5,
        served_model="a-model-2026",
        provider_id=f"reply-{number}",
        finished_at="2026-01-01T00:00:00+00:00",
    )


def portions(entries: list[Entry], size: int) -> list[list[Entry]]:
    """The entries in batches."""
    return [entries[i : i + size] for i in range(0, len(entries), size)]


def measured(work: Callable[[], object], rows: int) -> Cost:
    """Time of a piece of work."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return Cost(wall / rows * 1e6, processor / rows * 1e6)


def plain(folder: Path, batches: list[list[Entry]], synchronous: str) -> Cost:
    """The sqlite3 module alone, one transaction per batch, into tables that a ledger has made."""
    path = folder / f"plain-{synchronous}.sqlite"
    Ledger(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA synchronous={synchronous}")
    statement = f"INSERT INTO calls ({', '.join(ENTRY_FIELDS)}) VALUES ({', '.join('?' * len(ENTRY_FIELDS))})"

    def work() -> None:
        for batch in batches:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, [[getattr(e, name) for name in ENTRY_FIELDS] for e in batch])
            connection.execute("COMMIT")

    cost = measured(work, sum(map(len, batches)))
    connection.close()
    return cost


def appended(ledger: Ledger, batches: list[list[Entry]]) -> Cost:
    """`Ledger.append`, one transaction per batch."""

    def work() -> None:
        for batch in batches:
            ledger.append(batch)

    return measured(work, sum(map(len, batches)))


def claimed_and_appended(ledger: Ledger, batches: list[list[Entry]]) -> Cost:
    """Each batch claimed first; the claims go with the rows."""

    def work() -> None:
        for batch in batches:
            ledger.claim(e.key for e in batch)
            ledger.append(batch)

    return measured(work, sum(map(len, batches)))


def written(ledger: Ledger, entries: list[Entry], tasks: int) -> Cost:
    """`Writer.commit` from so many tasks, each of which commits its next row when the last one is on disk."""

    async def one(mine: list[Entry], writer: Writer) -> None:
        for e in mine:
            await writer.commit(e)

    async def all_of_them() -> None:
        async with Writer(ledger) as writer:
            await asyncio.gather(*(one(entries[i::tasks], writer) for i in range(tasks)))

    return measured(lambda: asyncio.run(all_of_them()), len(entries))


def show(name: str, cost: Cost, base: Cost) -> None:
    """One line: the cost per row and its ratio to the plain one."""
    print(
        f"  {name:44} {cost.wall:7.0f} µs wall ({cost.wall / base.wall:4.1f}×)  "
        f"{cost.processor:6.1f} µs processor ({cost.processor / base.processor:4.1f}×)"
    )


def commits(where: str, label: str, rows: int, size: int, base: Cost) -> Cost:
    """Print the costs of the ledger's ways to commit; returns that of `append`."""
    entries = [entry(i) for i in range(rows)]
    with Ledger(where) as ledger:
        bulk = appended(ledger, portions(entries, size))
        show(f"{label}: append", bulk, base)
        show(f"{label}: claim, then append", claimed_and_appended(ledger, portions(entries, size)), base)
        show(f"{label}: Writer, {size} tasks", written(ledger, entries, size), base)
        show(f"{label}: Writer, one task", written(ledger, entries[: rows // 10], 1), base)
    return bulk


def look_ups(where: str, label: str, keys: int) -> None:
    """Print how long so many keys take when all are there and when none is."""
    with Ledger(where) as ledger:
        for batch in portions([replace(entry(i), session="look-up") for i in range(keys)], 2_000):
            ledger.append(batch)
        present = [entry(i).key for i in range(keys)]
        absent = [entry(-i - 1).key for i in range(keys)]
        for name, work in (
            ("answers, all there", lambda: ledger.answers(present)),
            ("answers of a session, all there", lambda: ledger.answers(present, session="look-up")),
            ("answers, none there", lambda: ledger.answers(absent)),
            ("interrupted, all answered", lambda: ledger.interrupted(present)),
            ("tally", ledger.tally),
        ):
            cost = measured(work, keys)
            wall, processor = cost.wall * keys / 1e6, cost.processor * keys / 1e6
            print(f"  {label + ': ' + name:44} {wall:6.2f} s wall, {processor:6.2f} s processor")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--batch", type=int, default=30)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--postgres", help="an empty database or schema, which will hold a ledger afterwards")
    options = parser.parse_args()
    batches = portions([entry(i) for i in range(options.rows)], options.batch)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{options.rows:,} rows in batches of {options.batch}, per row")
        base = plain(folder, batches, "FULL")
        show("sqlite3, synchronous=FULL", base, base)
        show("sqlite3, synchronous=NORMAL", plain(folder, batches, "NORMAL"), base)
        bulk = commits(str(folder / "ledger.sqlite"), "SQLite", options.rows, options.batch, base)
        if options.postgres:
            commits(options.postgres, "PostgreSQL", options.rows, options.batch, base)
        verdict = "met" if bulk.processor < GOAL_US else "missed"
        print(f"  goal: append under {GOAL_US:.0f} µs processor per row on SQLite: {verdict}")
        print(f"Looking up {options.keys:,} keys")
        look_ups(str(folder / "look-up.sqlite"), "SQLite", options.keys)
        if options.postgres:
            look_ups(options.postgres, "PostgreSQL", options.keys)


if __name__ == "__main__":
    main()
