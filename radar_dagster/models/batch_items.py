"""A batch and the calls in it: their ids there, how many go into one, what the ledger keeps of a call meanwhile.

Here: data and its JSON form. Not here: handing in and reading (`batch_desk.py`), what becomes of results (`batch.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from secrets import token_hex
from typing import Any, Generic, TypeVar

from radar_dagster.models.budget import Reservation
from radar_dagster.models.chains import Chain, Reply
from radar_dagster.models.exchange import Exchange, Message
from radar_dagster.models.ledger import batch_claim

T = TypeVar("T")

#: What is handed in as one batch at most. OpenAI takes 50,000 calls and 200 MB, Anthropic 100,000 and 256 MB; smaller
#: batches end sooner, and less is to be done again when one fails as a whole.
MOST_CALLS = 10_000
MOST_BYTES = 50_000_000
#: More than what stands around messages, schema and `extra` in a batch.
_BYTES_AROUND = 1_500

#: Characters of a token, and of a key in an id: providers take ids of 64 characters of [A-Za-z0-9_-].
_TOKEN, _KEY = 12, 40


@dataclass(slots=True, eq=False)
class Call(Generic[Reply]):
    """A chain whose next attempt waits for a batch or is in one. `ours`: its reply is one of this run.

    `size` (bytes) and `worst` (US dollars) hold for the exchange `sized`; `sent` are the parameters in the batch.
    """

    chain: Chain[Reply]
    ours: bool = True
    sent: Mapping[str, Any] = field(default_factory=dict)
    reservation: Reservation | None = None
    sized: Exchange | None = None
    size: int = 0
    worst: Decimal | None = None

    @property
    def key(self) -> str:
        """The key of the request."""
        return self.chain.work.key


@dataclass(slots=True, eq=False)
class Parcel(Generic[Reply]):
    """A batch under way, with its calls by their ids in it.

    `may_be_there`: it is at the provider, or nobody knows. `taken_up`: it is one of an earlier run, or was found by
    looking for it. `is_open`: it has neither been read nor given up.
    """

    token: str
    created: float
    calls: dict[str, Call[Reply]]
    provider_id: str | None = None
    may_be_there: bool = False
    taken_up: bool = False
    is_open: bool = True
    done: int = 0

    @property
    def claim(self) -> str:
        """What is claimed in the ledger by the one who works on it."""
        return batch_claim(self.token)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a call in a batch, for whoever reads its result.

    `attempt` is its number in the chain of its key; `messages` and `max_tokens` are what it says and allows; `sent` are
    its parameters in the provider's names, which results don't tell. `recipe` makes the work again in a run that does
    not have it.
    """

    attempt: int
    messages: tuple[Message, ...]
    max_tokens: int
    sent: Mapping[str, Any]
    recipe: str | None = None

    def to_json(self) -> str:
        """What `from_json` reads."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({**fields, "sent": dict(self.sent)})

    @classmethod
    def from_json(cls, text: str) -> Kept:
        """What `to_json` made."""
        given = json.loads(text)
        given["messages"] = tuple(Message(*message) for message in given["messages"])
        return cls(**given)


def parcel_of(calls: Iterable[Call[Reply]], created: float) -> Parcel[Reply]:
    """A new batch, not yet handed in."""
    token = token_hex(_TOKEN // 2)
    return Parcel(token, created, {custom_id(token, call.key): call for call in calls})


def custom_id(token: str, key: str) -> str:
    """What a call is named in the batch that bears the token; the part after the token is the same in every batch."""
    return f"{token}-{key[:_KEY]}"


def size_of(exchange: Exchange) -> int:
    """Bytes of a call in a batch, or a few more."""
    said = json.dumps([exchange.messages, exchange.schema, dict(exchange.extra)], default=str)
    return len(said) + _BYTES_AROUND


def portions(calls: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """The calls, each given with its bytes, in portions that one batch can hold; one that is too large goes alone."""
    portion: list[T] = []
    room = MOST_BYTES
    for call, size in calls:
        if portion and (size > room or len(portion) >= MOST_CALLS):
            yield portion
            portion, room = [], MOST_BYTES
        portion.append(call)
        room -= size
    if portion:
        yield portion
