"""How far the calls of a run are: the numbers, who hears them, and how they are said in a line.

Listeners are called in the thread that waits for the calls, about ten times a second at most and once at the end.

Here: counting and saying. Not here: what is counted when (`driver.py`), what is kept of every call (`ledger/`).
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from radar_dagster.models.exchange import Usage
from radar_dagster.models.replies import State

if TYPE_CHECKING:
    from rich.console import Console

#: Seconds between two tellings, between two lines of a log, and over which the speed is taken.
TELL_EVERY_S = 0.1
LINE_EVERY_S = 10.0
_SPEED_OVER_S = 20.0


@dataclass(frozen=True, slots=True)
class Tally:
    """Where a run stands. `title` says in words what is called; `run` tells the runs of a process apart."""

    title: str
    run: int
    #: Requests answered or given up, out of all; those that the ledger answered are in both.
    done: int
    total: int
    from_ledger: int = 0
    #: State -> requests that ended so; sums to `done`.
    states: Mapping[str, int] = field(default_factory=dict)
    #: Calls that ended in any way, the repeated ones too.
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: US dollars of the calls of this run whose price is known, and the number of those of which it is not.
    usd: Decimal = Decimal(0)
    unpriced: int = 0
    elapsed_s: float = 0.0
    #: Requests per second that calls have answered in the last seconds, and the seconds left at that speed; None before
    #: anything is known.
    rate: float | None = None
    eta_s: float | None = None
    in_flight: int = 0
    #: Calls that may be in flight now, and the seconds for which the endpoint wants none.
    limit: int = 0
    paused_s: float = 0.0
    #: No more calls start: the run was interrupted or can't go on.
    stopping: bool = False
    finished: bool = False
    #: Seconds for which calls in flight are waited for after an interrupt; None where nobody interrupted.
    waits_s: float | None = None

    @property
    def failed(self) -> int:
        """Requests that ended in any state but `ok`."""
        return self.done - self.states.get(State.OK, 0)


Listener = Callable[[Tally], None]

_runs = itertools.count(1)
# No lock around it, nor in the listeners below: an interrupt may hit the thread that waits at any point, also where it
# has just taken one. What several threads share here changes in single steps.
_watchers: list[Listener] = []


@contextmanager
def watching(listener: Listener) -> Iterator[None]:
    """Have a listener hear every run of the process meanwhile; runs side by side call it from several threads."""
    _watchers.append(listener)
    try:
        yield
    finally:
        _watchers.remove(listener)


_START = (0.0, 0)


class Counts:
    """The counts of one run, as the driver makes them. One thread counts; any other may ask for a tally.

    `from_ledger` requests were answered before the run began, and come on top of the `total` that it has.
    """

    def __init__(
        self,
        title: str,
        total: int,
        from_ledger: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title = title
        self.run = next(_runs)
        self.total = total + from_ledger
        self.from_ledger = from_ledger
        self.done = from_ledger
        self.states: Counter[str] = Counter({State.OK.value: from_ledger} if from_ledger else {})
        self.attempts = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.usd = Decimal(0)
        self.unpriced = 0
        self.in_flight = 0
        self.stopping = False
        self.finished = False
        self.waits_s: float | None = None
        self._clock = clock
        self._started = clock()
        #: (seconds since the start, requests done by calls) at the start and at the last tallies.
        self._marks = deque([_START])

    def attempt(self, usage: Usage | None, usd: Decimal | None) -> None:
        """A call has ended; `usd` is None when nobody can tell what it cost."""
        self.attempts += 1
        if usage is not None:
            self.input_tokens += usage.input_tokens or 0
            self.output_tokens += usage.output_tokens or 0
        if usd is None:
            self.unpriced += 1
        else:
            self.usd += usd

    def ended(self, state: State, requests: int = 1, *, from_ledger: bool = False) -> None:
        """So many requests, of one key, have their reply."""
        self.done += requests
        self.states[state.value] += requests
        if from_ledger:
            self.from_ledger += requests

    def tally(self, limit: int = 0, paused_s: float = 0.0) -> Tally:
        """Where the run stands now."""
        elapsed = self._clock() - self._started
        rate = self._rate(elapsed)
        left = self.total - self.done
        return Tally(
            title=self.title,
            run=self.run,
            done=self.done,
            total=self.total,
            from_ledger=self.from_ledger,
            states=dict(self.states),
            attempts=self.attempts,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            usd=self.usd,
            unpriced=self.unpriced,
            elapsed_s=elapsed,
            rate=rate,
            eta_s=left / rate if rate else None,
            in_flight=self.in_flight,
            limit=limit,
            paused_s=paused_s,
            stopping=self.stopping,
            finished=self.finished,
            waits_s=self.waits_s,
        )

    def _rate(self, elapsed: float) -> float | None:
        """Requests per second since the oldest mark that is recent; at the end, over the whole run.

        What the ledger answers comes a thousand times as fast, and tells nothing of the calls that are left.
        """
        called = self.done - self.from_ledger
        self._marks.append((elapsed, called))
        while self._marks[1][0] < elapsed - _SPEED_OVER_S:
            self._marks.popleft()
        since, before = _START if self.finished else self._marks[0]
        return (called - before) / (elapsed - since) if elapsed > since and called > before else None


def tell(tally: Tally, listener: Listener | None) -> None:
    """Tell one listener and all that watch the process."""
    for heard in [*_watchers] if listener is None else [listener, *_watchers]:
        heard(tally)


def anybody_listens(listener: Listener | None) -> bool:
    """Whether a tally would be heard."""
    return listener is not None or bool(_watchers)


def line(tally: Tally) -> str:
    """The tally in one line.

    >>> line(Tally("judge openai/gpt-6", 1, 1200, 4000, attempts=1210, states={"ok": 1197, "parse_error": 3},
    ...            input_tokens=900_000, output_tokens=9_000, usd=Decimal("0.81"), rate=33.25, eta_s=84.2))
    'judge openai/gpt-6: 1,200/4,000, 3 failed (3 parse_error), 33.2 calls/s, 900k + 9,000 tokens, $0.8100, 1:24 left'
    """
    parts = [f"{tally.done:,}/{tally.total:,}"]
    if tally.from_ledger:
        parts.append(f"{tally.from_ledger:,} from the ledger")
    if tally.failed:
        states = ", ".join(f"{n:,} {state}" for state, n in sorted(tally.states.items()) if state != State.OK and n)
        parts.append(f"{tally.failed:,} failed ({states})")
    if tally.rate is not None:
        parts.append(f"{tally.rate:.1f} calls/s")
    if tally.attempts:
        parts += [f"{_short(tally.input_tokens)} + {_short(tally.output_tokens)} tokens", _money(tally)]
    parts += _what_next(tally)
    return f"{tally.title}: {', '.join(parts)}"


def _what_next(tally: Tally) -> list[str]:
    if tally.finished:
        return [f"took {_clock_time(tally.elapsed_s)}"]
    if tally.stopping:
        return [f"stopping, waiting for {tally.in_flight} calls"]
    parts = [] if tally.eta_s is None else [f"{_clock_time(tally.eta_s)} left"]
    if tally.paused_s >= 1:
        parts.append(f"the endpoint wants a pause of {tally.paused_s:.0f} s")
    return parts


def _money(tally: Tally) -> str:
    if not tally.unpriced:
        return dollars(tally.usd)
    unknown = f"{tally.unpriced:,} calls of unknown price"
    return f"{dollars(tally.usd)} and {unknown}" if tally.usd else unknown


def dollars(usd: Decimal) -> str:
    """`$12.34`, and with four decimals what is less than a dollar."""
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}"


def _short(number: int) -> str:
    """`950`, `12k`, `3.4M`."""
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1000:.0f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def _clock_time(seconds: float) -> str:
    """`0:42`, `12:05`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def log_lines(say: Callable[[str], None], every_s: float = LINE_EVERY_S) -> Listener:
    """A listener that says a line every so many seconds of a run, and one at its end (Dagster's `context.log.info`)."""
    said: dict[int, float] = {}

    def listen(tally: Tally) -> None:
        if tally.finished:
            said.pop(tally.run, None)
            say(line(tally))
        elif tally.elapsed_s - said.get(tally.run, 0.0) >= every_s:
            said[tally.run] = tally.elapsed_s
            say(line(tally))

    return listen


