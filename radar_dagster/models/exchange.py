"""One call over the wire, the same for every protocol: what is said, what came back, and how it can fail.

Here: types that hold data. Not here: making an exchange from a request (`templates.py`), reading a verdict out of a
completion (`parsing.py`), speaking a protocol (`providers/`), trying again (`chains.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from radar_dagster.models.replies import State


class Message(NamedTuple):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a call says and wants. A client leaves out what the model can't take, and records what it sent.

    `schema` is the JSON schema that the reply should satisfy (None: free text). `top_logprobs` asks for the
    probabilities of so many candidates of the first token. `extra` goes into the request's body as it is.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float | None = None
    effort: str | None = None
    schema: Mapping[str, Any] | None = None
    top_logprobs: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    #: Names the call in the provider's own logs; all attempts at one request bear the same name.
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; None where the endpoint does not tell.

    `input_tokens` counts all tokens read, those taken from or put into a cache included; `output_tokens` counts all
    tokens written, those of reasoning included.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class Stop(StrEnum):
    """Why the model stopped writing. A reason that nobody knows, and none at all, is `end`."""

    END = "end"
    LENGTH = "length"
    REFUSAL = "refusal"
    FILTER = "filter"


class Candidate(NamedTuple):
    """A candidate for the first token of a reply, with its natural-log probability."""

    token: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Completion:
    """A reply as it arrived, not yet read. `sent` holds the parameters that were sent, in the provider's own names."""

    text: str
    stop: Stop
    sent: Mapping[str, Any]
    usage: Usage = Usage()
    #: The provider's own words when it refused; None otherwise.
    refusal: str | None = None
    #: Reasoning that the endpoint keeps apart from the text.
    reasoning: str | None = None
    #: Candidates for the first token; None when the endpoint sent no probabilities.
    candidates: tuple[Candidate, ...] | None = None
    #: The model's name as the server tells it, and the server's id of the reply.
    served_model: str | None = None
    provider_id: str | None = None


class Trouble(StrEnum):
    """What a failed call means for what comes next."""

    #: No other call will succeed either (401, unknown model, wrong address): stop the run.
    FATAL = "fatal"
    #: The endpoint wants less (429, 529, 503): fewer calls at once, and this one again later.
    BUSY = "busy"
    #: An accident (500, a dropped or stalled connection): this one again later.
    TRANSIENT = "transient"
    #: The model can't take a parameter; the client has noted it and will leave it out: this one again, now.
    DROPPED = "dropped"
    #: This call alone is refused and always will be (400 about its content, 413).
    REJECTED = "rejected"
    #: No connection could be made at all, or the address only leads to another one; fatal until a first call has
    #: succeeded, an accident afterwards.
    UNREACHABLE = "unreachable"


class CallFailed(Exception):  # noqa: N818  (what happened to the call, in the words of this module)
    """A call without a completion. The message names the endpoint and the model, and never holds a key.

    `retry_after` is in seconds, as the endpoint asked. `may_be_billed` is true when the endpoint may have done the work
    although no reply arrived (a timeout, a connection that broke after the request was sent). `state` is `filtered`
    for a content filter that answers with an HTTP error, else `transport_error`. `unknown_model`: the endpoint says in
    so many words that it has no such model.
    """

    def __init__(
        self,
        trouble: Trouble,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        may_be_billed: bool = False,
        state: State = State.TRANSPORT_ERROR,
        sent: Mapping[str, Any] | None = None,
        unknown_model: bool = False,
    ) -> None:
        super().__init__(message)
        self.trouble = trouble
        self.message = message
        self.status = status
        self.retry_after = retry_after
        self.may_be_billed = may_be_billed
        self.state = state
        self.sent: Mapping[str, Any] = sent or {}
        self.unknown_model = unknown_model
