"""The call ledger: every finished call is a row here before it counts.

Here: what the rest of the package asks of the ledger, each a transaction of its own. Not here: the statements
(`calls.py`, `claims.py`, `batches.py`), committing from asyncio (`writer.py`).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Connection

from radar_dagster.errors import OperationalError
from radar_dagster.models.ledger import batches, calls, claims
from radar_dagster.models.ledger.entries import Batch, Entry, Role, Spent, TallyRow, batch_claim
from radar_dagster.models.ledger.store import Store


class Ledger:
    """A ledger in a file (`path`, `sqlite:///path`) or on a server (`postgresql://user@host/database`).

    Several processes may use one at once, several threads one `Ledger`. Errors are BadInputError (the URL) and
    OperationalError (the database); none shows a password. `clock` gives Unix seconds, for tests.
    """

    def __init__(self, url: str | Path, *, clock: claims.Clock = None) -> None:
        self._store = Store(url)
        self._clock = clock
        self._start_afresh()
        _ALL.add(self)

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The ledger's path, or its URL without a password."""
        return self._store.name

    def close(self) -> None:
        """Give back all claims and close the connections."""
        if self._worker_known:
            with suppress(OperationalError):  # the claims of a process that has gone are free in any case
                self._store.write(lambda connection: claims.leave(connection, self._worker))
        self._start_afresh()
        self._store.close()

    # Calls

    def append(self, entries: Sequence[Entry], *, closes: str | None = None) -> bool:
        """Store finished calls in one transaction, and give back the claims of the keys that are final.

        `closes` is the token of a batch whose results these are: it ends in the same transaction. Should another
        process have closed it already, its results are there: nothing is stored, and this returns false.
        """
        if not entries and closes is None:
            return True
        done = {entry.key for entry in entries if entry.final} & self._held
        if closes is not None:
            done.add(batch_claim(closes))

        def work(connection: Connection) -> bool:
            stored = closes is None or batches.finish(connection, closes, "ended")
            if stored:
                calls.put(connection, entries)
            claims.give_back(connection, self._worker, done)
            return stored

        stored = self._store.write(work)
        self._held.difference_update(done)
        return stored

    def answers(self, keys: Iterable[str], *, session: str | None = None) -> dict[str, Entry]:
        """The newest `ok` row per key that has one, without its request; with `session`, of rows of that session."""
        return self._store.read(lambda connection: calls.newest_answers(connection, keys, session))

    def interrupted(self, keys: Iterable[str], *, session: str | None = None) -> dict[str, Entry]:
        """Per key whose chain a killed run left: the paid row from which it goes on, without its request.

        That is the newest row with a reply that is `parse_error` or `truncated` and not final, unless a final row came
        after it. Failures of transport that came after it change nothing. With `session`, only its rows are looked at.
        """
        return self._store.read(lambda connection: calls.open_chains(connection, keys, session))

    def history(self, key: str) -> list[Entry]:
        """Every row of a key with its request, the oldest first."""
        return self._store.read(lambda connection: calls.all_rows(connection, key))

    def keys_from(self, digits: str, most: int = 10) -> list[str]:
        """The keys that begin with these hexadecimal digits, so many at most, in order."""
        return self._store.read(lambda connection: calls.keys_from(connection, digits, most))

    def tally(
        self, *, session: str | None = None, run_id: str | None = None, role: Role | None = None
    ) -> list[TallyRow]:
        """Attempts, tokens and dollars by role, endpoint, model, mode and state, in that order."""
        return self._store.read(lambda connection: calls.add_up(connection, session=session, run_id=run_id, role=role))

    def spent_on(self, keys: Iterable[str]) -> Spent:
        """What every attempt at the calls of these keys came to, whoever made it."""
        return self._store.read(lambda connection: calls.spent_on(connection, keys))

    # Claims

    def claim(self, keys: Iterable[str]) -> set[str]:
        """Take the keys that nobody has, or somebody dead; returns those that were taken.

        A key that this ledger already has is not taken again: of two who ask for the same call, one gets it. Look for
        answers after claiming, not before: the last holder may have given the key back because it has one. Whoever
        holds claims shows every `claims.HEARTBEAT_S` seconds that it lives; `Writer` does, others call `heartbeat`.
        """
        wanted = set(keys)
        if not wanted:
            return wanted

        def work(connection: Connection) -> tuple[set[str], list[str]]:
            claims.heartbeat(connection, self._worker, self._clock)
            dead = claims.find_dead(connection, self._worker, self._clock)
            return claims.take(connection, self._worker, wanted, dead), dead

        self._worker_known = True
        taken, dead = self._store.write(work)
        self._held.update(taken)
        if dead:
            self._store.write(lambda connection: claims.bury(connection, dead))
        return taken

    def release(self, keys: Iterable[str]) -> None:
        """Give back claims; keys that are not held are ignored."""
        freed = set(keys) & self._held
        if freed:
            self._store.write(lambda connection: claims.give_back(connection, self._worker, freed))
            self._held.difference_update(freed)

    def heartbeat(self) -> None:
        """Show that this process lives; does nothing while it holds no claims."""
        if self._held:
            self._store.write(lambda connection: claims.heartbeat(connection, self._worker, self._clock))

    # Batches

    def record_batch(self, batch: Batch) -> None:
        """Note a batch that is about to be submitted."""
        self._store.write(lambda connection: batches.record(connection, batch))

    def batch_submitted(self, token: str, provider_id: str) -> None:
        """Note that the provider has taken a batch, and its id there."""
        self._store.write(lambda connection: batches.note_provider_id(connection, token, provider_id))

    def abandon_batch(self, token: str) -> bool:
        """Close a batch that will have no results, and give back its claim; false when it was closed already."""
        claim = batch_claim(token)

        def work(connection: Connection) -> bool:
            claims.give_back(connection, self._worker, [claim])
            return batches.finish(connection, token, "abandoned")

        closed = self._store.write(work)
        self._held.discard(claim)
        return closed

    def open_batches(self, endpoint: str, model: str) -> list[Batch]:
        """The batches of a model that are submitting or submitted, with their items, the oldest first."""
        return self._store.read(lambda connection: batches.still_open(connection, endpoint, model))

    def has_open_batches(self) -> bool:
        """Whether any batch, of whatever model, is submitting or submitted."""
        return self._store.read(batches.any_open)

    def open_batch_keys(self, keys: Iterable[str]) -> dict[str, str]:
        """Key -> token of the open batch that it is part of, for those that are."""
        return self._store.read(lambda connection: batches.tokens_of(connection, keys))

    def _start_afresh(self) -> None:
        self._worker = claims.Worker.here()
        #: What this worker has claimed. Threads may change it at once: set operations in place are atomic.
        self._held: set[str] = set()
        self._worker_known = False

    def _after_fork(self) -> None:
        """The claims and the connections are the parent's."""
        self._store.forget()
        self._start_afresh()


_ALL: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _after_fork() -> None:
    for ledger in list(_ALL):
        ledger._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
