"""Replies as the ledger keeps them, and back: what is read from a row equals what the call itself gave.

Not here: the rows and where they are kept (`ledger/`), which of them answers a request (`door.py`).
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from radar_dagster.models.ledger import Entry
from radar_dagster.models.replies import Generation, Judgement, State

Reply = TypeVar("Reply", Generation, Judgement)

#: What is parsed out of a reply, by role; the rest of a reply has columns of its own.
_PARSED = {Generation: ("text",), Judgement: ("score", "expected", "reasoning", "rationale")}


def parsed_of(reply: Generation | Judgement) -> str | None:
    """The column `parsed`: JSON of what an `ok` reply holds; None for any other."""
    if reply.state is not State.OK:
        return None
    return json.dumps({name: getattr(reply, name) for name in _PARSED[type(reply)]})


def reply_of(entry: Entry, kind: type[Reply]) -> Reply:
    """The reply that a row of the ledger keeps."""
    parsed: dict[str, Any] = json.loads(entry.parsed) if entry.parsed else {}
    return kind(
        state=State(entry.state),
        detail=entry.detail,
        parameters=json.loads(entry.parameters),
        input_tokens=entry.input_tokens,
        output_tokens=entry.output_tokens,
        usd=entry.usd,
        **parsed,
    )
