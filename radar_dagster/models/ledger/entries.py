"""What the ledger's rows hold: a finished call, a batch of calls, a line of the tally.

Here: types that hold data, and what makes a value safe for any database. Not here: the tables (`schema.py`), reading
and writing them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any, Literal, Self

Role = Literal["generate", "judge"]
Mode = Literal["live", "batch"]
BatchState = Literal["submitting", "submitted", "ended", "abandoned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One finished attempt of one call. Whatever the endpoint did not tell is None."""

    key: str
    session: str
    run_id: str
    role: Role
    endpoint: str
    model: str
    mode: Mode
    #: From 1; the attempts of a key form a chain, whose last row is `final`.
    attempt: int
    final: bool
    #: A value of `replies.State`.
    state: str
    #: The HTTP status.
    status: int | None = None
    #: Why the state is not `ok`.
    detail: str | None = None
    #: JSON: the full messages, or the typed request of a programmatic model. None only where a reader left it out.
    request: str | None
    #: JSON: what was actually sent, in the endpoint's own names.
    parameters: str
    #: The raw text that came back.
    reply: str | None = None
    #: JSON: what was read out of the reply.
    parsed: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    #: What the attempt cost in US dollars; None where nobody can tell.
    usd: float | None = None
    #: What it cost at most, where `usd` is None and the price is known; a session that goes on counts it as spent.
    usd_at_most: float | None = None
    latency_s: float | None = None
    #: The model's name and the reply's id as the endpoint tells them.
    served_model: str | None = None
    provider_id: str | None = None
    #: UTC, ISO 8601.
    finished_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """One call of a batch: the id it has there, its key here, and its request (JSON)."""

    custom_id: str
    key: str
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Calls that are handed in together. `token` is ours and marks the batch before the provider has named it."""

    token: str
    endpoint: str
    model: str
    session: str
    #: Unix seconds.
    created: float
    items: tuple[BatchItem, ...]
    state: BatchState = "submitting"
    provider_id: str | None = None

    @property
    def claim(self) -> str:
        """What `Ledger.claim` is asked for, so that one process alone works on this batch."""
        return batch_claim(self.token)


@dataclass(frozen=True, slots=True)
class TallyRow:
    """Attempts that have role, endpoint, model, mode and state in common.

    Tokens and dollars are sums over the attempts that tell them, None where none does. `unpriced` counts the attempts
    of which nobody knows what they cost, those that may have been billed without a reply included: with any of those,
    `usd` is a lower bound, and `usd_at_most` what they add to it at most, as far as their prices are known.
    """

    role: str
    endpoint: str
    model: str
    mode: str
    state: str
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    reasoning_tokens: int | None
    usd: float | None
    unpriced: int
    usd_at_most: float | None = None

    @property
    def most_usd(self) -> Decimal:
        """US dollars that the attempts came to at most, as far as prices are known."""
        return sum((Decimal(str(amount)) for amount in (self.usd, self.usd_at_most) if amount), Decimal(0))


@dataclass(frozen=True, slots=True)
class Spent:
    """What attempts came to: US dollars of those that tell, and of the `unpriced` others, at most and where known."""

    calls: int = 0
    usd: Decimal = Decimal(0)
    unpriced: int = 0
    usd_at_most: Decimal = Decimal(0)

    @classmethod
    def of(cls, rows: Iterable[TallyRow]) -> Self:
        """The sum of lines of a tally."""
        total = cls()
        for row in rows:
            usd, most = (Decimal(str(amount or 0)) for amount in (row.usd, row.usd_at_most))
            total += cls(row.calls, usd, row.unpriced, most)
        return total

    def __add__(self, other: Spent) -> Self:
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})

    def __sub__(self, other: Spent) -> Self:
        return replace(self, **{name: getattr(self, name) - getattr(other, name) for name in self.__slots__})


ENTRY_FIELDS = tuple(field.name for field in fields(Entry))
#: The largest integer that both databases hold.
_LARGEST = 2**63 - 1


def batch_claim(token: str) -> str:
    """The claim that stands for a whole batch; no key looks like it."""
    return f"batch:{token}"


def values(record: Entry | BatchItem) -> dict[str, Any]:
    """A record's fields, each in a form that can't make an insert fail."""
    return {name: _safe(getattr(record, name)) for name in record.__slots__}


def safe_text(text: str) -> str:
    r"""The text with NUL and lone surrogates made visible: PostgreSQL takes no NUL, and neither is UTF-8 otherwise.

    >>> safe_text("a\x00b\ud800")
    'a\\x00b\\ud800'
    """
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-8", "backslashreplace").decode()
    return str(text)  # an enumeration's value becomes plain text


def _safe(value: Any) -> Any:
    """Text made safe; numbers that an endpoint made up (1e999 tokens, NaN dollars) are unknown."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return safe_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None if isinstance(value, int) and abs(value) > _LARGEST else value
