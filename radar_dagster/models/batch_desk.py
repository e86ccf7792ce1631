"""The desk at which batches are handed in and fetched: every step is noted in the ledger, bad moments are waited out.

Here: one batch between the ledger and its provider. Not here: which calls go into one and what follows from their
results (`batch.py`), how a provider does batches (`providers/`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

from radar_dagster.errors import OperationalError
from radar_dagster.models.background import Unbroken
from radar_dagster.models.batch_items import Call, Kept, Parcel
from radar_dagster.models.chains import Origin
from radar_dagster.models.clients import BatchStatus, Client
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Completion, Trouble
from radar_dagster.models.ledger import Batch, BatchItem, Entry, Ledger
from radar_dagster.models.limits import LONGEST_PAUSE_S

T = TypeVar("T")

Result = Completion | CallFailed

#: An endpoint that answers nothing of use for so long ends the run; the batches stay where they are.
PATIENCE_S = 3_600.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 120.0
#: A listing may lag behind: a batch that is not in it is looked for again after so many seconds each.
_LOOKS_S = (0.0, 1.0, 3.0, 6.0)
#: After so many seconds it lags no more.
_LAGS_S = 120.0
#: Results that have not come to their end after so many seconds (or the endpoint's `timeout_s`) are read no further.
READING_S = 600.0
#: Neither are those that hold more results of other calls than this, and so many for each of ours.
MOST_FOREIGN, _FOREIGN_EACH = 1_000, 10
#: Results may lag behind what the batch says of itself: they are read again after so many polls' time each.
_READ_AGAIN = (1, 2, 4, 8)


@dataclass(slots=True)
class Reading:
    """What could be read of a batch that has ended: results by our ids, of several for one call the first.

    `foreign` is how many results of other calls there were. `lacks`: the provider has done more calls than can be read.
    """

    found: dict[str, Result] = field(default_factory=dict)
    foreign: int = 0
    lacks: bool = False


class Desk:
    """One model's desk; to be used in one event loop.

    OperationalError whenever there is no sense in going on: a refusal that would hold for every batch, an endpoint that
    has been gone for an hour.
    """

    def __init__(
        self, client: Client, endpoint: Endpoint, origin: Origin, ledger: Ledger, recipes: Mapping[str, str]
    ) -> None:
        #: Steps that come to their end even if the run is stopped meanwhile.
        self.unbroken = Unbroken()
        self._client = client
        self._endpoint = endpoint
        self._origin = origin
        self._ledger = ledger
        self._recipes = recipes
        self._turn = asyncio.Lock()
        self._reached = False
        #: The provider's ids of batches that have been met: a batch that is looked for is none of them.
        self.known: set[str] = set()

    # Handing in.

    async def hand_in(self, parcel: Parcel[Any]) -> bool:
        """Note a batch and hand it in; false when its calls must be noted anew, since they would say something else.

        Its claim must be held. When this fails, the batch stays open in the ledger if it may have arrived.
        """
        async with self._turn:  # one after the other: each is a large upload
            dropped = self._client.dropped
            for call in parcel.calls.values():
                call.sent = self._client.parameters(call.chain.exchange)
            await self.unbroken.run(asyncio.to_thread(self._note, parcel))
            patience = _Patience()
            try:
                while self._client.dropped == dropped:
                    if await self._try_to_hand_in(parcel, patience):
                        return True
            except OperationalError:
                if not parcel.may_be_there:
                    await self.abandon(parcel)
                raise
            return False

    async def _try_to_hand_in(self, parcel: Parcel[Any], patience: _Patience) -> bool:
        try:
            await self.unbroken.run(self._submit(parcel))
        except CallFailed as error:
            parcel.may_be_there = parcel.may_be_there or _may_have_arrived(error)
            await self._bear(error, patience)
            return parcel.may_be_there and await self.find(parcel)
        self._reached = True
        return True

    async def _submit(self, parcel: Parcel[Any]) -> None:
        items = [(name, call.chain.exchange) for name, call in parcel.calls.items()]
        await self._note_id(parcel, await self._client.submit_batch(items, parcel.token))

    def _note(self, parcel: Parcel[Any]) -> None:
        items = [
            BatchItem(custom_id=name, key=call.key, request=self._kept(call).to_json())
            for name, call in parcel.calls.items()
        ]
        batch = Batch(
            token=parcel.token,
            endpoint=self._origin.endpoint,
            model=self._origin.model,
            session=self._origin.session,
            created=parcel.created,
            items=tuple(items),
        )
        self._ledger.record_batch(batch)

    def _kept(self, call: Call[Any]) -> Kept:
        exchange, recipe = call.chain.exchange, self._recipes.get(call.key)
        return Kept(call.chain.attempt + 1, exchange.messages, exchange.max_tokens, call.sent, recipe)

    async def _note_id(self, parcel: Parcel[Any], provider_id: str) -> None:
        parcel.provider_id, parcel.may_be_there = provider_id, True
        self.known.add(provider_id)
        await asyncio.to_thread(self._ledger.batch_submitted, parcel.token, provider_id)

    async def find(self, parcel: Parcel[Any]) -> bool:
        """Look for a batch whose id was never noted; whether the provider has it."""
        is_old = time.time() - parcel.created > _LAGS_S
        for seconds in _LOOKS_S[:1] if is_old else _LOOKS_S:
            await asyncio.sleep(min(seconds, self._endpoint.batch_poll_s))
            found = await self._ask(partial(self._look, parcel, self.known), parcel)
            if found is not None:
                # Not noted, here or in the ledger: it may be a guess, and whose batch it really is must still find it.
                parcel.taken_up, parcel.may_be_there, parcel.provider_id = True, True, found
                return True
        return False

    async def is_ours(self, parcel: Parcel[Any]) -> bool:
        """Whether the provider, asked for our batch as if its id were unknown, names the one that was taken for it."""
        known = self.known - {parcel.provider_id}
        return await self._ask(partial(self._look, parcel, known), parcel) == parcel.provider_id

    async def _look(self, parcel: Parcel[Any], known: Collection[str]) -> str | None:
        """One look for a batch; it may have to read some results, which may never end."""
        try:
            async with asyncio.timeout(self._reading_s):
                return await self._client.find_batch(parcel.token, parcel.created, parcel.calls.keys(), known)
        except TimeoutError:
            words = f"{self._origin.model}: looking for a batch took longer than {self._reading_s:g} s"
            raise CallFailed(Trouble.TRANSIENT, words) from None

    @property
    def _reading_s(self) -> float:
        return max(READING_S, self._endpoint.timeout_s)

    # Fetching.

    async def ended(self, parcel: Parcel[Any]) -> BatchStatus:
        """Wait until a batch runs no more, and note meanwhile how much of it is done."""
        assert parcel.provider_id is not None
        while True:
            status = await self._ask(partial(self._client.poll_batch, parcel.provider_id), parcel)
            parcel.done = status.done
            if status.state != "running":
                return status
            await asyncio.sleep(self._endpoint.batch_poll_s)

    async def results(self, parcel: Parcel[Any], status: BatchStatus) -> Reading:
        """The results of a batch that has ended; read again for a while as long as some are missing that are done."""
        reading = Reading()
        for polls in (0, *_READ_AGAIN):
            await asyncio.sleep(min(_LONGEST_WAIT_S, polls * self._endpoint.batch_poll_s))
            await self._ask(partial(self._read, parcel, reading), parcel)
            reading.lacks = _lacks(reading.found, parcel, status)
            if not reading.lacks:
                break
        return reading

    async def _read(self, parcel: Parcel[Any], reading: Reading) -> None:
        """Go through the results once, but not for ever: a server may send them without an end."""
        assert parcel.provider_id is not None
        most_foreign = MOST_FOREIGN + _FOREIGN_EACH * len(parcel.calls)
        reading.foreign = 0
        # A generator of either client; one that is left in the middle must be closed, and its connection with it.
        lines = cast(AsyncGenerator[tuple[str, Result]], self._client.batch_results(parcel.provider_id))
        try:
            async with asyncio.timeout(self._reading_s), aclosing(lines) as results:
                async for name, result in results:
                    if name in parcel.calls:
                        reading.found.setdefault(name, result)
                    else:
                        reading.foreign += 1
                    if len(reading.found) == len(parcel.calls) or reading.foreign > most_foreign:
                        return
        except TimeoutError:
            return  # what has been read by now is good

    # Closing.

    async def store(self, parcel: Parcel[Any], entries: Sequence[Entry]) -> bool:
        """Close a batch with the rows of its results, all or none; false when another process has closed it."""
        return await self._close(parcel, partial(self._ledger.append, entries, closes=parcel.token))

    async def abandon(self, parcel: Parcel[Any]) -> bool:
        """Close a batch that will have no results; false when another process has closed it."""
        return await self._close(parcel, partial(self._ledger.abandon_batch, parcel.token))

    async def _close(self, parcel: Parcel[Any], how: Callable[[], bool]) -> bool:
        async def close() -> bool:
            closed = await asyncio.to_thread(how)
            parcel.is_open = False
            return closed

        return await self.unbroken.run(close())

    # An endpoint that does not answer.

    async def _ask(self, what: Callable[[], Awaitable[T]], parcel: Parcel[Any]) -> T:
        """Ask until there is an answer."""
        patience = _Patience()
        while True:
            try:
                answer = await what()
            except CallFailed as error:
                if error.status == 404 and parcel.provider_id is not None:
                    raise _gone(error, parcel.provider_id) from None
                await self._bear(error, patience)
            else:
                self._reached = True
                return answer

    async def _bear(self, error: CallFailed, patience: _Patience) -> None:
        """Wait until the next try; OperationalError when there is no sense in one."""
        if error.trouble in (Trouble.FATAL, Trouble.REJECTED):
            raise OperationalError(error.message)
        if error.trouble is Trouble.UNREACHABLE and not self._reached and patience.failures:
            raise OperationalError(error.message)
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(patience.wait(error, now, min(_FIRST_WAIT_S, self._endpoint.batch_poll_s)))


@dataclass(slots=True)
class _Patience:
    """How long to wait between tries of something that fails time and again."""

    since: float | None = None
    failures: int = 0

    def wait(self, error: CallFailed, now: float, first_s: float) -> float:
        """Seconds until the next try; OperationalError when it has failed for too long."""
        self.since = now if self.since is None else self.since
        self.failures += 1
        if now - self.since >= PATIENCE_S:
            raise OperationalError(f"{error.message}; so it has been for {(now - self.since) / 60:.0f} minutes")
        wait = min(_LONGEST_WAIT_S, first_s * 2.0 ** (self.failures - 1))
        return max(wait, min(error.retry_after or 0.0, LONGEST_PAUSE_S))


def _lacks(found: Mapping[str, Result], parcel: Parcel[Any], status: BatchStatus) -> bool:
    """Whether calls are without a result although the provider has done, and bills, more than there are results."""
    if len(found) == len(parcel.calls):
        return False
    done = status.done
    if not done and status.message is None:
        done = len(parcel.calls)  # it came to its end and tells no counts
    return done > sum(map(_is_done, found.values()))


def _is_done(result: Result) -> bool:
    """Whether a call was made; what expired or was cancelled before has neither a reply nor a status."""
    return isinstance(result, Completion) or result.status is not None or result.may_be_billed


def _may_have_arrived(error: CallFailed) -> bool:
    """Whether what was handed in may be with the provider although there was no good answer."""
    is_gateway = error.trouble is Trouble.BUSY and error.status != 429
    return error.may_be_billed or error.trouble is Trouble.TRANSIENT or is_gateway


def _gone(error: CallFailed, provider_id: str) -> OperationalError:
    return OperationalError(
        f"{error.message}; batch {provider_id} can be read with the key with which it was handed in; "
        "if it is gone, set `mode: live` for a run, which asks for its calls anew"
    )