def farewell(say: Callable[[str], None]) -> Listener:
    """A listener that says once of a run that it was interrupted, and which calls are waited for."""
    said: set[int] = set()

    def listen(tally: Tally) -> None:
        if tally.waits_s is None or not tally.in_flight or tally.run in said:
            return
        said.add(tally.run)
        calls = "1 call that is" if tally.in_flight == 1 else f"{tally.in_flight:,} calls that are"
        say(
            f"{tally.title}: interrupted; no more calls start. Waiting up to {tally.waits_s:g} s for {calls} in flight "
            "and will be paid in any case; Ctrl-C again does not wait."
        )

    return listen


@contextmanager
def terminal_progress(console: Console) -> Iterator[None]:
    """Show every run of the process on a console meanwhile (of standard error, so that output can be piped).

    On a terminal: one live line per run under way, and a last line that stays. Elsewhere: a plain line now and then.
    """

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    if not console.is_terminal:
        with watching(log_lines(say)), watching(farewell(say)):
            yield
        return
    from rich.live import Live
    from rich.text import Text

    under_way: dict[int, Tally] = {}
    # Standard output stays what it is: it may be a pipe.
    live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)

    def listen(tally: Tally) -> None:
        if tally.finished:
            under_way.pop(tally.run, None)
            say(line(tally))
        else:
            under_way[tally.run] = tally
        lines = [Text(line(one), no_wrap=True, overflow="ellipsis") for one in [*under_way.values()]]
        live.update(Text("\n").join(lines), refresh=True)

    with live, watching(farewell(say)), watching(listen):
        yield
