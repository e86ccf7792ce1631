"""Providers of models: what a generator and a verifier must be able to do, and which provider serves which name.

One module (or folder) per provider. A programmatic one maps a `ModelSpec` to an object with `generate` or `judge` or
both; the two protocols of hosted models (`openai.py`, `anthropic.py`) make clients.

Not here: what every call has in common (`door.py`), what makes a hosted model out of a client (`hosted.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol, runtime_checkable

from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.replies import Generation, Judgement
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, ResponseRequest
from radar_dagster.rubric.model import Rubric


@runtime_checkable
class Generator(Protocol):
    """Writes responses. Must answer the same request with the same reply only if it is deterministic by nature."""

    def generate(self, request: GenerationRequest) -> Generation:
        """Answer one request; a failure is a `Generation` with its state, never an exception."""


@runtime_checkable
class Responder(Protocol):
    """Answers bare tasks, which the passive baselines need; a generator may be one besides."""

    def respond(self, request: ResponseRequest) -> Generation:
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


def connect(spec: ModelSpec) -> Model:
    """The programmatic model behind a spec; BadInputError when its provider refuses the name or the options."""
    build: Callable[[ModelSpec], Model] = import_module(_MODULES[spec.name.provider]).connect
    return build(spec)


def version_of(spec: ModelSpec, model: Model) -> str:
    """What tells two versions of a model's code apart: its own word, else its provider's, else nothing."""
    provider = import_module(_MODULES[spec.name.provider])
    return str(getattr(model, "version", getattr(provider, "VERSION", "")))
