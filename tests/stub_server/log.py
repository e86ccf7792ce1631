"""What the stub has seen: a record of every request, and the counts over them.

Here: data and counting. Keys never get here. Not here: deciding anything.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: Statuses that no server sends: the connection was closed on purpose; the client left before the reply.
DROPPED = 0
CLIENT_LEFT = 499

_SECRET = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})


@dataclass(slots=True)
class Record:
    """One request. `place` is "call", "item" (of a batch) or "other" (files, batches, models).

    `status` is what was sent: None while it runs, 0 if the connection was closed on purpose without a complete reply,
    499 if the client had left. `ok` means that a complete successful reply was handed to the socket; of an item, that
    it succeeded. `billed` means that the tokens were used up, whether the reply arrived or not. Tokens are 0 before
    there is a reply; completion_tokens include reasoning_tokens. `arrived` is a Unix time.
    """

    number: int
    method: str
    path: str
    place: str
    protocol: str | None = None
    model: str | None = None
    content: str | None = None
    sample: str | None = None
    nth: int = 0
    fault: str | None = None
    status: int | None = None
    ok: bool = False
    billed: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    in_flight: int = 0
    arrived: float = field(default_factory=time.time)
    seconds: float | None = None
    custom_id: str | None = None
    body: Any = None
    reply: str | None = None
    headers: dict[str, str] | None = None

    def bill(self, prompt: int, completion: int, reasoning: int) -> None:
        """Count what a reply used up."""
        self.billed = True
        self.prompt_tokens, self.completion_tokens, self.reasoning_tokens = prompt, completion, reasoning


class Log:
    """Records in order of arrival, and counters. Read it from any thread; only the server's own writes."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything, how often a content was seen included."""
        self.records: list[Record] = []
        self.in_flight = 0
        self.peak = 0
        #: requests that carried no key
        self.keyless = 0
        #: content -> how often it was asked / answered with success; live calls and items alike
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        #: content -> how many replies were made for it, lost ones included
        self.drawn: Counter[str] = Counter()
        self.started_calls = 0

    def open(self, method: str, path: str, place: str) -> Record:
        """A new record, with the time of arrival."""
        record = Record(len(self.records) + 1, method, path, place)
        self.records.append(record)
        return record

    def enter(self, record: Record) -> None:
        """A call begins to be worked on."""
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        record.in_flight = self.in_flight

    def leave(self, record: Record) -> None:
        """A request is over, or its reply is about to be sent: who has the reply finds it counted."""
        if record.seconds is None:
            record.seconds = time.time() - record.arrived
            self.in_flight -= record.place == "call"

    @property
    def calls(self) -> list[Record]:
        """The requests for a completion."""
        return [record for record in self.records if record.place == "call"]

    @property
    def items(self) -> list[Record]:
        """The items of finished batches."""
        return [record for record in self.records if record.place == "item"]

    @property
    def ok(self) -> int:
        """Calls whose complete successful reply was handed to the socket."""
        return sum(record.ok for record in self.calls)

    @property
    def statuses(self) -> Counter[int]:
        """Calls by status."""
        return Counter(record.status for record in self.calls if record.status is not None)

    @property
    def faults(self) -> Counter[str]:
        """Requests of all places by the kind of fault that they got."""
        return Counter(record.fault for record in list(self.records) if record.fault is not None)

    @property
    def paths(self) -> Counter[str]:
        """HTTP requests by "METHOD /path", ids replaced by {id}."""
        return Counter(f"{record.method} {record.path}" for record in list(self.records) if record.place != "item")

    @property
    def repeated(self) -> dict[str, int]:
        """Contents that were answered with success more than once -> how often."""
        return {content: times for content, times in dict(self.answered).items() if times > 1}

    def tokens(self, *, ok_only: bool = False, model: str | None = None) -> dict[str, int]:
        """Tokens used up by calls and items: of all, or of those alone whose reply was handed over, or of one model."""
        counted = [record for record in list(self.records) if (record.ok if ok_only else record.billed)]
        counted = [record for record in counted if model in (None, record.model)]
        names = ("prompt_tokens", "completion_tokens", "reasoning_tokens")
        return {name: sum(getattr(record, name) for record in counted) for name in names}

    def counters(self) -> dict[str, Any]:
        """All counts, as JSON takes them. They are counted anew each time: poll a few times a second, not more."""
        calls = self.calls
        return {
            "requests": len(self.records) - len(self.items),
            "calls": len(calls),
            "ok": self.ok,
            "items": len(self.items),
            "paths": dict(self.paths),
            "statuses": {str(status): count for status, count in self.statuses.items()},
            "faults": dict(self.faults),
            "in_flight": self.in_flight,
            "peak": self.peak,
            "keyless": self.keyless,
            "contents": len(self.asked),
            "repeated": self.repeated,
            "billed": self.tokens(),
            "handed_over": self.tokens(ok_only=True),
        }

    def rows(self, since: int = 0) -> list[dict[str, Any]]:
        """The records after number `since`, as JSON takes them."""
        return [asdict(record) for record in self.records[since:]]


def harmless(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers without those that can hold a key."""
    return {name: value for name, value in headers.items() if name not in _SECRET}
