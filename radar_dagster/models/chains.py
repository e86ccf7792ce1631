"""The attempts at one request, one after the other: what each leaves in the ledger, and what follows from it.

    ok, refused, filtered             the end
    parse_error                       once a repair (a fresh call that states the problem), then the end; where token
                                      probabilities are missing, no words help: the end
    truncated                         once again with a larger limit, then the end
    busy, or an accident              again after a while, `max_attempts` times at most
    a parameter the model can't take  again at once, without it
    refused for good                  the end

A repair or a larger limit that is refused for good, or that the budget can't pay, takes nothing from the reply before
it, which is paid: the request ends as that reply did.

A chain that was cut off goes on after its last reply. Nothing of how often or when a request was tried enters what is
replied.

Not here: when an attempt is made and with what client (`driver.py`), the rows (`ledger/`).
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from pydantic_core import PydanticSerializationError, to_json

from radar_dagster.models import templates
from radar_dagster.models.exchange import CallFailed, Completion, Exchange, Trouble, Usage
from radar_dagster.models.ledger import Entry
from radar_dagster.models.limits import LONGEST_PAUSE_S
from radar_dagster.models.parsing import NO_CANDIDATES, problem_of
from radar_dagster.models.records import parsed_of
from radar_dagster.models.replies import Generation, Judgement, State, storable

if TYPE_CHECKING:
    from radar_dagster.models.ledger import Ledger

Reply = TypeVar("Reply", bound=Generation | Judgement)

#: Exponential backoff with full jitter: up to this many seconds after the first failure, twice as many after the next.
_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 30.0
#: Parameters that a model may refuse one after the other before its endpoint is taken to talk nonsense.
_MOST_DROPPED = 8
#: Tries without any connection; they end the run before long (see `driver.py`), and a call only in a strange network.
_MOST_UNREACHABLE = 30


@dataclass(frozen=True, slots=True)
class Work(Generic[Reply]):
    """One request to be sent: its key in the ledger, what is said, and how replies are made.

    `read` turns a completion into a reply (its state may be any but `transport_error`); `failed` makes one without
    content.
    """

    key: str
    role: Literal["generate", "judge"]
    exchange: Exchange
    read: Callable[[Completion], Reply]
    failed: Callable[[State, str], Reply]


@dataclass(frozen=True, slots=True)
class Origin:
    """What all calls of a run have in common: who calls (session, run), and whom (`endpoint`, `endpoint/model`)."""

    session: str
    run_id: str
    endpoint: str
    model: str
    mode: Literal["live", "batch"] = "live"
    #: Rows of other sessions answer nothing.
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Step(Generic[Reply]):
    """What follows from an attempt: `reply` ends the chain; without one, the next attempt is due after `delay` s."""

    entry: Entry
    reply: Reply | None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Reply]):
    """How a request ended, and the row that says so; None when no call was made.

    A paid reply whose repair or larger limit did not fit into the budget comes with its own row, which is not final.
    """

    reply: Reply
    entry: Entry | None


def costing_at_most(entry: Entry, worst: Decimal | None, find_out: Callable[[], Decimal | None]) -> Entry:
    """The row with what its attempt cost at most, if nobody can tell what it did. Rounded up: a budget relies on it.

    `worst` is that sum where it is known (there is a budget); `find_out` tells it where it is not.
    """
    if entry.usd is not None:
        return entry
    most = find_out() if worst is None else worst
    if most is None:
        return entry
    amount = float(most)
    return replace(entry, usd_at_most=amount if Decimal(amount) >= most else math.nextafter(amount, math.inf))


def cut_off_chain(history: Sequence[Entry], session: str | None) -> list[Entry]:
    """Of all rows of a key, those with a reply of a chain that never came to its end; empty when it did.

    With `session`, only rows of that session count.
    """
    rows: list[Entry] = []
    for row in history:
        if session is not None and row.session != session:
            continue
        if row.final:
            rows.clear()
        elif row.reply is not None:
            rows.append(row)
    return rows


def look_up(
    ledger: Ledger, keys: Collection[str], session: str | None
) -> tuple[dict[str, Entry], dict[str, list[Entry]]]:
    """What the ledger has of calls: answers, and chains that were cut off; with `session`, of that session alone."""
    answers = ledger.answers(keys, session=session)
    interrupted = ledger.interrupted([key for key in keys if key not in answers], session=session)
    return answers, {key: cut_off_chain(ledger.history(key), session) for key in interrupted}


class Chain(Generic[Reply]):
    """The attempts at one request. `exchange` is what the next one says, `attempt` the number of the last one made."""

    __slots__ = (
        "_dropped", "_enlarged", "_failures", "_max_attempts", "_origin", "_paid", "_repaired", "_unreachable",
        "attempt", "exchange", "work",
    )  # fmt: skip

    def __init__(self, work: Work[Reply], origin: Origin, max_attempts: int) -> None:
        self.work = work
        self.exchange = work.exchange
        self.attempt = 0
        self._origin = origin
        self._max_attempts = max_attempts
        self._failures = 0
        self._dropped = 0
        self._unreachable = 0
        self._repaired = False
        self._enlarged = False
        #: The last reply that is to be followed by a repair or a larger limit, and its row.
        self._paid: tuple[Reply, Entry] | None = None

    def resume(self, rows: Sequence[Entry]) -> None:
        """Go on where an earlier run was cut off: `rows` are those of its chain that have a reply, the oldest first."""
        for row in rows:
            reply = self.work.failed(State(row.state), row.detail or "")
            following = self._following(reply, row.reply or "")
            if following is not None:
                usage = Usage(row.input_tokens, row.output_tokens)
                self._paid = _with(reply, json.loads(row.parameters), row.usd, usage), row
                self.exchange = following
            self.attempt = row.attempt

    def completed(self, completion: Completion, latency_s: float, usd: Decimal | None) -> Step[Reply]:
        """A reply arrived; `usd` is what it cost, if that is known."""
        self.attempt += 1
        usage = completion.usage
        cost = None if usd is None else float(usd)
        reply = _with(self.work.read(completion), completion.sent, cost, usage)
        text = storable(completion.text)
        following = self._following(reply, text)
        entry = self._entry(
            final=following is None,
            state=reply.state,
            detail=reply.detail,
            sent=completion.sent,
            latency_s=latency_s,
            usd=cost,
            usage=usage,
            reply=text,
            parsed=parsed_of(reply),
            served_model=completion.served_model,
            provider_id=completion.provider_id,
        )
        if following is None:
            return Step(entry, reply)
        self._paid = reply, entry
        self.exchange = following
        return Step(entry, None)

    def failed(self, error: CallFailed, latency_s: float, time_left: float) -> Step[Reply]:
        """No reply arrived. An attempt that is not due within `time_left` seconds is none."""
        self.attempt += 1
        delay = self._delay(error)
        detail = error.message
        if delay is not None and delay >= time_left:
            delay, detail = None, f"{error.message}; there was no time for another try"
        usd = None if error.may_be_billed else 0.0
        reply = _with(self.work.failed(error.state, detail), error.sent, usd)
        if self._paid is not None and error.trouble is Trouble.REJECTED and error.state is State.TRANSPORT_ERROR:
            reply = _not_followed(self._paid[0], f"was refused: {detail}")
        entry = self._entry(
            final=delay is None,
            state=reply.state,
            detail=reply.detail,
            sent=error.sent,
            latency_s=latency_s,
            usd=usd,
            status=error.status,
        )
        if delay is not None:
            return Step(entry, None, delay)
        return Step(entry, reply)

    def unpaid(self, why: str) -> tuple[Reply, Entry | None]:
        """How the request ends when the budget can't pay its next attempt, and the row of the reply it ends with.

        That row stays open: a later run with more money goes on from it.
        """
        if self._paid is None:
            return self.work.failed(State.BUDGET_STOPPED, why), None
        reply, row = self._paid
        return _not_followed(reply, f"was not tried: {why}"), row

    def cut_off(self, latency_s: float) -> Entry:
        """The row of a call that is given up before it ended; whether it is billed nobody knows."""
        self.attempt += 1
        detail = "the run was stopped while this call was under way"
        return self._entry(
            final=False, state=State.TRANSPORT_ERROR, detail=detail, sent={}, latency_s=latency_s, usd=None
        )

    def _following(self, reply: Reply, text: str) -> Exchange | None:
        """What the next attempt says after such a reply; None when there is none."""
        if reply.state is State.PARSE_ERROR and not self._repaired and reply.detail != NO_CANDIDATES:
            self._repaired = True
            return templates.repair(self.exchange, text, problem_of(reply))
        if reply.state is State.TRUNCATED and not self._enlarged:
            self._enlarged = True
            return templates.enlarged(self.exchange)
        return None

    def _delay(self, error: CallFailed) -> float | None:
        """Seconds until the next attempt; None when there is none."""
        if error.trouble in (Trouble.FATAL, Trouble.REJECTED):
            return None
        if error.trouble is Trouble.DROPPED:
            self._dropped += 1
            return 0.0 if self._dropped <= _MOST_DROPPED else None
        if error.trouble is Trouble.UNREACHABLE:
            self._unreachable += 1
            return 0.0 if self._unreachable < _MOST_UNREACHABLE else None
        self._failures += 1
        if self._failures >= self._max_attempts:
            return None
        backoff = random.uniform(0, min(_LONGEST_BACKOFF_S, _BACKOFF_S * 2 ** (self._failures - 1)))
        # A wish for next to no time is no reason to use up all attempts within one of the endpoint's bad seconds.
        return max(backoff, min(error.retry_after or 0.0, LONGEST_PAUSE_S))

    def _entry(
        self,
        *,
        final: bool,
        state: State,
        detail: str | None,
        sent: Mapping[str, Any],
        latency_s: float,
        usd: float | None,
        usage: Usage = Usage(),  # noqa: B008  (frozen)
        status: int | None = None,
        reply: str | None = None,
        parsed: str | None = None,
        served_model: str | None = None,
        provider_id: str | None = None,
    ) -> Entry:
        origin = self._origin
        return Entry(
            key=self.work.key,
            session=origin.session,
            run_id=origin.run_id,
            role=self.work.role,
            endpoint=origin.endpoint,
            model=origin.model,
            mode=origin.mode,
            attempt=self.attempt,
            final=final,
            state=state.value,
            status=status,
            detail=detail,
            request=_as_json([message._asdict() for message in self.exchange.messages]),
            parameters=_as_json(sent),
            reply=reply,
            parsed=parsed,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            usd=usd,
            latency_s=latency_s,
            served_model=served_model,
            provider_id=provider_id,
            finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        )


def _with(reply: Reply, sent: Mapping[str, Any], usd: float | None, usage: Usage | None = None) -> Reply:
    """The reply with what its row says too, so that it is the same when it is read from there."""
    known: dict[str, Any] = {"parameters": dict(sent), "usd": usd}
    if usage is not None:
        known |= {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return cast(Reply, reply.model_copy(update=known))


def _not_followed(reply: Reply, what: str) -> Reply:
    """A reply that remains the last one, because what was to follow could not."""
    following = "a larger limit" if reply.state is State.TRUNCATED else "a repair"
    return cast(Reply, reply.model_copy(update={"detail": storable(f"{problem_of(reply)}; {following} {what}")}))


def _as_json(value: Sequence[Any] | Mapping[str, Any]) -> str:
    """JSON; several times as fast as the standard library's, which remains for what is no UTF-8."""
    try:
        return to_json(value).decode()
    except PydanticSerializationError:
        return json.dumps(value, default=str)
