"""The one door for model calls: every audit asks generators and verifiers through `Door`, and nothing else does.

It resolves aliases, gives each request its key, sends it, and returns the reply as a row of the call's record. Whatever
concerns all calls (the ledger, concurrency, money) belongs behind this door.

Not here: which requests are made (`stages.py`), and how any one provider answers (`providers/`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from radar_dagster.errors import BadInputError
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.providers import RULE_BASED, ChecksRubric, Generator, Model, Verifier, connect
from radar_dagster.models.replies import Generation, Judgement
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, request_key
from radar_dagster.rubric.model import Rubric

_Reply = TypeVar("_Reply", Generation, Judgement)

#: Called after every finished call with (done, total).
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Call(Generic[_Reply]):
    """A finished call: the key of its request (None if no call was made), the model that answered, and the reply."""

    key: str | None
    spec: ModelSpec
    reply: _Reply

    def record(self) -> dict[str, Any]:
        """The columns that probes and scores share; see `tables.PROBES`."""
        return {
            "state": self.reply.state.value,
            "detail": self.reply.detail,
            "model": self.spec.model,
            "rule_based": is_rule_based(self.spec),
            "parameters": json.dumps({**self.spec.options, **self.reply.parameters}, sort_keys=True),
            "call_key": self.key,
            "input_tokens": self.reply.input_tokens,
            "output_tokens": self.reply.output_tokens,
        }


def is_rule_based(spec: ModelSpec) -> bool:
    """Whether a model follows fixed rules rather than being a language model."""
    return spec.name.provider in RULE_BASED


class Door:
    """Calls models by their alias. `models` maps the aliases of radar.yaml to what they stand for.

    `plugins` is the folder in which `python/module:object` models are looked for beside the installed packages.
    """

    def __init__(self, models: Mapping[str, ModelSpec], plugins: Path | None = None) -> None:
        self._specs = dict(models)
        if plugins is not None and str(plugins) not in sys.path:
            sys.path.append(str(plugins))  # last: a user's file never hides an installed module
        self._connected: dict[str, Model] = {}

    def spec(self, alias: str) -> ModelSpec:
        """What an alias stands for; BadInputError with the known ones when it is not configured."""
        if alias not in self._specs:
            raise BadInputError(f"no model {alias!r}; models has {', '.join(self._specs)}")
        return self._specs[alias]

    def check(self, alias: str, role: type[Generator] | type[Verifier], rubric: Rubric) -> None:
        """Raise BadInputError if the model can't play the role or can't serve the rubric; makes no call."""
        model = self._model(alias)
        if not isinstance(model, role):
            raise BadInputError(f"{alias} ({self.spec(alias).model}) is no {role.__name__.lower()}")
        if isinstance(model, ChecksRubric):
            model.check_rubric(rubric)

    def generate(
        self, alias: str, requests: Sequence[GenerationRequest], progress: Progress | None = None
    ) -> list[Call[Generation]]:
        """One generation per request, in the order of the requests; failures are states."""
        model = self._model(alias)
        if not isinstance(model, Generator):
            raise BadInputError(f"{alias} ({self.spec(alias).model}) is no generator")
        return self._run(alias, requests, model.generate, progress)

    def judge(
        self, alias: str, requests: Sequence[JudgementRequest], progress: Progress | None = None
    ) -> list[Call[Judgement]]:
        """One judgement per request, in the order of the requests; failures are states."""
        model = self._model(alias)
        if not isinstance(model, Verifier):
            raise BadInputError(f"{alias} ({self.spec(alias).model}) is no verifier")
        return self._run(alias, requests, model.judge, progress)

    def _model(self, alias: str) -> Model:
        if alias not in self._connected:
            self._connected[alias] = connect(self.spec(alias))
        return self._connected[alias]

    def _run(
        self, alias: str, requests: Sequence[Any], ask: Callable[[Any], _Reply], progress: Progress | None
    ) -> list[Call[_Reply]]:
        spec = self.spec(alias)
        calls: list[Call[_Reply]] = []
        for request in requests:
            calls.append(Call(request_key(spec, request), spec, ask(request)))
            if progress is not None:
                progress(len(calls), len(requests))
        return calls
