"""Providers of models: what a generator and a verifier must be able to do, and which provider serves which name.

One module (or folder) per provider; each maps a `ModelSpec` to an object with `generate` or `judge` or both.

Not here: what every call has in common (`door.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol, runtime_checkable

from radar_dagster.errors import BadInputError
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.replies import Generation, Judgement
from radar_dagster.models.requests import GenerationRequest, JudgementRequest
from radar_dagster.rubric.model import Rubric


@runtime_checkable
class Generator(Protocol):
    """Writes responses. Must answer the same request with the same reply only if it is deterministic by nature."""

    def generate(self, request: GenerationRequest) -> Generation:
        """Answer one request; a failure is a `Generation` with its state, never an exception."""


@runtime_checkable
class Verifier(Protocol):
    """Judges responses, one criterion at a time."""

    def judge(self, request: JudgementRequest) -> Judgement:
        """Answer one request; a failure is a `Judgement` with its state, never an exception."""


@runtime_checkable
class ChecksRubric(Protocol):
    """A model that can't serve every rubric says so before anything is spent."""

    def check_rubric(self, rubric: Rubric) -> None:
        """Raise BadInputError naming what this model misses in the rubric."""


Model = Generator | Verifier

_MODULES: Mapping[str, str] = {
    "offline": "radar_dagster.models.providers.offline",
    "python": "radar_dagster.models.providers.python",
}

#: Providers whose models follow fixed rules, as their results are labelled. What a user's function does is the user's.
RULE_BASED = frozenset({"offline"})


def connect(spec: ModelSpec) -> Model:
    """The model behind a spec; BadInputError when the provider is unknown or refuses the name or the options."""
    provider = spec.name.provider
    if provider not in _MODULES:
        known = ", ".join(f"{name}/…" for name in sorted(_MODULES))
        raise BadInputError(f"{spec.model}: unknown provider {provider!r}; this version serves {known}")
    build: Callable[[ModelSpec], Model] = import_module(_MODULES[provider]).connect
    return build(spec)
