"""What a generator and a verifier are asked: typed requests, and the key that tells one request from all others.

A verifier's request holds no target, direction, generator or other criterion: what is not in the type can't leak into a
prompt. Not here: turning a request into a prompt, which is a provider's own affair, and making requests (`stages.py`).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from radar_dagster.models.naming import ModelSpec
from radar_dagster.rubric.model import Criterion, Task, content_hash

Direction = Literal["+", "-"]
DIRECTIONS: tuple[Direction, Direction] = ("+", "-")

#: Part of every request key: raise it when the meaning of a request changes, so that no old answer is reused.
REQUEST_VERSION = 2


class GenerationRequest(BaseModel):
    """Write a response to `task` that earns the top (`+`) or the bottom (`-`) of the scale on one criterion.

    The bottom is a plain fault where the criterion is evaluative, and simply little of it where it is descriptive.
    `sample` (from 1) tells the N probes of a (task, criterion, direction) apart.
    """

    model_config = ConfigDict(frozen=True)

    task: Task
    criterion: Criterion
    direction: Direction
    sample: int = Field(ge=1)


class ResponseRequest(BaseModel):
    """Write a response to the bare `task`, as anybody would who knows of no criterion.

    `sample` (from 1) tells the responses to a task apart.
    """

    model_config = ConfigDict(frozen=True)

    task: Task
    sample: int = Field(ge=1)


class JudgementRequest(BaseModel):
    """Score `response` to `task` on one criterion. `repeat` (from 1) makes a second opinion a second call."""

    model_config = ConfigDict(frozen=True)

    task: Task
    criterion: Criterion
    response: str
    repeat: int = Field(default=1, ge=1)


Request = GenerationRequest | ResponseRequest | JudgementRequest


def request_key(model: ModelSpec, request: Request, version: str = "") -> str:
    """The key of a programmatic model's request; a hosted model's is made from what goes over the wire.

    SHA-256 (hex) over all that can change the answer: model, options, `version` of its code, request content, sample or
    repeat index.
    """
    content: dict[str, Any] = request.model_dump(mode="json")
    content.get("criterion", {}).pop("weight", None)  # never shown to a model
    asked = model.model_dump(mode="json", include={"model", "options"})
    return content_hash([REQUEST_VERSION, type(request).__name__, asked, version, content])
