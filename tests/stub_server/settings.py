"""How a stub behaves. Every field may be changed while it runs.

Here: settings as data, and their JSON form for a stub in a process of its own. Not here: which faults exist
(`faults.py`), what is said (`brains.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, Literal

from stub_server.asks import Ask
from stub_server.brains import Brain, DefaultBrain, brain_from
from stub_server.faults import Script

#: Seconds; (low, high) for a uniform draw; {"median": s, "sigma": σ} for a log-normal one; {"seconds": s,
#: "per_call": p} for s + p × calls in flight; or a function of the request and the calls in flight.
#: Draws follow from the content and the attempt. Errors are sent at once.
Latency = float | Sequence[float] | Mapping[str, float] | Callable[[Ask, int], float]


@dataclass(slots=True)
class ModelFacts:
    """What the listing tells of a model. Dates are ISO 8601: a day for OpenAI's `shutdown_date`, else a moment."""

    created: int = 1_767_225_600
    owned_by: str = "stub"
    shutdown_date: str | None = None
    display_name: str | None = None
    lifecycle: Literal["active", "deprecated", "retired"] = "active"
    deprecated_at: str | None = None
    retires_at: str | None = None
    batch: bool = True
    structured_outputs: bool = True
    effort: bool = True
    thinking: bool = True
    max_input_tokens: int | None = 200_000
    max_tokens: int | None = 64_000


@dataclass(slots=True)
class BatchPlan:
    """How batches go. The first `polls` polls find a batch running; it ends after those, once it is `seconds` old.

    fail: every batch fails as a whole with this message (OpenAI: status failed; Anthropic has no such thing and
        answers the submission by a 400).
    limit: most items; more is OpenAI's too_many_tasks, Anthropic's 413.
    half_on_cancel: a cancelled batch has results of half of its items, else of none.
    page: most batches on one page of a listing.
    late: OpenAI's batches tell the files of their results only after so many polls in all.
    spoil: what becomes of the lines of results, each time when they are read (not over HTTP).
    Single items go wrong by rules of the script.
    """

    polls: int = 1
    seconds: float = 0.0
    fail: str | None = None
    limit: int | None = None
    half_on_cancel: bool = True
    page: int = 20
    late: int = 0
    spoil: Callable[[list[bytes]], list[bytes]] | None = None


@dataclass(slots=True)
class Settings:
    """Everything that can be set.

    keys: accepted keys; None accepts all, even none. Azure's are the same.
    models: known models, names or name -> ModelFacts; None: every model is known, and the listing is empty.
    rejects: model or pattern -> parameters that get a 400. A list uses the providers' usual words; a mapping says how:
        parameter -> "parameter" (unsupported_parameter), "value" (OpenAI's unsupported_value) or the message itself
        (then OpenAI's `param` and `code` are null). Dots reach inside: "output_config.format".
    logprobs: "on", "off" (the field is null) or "rejected" (400).
    served_as: model -> the name that replies carry.
    reasoning_tokens: billed with every reply, within the request's limit. cached_tokens: reported as read from a cache.
    max_in_flight: calls beyond this many get a 429 with Retry-After: 1.
    strict: requests are validated as the providers do (schemas, names, roles).
    echo_keys: a 401 repeats the key that was sent, as careless endpoints do.
    keep_bodies: the log keeps bodies, replies and headers (never those with keys).
    """

    keys: Collection[str] | None = None
    models: Mapping[str, ModelFacts] | Sequence[str] | None = None
    brain: Brain = field(default_factory=DefaultBrain)
    script: Script = field(default_factory=Script)
    latency: Latency = 0.0
    rejects: Mapping[str, Sequence[str] | Mapping[str, str]] = field(default_factory=dict)
    logprobs: Literal["on", "off", "rejected"] = "on"
    served_as: Mapping[str, str] = field(default_factory=dict)
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    max_in_flight: int | None = None
    strict: bool = True
    echo_keys: bool = False
    keep_bodies: bool = True
    batch: BatchPlan = field(default_factory=BatchPlan)

    def knows(self, model: str) -> bool:
        """Whether a model exists and is not retired."""
        if self.models is None:
            return True
        facts = self.listed().get(model)
        return facts is not None and facts.lifecycle != "retired"

    def listed(self) -> Mapping[str, ModelFacts]:
        """The models that the listing shows."""
        if isinstance(self.models, Mapping):
            return self.models
        return {name: ModelFacts() for name in self.models or ()}

    def rejected(self, model: str) -> dict[str, str]:
        """The parameters that a model rejects -> how."""
        found: dict[str, str] = {}
        for pattern, names in self.rejects.items():
            if fnmatchcase(model, pattern):
                found |= names if isinstance(names, Mapping) else dict.fromkeys(names, "parameter")
        return found

    def seconds(self, ask: Ask, in_flight: int) -> float:
        """The latency of one call."""
        given = self.latency
        if isinstance(given, int | float):
            return given
        if callable(given):
            return given(ask, in_flight)
        if isinstance(given, Mapping):
            if "median" in given:
                return given["median"] * math.exp(given.get("sigma", 0.5) * _normal(ask))
            return given.get("seconds", 0.0) + given.get("per_call", 0.0) * in_flight
        low, high = given
        return low + (high - low) * ask.number("latency", ask.nth)

    def change(self, given: Mapping[str, Any]) -> None:
        """Set fields from JSON; ValueError names an unknown one."""
        read: dict[str, Callable[[Any], Any]] = {
            "brain": brain_from,
            "script": Script.from_json,
            "models": _models_from,
            "keys": lambda keys: None if keys is None else set(keys),
            "batch": lambda plan: BatchPlan(**plan),
        }
        known = {each.name for each in fields(self)}
        for name, value in given.items():
            if name not in known:
                raise ValueError(f"no setting {name!r}; there are {', '.join(sorted(known))}")
            setattr(self, name, read.get(name, lambda value: value)(value))


def settings_from(given: Mapping[str, Any]) -> Settings:
    """Settings from JSON."""
    settings = Settings()
    settings.change(given)
    return settings


def _models_from(given: Any) -> Mapping[str, ModelFacts] | Sequence[str] | None:
    if isinstance(given, Mapping):
        return {name: ModelFacts(**facts) for name, facts in given.items()}
    return None if given is None else tuple(given)


def _normal(ask: Ask) -> float:
    """A standard normal draw (Box–Muller)."""
    first, second = 1 - ask.number("latency", ask.nth), ask.number("latency", "angle", ask.nth)
    return math.sqrt(-2 * math.log(first)) * math.cos(2 * math.pi * second)
