"""How many calls may be under way at one model of one endpoint, and when the next one may start.

Three limits hold together: calls in flight (adaptive: it grows while latencies hold and halves when the endpoint says
that it is busy), calls per minute, tokens per minute. `Pace` is all of them for one endpoint and model; every run of
the process that calls that model shares it, so that two Dagster steps respect one limit.

Here: when. Not here: what is called and called again (`driver.py`). Nothing here waits or knows of an event loop; times
are seconds of a monotonic clock that can be given.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import Exchange

#: Calls in flight to begin with. Until the first reply arrives nobody knows whether more would do, but a model takes
#: seconds to reply and most endpoints can take more, so the number doubles this often meanwhile: in which time a
#: processor gets about as many calls ready as there are to begin with.
_OPENING = 8
_DOUBLES_EVERY_S = 0.02
#: Beyond what an endpoint that has been busy was seen to hold, the limit grows by so much in the time of a call, twice
#: as much in the next, and so on up to one per success. Every halving also takes a little from what it is seen to hold.
_CAREFUL = 0.2
_LESS = 0.95

#: A minute and a little: calls reach the endpoint not quite as evenly as they start here (the first ones connect).
MINUTE_S = 60.5

#: Longest pause of an endpoint's own wish. One that asks for more is asked again: nobody waits a day in a run.
LONGEST_PAUSE_S = 300.0

#: An endpoint that turns call after call away is left alone for at least so long, twice as long the next time, and so
#: on, even if it asks for nothing: each call has a few attempts only.
_OWN_PAUSE_S = 0.5
_LONGEST_OWN_PAUSE_S = 30.0

#: Latencies hold while their average is below this many times the best average seen. The first replies of all are the
#: quickest ones, so the average means something only after some more.
_HOLDS = 2.0
_TELLING = 50
#: Weight of a new latency in the average, and how fast the best one is forgotten (it doubles in about 1000 replies):
#: an endpoint that is slower than an hour ago, or longer replies, are no queue.
_WEIGHT = 0.1
_FORGETS = 1.0007

#: Times that differ by less are the same: sums of seconds are not exact.
_INSTANT_S = 1e-6

Verdict = Literal["ok", "busy", "failed"]


class Adaptive:
    """The number of calls that may be in flight: from 1 to `ceiling`. Callers serialise access."""

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self._limit = float(min(_OPENING, ceiling))
        self._opened: float | None = None
        self._answered = False
        #: The most calls in flight that the endpoint was seen to hold, and when it last had too many.
        self._held = 1.0
        self._halved = -math.inf
        self._replies = 0
        self._latency = 0.0
        self._best = math.inf

    def limit(self, now: float) -> int:
        """Calls that may be in flight now."""
        if self._answered or self._opened is None:
            return int(min(self._limit, self.ceiling))
        doublings = min(int((now - self._opened + _INSTANT_S) / _DOUBLES_EVERY_S), 10)
        return min(self.ceiling, int(self._limit) << doublings)

    def until_more(self, now: float) -> float:
        """Seconds until the limit grows by itself; infinite when only a reply can make it grow."""
        if self._answered or self._opened is None or self.limit(now) >= self.ceiling:
            return math.inf
        since = now - self._opened
        return _DOUBLES_EVERY_S * (int((since + _INSTANT_S) / _DOUBLES_EVERY_S) + 1) - since

    def started(self, now: float, in_flight: int) -> None:
        """A call starts while `in_flight` others are under way."""
        if not self._answered and (self._opened is None or in_flight == 0):
            self._opened = now

    def succeeded(self, now: float, started: float, at_start: int, in_flight: int) -> None:
        """A reply arrived to a call that had started then; how many were in flight then and now, it included."""
        self._first_reply(now)
        self._learn_latency(now - started)
        self._held = max(self._held, min(at_start, in_flight))
        # A limit that is not used up tells nothing about a larger one.
        if self._latency <= _HOLDS * self._best and 2 * in_flight >= self._limit:
            self._limit = min(self._limit + self._step(now), self.ceiling)

    def busy(self, now: float, started: float) -> None:
        """The endpoint turned a call away that had started then; all that are turned away together count once."""
        self._first_reply(now)
        window = self._latency if self._replies else now - started
        if started >= self._halved and now >= self._halved + window:
            self._limit = max(1.0, self._limit / 2)
            self._held *= _LESS
            self._halved = now

    def failed(self, now: float) -> None:
        """A call failed in a way that says nothing about load."""
        self._first_reply(now)

    def _first_reply(self, now: float) -> None:
        if not self._answered:
            self._limit, self._answered = float(self.limit(now)), True

    def _learn_latency(self, latency: float) -> None:
        self._replies += 1
        self._latency += max(_WEIGHT, 1 / self._replies) * (latency - self._latency)
        if self._replies >= _TELLING:
            self._best = min(self._best * _FORGETS, self._latency)

    def _step(self, now: float) -> float:
        """How much the limit grows with a success."""
        if self._limit < self._held or self._halved == -math.inf:
            return 1.0
        calls_ago = (now - self._halved) / max(self._latency, _INSTANT_S)
        return min(1.0, _CAREFUL * 2 ** min(calls_ago, 20) / self._limit)


class _Mark:
    """An amount that was used at a time."""

    __slots__ = ("amount", "at")

    def __init__(self, at: float, amount: int) -> None:
        self.at = at
        self.amount = amount


class Window:
    """No more than `limit` of something in any minute. An amount that is larger by itself goes alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used: deque[_Mark] = deque()
        self._sum = 0

    def wait(self, amount: int, now: float) -> float:
        """Seconds until so much more fits; 0 when it does now."""
        while self._used and now - self._used[0].at >= MINUTE_S - _INSTANT_S:
            self._sum -= self._used.popleft().amount
        missing = self._sum + amount - self.limit
        if missing <= 0 or not self._used:
            return 0.0
        for mark in self._used:
            missing -= mark.amount
            if missing <= 0:
                break
        return mark.at + MINUTE_S - now

    def use(self, amount: int, now: float) -> _Mark:
        """Count an amount; what is returned allows to correct it."""
        mark = _Mark(now, amount)
        self._used.append(mark)
        self._sum += amount
        return mark

    def correct(self, mark: _Mark, amount: int) -> None:
        """The amount turned out to be another."""
        if self._used and mark.at >= self._used[0].at:  # else it has left the window, and its sum, already
            self._sum += amount - mark.amount
        mark.amount = amount


