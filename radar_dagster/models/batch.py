"""Batch mode: the same calls, handed in together through the providers' batch APIs, which take half the price.

`run_batches` takes works as `driver.run` does, all at once, and gives the replies that it gives. The attempts at a
request are the same too; each of them is an item of some batch, and what is to be said again goes into another one.

Nothing is paid twice and nothing lost, whenever a run is killed:

    noted in the ledger, with a token   the next run asks the provider for a batch with the token; if there is none, it
                                        was never handed in, and its calls are handed in anew
    handed in, and its id noted         the next run takes it up: waits for its end and reads it
    read                                all results are stored in the transaction that closes the batch, or none is

A call that the provider has done, and whose result can't be read even after a while, has failed and may be billed: it
is not handed in again by this run. One that was not done is.

Of several processes one alone works on a batch, and one alone hands in a call; the others wait for the rows.

Here: which calls go into a batch, and what becomes of its results. Not here: one batch and its provider
(`batch_desk.py`), what stands for a call in a batch (`batch_items.py`), what follows from an attempt (`chains.py`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Generic, NamedTuple

from radar_dagster.errors import BadInputError, OperationalError
from radar_dagster.models.background import Background, wait_for
from radar_dagster.models.batch_desk import Desk, Reading, Result
from radar_dagster.models.batch_items import Call, Kept, Parcel, parcel_of, portions, size_of
from radar_dagster.models.budget import Budget, Reservation
from radar_dagster.models.capabilities import Capabilities
from radar_dagster.models.chains import Chain, Origin, Reply, Step, Work, costing_at_most, look_up
from radar_dagster.models.clients import Client
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Completion, Exchange, Trouble, Usage
from radar_dagster.models.ledger import Batch, BatchItem, Entry, Ledger, Writer, batch_claim
from radar_dagster.models.prices import PriceTable
from radar_dagster.models.progress import Counts, Listener, Tally
from radar_dagster.models.replies import State

_NOTHING = Decimal(0)

#: A call that expires, fails by accident or has no result is handed in again so often.
_AGAIN = 3
#: After an interrupt, handing in and storing that is under way may take this long.
_GRACE_S = 30.0

_MISSING = "the batch has ended without a result for this call"
_UNREADABLE = (
    "the batch has ended, and more of its calls are done than have a result that can be read; this one has none, and "
    "may be billed; the next run asks for it anew"
)
_ANSWERED = "another reply to a request that has been answered meanwhile"
_UNKNOWN = "a reply to a request of an earlier run, which this run can't read"


def require_batch(name: str, capabilities: Capabilities) -> None:
    """BadInputError when the model can't be called in batches; `name` is how the user calls it."""
    if not capabilities.batch:
        raise BadInputError(
            f"{name} can't be called in batches: set `mode: live` for it (or, if its endpoint has a batch API, "
            "`capabilities: {<model>: {batch: true}}` under `endpoints:`)"
        )


def run_batches(
    works: Sequence[Work[Reply]],
    make_client: Callable[[], Client],
    *,
    endpoint: Endpoint,
    origin: Origin,
    ledger: Ledger,
    prices: PriceTable,
    budget: Budget,
    from_entry: Callable[[Entry], Reply],
    title: str | None = None,
    from_ledger: int = 0,
    listener: Listener | None = None,
    recipes: Mapping[str, str] | None = None,
    revive: Callable[[str, str], Work[Reply]] | None = None,
) -> list[Reply]:
    """Have all works answered in batches; one reply each, in their order. It may take a day.

    The arguments are otherwise those of `driver.run`, the replies too. First of all, open batches that hold some of
    the works are taken up, whichever run has left them; a `fresh` run takes up those of its own session only.

    The caller leaves out what the ledger answers; `from_ledger` is the number of these requests, for the progress.

    `recipes` (key -> text) are kept with the calls that are handed in, and `revive` makes a work from a key and its
    recipe: for results in a batch that was taken up and whose requests are not among the works. Without these, such a
    result is stored with its cost, but its text answers nothing.

    Failures of single requests are replies. OperationalError when the run can't go on: a wrong key, an unknown model,
    a batch that the provider refuses as a whole, an endpoint that has been gone for an hour. BadInputError when the
    model can't be called in batches. An exception raised in the waiting thread ends the run at once. In all these
    cases batches that are under way go on at the provider, and the next run reads them. After the endpoint's
    `deadline_s` nothing more is handed in; what was is waited for.
    """
    if not works:
        return []
    run = _Run(
        works,
        make_client,
        endpoint=endpoint,
        origin=replace(origin, mode="batch"),
        ledger=ledger,
        prices=prices,
        budget=budget,
        from_entry=from_entry,
        counts=Counts(title or origin.model, len(works), from_ledger),
        recipes=recipes or {},
        revive=revive,
    )
    wait_for(run, listener, _GRACE_S)
    return run.results()


