"""Calling models that run in this process, one after the other, with every finished call kept in the ledger.

Not here: the models (`providers/offline`, `providers/python.py`), calls over a network (`driver.py`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from radar_dagster.models import progress as progressing
from radar_dagster.models.chains import Origin
from radar_dagster.models.ledger import Entry
from radar_dagster.models.progress import Counts, Listener
from radar_dagster.models.records import Reply, parsed_of
from radar_dagster.models.replies import Generation
from radar_dagster.models.requests import JudgementRequest, Request

if TYPE_CHECKING:
    from radar_dagster.models.ledger import Ledger

Asked = TypeVar("Asked", bound=Request)

#: Calls that finish within this time of each other share a transaction. A slow call, which may be dear, has its own.
_SECONDS_PER_COMMIT = 0.05


def call_each(
    works: Sequence[tuple[str, Asked]],
    ask: Callable[[Asked], Reply],
    *,
    ledger: Ledger | None,
    origin: Origin,
    from_ledger: int = 0,
    listener: Listener | None = None,
) -> list[Reply]:
    """Ask for each (key, request), in order. A reply counts once it is in the ledger; an exception loses no other."""
    counts = Counts(origin.model, len(works), from_ledger)
    replies: list[Reply] = []
    waiting: list[Entry] = []
    committed = told = time.monotonic()
    try:
        for key, request in works:
            started = time.monotonic()
            reply = ask(request)
            now = time.monotonic()
            replies.append(reply)
            waiting.append(_entry(key, request, reply, origin, now - started))
            counts.ended(reply.state)
            if now - committed >= _SECONDS_PER_COMMIT:
                _commit(ledger, waiting)
                committed = now
            if now - told >= progressing.TELL_EVERY_S:
                progressing.tell(counts.tally(), listener)
                told = now
    finally:
        _commit(ledger, waiting)
        counts.finished = True
        if works:
            progressing.tell(counts.tally(), listener)
    return replies


def _commit(ledger: Ledger | None, waiting: list[Entry]) -> None:
    if ledger is not None and waiting:
        ledger.append(waiting)
    waiting.clear()


def _entry(key: str, request: Request, reply: Reply, origin: Origin, latency_s: float) -> Entry:
    return Entry(
        key=key,
        session=origin.session,
        run_id=origin.run_id,
        role="judge" if isinstance(request, JudgementRequest) else "generate",
        endpoint=origin.endpoint,
        model=origin.model,
        mode="live",
        attempt=1,
        final=True,
        state=reply.state.value,
        detail=reply.detail,
        request=json.dumps(request.model_dump(mode="json")),  # ASCII: a text may hold half a surrogate pair
        parameters=json.dumps(dict(reply.parameters), sort_keys=True, default=str),
        reply=reply.text if isinstance(reply, Generation) else None,
        parsed=parsed_of(reply),
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        usd=reply.usd,
        latency_s=latency_s,
        finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
