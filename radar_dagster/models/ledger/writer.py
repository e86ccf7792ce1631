"""Committing from asyncio: what many tasks want written within a moment goes to the disk together.

Here: the thread that writes, and handing results back to the event loop. Not here: what is written (`ledger.py`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

from radar_dagster.errors import OperationalError
from radar_dagster.models.ledger.claims import HEARTBEAT_S
from radar_dagster.models.ledger.entries import Entry
from radar_dagster.models.ledger.ledger import Ledger

#: An entry waits this long for others, and they share a transaction: one for each would be a tenth of a run's processor
#: time. A process that is killed loses the replies of these milliseconds; those of the calls in flight are more.
_TOGETHER_S = 0.02


class _Commit(NamedTuple):
    entry: Entry
    done: asyncio.Future[None]


class _Claim(NamedTuple):
    keys: frozenset[str]
    done: asyncio.Future[set[str]]


class _Release(NamedTuple):
    keys: frozenset[str]


_Wish = _Commit | _Claim | _Release
#: What a wish came to: None for a commit, the keys that were taken for a claim, or an error.
_Result = set[str] | Exception | None


class Writer:
    """Writes to a ledger for the tasks of one event loop; use it as `async with Writer(ledger) as writer`.

    One thread takes whatever is waiting and writes it in one transaction; entries wait a moment for others, claims and
    releases for nothing. The first error goes to all who wait then or come later: what can't be recorded must not be
    paid for. While the ledger holds claims, the thread also shows that this process lives. Leaving the block writes
    what is waiting; it does not close the ledger.
    """

    def __init__(self, ledger: Ledger, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._ledger = ledger
        self._heartbeat_s = heartbeat_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="call ledger", daemon=True)
        #: Guards the four that follow; the thread waits on it.
        self._news = threading.Condition()
        self._waiting: list[_Wish] = []
        self._in_a_hurry = False
        self._closing = False
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        if self._error is not None and kind is None:
            raise _again(self._error)

    async def commit(self, entry: Entry, *, at_once: bool = False) -> None:
        """Return when the entry is on disk. It gets there even if the waiting task is cancelled.

        `at_once`: no others are to come, so it and those before it wait for none. OperationalError when it can't be
        written, RuntimeError after the end of the block.
        """
        done: asyncio.Future[None] = self._running_loop().create_future()
        self._put(_Commit(entry, done), at_once)
        await done

    async def claim(self, keys: Iterable[str]) -> set[str]:
        """`Ledger.claim` without holding up the loop. Of two tasks that want the same key, the first gets it.

        What was taken for a task that has been cancelled meanwhile is given back.
        """
        done: asyncio.Future[set[str]] = self._running_loop().create_future()
        claim = _Claim(frozenset(keys), done)
        self._put(claim)
        try:
            return await done
        except asyncio.CancelledError:
            # The keys may have come, but not yet reached the task.
            if done.done() and not done.cancelled() and done.exception() is None:
                self._give_back(done.result())
            raise

    def release(self, keys: Iterable[str]) -> None:
        """Give back claims soon; returns at once. A final entry gives back its own."""
        self._put(_Release(frozenset(keys)))

    async def close(self) -> None:
        """Write what is waiting and end the thread."""
        with self._news:
            self._closing = True
            self._news.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise RuntimeError("use the writer as `async with Writer(ledger) as writer`")
        return self._loop

    def _put(self, wish: _Wish, at_once: bool = True) -> None:
        with self._news:
            if self._error is not None:
                raise _again(self._error)
            if self._closing:
                raise RuntimeError("the writer is closed")
            self._waiting.append(wish)
            self._in_a_hurry = self._in_a_hurry or at_once
            if self._in_a_hurry or len(self._waiting) == 1:  # the others need not wake the thread: it waits for them
                self._news.notify()

    def _run(self) -> None:
        """The thread."""
        beat_at = time.monotonic() + self._heartbeat_s
        while True:
            with self._news:
                if not self._waiting and not self._closing:
                    self._news.wait(max(0.0, beat_at - time.monotonic()))
                if self._waiting and not (self._in_a_hurry or self._closing):
                    self._news.wait(_TOGETHER_S)
                self._in_a_hurry = False
                wishes, self._waiting = self._waiting, []
                if self._closing and not wishes:
                    return
            if wishes:
                self._fulfil(wishes)
            if time.monotonic() >= beat_at:
                with suppress(OperationalError):  # if it lasts, the next commit fails as well
                    self._ledger.heartbeat()
                beat_at = time.monotonic() + self._heartbeat_s

    def _fulfil(self, wishes: list[_Wish]) -> None:
        try:
            results = self._write(wishes)
        except Exception as error:  # whatever it is, even a bug: the tasks would wait for ever
            with self._news:
                self._error = error
                wishes, self._waiting = wishes + self._waiting, []
            results = [(wish, _again(error)) for wish in wishes]
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has gone and all tasks with it; what is written stays written
                self._loop.call_soon_threadsafe(self._tell, results)

    def _write(self, wishes: list[_Wish]) -> list[tuple[_Wish, _Result]]:
        self._ledger.append([wish.entry for wish in wishes if isinstance(wish, _Commit)])
        self._ledger.release(key for wish in wishes if isinstance(wish, _Release) for key in wish.keys)
        taken = self._ledger.claim(key for wish in wishes if isinstance(wish, _Claim) for key in wish.keys)
        results: list[tuple[_Wish, _Result]] = []
        for wish in wishes:
            if isinstance(wish, _Claim):
                results.append((wish, taken & wish.keys))
                taken -= wish.keys
            else:
                results.append((wish, None))
        return results

    def _tell(self, results: list[tuple[_Wish, _Result]]) -> None:
        """In the loop: wake the tasks, all at once."""
        for wish, result in results:
            if isinstance(wish, _Release):
                continue
            if not wish.done.done():
                _settle(wish.done, result)
            elif isinstance(result, set):
                self._give_back(result)

    def _give_back(self, keys: set[str]) -> None:
        """Release what a cancelled task did not get."""
        if keys:
            with suppress(RuntimeError, OperationalError):  # closed or broken: closing the ledger frees them
                self.release(keys)


def _settle(future: asyncio.Future[Any], result: _Result) -> None:
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


def _again(error: Exception) -> Exception:
    """The error for one more task: each raises one of its own, or their tracebacks would mix."""
    return OperationalError(str(error)) if isinstance(error, OperationalError) else error
