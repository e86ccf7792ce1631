"""What goes wrong, and when: the kinds of faults, rules that say which request gets one, and scripts of rules.

Here: decisions only. Not here: carrying a fault out (`app.py` for those of the transport, `replies.py` for those of a
reply, `batches.py` for those of a batch's items).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, Self

from stub_server.asks import Ask, number

#: Faults of the connection or the server; by default they hit the first attempt of a request only.
TRANSPORT = (
    "rate_limited",  # 429 with Retry-After: `seconds` (default 1), or `value` as it is (a date, nonsense)
    "rate_limited_ms",  # 429 with retry-after-ms (default 50 ms) and Retry-After: 1
    "rate_limited_bare",  # 429 without a hint
    "quota",  # no money left: OpenAI 429 insufficient_quota, Anthropic 400 about the credit balance
    "forbidden",  # 403
    "too_long",  # 400: the prompt does not fit into the model's context
    "server_error",  # 500
    "bad_gateway",  # 502 with a proxy's HTML
    "overloaded",  # 529 for Anthropic, 503 for OpenAI
    "dropped",  # the connection is closed before any byte of the reply
    "reset",  # the same with a TCP reset
    "reply_lost",  # the work is done and billed, then the connection is closed before any byte
    "dropped_midway",  # closed after half of the body
    "endless",  # after the body its lines again and again, one every `seconds` (default 0), or `value` (text) instead
    "stalled",  # no reply until the client gives up, or `seconds`, then a reply
    "slow",  # `seconds` (default 0.5) of extra latency
    "garbage_json_body",  # 200 with a body that is cut JSON
    "html_body",  # 200 text/html
)
#: Faults of what the model said; by default they follow the content through all attempts.
REPLY = (
    "fenced",  # inside ```json fences, with prose around
    "truncated",  # cut text, finish_reason length / stop_reason max_tokens
    "refusal",  # OpenAI message.refusal, Anthropic stop_reason refusal
    "content_filter",  # finish_reason content_filter; Azure and Anthropic: 400
    "out_of_range",  # the score becomes `value` (default: above the highest level)
    "wrong_schema",  # a JSON object without a score
    "duplicate_objects",  # an object with another score, then the right one
    "empty",  # no text
    "missing_usage",  # no token counts
    "wild_usage",  # `value` (default 10^12) tokens of output are told
    "think_block",  # <think>…</think> with a forged verdict before the reply
    "think_open",  # a <think> that is never closed
    "reasoning_apart",  # reasoning in a field of its own
    "rejected_parameter",  # 400 that names `parameter` (default temperature)
)
#: What can happen to the items of a batch alone.
ITEM = ("expired", "errored", "canceled")

_KINDS = frozenset((*TRANSPORT, *REPLY, *ITEM))


@dataclass(slots=True)
class Rule:
    """Which requests get a fault. All conditions that are set must hold.

    share: of the contents, chosen by SHA-256(seed, kind, content). With `redraw`, of the attempts: nth enters the hash.
    attempts: only the first so many times that a content is seen (None: every time). Without a value: 1 for a
        transport fault and for items, None for a reply fault; where no share is given, None for all.
        `attempts=2` on a reply fault means that it recovers after two.
    request: only the so-manieth call that the server gets (from 1; over all contents, so it depends on arrival).
    times: at most so often in all (depends on arrival).
    contains / model / protocol / schema: a piece of the prompt, a name pattern, "openai" or "anthropic", with or
        without a schema.
    custom_id: pattern for items of batches. when: any predicate on the `Ask` (not over HTTP).
    path: pattern on "METHOD /path" for requests that are no calls, such as "POST /v1/batches"; calls have none.
    seconds, parameter, value: see the kinds.
    """

    kind: str
    share: float | None = None
    attempts: int | str | None = "default"
    redraw: bool = False
    request: int | None = None
    times: int | None = None
    contains: str | None = None
    model: str | None = None
    protocol: str | None = None
    schema: bool | None = None
    custom_id: str | None = None
    path: str | None = None
    when: Callable[[Ask], bool] | None = None
    seconds: float | None = None
    parameter: str = "temperature"
    value: Any = None
    fired: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"no fault {self.kind!r}; there are {', '.join(sorted(_KINDS))}")
        if self.attempts == "default":
            self.attempts = None if self.share is None or self.kind in REPLY else 1

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """A rule from its fields; `first_attempt_only` and `recovers_after` are other words for attempts."""
        known = dict(given)
        if "recovers_after" in known:
            known["attempts"] = known.pop("recovers_after")
        if "first_attempt_only" in known:
            once = known.pop("first_attempt_only")
            known |= {"attempts": 1} if once else {"attempts": None, "redraw": True}
        return cls(**known)

    def to_json(self) -> dict[str, Any]:
        """The fields that can be sent over HTTP."""
        if self.when is not None:
            raise ValueError("a predicate can't be sent to another process")
        named = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("when", "fired")}
        return {name: value for name, value in named.items() if value is not None or name == "attempts"}

    def fires(self, ask: Ask, seed: int, request: int, custom_id: str | None) -> bool:
        """Whether a call or an item gets the fault; counts it if so."""
        if self.path is not None or not self._suits(ask, request, custom_id):
            return False
        if self.share is not None:
            drawn = number(seed, self.kind, ask.content, *([ask.nth] if self.redraw else []))
            if drawn >= self.share:
                return False
        return self._count()

    def fires_at(self, address: str) -> bool:
        """Whether a request that is no call gets the fault; counts it if so."""
        return self.path is not None and fnmatchcase(address, self.path) and self._count()

    def _suits(self, ask: Ask, request: int, custom_id: str | None) -> bool:
        if isinstance(self.attempts, int) and ask.nth > self.attempts:
            return False
        if self.request is not None and request != self.request:
            return False
        if self.custom_id is not None and not fnmatchcase(custom_id or "", self.custom_id):
            return False
        return self._suits_text(ask)

    def _suits_text(self, ask: Ask) -> bool:
        return (
            (self.contains is None or self.contains in ask.text)
            and (self.model is None or fnmatchcase(ask.model, self.model))
            and (self.protocol is None or self.protocol == ask.protocol)
            and (self.schema is None or self.schema == (ask.schema is not None))
            and (self.when is None or self.when(ask))
        )

    def _count(self) -> bool:
        if self.times is not None and self.fired >= self.times:
            return False
        self.fired += 1
        return True


class Script:
    """Rules in order; the first that fires decides. An empty script lets everything succeed."""

    def __init__(self, rules: Iterable[Rule] = (), seed: int = 0) -> None:
        self.rules: Sequence[Rule] = tuple(rules)
        self.seed = seed

    @classmethod
    def rates(cls, rates: Mapping[str, float], seed: int = 0, **common: Any) -> Self:
        """Shares of requests by kind, with the defaults of the kinds; `common` goes into every rule.

        Faults of the transport come before those of replies, so a request can get first one and then the other.
        """
        ordered = sorted(rates, key=lambda kind: kind in REPLY)
        return cls([Rule(kind, share=rates[kind], **common) for kind in ordered], seed)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """`{"rates": {kind: share}, "rules": [fields of a Rule], "seed": 0}`; rules come before rates."""
        seed = int(given.get("seed", 0))
        rules = [Rule.from_json(rule) for rule in given.get("rules", [])]
        return cls([*rules, *cls.rates(given.get("rates", {})).rules], seed)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {"rules": [rule.to_json() for rule in self.rules], "seed": self.seed}

    def pick(self, ask: Ask, request: int, custom_id: str | None = None) -> Rule | None:
        """The fault of a call, or of an item of a batch: there, faults of the transport have no meaning."""
        for rule in self.rules:
            meant = rule.kind in REPLY or (rule.kind in ITEM if ask.in_batch else rule.kind in TRANSPORT)
            if meant and rule.fires(ask, self.seed, request, custom_id):
                return rule
        return None

    def pick_at(self, address: str) -> Rule | None:
        """The fault of a request that is no call ("POST /v1/batches")."""
        return next((rule for rule in self.rules if rule.fires_at(address)), None)
