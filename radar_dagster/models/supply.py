"""From the works that a run is given to the calls that it may make, and what has come of each work.

A work is taken, which gives it its place among the results, and looked for in the ledger. What that does not answer is
unclaimed until a group of keys is claimed, and is then looked for once more, with what a run that was cut off has left
of it. Keys that another process holds are parked. Works of the same key are one call and share its reply.

Here: what is taken, claimed and delivered, all in one thread, that of the run's loop. Not here: when that is done, and
the calls (`driver.py`); claims (`ledger/claims.py`).
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic

from radar_dagster.models.chains import Chain, Origin, Reply, Work, look_up
from radar_dagster.models.progress import Counts
from radar_dagster.models.replies import State

if TYPE_CHECKING:
    from radar_dagster.models.ledger import Entry, Ledger, Writer

#: Works are taken, and their keys claimed, in groups of this size.
_GROUP = 128
#: Of a group so many are taken in one go, which takes a millisecond or two: then calls and replies come first.
_PIECE = 16


class Supply(Generic[Reply]):
    """The works of one run. `from_entry` makes the reply of an `ok` row; `counts` are told of every reply."""

    def __init__(
        self,
        works: Iterable[Work[Reply]],
        *,
        origin: Origin,
        max_attempts: int,
        ledger: Ledger,
        from_entry: Callable[[Entry], Reply],
        counts: Counts,
    ) -> None:
        self._works = iter(works)
        self._origin = origin
        self._max_attempts = max_attempts
        self._ledger = ledger
        #: Rows of other sessions answer nothing, where this is set.
        self._session = origin.session if origin.fresh else None
        self._from_entry = from_entry
        self._counts = counts
        self.all_taken = False
        #: Works whose keys are not claimed yet, and those whose keys another process holds.
        self._unclaimed: deque[Work[Reply]] = deque()
        self._parked: list[Work[Reply]] = []
        #: Keys that are ours and have no reply yet.
        self._claimed: set[str] = set()
        #: Of the works taken so far: key -> their places among the results; the results; keys without one.
        self._places: dict[str, list[int]] = {}
        self._replies: list[Reply | None] = []
        self._open = 0
        #: Keys that the ledger answered.
        self._known: set[str] = set()

    @property
    def unclaimed(self) -> int:
        """Works that `claim` is to make calls of."""
        return len(self._unclaimed)

    @property
    def has_parked(self) -> bool:
        """Whether another process holds keys; `claim_parked` finds out whether it has the answers, or has gone."""
        return bool(self._parked)

    @property
    def is_over(self) -> bool:
        """Whether all works are taken and have their reply."""
        return self.all_taken and self._open == 0

    def results(self) -> list[Reply]:
        """The replies so far, in the order of the works."""
        return [reply for reply in self._replies if reply is not None]

    async def take(self) -> None:
        """Take the next group of works, and deliver what the ledger has of them; the others are unclaimed."""
        new: list[Work[Reply]] = []
        taken = 0
        while taken < _GROUP and (piece := list(itertools.islice(self._works, _PIECE))):
            taken += len(piece)
            new += [work for work in piece if self._enter(work)]
            await asyncio.sleep(0)
        answers = await asyncio.to_thread(self._ledger.answers, [work.key for work in new], session=self._session)
        for work in new:
            if work.key in answers:
                self._deliver_known(work.key, answers[work.key])
            else:
                self._unclaimed.append(work)
        self.all_taken = taken < _GROUP

    async def claim(self, writer: Writer) -> list[Chain[Reply]]:
        """Claim the next group of keys; returns the calls that are to be made, or to go on, now that they are ours."""
        group = [self._unclaimed.popleft() for _ in range(min(_GROUP, len(self._unclaimed)))]
        return await self._claim(group, writer)

    async def claim_parked(self, writer: Writer) -> list[Chain[Reply]]:
        """`claim` for what is parked; what others still hold is parked again."""
        group, self._parked = self._parked, []
        return await self._claim(group, writer)

    def deliver(self, key: str, reply: Reply) -> None:
        """The reply of all works of a key. Its claim is no longer ours: a final row, or the caller, gives it back."""
        places = self._places[key]
        for place in places:
            self._replies[place] = reply
        self._counts.ended(reply.state, len(places), from_ledger=key in self._known)
        self._claimed.discard(key)
        self._open -= 1

    def give_up(self, state: State, detail: str) -> None:
        """Deliver this for all that is unclaimed or parked now."""
        works = [*self._unclaimed, *self._parked]
        self._unclaimed.clear()
        self._parked.clear()
        for work in works:
            self.deliver(work.key, work.failed(state, detail))

    def let_go(self, writer: Writer) -> None:
        """Give back the claims of the calls that have no reply."""
        if self._claimed:
            writer.release(self._claimed)

    def _enter(self, work: Work[Reply]) -> bool:
        """Give the work its place among the results; true if it is the first of its key."""
        places = self._places.setdefault(work.key, [])
        places.append(len(self._replies))
        is_first = len(places) == 1
        reply = None if is_first else self._replies[places[0]]
        self._replies.append(reply)
        self._open += is_first
        if reply is not None:
            self._counts.ended(reply.state, from_ledger=work.key in self._known)
        return is_first

    async def _claim(self, works: list[Work[Reply]], writer: Writer) -> list[Chain[Reply]]:
        """Take the keys that nobody has, and look only then for what others have left: nothing slips in between."""
        keys = [work.key for work in works]
        mine = await writer.claim(keys)
        self._claimed |= mine
        answers, cut_off = await asyncio.to_thread(look_up, self._ledger, keys, self._session)
        chains: list[Chain[Reply]] = []
        for work in works:
            if work.key in answers:
                self._deliver_known(work.key, answers[work.key])
            elif work.key in mine:
                chains.append(self._chain(work, cut_off.get(work.key, [])))
            else:
                self._parked.append(work)
        writer.release(mine & answers.keys())
        return chains

    def _chain(self, work: Work[Reply], rows: list[Entry]) -> Chain[Reply]:
        chain = Chain(work, self._origin, self._max_attempts)
        chain.resume(rows)
        return chain

    def _deliver_known(self, key: str, entry: Entry) -> None:
        self._known.add(key)
        self.deliver(key, self._from_entry(entry))
