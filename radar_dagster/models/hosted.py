"""A hosted model as a generator or a verifier: the options it takes, its requests as exchanges and keys, its replies.

Here: what joins a `ModelSpec` to templates, parsing and a client. Not here: any one of those, and when calls are made
(`driver.py`, `batch.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from radar_dagster.errors import BadInputError
from radar_dagster.models import parsing, templates
from radar_dagster.models.capabilities import Capabilities, capabilities_of
from radar_dagster.models.chains import Work
from radar_dagster.models.clients import Client
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import Completion, Exchange
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.replies import Generation, Judgement
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, Request, ResponseRequest
from radar_dagster.models.templates import GENERATOR_TOKENS, VERIFIER_TOKENS
from radar_dagster.rubric.model import Rubric, content_hash

#: Variants that are an effort; any other only tells two uses of a model apart.
_EFFORTS = re.compile(r"none|minimal|low|medium|high|xhigh|max")

#: So many digits of a key name its calls in the provider's logs, and in batches (`batch_items.py`).
_CALL_ID = 40
#: Room for the reasoning of models whose limit of tokens covers it too.
_REASONING_TOKENS = 8_000
#: Part of every key: raise it when the same exchange would be sent or read in another way.
_KEY_VERSION = 1

#: What `extra` must not change: what a call is about, and the form of its reply.
_RESERVED = frozenset({"model", "messages", "system", "stream", "n"})

ScoreFrom = Literal["text", "logprobs"]


class HostedOptions(BaseModel):
    """`options:` of a hosted model; None leaves a value to the role's default or to the provider."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    effort: str | None = Field(default=None, min_length=1, max_length=40)
    score_from: ScoreFrom = "text"
    #: Goes into the body of every call as it is: seed, top_p, what a local server understands.
    extra: dict[str, Any] = Field(default_factory=dict)

    @field_validator("extra")
    @classmethod
    def _as_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(_RESERVED & value.keys())
        if taken:
            raise ValueError(f"can't set {', '.join(taken)}, which the audit sets itself")
        try:
            json.dumps(value, allow_nan=False, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise ValueError(f"goes out as JSON, and this can't: {error}") from None
        return value


class HostedModel:
    """One configured model at an endpoint. It plays both roles; nothing is connected until `client` is called."""

    def __init__(self, spec: ModelSpec, endpoint_name: str, endpoint: Endpoint) -> None:
        self.spec = spec
        self.endpoint_name = endpoint_name
        self.endpoint = endpoint
        self.options = _options(spec)
        #: The model's own name, and the name that is sent: a deployment may have one of its own.
        self.name = spec.name.model
        self.wire_name = endpoint.deployment or self.name

    @cached_property
    def capabilities(self) -> Capabilities:
        """What is known of the model before it was called."""
        return capabilities_of(self.endpoint, self.name)

    def check_rubric(self, rubric: Rubric) -> None:
        """Every rubric can be served; BadInputError when batches are wanted from a model that can't be batched."""
        del rubric
        if self.spec.mode == "batch":
            from radar_dagster.models.batch import require_batch

            require_batch(self.spec.model, self.capabilities)

    def client(self) -> Client:
        """A client of its own for one event loop."""
        if self.endpoint.protocol == "anthropic":
            from radar_dagster.models.providers import anthropic

            return anthropic.connect_client(self.endpoint_name, self.endpoint, self.name, self.capabilities)
        from radar_dagster.models.providers import openai

        return openai.connect_client(self.endpoint_name, self.endpoint, self.name, self.capabilities)

    @property
    def sent_no_probabilities(self) -> str:
        """Why scores are not read from token probabilities, once a call has shown that there are none."""
        return f"{self.spec.model} sent no token probabilities"

    def no_probabilities(self, request: JudgementRequest) -> str | None:
        """Why scores of this request can't be read from token probabilities, as far as is known without a call."""
        if not self.capabilities.logprobs:
            return f"{self.spec.model} gives no token probabilities"
        return parsing.can_score_from_probabilities(request.criterion.scale)

    def exchange(self, request: Request, score_from: ScoreFrom = "text") -> Exchange:
        """What the request says on the wire."""
        options = templates.RenderOptions(
            max_tokens=self.options.max_tokens or self._roomy_limit(request, score_from),
            temperature=self.options.temperature,
            effort=self.effort,
            extra=self.options.extra,
            score_from=score_from,
        )
        return templates.render(request, options)

    def _roomy_limit(self, request: Request, score_from: ScoreFrom) -> int | None:
        """Tokens of a reply with room for reasoning; None (the role's default) for a model that does not reason."""
        if not self.capabilities.reasons or score_from == "logprobs":
            return None
        written = VERIFIER_TOKENS if isinstance(request, JudgementRequest) else GENERATOR_TOKENS
        return written + _REASONING_TOKENS

    @cached_property
    def effort(self) -> str | None:
        """The effort asked for, by option or by `@variant`."""
        variant = self.spec.name.variant
        named = variant if variant and _EFFORTS.fullmatch(variant) else None
        return self.options.effort or named

    def key(self, request: Request, exchange: Exchange) -> str:
        """SHA-256 (hex) over all that can change the answer: where, which model, what is said and wanted, the draw."""
        draw = request.repeat if isinstance(request, JudgementRequest) else request.sample
        return content_hash(
            [
                _KEY_VERSION, templates.TEMPLATE_VERSION, type(request).__name__, draw,
                self.endpoint.protocol, self.endpoint.url, self.endpoint.api_version, self.wire_name, self._overrides,
                [list(message) for message in exchange.messages], exchange.max_tokens, exchange.temperature,
                exchange.effort, exchange.schema, exchange.top_logprobs, dict(exchange.extra),
            ]
        )  # fmt: skip

    @cached_property
    def _overrides(self) -> Mapping[str, Any]:
        """What radar.yaml says of the model and changes what is sent. The built-in table may learn at no cost."""
        said: dict[str, Any] = {}
        for pattern, overrides in self.endpoint.capabilities.items():
            if fnmatchcase(self.name, pattern):
                said |= overrides.model_dump(exclude_none=True, exclude={"batch", "reasons", "logprobs"})
        return said

    def recipe(self, request: Request, score_from: ScoreFrom) -> str:
        """What `revive` makes the work from again, in a run that does not have the request."""
        return json.dumps(
            {"kind": type(request).__name__, "request": request.model_dump(mode="json"), "score_from": score_from}
        )

    def revive(self, key: str, recipe: str) -> Work[Any]:
        """The work of a request that another run handed in with a batch."""
        kept = json.loads(recipe)
        request = _KINDS[kept["kind"]].model_validate(kept["request"])
        return self.work(request, self.exchange(request, kept["score_from"]), key, kept["score_from"])

    def work(self, request: Request, exchange: Exchange, key: str, score_from: ScoreFrom) -> Work[Any]:
        """The request as a work for the driver, named after its key."""
        exchange = replace(exchange, call_id=key[:_CALL_ID])
        if not isinstance(request, JudgementRequest):
            read: Callable[[Completion], Any] = partial(parsing.read_generation, request)
            return Work(key, "generate", exchange, read, Generation.failed)
        reader = parsing.read_judgement_from_probabilities if score_from == "logprobs" else parsing.read_judgement
        return Work(key, "judge", exchange, partial(reader, request), Judgement.failed)


_KINDS: Mapping[str, type[Request]] = {
    kind.__name__: kind for kind in (GenerationRequest, ResponseRequest, JudgementRequest)
}


def _options(spec: ModelSpec) -> HostedOptions:
    try:
        return HostedOptions.model_validate(spec.options)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        known = ", ".join(HostedOptions.model_fields)
        raise BadInputError(
            f"{spec.model}: options.{place}: {fault['msg']}; options of hosted models are {known}"
        ) from None