class _Ended(NamedTuple, Generic[Reply]):
    """An attempt that is over: the call, what follows, and what it took."""

    call: Call[Reply]
    step: Step[Reply]
    usage: Usage | None
    usd: Decimal | None


class _Run(Background, Generic[Reply]):
    """One run. A request is idle (perhaps answered, or another process's), ready to be handed in, in a batch, or over.

    All but `tally` and `results` happens in the loop's thread.
    """

    def __init__(
        self,
        works: Sequence[Work[Reply]],
        make_client: Callable[[], Client],
        *,
        endpoint: Endpoint,
        origin: Origin,
        ledger: Ledger,
        prices: PriceTable,
        budget: Budget,
        from_entry: Callable[[Entry], Reply],
        counts: Counts,
        recipes: Mapping[str, str],
        revive: Callable[[str, str], Work[Reply]] | None,
    ) -> None:
        super().__init__(counts)
        self._make_client = make_client
        self._endpoint = endpoint
        self._origin = origin
        self._session = origin.session if origin.fresh else None
        self._ledger = ledger
        self._prices = prices
        self._budget = budget
        self._from_entry = from_entry
        self._recipes = recipes
        self._revive = revive
        #: Key -> the places of its works among the results.
        self._places: dict[str, list[int]] = {}
        self._replies: list[Reply | None] = [None] * len(works)
        self._works: dict[str, Work[Reply]] = {}
        for place, work in enumerate(works):
            self._works.setdefault(work.key, work)
            self._places.setdefault(work.key, []).append(place)
        self._open = len(self._works)
        self._idle = dict(self._works)
        self._ready: deque[Call[Reply]] = deque()
        #: Calls of batches that failed as a whole: ready when another one has ended.
        self._held_back: list[Call[Reply]] = []
        self._running: dict[asyncio.Task[None], Parcel[Reply]] = {}
        self._claimed: set[str] = set()
        #: Tokens of batches that are not for this run.
        self._not_wanted: set[str] = set()
        self._ending = False
        #: Batches that go on at the provider after the end of the run.
        self._left = 0
        self._deadline = math.inf
        # Set by `_main`.
        self._task: asyncio.Task[Any]
        self._desk: Desk
        self._writer: Writer

    # From other threads.

    def tally(self) -> Tally:
        """Where the run stands; the title tells what the provider says of the batches under way."""
        tally = self._counts.tally()
        parcels = list(self._running.values())
        if self._left:
            go_on = "1 batch goes" if self._left == 1 else f"{self._left} batches go"
            return replace(tally, title=f"{tally.title} ({go_on} on at the provider; the next run reads the results)")
        if not parcels:
            return tally
        done, total = sum(parcel.done for parcel in parcels), sum(len(parcel.calls) for parcel in parcels)
        return replace(tally, title=f"{tally.title} (in batches: {done:,}/{total:,})")

    def results(self) -> list[Reply]:
        """All replies, once the run is over."""
        return [reply for reply in self._replies if reply is not None]

    # From the start to the end.

    async def _main(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        if self._endpoint.deadline_s is not None:
            self._deadline = self._now() + self._endpoint.deadline_s
        client = self._make_client()
        try:
            require_batch(self._origin.model, client.capabilities)
            self._desk = Desk(client, self._endpoint, self._origin, self._ledger, self._recipes)
            async with Writer(self._ledger) as self._writer:
                await self._through()
        finally:
            await client.close()

    async def _through(self) -> None:
        try:
            while self._open:
                await self._take_stock()
                self._hand_in()
                await self._wait_for_news()
        finally:
            await self._wind_up()

    async def _wait_for_news(self) -> None:
        """Wait until a batch is read, or until it is time to look again at what others hold: keys, or money."""
        if not self._open:
            return
        if not self._running:
            await asyncio.sleep(self._endpoint.batch_poll_s)
            return
        again = self._endpoint.batch_poll_s if self._idle or self._ready else None
        ended, _ = await asyncio.wait(self._running, timeout=again, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
            del self._running[task]
            self._count_in_flight()
        if ended:
            self._ready.extend(self._held_back)
            self._held_back.clear()

    async def _wind_up(self) -> None:
        """Let what is being handed in or stored come to its end; leave batches to the provider, and let go of all."""
        self._ending = True
        self._counts.stopping = self._open > 0
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._desk.unbroken.wait(_GRACE_S)
        parcels = list(self._running.values())
        self._running.clear()
        self._count_in_flight()
        for parcel in parcels:
            self._left += parcel.is_open and parcel.provider_id is not None
            self._settle_unused(parcel)
        self._writer.release([*self._claimed, *(parcel.claim for parcel in parcels)])

    def _on_interrupt(self) -> None:
        if not self._ending:
            self._ending = True
            self._task.cancel()

    def _on_hurry(self) -> None:
        self._desk.unbroken.cancel()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _count_in_flight(self) -> None:
        self._counts.in_flight = sum(len(parcel.calls) for parcel in self._running.values())

    # Requests that are idle.

    async def _take_stock(self) -> None:
        """Find out which idle requests are answered, which are in an open batch, and which are to be handed in.

        In this order, nothing slips through: a key that is ours can't get into a batch of others, and one that has left
        a batch has its row.
        """
        if not self._idle:
            return
        self._claimed |= await self._writer.claim(self._idle)
        held = await self._take_up(list(self._idle))
        answers, chains = await asyncio.to_thread(look_up, self._ledger, list(self._idle), self._session)
        for key, work in list(self._idle.items()):
            if key in answers:
                del self._idle[key]
                self._deliver(key, self._from_entry(answers[key]), from_ledger=True)
            elif key in self._claimed and key not in held:
                del self._idle[key]
                self._ready.append(Call(self._chain(work, chains)))
        self._let_go(held)

    def _chain(self, work: Work[Reply], chains: Mapping[str, list[Entry]]) -> Chain[Reply]:
        chain = Chain(work, self._origin, 1 + _AGAIN)
        chain.resume(chains.get(work.key, []))
        return chain

    def _let_go(self, keys: Collection[str]) -> None:
        """Leave keys to whoever works on them."""
        freed = self._claimed.intersection(keys)
        self._claimed -= freed
        if freed:
            self._writer.release(freed)

    def _deliver(self, key: str, reply: Reply, *, from_ledger: bool = False) -> None:
        for place in self._places[key]:
            self._replies[place] = reply
        self._counts.ended(reply.state, len(self._places[key]), from_ledger=from_ledger)
        self._let_go([key])
        self._open -= 1

    # Open batches of earlier runs.

    async def _take_up(self, keys: list[str]) -> set[str]:
        """Go on with the open batches that hold the keys; returns the keys that are in one that others work on."""
        found = await asyncio.to_thread(self._ledger.open_batch_keys, keys)
        tokens = set(found.values()) - self._not_wanted
        taken = await self._writer.claim(map(batch_claim, tokens)) if tokens else set()
        self._claimed |= taken
        if taken:
            batches = await asyncio.to_thread(self._ledger.open_batches, self._origin.endpoint, self._origin.model)
            self._desk.known.update(batch.provider_id for batch in batches if batch.provider_id)
            wanted = [batch for batch in batches if batch.claim in taken and self._is_wanted(batch)]
            for batch in wanted:
                self._spawn(await self._taken_up(batch), self._go_on_with)
            self._let_go(taken - {batch.claim for batch in wanted})
        return {key for key, token in found.items() if key in self._idle and token not in self._not_wanted}

    def _is_wanted(self, batch: Batch) -> bool:
        """A fresh run takes no answers from other sessions."""
        if self._session in (None, batch.session):
            return True
        self._not_wanted.add(batch.token)
        return False

    async def _taken_up(self, batch: Batch) -> Parcel[Reply]:
        """A batch of the ledger with its calls: those that are ours leave the idle ones, unless they are answered."""
        keys = [item.key for item in batch.items]
        answers, chains = await asyncio.to_thread(look_up, self._ledger, keys, self._session)
        calls: dict[str, Call[Reply]] = {}
        for item in batch.items:
            ours = item.key in self._idle and item.key in self._claimed and item.key not in answers
            calls[item.custom_id] = self._call_of(item, chains, ours=ours)
            if ours:
                del self._idle[item.key]
        return Parcel(batch.token, batch.created, calls, batch.provider_id, may_be_there=True, taken_up=True)

    def _call_of(self, item: BatchItem, chains: Mapping[str, list[Entry]], *, ours: bool) -> Call[Reply]:
        kept = Kept.from_json(item.request)
        chain = self._chain(self._works.get(item.key) or self._revived(item.key, kept), chains)
        chain.attempt = kept.attempt - 1
        chain.exchange = replace(chain.exchange, messages=kept.messages, max_tokens=kept.max_tokens)
        call = Call(chain, ours, kept.sent)
        self._size(call)
        # It is on its way already, whether it fits into the budget or not.
        call.reservation = self._reserve(call.worst) or self._reserve(_NOTHING)
        return call

    def _revived(self, key: str, kept: Kept) -> Work[Reply]:
        """The work of a request that is not of this run; one without a recipe has a reply that nobody can read."""
        if self._revive is not None and kept.recipe is not None:
            return self._revive(key, kept.recipe)
        exchange = Exchange(kept.messages, kept.max_tokens)
        return _unread(replace(next(iter(self._works.values())), key=key, exchange=exchange), _UNKNOWN)

    # Handing in.

    def _hand_in(self) -> None:
        """Make batches of the calls that are ready, as far as the money reaches; give up those that it can't reach."""
        if self._now() >= self._deadline:
            self._end_pending(f"the deadline of {self._endpoint.deadline_s:g} s passed before this call")
            return
        fitting, waiting = [], []
        for call in self._ready:
            self._size(call)
            call.reservation = self._reserve(call.worst)
            if call.reservation is not None:
                fitting.append((call, call.size))
            elif call.worst is not None and self._budget.may_fit_later(call.worst):
                waiting.append(call)
            else:
                detail = f"the budget of ${self._budget.limit} leaves no room for this call"
                self._deliver(call.key, call.chain.work.failed(State.BUDGET_STOPPED, detail))
        self._ready = deque(waiting)
        for calls in portions(fitting):
            self._spawn(parcel_of(calls, time.time()), self._start)

    def _size(self, call: Call[Reply]) -> None:
        """How large a call is; asked anew only when it says something else."""
        exchange = call.chain.exchange
        if call.sized is exchange:
            return
        call.sized, call.size = exchange, size_of(exchange)
        if self._budget.limit is not None:
            call.worst = self._prices.worst_case(self._origin.model, self._endpoint, exchange, batch=True)

    def _reserve(self, worst: Decimal | None) -> Reservation | None:
        return self._budget.reserve(worst, self._origin.model)

    def _end_pending(self, detail: str) -> None:
        """Give up all that is not in a batch."""
        works = [*(call.chain.work for call in self._ready), *self._idle.values()]
        self._ready.clear()
        self._idle.clear()
        for work in works:
            self._deliver(work.key, work.failed(State.TRANSPORT_ERROR, detail))

    # A batch, from its start to its rows.

    def _spawn(self, parcel: Parcel[Reply], follow: Callable[[Parcel[Reply]], Coroutine[Any, Any, None]]) -> None:
        self._running[asyncio.ensure_future(follow(parcel))] = parcel
        self._count_in_flight()

    async def _start(self, parcel: Parcel[Reply]) -> None:
        """A new batch."""
        await self._writer.claim([parcel.claim])
        if await self._desk.hand_in(parcel):
            await self._follow(parcel)
        else:
            await self._give_up(parcel)

    async def _go_on_with(self, parcel: Parcel[Reply]) -> None:
        """A batch that was handed in, or perhaps not, by a run that has ended."""
        if parcel.provider_id is not None or await self._desk.find(parcel):
            await self._follow(parcel)
        else:
            await self._give_up(parcel)

    async def _follow(self, parcel: Parcel[Reply]) -> None:
        """A batch that is at the provider."""
        status = await self._desk.ended(parcel)
        if status.state == "failed":
            await self._failed_as_a_whole(parcel, status.message)
            return
        reading = await self._desk.results(parcel, status)
        is_strange = parcel.taken_up and reading.foreign and not reading.found
        if is_strange and not await self._desk.is_ours(parcel):
            parcel.provider_id = None  # somebody else's, which was taken for ours by its size
            await self._go_on_with(parcel)
        else:
            await self._store(parcel, reading)

    async def _failed_as_a_whole(self, parcel: Parcel[Reply], message: str | None) -> None:
        """Try again where that may help: when the batch is of an earlier run, or when others are out of the way."""
        if parcel.taken_up:
            await self._give_up(parcel)
        elif len(self._running) > 1:
            await self._give_up(parcel, later=True)
        else:
            await self._desk.abandon(parcel)
            raise OperationalError(message or f"{self._origin.model}: the provider refused a batch")

    async def _give_up(self, parcel: Parcel[Reply], *, later: bool = False) -> None:
        """Close a batch that has no results; its calls are ready again, at once or later."""
        abandoned = await self._desk.abandon(parcel)
        self._settle_unused(parcel)
        calls = [call for call in parcel.calls.values() if call.ours]
        if not abandoned:
            self._look_again_at(calls)
        elif later:
            self._held_back += calls
        else:
            self._ready.extend(calls)

    def _look_again_at(self, calls: Collection[Call[Reply]]) -> None:
        """Another process, which took this one for dead, has closed the batch: the ledger knows how the calls ended."""
        self._idle.update({call.key: self._works[call.key] for call in calls})

    def _settle_unused(self, parcel: Parcel[Reply]) -> None:
        for call in parcel.calls.values():
            self._settle(call, _NOTHING)

    def _settle(self, call: Call[Reply], usd: Decimal | None) -> None:
        if call.reservation is not None:
            self._budget.settle(call.reservation, usd)
            call.reservation = None

    # Results.

    async def _store(self, parcel: Parcel[Reply], reading: Reading) -> None:
        """All rows of a batch, in the transaction that closes it; then what follows from them."""
        keys = [call.key for call in parcel.calls.values()]
        answered = await asyncio.to_thread(self._ledger.answers, keys, session=self._session)
        ended = self._attempts(parcel, reading, answered.keys())
        stored = await self._desk.store(parcel, [each.step.entry for each in ended])
        self._settle_unused(parcel)
        if not stored:
            self._look_again_at([call for call in parcel.calls.values() if call.ours])
            return
        for each in ended:
            self._conclude(each)
        self._stop_if_hopeless(reading.found)

    def _attempts(self, parcel: Parcel[Reply], reading: Reading, answered: Collection[str]) -> list[_Ended[Reply]]:
        seconds = max(0.0, time.time() - parcel.created)
        ended: list[_Ended[Reply]] = []
        for name, call in parcel.calls.items():
            result = reading.found.get(name) or self._without_result(reading)
            if call.key in answered:
                self._set_aside(call)
            if isinstance(result, Completion):
                ended.append(self._completed(call, result, seconds))
            else:
                ended.append(self._failed(call, result, seconds))
        return ended

    def _without_result(self, reading: Reading) -> CallFailed:
        """Why a call has none. Which of several are done nobody can tell, if some are: none is handed in again."""
        if reading.lacks:
            return CallFailed(Trouble.REJECTED, f"{self._origin.model}: {_UNREADABLE}", may_be_billed=True)
        return CallFailed(Trouble.TRANSIENT, f"{self._origin.model}: {_MISSING}")

    def _set_aside(self, call: Call[Reply]) -> None:
        """A call whose request has been answered by another one: a key keeps its answer."""
        if call.ours:
            call.ours = False
            self._look_again_at([call])
        call.chain.work = _unread(call.chain.work, _ANSWERED)

    def _completed(self, call: Call[Reply], result: Completion, seconds: float) -> _Ended[Reply]:
        completion = replace(result, sent=call.sent)
        usage = completion.usage
        usd = self._prices.cost(self._origin.model, self._endpoint, usage, batch=True, sent=call.sent)
        self._settle(call, usd)
        exchange = call.chain.exchange
        step = call.chain.completed(completion, seconds, usd)
        return _Ended(call, self._bounded(call, exchange, step), usage, usd)

    def _failed(self, call: Call[Reply], error: CallFailed, seconds: float) -> _Ended[Reply]:
        error.sent = call.sent
        usd = None if error.may_be_billed else _NOTHING
        self._settle(call, usd)
        exchange = call.chain.exchange
        step = call.chain.failed(error, seconds, self._deadline - self._now())
        return _Ended(call, self._bounded(call, exchange, step), None, usd)

    def _bounded(self, call: Call[Reply], exchange: Exchange, step: Step[Reply]) -> Step[Reply]:
        """The step with its row as a later process needs it that goes on under the same budget."""
        known = call.worst if call.sized is exchange else None
        find_out = partial(self._prices.worst_case, self._origin.model, self._endpoint, exchange, batch=True)
        return replace(step, entry=costing_at_most(step.entry, known, find_out))

    def _conclude(self, ended: _Ended[Reply]) -> None:
        self._counts.attempt(ended.usage, ended.usd)
        call, step = ended.call, ended.step
        if not call.ours:
            return
        if step.reply is None:
            self._ready.append(call)
        else:
            self._deliver(call.key, step.reply)

    def _stop_if_hopeless(self, results: Mapping[str, Result]) -> None:
        """A model that is unknown, or a value that no call may have, shows in the single results only."""
        for result in results.values():
            if isinstance(result, CallFailed) and result.trouble is Trouble.FATAL:
                raise OperationalError(result.message)


def _unread(work: Work[Reply], why: str) -> Work[Reply]:
    """The work with a reply that is kept and paid, but answers nothing."""
    return replace(work, read=lambda _: work.failed(State.TRANSPORT_ERROR, why))
