"""What a hosted model can take: sampling parameters, structured output, token probabilities, effort, batches.

Three sources, the later ones win: a small table of today's facts by the model's name, the overrides of radar.yaml, and
the first reply that refuses a parameter (kept by the client for the run). No list of model names is complete, so what
the table does not know is tried.

Not here: what a call wants (`exchange.py`), asking an endpoint (`providers/`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from radar_dagster.models.endpoints import Endpoint

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


class Overrides(BaseModel):
    """What radar.yaml says of a model; None leaves it to the table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: bool | None = Field(default=None, description="takes a temperature")
    structured_output: bool | None = Field(default=None, description="keeps to a JSON schema")
    logprobs: bool | None = Field(default=None, description="returns probabilities of tokens")
    effort: bool | None = Field(default=None, description="takes an effort")
    batch: bool | None = Field(default=None, description="can be called in batches")
    reasons: bool | None = Field(default=None, description="reasons at length within the limit of tokens")
    max_tokens_field: MaxTokensField | None = Field(default=None, description="how the limit is called (OpenAI)")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What is sent to a model and what is left out."""

    temperature: bool = True
    structured_output: bool = True
    logprobs: bool = True
    effort: bool = True
    batch: bool = True
    #: Its reasoning counts against the limit of tokens, which must be larger then.
    reasons: bool = False
    max_tokens_field: MaxTokensField = "max_tokens"


#: OpenAI's models that reason, tuned ones too; they reject `temperature` and `max_tokens`, and give no probabilities.
#: `gpt-35-turbo` is Azure's name of an old one that does not.
_OPENAI_REASONING = re.compile(r"(ft:)?(o\d|gpt-([5-9]|1\d)(?!\d))", re.ASCII)


def capabilities_of(endpoint: Endpoint, model: str) -> Capabilities:
    """What is known of a model before it was ever called."""
    known = _known(endpoint, model)
    for pattern, overrides in endpoint.capabilities.items():
        if fnmatchcase(model, pattern):
            known = replace(known, **overrides.model_dump(exclude_none=True))
    return known


def _known(endpoint: Endpoint, model: str) -> Capabilities:
    if endpoint.protocol == "anthropic":
        # Current Claude models reject sampling parameters, and the protocol has no token probabilities.
        return Capabilities(temperature=not endpoint.is_official, logprobs=False, batch=endpoint.is_official)
    if not (endpoint.is_official or endpoint.is_azure):
        return Capabilities(batch=False)
    reasons = bool(_OPENAI_REASONING.match(model)) and "chat" not in model
    return Capabilities(
        temperature=not reasons,
        logprobs=not reasons,
        effort=reasons,
        reasons=reasons,
        # Azure has batches only in deployments made for them.
        batch=endpoint.is_official,
        max_tokens_field="max_completion_tokens",
    )