@dataclass(slots=True, eq=False)
class Member:
    """A run that starts calls. `wake` is called from any thread when a call may start that could not before."""

    wake: Callable[[], None]
    in_flight: int = 0
    #: It could not start a call when it last asked; for want of a place among those in flight.
    waits: bool = False
    hungry: bool = False


@dataclass(frozen=True, slots=True)
class Ticket:
    """A call that was allowed to start, when, and how many were in flight then, it included."""

    member: Member
    started: float
    in_flight: int
    request: _Mark | None
    tokens: _Mark | None


class Pace:
    """All limits of one model at one endpoint. Safe to use from several threads; nothing here blocks."""

    def __init__(
        self,
        concurrency: int,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._members: list[Member] = []
        self._in_flight = 0
        self._adaptive = Adaptive(concurrency)
        self._requests = Window(requests_per_minute) if requests_per_minute else None
        self._tokens = Window(tokens_per_minute) if tokens_per_minute else None
        self._paused_until = -math.inf
        #: When the last pause began, and how many there were since a call succeeded.
        self._paused_at = -math.inf
        self._pauses = 0
        #: No call has succeeded since one was turned away, or none at all yet.
        self._in_doubt = True

    @property
    def limit(self) -> int:
        """Calls that may be in flight now. Reads without the lock: an interrupt may hit the thread that asks."""
        return self._adaptive.limit(self._clock())

    @property
    def paused_s(self) -> float:
        """Seconds for which the endpoint wants no calls; 0 when it takes them."""
        return max(0.0, self._paused_until - self._clock())

    def configure(self, concurrency: int, requests_per_minute: int | None, tokens_per_minute: int | None) -> None:
        """Take other settings; what is known of the endpoint stays."""
        with self._lock:
            self._adaptive.ceiling = concurrency
            self._requests = _resized(self._requests, requests_per_minute)
            self._tokens = _resized(self._tokens, tokens_per_minute)

    def join(self, wake: Callable[[], None]) -> Member:
        """Take part; `wake` must only note that it was called."""
        member = Member(wake)
        with self._lock:
            self._members.append(member)
        return member

    def leave(self, member: Member) -> None:
        """Take no part any more; no `wake` comes afterwards. Its calls must have finished."""
        with self._lock:
            self._members.remove(member)
            self._wake_others(member)

    def start(self, member: Member, tokens: int) -> Ticket | float:
        """A ticket for a call of about so many tokens, or the seconds after which to ask again.

        Infinite seconds: ask again when woken, or when a call of one's own has finished.
        """
        with self._lock:
            now = self._clock()
            wait = self._wait(member, tokens, now)
            if wait > 0:
                return wait
            self._adaptive.started(now, self._in_flight)
            self._in_flight += 1
            member.waits = member.hungry = False
            member.in_flight += 1
            request = None if self._requests is None else self._requests.use(1, now)
            mark = None if self._tokens is None else self._tokens.use(tokens, now)
            return Ticket(member, now, self._in_flight, request, mark)

    def take_back(self, ticket: Ticket) -> None:
        """The call was not made after all."""
        with self._lock:
            if self._requests is not None and ticket.request is not None:
                self._requests.correct(ticket.request, 0)
            if self._tokens is not None and ticket.tokens is not None:
                self._tokens.correct(ticket.tokens, 0)
            self._in_flight -= 1
            ticket.member.in_flight -= 1
            self._wake_others(ticket.member)

    def content(self, member: Member) -> None:
        """The run has nothing to start, or may not: others need not leave it a place."""
        if member.waits:
            with self._lock:
                member.waits = member.hungry = False
                self._wake_others(member)

    def finished(
        self, ticket: Ticket, verdict: Verdict, *, tokens: int | None = None, retry_after: float | None = None
    ) -> None:
        """A call has ended. `tokens` are those it really took; `retry_after` (s) is what a busy endpoint asked for."""
        with self._lock:
            now = self._clock()
            if verdict == "ok":
                self._adaptive.succeeded(now, ticket.started, ticket.in_flight, self._in_flight)
                self._in_doubt = False
                self._pauses = 0
            elif verdict == "busy":
                self._adaptive.busy(now, ticket.started)
                # A single one between others that succeed waits by itself: the endpoint is full, not closed.
                if self._in_doubt:
                    self._pause(now, ticket.started, retry_after or 0.0)
                self._in_doubt = True
            else:
                self._adaptive.failed(now)
            if self._tokens is not None and ticket.tokens is not None and tokens is not None:
                self._tokens.correct(ticket.tokens, tokens)
            self._in_flight -= 1
            ticket.member.in_flight -= 1
            self._wake_others(ticket.member)

    def _pause(self, now: float, started: float, wish: float) -> None:
        """No calls for as long as the endpoint asked, and longer each time that nothing but refusals came after it."""
        if started > self._paused_at:  # else it was turned away together with others
            self._paused_at = now
            self._pauses += 1
        own = min(_LONGEST_OWN_PAUSE_S, _OWN_PAUSE_S * 2 ** min(self._pauses - 1, 10))
        self._paused_until = max(self._paused_until, self._paused_at + own, now + min(wish, LONGEST_PAUSE_S))

    def _wait(self, member: Member, tokens: int, now: float) -> float:
        waits = [self._paused_until - now]
        if self._requests is not None:
            waits.append(self._requests.wait(1, now))
        if self._tokens is not None:
            waits.append(self._tokens.wait(tokens, now))
        wait = max(waits)
        if wait <= _INSTANT_S and self._in_flight < self._adaptive.limit(now) and not self._owes(member):
            return 0.0
        member.waits = True
        member.hungry = wait <= _INSTANT_S
        return self._adaptive.until_more(now) if member.hungry else wait

    def _owes(self, member: Member) -> bool:
        """Whether the next place belongs to a run that waits for one and has fewer calls in flight."""
        return any(
            other.hungry and other.in_flight < member.in_flight for other in self._members if other is not member
        )

    def _wake_others(self, member: Member) -> None:
        # Under the lock, so that nobody is woken who has left.
        for other in self._members:
            if other is not member and other.waits:
                other.wake()


def _resized(window: Window | None, limit: int | None) -> Window | None:
    if limit is None:
        return None
    if window is None:
        return Window(limit)
    window.limit = limit
    return window


_paces: dict[tuple[str, str, str], Pace] = {}
_paces_lock = threading.Lock()


def pace_of(endpoint_name: str, endpoint: Endpoint, model: str) -> Pace:
    """The pace that all runs of this process share for a model of an endpoint; the newest settings hold."""
    limits = (endpoint.concurrency, endpoint.requests_per_minute, endpoint.tokens_per_minute)
    with _paces_lock:
        pace = _paces.get(key := (endpoint_name, endpoint.url, model))
        if pace is None:
            pace = _paces[key] = Pace(*limits)
        else:
            pace.configure(*limits)
        return pace


def estimated_tokens(exchange: Exchange) -> int:
    """What a call may take of a limit on tokens, cautiously: three characters to a token, and the longest reply."""
    return sum(len(message.content) for message in exchange.messages) // 3 + exchange.max_tokens
