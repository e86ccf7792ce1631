"""Calls that live in an event loop of a thread of their own, while the calling thread waits for their end.

So they can be made with or without a loop in the calling thread, and that thread stays open to interrupts. Here: the
thread, the waiting, telling how it goes. Not here: what is called and when (`driver.py`, `batch.py`).
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from radar_dagster.models import progress
from radar_dagster.models.progress import Counts, Listener, Tally

T = TypeVar("T")

#: Longest wait of the calling thread in one piece: on some systems no signal is handled meanwhile.
_PIECE_S = 0.5
#: How long the end of a run may take that is not waiting for any call.
_END_S = 5.0


class Background(ABC):
    """A run in a thread of its own. `error` says why it ended early, once it is over."""

    def __init__(self, counts: Counts) -> None:
        self.error: BaseException | None = None
        self.over = threading.Event()
        self._counts = counts
        self._interrupted = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @abstractmethod
    def tally(self) -> Tally:
        """Where the run stands; called from any thread."""

    @abstractmethod
    async def _main(self) -> None:
        """The run."""

    @abstractmethod
    def _on_interrupt(self) -> None:
        """Start no more calls, and come to an end; called in the loop's thread."""

    @abstractmethod
    def _on_hurry(self) -> None:
        """Wait for nothing that can be given up; called in the loop's thread."""

    def in_thread(self) -> None:
        """The whole run, in a loop of its own."""
        try:
            asyncio.run(self._begin())
        except BaseException as error:  # `wait_for` raises it in the thread that waits
            self.error = self.error or error
        finally:
            self._counts.finished = True
            self.over.set()

    def interrupt(self) -> None:
        """Start no more calls, and come to an end."""
        self._interrupted = True
        self._soon(self._on_interrupt)

    def hurry(self) -> None:
        """Wait for nothing that can be given up."""
        self._soon(lambda: self._soon(self._on_hurry))  # a turn later: a call that only just started could not clean up

    async def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not self._interrupted:  # before there was a loop to tell it to
            await self._main()

    def _soon(self, what: Callable[[], None]) -> None:
        """Have something done in the loop's thread; nothing if there is no loop (yet, or any more)."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(what)


class Unbroken:
    """Steps that come to their end even if the run that waits for them is stopped meanwhile."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, step: Coroutine[Any, Any, T]) -> T:
        """Await a step; it goes on by itself when the one who waits is cancelled."""
        task = asyncio.ensure_future(step)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def wait(self, longest_s: float) -> None:
        """Wait for the steps that are under way."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=longest_s)

    def cancel(self) -> None:
        """Give them up."""
        for task in self._tasks:
            task.cancel()


def wait_for(run: Background, listener: Listener | None, grace_s: float) -> None:
    """Start a run and wait for its end; raises the error that stopped it.

    An exception raised in this thread meanwhile (KeyboardInterrupt, Dagster's interrupt) interrupts the run, which then
    has `grace_s` seconds to come to an end, or until a second exception; then the first one goes on.
    """
    try:
        threading.Thread(target=run.in_thread, name="radar-calls", daemon=True).start()
        _listen(run, listener, math.inf)
    except BaseException:  # whatever it is, it goes on once the run has ended
        run.interrupt()
        try:
            _listen(run, listener, grace_s + _END_S)
        except BaseException:  # the first one is the one to tell
            run.hurry()
            run.over.wait(2 * _END_S)
        raise
    if run.error is not None:
        raise run.error


def _listen(run: Background, listener: Listener | None, longest_s: float) -> None:
    """Wait for the end of a run and tell how it goes. In short pieces, so that a signal's handler can raise here."""
    until = time.monotonic() + longest_s
    over = False
    while not over and time.monotonic() < until:
        heard = progress.anybody_listens(listener)
        over = run.over.wait(progress.TELL_EVERY_S if heard else _PIECE_S)
        if heard:
            _tell(run.tally(), listener)


def _tell(tally: Tally, listener: Listener | None) -> None:
    """A listener that raises interrupts a run, as anything does; but not its end, which is for calls in flight."""
    try:
        progress.tell(tally, listener)
    except Exception:
        if not tally.stopping:
            raise
