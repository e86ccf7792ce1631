"""Model names: `provider/model[@variant]`, and the aliases of radar.yaml that stand for them.

Not here: which names exist (`providers/`), and which aliases a workspace has (`config.py`).
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

from radar_dagster.errors import BadInputError

_NAME = re.compile(r"^(?P<provider>[a-z0-9][a-z0-9._-]*)/(?P<model>[^\s@]+)(?:@(?P<variant>[^\s@]+))?$")


class ModelName(NamedTuple):
    """The three parts of a model's name, e.g. `offline/editor`, `python/my.module:judge`, `openai/gpt-6-luna@low`."""

    provider: str
    model: str
    variant: str | None = None

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}" + (f"@{self.variant}" if self.variant else "")


def parse_model_name(name: str) -> ModelName:
    """Split `provider/model[@variant]`; BadInputError when it has another form."""
    found = _NAME.match(name)
    if found is None:
        raise BadInputError(f"{name!r} is not a model: expected provider/model[@variant], for example offline/reader")
    return ModelName(found["provider"], found["model"], found["variant"])


class ModelSpec(BaseModel):
    """What an alias of radar.yaml stands for: a model and the options handed to its provider."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    options: dict[str, Any] = Field(default_factory=dict)
    #: How calls are made: one by one, or through the provider's batches at a lower price. Never part of a key.
    mode: Literal["live", "batch"] = "live"

    @field_validator("model")
    @classmethod
    def _well_formed(cls, value: str) -> str:
        try:
            return str(parse_model_name(value))
        except BadInputError as error:
            raise ValueError(str(error)) from None

    @property
    def identity(self) -> tuple[str, str]:
        """What tells two models apart: name and options, and not how they are called."""
        return self.model, json.dumps(self.options, sort_keys=True, default=str)

    @property
    def name(self) -> ModelName:
        """The parsed model name."""
        return parse_model_name(self.model)


#: Providers without an endpoint: their models are called in this process.
PROGRAMMATIC = ("offline", "python")

#: Providers whose models follow fixed rules, as their results are labelled. What a user's function does is the user's.
_RULE_BASED = frozenset({"offline"})


def is_rule_based(spec: ModelSpec) -> bool:
    """Whether a model follows fixed rules rather than being a language model."""
    return spec.name.provider in _RULE_BASED
