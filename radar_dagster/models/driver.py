"""Sends many calls to one model: when each starts, how many at once, when it is tried again, when the run must end.

`run` is synchronous and works with or without an event loop in the calling thread: the calls live in a loop of a thread
of their own, and the calling thread waits, open to interrupts.

A call counts when its row is in the ledger, and not before: its reply is delivered, its next attempt scheduled and the
progress told after the commit. The place it took among the calls in flight is free as soon as the reply is there, and
the next call goes out before the reply is read.

The way of a call: its work is taken from those given and its key claimed (`_supply_more`), then it is ready; it is
chosen when it may start (`_next_start`), sent in a lane (`_attempt`), and its reply frees its place and its money
(`_replied`); a task of its own reads the reply and commits the row (`_record`); then its reply is delivered, or its
next attempt is ready, at once or later (`_go_on`).

Here: the schedule of a run. Not here: how works become calls, and where replies are kept (`supply.py`), what follows
from an attempt (`chains.py`), how many calls may be in flight (`limits.py`), money (`budget.py`), the rows (`ledger/`),
batches (`batch.py`).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from radar_dagster.errors import OperationalError
from radar_dagster.models.background import Background, wait_for
from radar_dagster.models.budget import Budget, Reservation
from radar_dagster.models.chains import Chain, Origin, Reply, Step, Work, costing_at_most
from radar_dagster.models.clients import Client
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Completion, Exchange, Trouble, Usage
from radar_dagster.models.health import Health
from radar_dagster.models.ledger import Entry
from radar_dagster.models.limits import Member, Pace, Ticket, Verdict, estimated_tokens, pace_of
from radar_dagster.models.prices import PriceTable
from radar_dagster.models.progress import Counts, Listener, Tally
from radar_dagster.models.replies import State
from radar_dagster.models.supply import Supply

if TYPE_CHECKING:
    from radar_dagster.models.ledger import Ledger, Writer

__all__ = ["Origin", "Work", "run"]

_NOTHING = Decimal(0)

#: After an interrupt, calls in flight are waited for this long; a second interrupt ends the wait.
_INTERRUPT_GRACE_S = 30.0
#: The same after an error that stops the run.
_ERROR_GRACE_S = 2.0
#: A client gives up a call by itself after `timeout_s`; this much later the driver does. Also the longest wait for what
#: must not take long, such as the last rows.
_GUARD_S = 5.0

#: Replies on their way to the ledger. With more, no call starts: what a killed run would lose must not pile up.
_MOST_UNCOMMITTED = 256

#: The next keys are claimed when fewer calls than this are ready, the next works taken when as few have been taken and
#: not started. While nothing but a reply can let a call start, there is time to take works: then until so many are.
_READY_LOW = 32
_TAKEN_HIGH = 2048
#: Seconds between two looks at keys that another process holds, and at a budget that other runs hold.
_LOOK_AGAIN_S = 1.0


def run(
    works: Iterable[Work[Reply]],
    make_client: Callable[[], Client],
    *,
    total: int,
    endpoint: Endpoint,
    origin: Origin,
    ledger: Ledger,
    prices: PriceTable,
    budget: Budget,
    from_entry: Callable[[Entry], Reply],
    title: str | None = None,
    listener: Listener | None = None,
    pace: Pace | None = None,
) -> list[Reply]:
    """Send the works that the ledger does not answer; one reply for each of all, in their order.

    `works`, `total` in number, are taken as they are needed, in the loop's thread: those to come are prepared while the
    first are under way. Works of the same key are sent once and share the reply. `from_entry` makes the reply of an
    `ok` row. `make_client` is called when the first call is to be made, in the loop's thread. `listener` (and those of
    `progress.watching`) hear how it goes. `pace` is for tests; all runs share one for a model.

    Failures of single requests are replies. OperationalError when the run can't go on: a wrong key or address, an
    unknown model, a provider that is down, a ledger that can't be written; calls in flight get a little time to end
    and are committed. An exception raised in the waiting thread (KeyboardInterrupt, Dagster's interrupt) stops the run
    in the same way: no call starts, those in flight are waited for and committed, then it goes on; a second one cancels
    them.
    """
    if not total:
        return []
    calls = _Run(
        works,
        make_client,
        endpoint=endpoint,
        origin=origin,
        ledger=ledger,
        prices=prices,
        budget=budget,
        from_entry=from_entry,
        counts=Counts(title or origin.model, total),
        pace=pace or pace_of(origin.endpoint, endpoint, origin.model),
    )
    wait_for(calls, listener, _INTERRUPT_GRACE_S)
    return calls.results()


@dataclass(slots=True, eq=False)
class _Call(Generic[Reply]):
    """A chain whose next attempt waits or is under way. `number` is its place in the order of the works.

    What is known of the attempt's size holds for the exchange `sized`.
    """

    chain: Chain[Reply]
    number: int
    sized: Exchange | None = None
    tokens: int = 0
    worst: Decimal | None = None
    #: When the last attempt failed, by the loop's clock, and how.
    failed: float = 0.0
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class _Start(Generic[Reply]):
    """A call that starts, its place among the calls in flight, its money, and the time by the loop's clock."""

    call: _Call[Reply]
    ticket: Ticket
    reservation: Reservation
    at: float


class _Run(Background, Generic[Reply]):
    """One run. All but `tally` and `results` happens in the loop's thread."""

    def __init__(
        self,
        works: Iterable[Work[Reply]],
        make_client: Callable[[], Client],
        *,
        endpoint: Endpoint,
        origin: Origin,
        ledger: Ledger,
        prices: PriceTable,
        budget: Budget,
        from_entry: Callable[[Entry], Reply],
        counts: Counts,
        pace: Pace,
    ) -> None:
        super().__init__(counts)
        self._make_client = make_client
        self._endpoint = endpoint
        self._origin = origin
        self._ledger = ledger
        self._prices = prices
        self._budget = budget
        self._pace = pace
        self._health = Health()
        self._supply = Supply(
            works,
            origin=origin,
            max_attempts=endpoint.max_attempts,
            ledger=ledger,
            from_entry=from_entry,
            counts=counts,
        )
        #: Whether a group of works is being taken, or claimed, and whether parked ones will be looked at.
        self._taking = False
        self._claiming = False
        self._looks_again = False
        self._numbers = itertools.count()
        #: Calls that could start, as (-attempts made, number, call): what was begun is brought to an end first.
        self._ready: list[tuple[int, int, _Call[Reply]]] = []
        #: Calls that wait for their time, as (due, number, call).
        self._later: list[tuple[float, int, _Call[Reply]]] = []
        #: Tasks: lanes, each of which sends one call after another; those that read a reply and wait for its commit;
        #: claims and the like.
        self._lanes: set[asyncio.Task[None]] = set()
        self._records: set[asyncio.Task[None]] = set()
        self._chores: set[asyncio.Task[None]] = set()
        #: Lanes whose call has no reply yet -> when it started, the oldest first; those of them whose client hangs.
        self._sending: dict[asyncio.Task[None], float] = {}
        self._overdue: set[asyncio.Task[None]] = set()
        #: Timers: the next look for clients that hang, the next start of a call.
        self._guard: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = math.inf
        self._ledger_is_behind = False
        self._client: Client | None = None
        #: How all that is not under way has ended.
        self._given_up: tuple[State, str] | None = None
        self._stopped = False
        self._grace = 0.0
        # Set by `_main`, in the loop's thread.
        self._now: Callable[[], float]
        self._finish: asyncio.Event
        self._writer: Writer
        self._member: Member

    # From other threads.

    def tally(self) -> Tally:
        """Where the run stands."""
        return self._counts.tally(self._pace.limit, self._pace.paused_s)

    def results(self) -> list[Reply]:
        """All replies, once the run is over."""
        return self._supply.results()

    def _on_interrupt(self) -> None:
        self._counts.waits_s = _INTERRUPT_GRACE_S
        self._stop(_INTERRUPT_GRACE_S)

    def _on_hurry(self) -> None:
        self._cancel()

    # From the start to the end.

    async def _main(self) -> None:
        self._now = asyncio.get_running_loop().time
        self._finish = asyncio.Event()
        try:
            from radar_dagster.models.ledger import Writer

            async with Writer(self._ledger) as self._writer:
                await self._through()
        finally:
            # The run is what it is by now: connections that can't be closed change nothing.
            with suppress(Exception):
                async with asyncio.timeout(_GUARD_S):
                    if self._client is not None:
                        await self._client.close()

    async def _through(self) -> None:
        self._member = self._pace.join(lambda: self._soon(self._turn))
        try:
            if self._endpoint.deadline_s is not None:
                self._deadline = self._now() + self._endpoint.deadline_s
            self._pump()
            await self._finish.wait()
            await self._wind_up()
        finally:
            self._pace.leave(self._member)

    async def _wind_up(self) -> None:
        """Let calls in flight end and be committed, as long as there is time, then give them up; let go of all keys."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if waiting := self._lanes | self._records | self._chores:
            await asyncio.wait(waiting, timeout=self._grace)
        self._cancel()
        if waiting := self._lanes | self._records | self._chores:
            await asyncio.wait(waiting, timeout=_GUARD_S)
        self._supply.let_go(self._writer)

    def _stop(self, grace: float, error: BaseException | None = None) -> None:
        """Start no more calls, and end the run; the first reason counts."""
        if self._stopped:
            return
        self._stopped = True
        self._grace = grace
        self.error = error
        self._counts.stopping = True
        self._finish.set()

    def _cancel(self) -> None:
        """Give up the calls that have no reply yet; rows on their way to the ledger get there."""
        for task in (*self._sending, *self._chores):
            task.cancel()

    def _task(self, work: Coroutine[Any, Any, None], kind: set[asyncio.Task[None]]) -> asyncio.Task[None]:
        """A task of ours; an exception in it ends the run."""
        assert self._loop is not None
        task = self._loop.create_task(work)
        kind.add(task)
        task.add_done_callback(partial(self._task_ended, kind))
        return task

    def _task_ended(self, kind: set[asyncio.Task[None]], task: asyncio.Task[None]) -> None:
        kind.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # An OperationalError is the ledger's: what is in flight can't be recorded any more.
            self._stop(0.0 if isinstance(error, OperationalError) else _ERROR_GRACE_S, error)
        if kind is self._records and self._ledger_is_behind:  # here, and not before: until now the row counted
            self._ledger_is_behind = False
            self._wake_at(self._now())  # when others of its commit wait no more either

    # Which call starts when.

    def _turn(self) -> None:
        """`_pump` as a callback of the loop, where an exception would otherwise vanish."""
        try:
            self._pump()
        except Exception as error:
            self._stop(_ERROR_GRACE_S, error)

    def _pump(self) -> None:
        """Start a call if one may start now, and see to it that this is done again in time."""
        start = self._next_start()
        if start is not None:
            self._under_way(start, self._task(self._lane(start), self._lanes))

    def _next_start(self) -> _Start[Reply] | None:
        """The call that may start now, if one may; whoever asks starts it. `_pump` will run again in time for the next.

        One at a time: a call takes a moment to prepare, and of many prepared together the first leaves with the last.
        """
        if self._stopped:
            return None
        now = self._now()
        if now >= self._deadline:
            text = f"the deadline of {self._endpoint.deadline_s:g} s passed before this call"
            self._given_up = self._given_up or (State.TRANSPORT_ERROR, text)
        if self._given_up is not None:
            self._end_pending(*self._given_up)
        while self._later and self._later[0][0] <= now:
            self._make_ready(heapq.heappop(self._later)[2])
        found = self._take(now)
        wait = found if isinstance(found, float) else 0.0  # the next one once this one is out
        if not self._ready:
            wait = math.inf
            self._pace.content(self._member)
        due = self._later[0][0] if self._later else math.inf
        self._wake_at(min(now + wait, due, self._deadline if now < self._deadline else math.inf))
        self._supply_more(idle=found == math.inf and bool(self._sending))
        return None if isinstance(found, float) else found

    def _take(self, now: float) -> _Start[Reply] | float:
        """The first of the ready calls, or the seconds after which to ask again, infinite if something wakes us."""
        while self._ready:
            if now < self._health.hold_until:
                self._pace.content(self._member)
                return self._health.hold_until - now
            if len(self._records) >= _MOST_UNCOMMITTED:
                self._pace.content(self._member)
                self._ledger_is_behind = True
                return math.inf
            call = self._ready[0][2]
            self._size(call)
            if self._is_out_of_reach(call):
                continue
            ticket = self._pace.start(self._member, call.tokens)
            if not isinstance(ticket, Ticket):
                return ticket
            reservation = self._budget.reserve(call.worst, self._origin.model)
            if reservation is None:
                self._pace.take_back(ticket)
                # What is in flight may turn out cheaper; without any, what is set aside belongs to other runs.
                return math.inf if self._sending else _LOOK_AGAIN_S
            heapq.heappop(self._ready)
            return _Start(call, ticket, reservation, now)
        return math.inf

    def _under_way(self, start: _Start[Reply], lane: asyncio.Task[None]) -> None:
        """A call starts in a lane: count it, and see to it that it does not hang; `_replied` is its counterpart."""
        self._sending[lane] = start.at
        if self._guard is None:
            self._look_for_overdue()
        self._health.started(start.at)
        self._counts.in_flight += 1

    def _look_for_overdue(self) -> None:
        """Give up the calls whose client should have done so. One timer is enough: the oldest come first."""
        assert self._loop is not None
        self._guard = None
        longest = self._endpoint.timeout_s + _GUARD_S
        for task, started in self._sending.items():
            if self._now() < started + longest:
                self._guard = self._loop.call_at(started + longest, self._look_for_overdue)
                return
            if task not in self._overdue:
                self._overdue.add(task)
                task.cancel()

    def _size(self, call: _Call[Reply]) -> None:
        """How large the next attempt is; asked anew only when it says something else."""
        exchange = call.chain.exchange
        if call.sized is not exchange:
            call.sized = exchange
            call.tokens = estimated_tokens(exchange)
            if self._budget.limit is not None:
                call.worst = self._prices.worst_case(self._origin.model, self._endpoint, exchange)
                if call.worst is None:
                    self._budget.require_prices([self._origin.model])

    def _is_out_of_reach(self, call: _Call[Reply]) -> bool:
        """Whether the first of the ready calls can never fit into the budget; then it has ended, and others go on."""
        if call.worst is None or self._budget.may_fit_later(call.worst):
            return False
        if self._budget.exceeded:
            self._end_pending(State.BUDGET_STOPPED, self._budget.shortage)
        else:
            heapq.heappop(self._ready)
            self._end_unmade(call, State.BUDGET_STOPPED, self._budget.shortage)
        return True

    def _make_ready(self, call: _Call[Reply]) -> None:
        heapq.heappush(self._ready, (-call.chain.attempt, call.number, call))

    def _wake_at(self, time_: float) -> None:
        """See to it that calls are started at this time at the latest."""
        if time_ == math.inf or self._stopped or self._loop is None:
            return
        if self._timer is not None:
            if self._timer.when() <= time_:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(time_, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._turn()

    # A call, from its start to its row.

    async def _lane(self, start: _Start[Reply]) -> None:
        """A call that is under way, and others after it, each as soon as a reply makes room for it."""
        following = await self._attempt(start)
        while following is not None:
            self._under_way(following, _current_lane())
            following = await self._attempt(following)

    async def _attempt(self, start: _Start[Reply]) -> _Start[Reply] | None:
        """A call up to its reply; returns the call that this lane is to send next, if one may start now."""
        call, exchange = start.call, start.call.chain.exchange
        assert self._client is not None
        try:
            completion = await self._client.send(exchange)
        except CallFailed as error:
            self._failed(start, exchange, error)
        except asyncio.CancelledError:
            if _current_lane() not in self._overdue:
                self._replied(start, "failed", None)
                await self._writer.commit(self._bounded(call, exchange, call.chain.cut_off(self._now() - start.at)))
                raise
            words = f"{self._origin.model}: no reply within {self._endpoint.timeout_s:g} s"
            self._failed(start, exchange, CallFailed(Trouble.TRANSIENT, words, may_be_billed=True))
        except BaseException:  # a bug: limits and money are shared with other runs, and must not leak
            self._replied(start, "failed", None)
            raise
        else:
            return self._completed(start, exchange, completion)
        return None

    async def _record(self, call: _Call[Reply], exchange: Exchange, end: Callable[[], Step[Reply]]) -> None:
        """What an attempt came to, its row, and what follows."""
        step = end()
        step = replace(step, entry=self._bounded(call, exchange, step.entry))
        await self._writer.commit(step.entry, at_once=not self._sending)
        self._go_on(call, step)

    def _bounded(self, call: _Call[Reply], exchange: Exchange, entry: Entry) -> Entry:
        """The row as a later process needs it that goes on under the same budget."""
        known = call.worst if call.sized is exchange else None
        find_out = partial(self._prices.worst_case, self._origin.model, self._endpoint, exchange)
        return costing_at_most(entry, known, find_out)

    def _completed(self, start: _Start[Reply], exchange: Exchange, completion: Completion) -> _Start[Reply] | None:
        """A reply is there; reading it is left to a task, for the next call is to go out first."""
        latency = self._now() - start.at
        usd = self._prices.cost(self._origin.model, self._endpoint, completion.usage, sent=completion.sent)
        self._health.reached()
        self._replied(start, "ok", usd, usage=completion.usage)
        end = partial(start.call.chain.completed, completion, latency, usd)
        self._task(self._record(start.call, exchange, end), self._records)
        return self._next_start()

    def _failed(self, start: _Start[Reply], exchange: Exchange, error: CallFailed) -> None:
        call = start.call
        now = call.failed = self._now()
        call.trouble = error.trouble
        usd = None if error.may_be_billed else _NOTHING
        verdict: Verdict = "busy" if error.trouble is Trouble.BUSY else "failed"
        self._replied(start, verdict, usd, retry_after=error.retry_after)
        end = partial(call.chain.failed, error, now - start.at, self._deadline - now)
        self._task(self._record(call, exchange, end), self._records)
        self._judge_health(error, now, start.at)
        self._pump()

    def _replied(
        self,
        start: _Start[Reply],
        verdict: Verdict,
        usd: Decimal | None,
        *,
        usage: Usage | None = None,
        retry_after: float | None = None,
    ) -> None:
        """The call of this lane is no longer in flight: its place and its money are free."""
        lane = _current_lane()
        self._sending.pop(lane, None)
        self._overdue.discard(lane)
        tokens = None
        if usage is not None and usage.input_tokens is not None and usage.output_tokens is not None:
            tokens = usage.input_tokens + usage.output_tokens
        self._pace.finished(start.ticket, verdict, tokens=tokens, retry_after=retry_after)
        self._budget.settle(start.reservation, usd)
        self._counts.in_flight -= 1
        self._counts.attempt(usage, usd)

    def _judge_health(self, error: CallFailed, now: float, started: float) -> None:
        reason: str | None = None
        if error.trouble is Trouble.FATAL:
            reason = error.message
        elif error.trouble is Trouble.UNREACHABLE:
            reason = self._health.unreachable(now, started, error.message)
        elif error.status is not None:
            self._health.reached()
        if reason is not None:
            self._stop(_ERROR_GRACE_S, OperationalError(reason))

    def _go_on(self, call: _Call[Reply], step: Step[Reply]) -> None:
        """The row is in the ledger: deliver the reply, or have the next attempt made."""
        if step.reply is not None:
            self._deliver(call.chain.work.key, step.reply)
            refused = call.trouble is Trouble.REJECTED
            reason = self._health.ended(step.reply.state, step.reply.detail, refused=refused)
            if reason is not None:
                self._stop(_ERROR_GRACE_S, OperationalError(f"{self._origin.model}: {reason}"))
        elif step.delay > 0:
            due = call.failed + step.delay
            heapq.heappush(self._later, (due, call.number, call))
            self._wake_at(due)
        else:
            self._make_ready(call)
            self._pump()

    def _deliver(self, key: str, reply: Reply) -> None:
        self._supply.deliver(key, reply)
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        if self._supply.is_over:
            self._finish.set()

    def _end_pending(self, state: State, detail: str) -> None:
        """No call starts any more: give up all that is not under way, and all that is taken or ready later."""
        self._given_up = (state, detail)
        calls = [item[2] for item in (*self._ready, *self._later)]
        self._ready.clear()
        self._later.clear()
        for call in calls:
            self._end_unmade(call, state, detail)
        self._supply.give_up(state, detail)
        self._finish_if_over()

    def _end_unmade(self, call: _Call[Reply], state: State, detail: str) -> None:
        """The next attempt is not made: give back the key, which no final row does, and deliver what there is."""
        work = call.chain.work
        self._writer.release([work.key])
        unpaid = state is State.BUDGET_STOPPED
        self._deliver(work.key, call.chain.unpaid(detail) if unpaid else work.failed(state, detail))

    # From a work to a call that is ready.

    def _supply_more(self, *, idle: bool) -> None:
        """Have keys claimed, and works taken, before the ready calls run out; works earlier if there is time for it."""
        if self._claiming:  # what is being claimed is nowhere counted
            return
        ready, unclaimed = len(self._ready), self._supply.unclaimed
        enough = _TAKEN_HIGH if idle else _READY_LOW
        if unclaimed and ready < _READY_LOW:
            self._claiming = True
            self._task(self._claim(), self._chores)
        elif ready + unclaimed < enough and not self._taking and not self._supply.all_taken:
            self._taking = True
            self._task(self._take_works(), self._chores)

    async def _take_works(self) -> None:
        await self._supply.take()
        self._taking = False
        self._finish_if_over()
        self._pump()

    async def _claim(self) -> None:
        if self._client is None:  # the ledger alone does not do
            self._client = self._make_client()
        chains = await self._supply.claim(self._writer)
        self._claiming = False
        self._supplied(chains)

    async def _claim_parked(self) -> None:
        self._supplied(await self._supply.claim_parked(self._writer))

    def _supplied(self, chains: list[Chain[Reply]]) -> None:
        """These calls are ready; others may be answered, or parked: then look again before long."""
        assert self._loop is not None
        for chain in chains:
            self._make_ready(_Call(chain, next(self._numbers)))
        if self._supply.has_parked and not self._looks_again:
            self._looks_again = True
            self._loop.call_later(_LOOK_AGAIN_S, self._look_again)
        self._finish_if_over()
        self._pump()

    def _look_again(self) -> None:
        self._looks_again = False
        if self._supply.has_parked and not self._stopped:
            self._task(self._claim_parked(), self._chores)


def _current_lane() -> asyncio.Task[None]:
    """The task that runs, where it can only be a lane."""
    lane = asyncio.current_task()
    assert lane is not None
    return lane
