"""`offline/planted`: a simulator whose leakage is known, to test that the whole pipeline recovers what was planted.

Here: the texts that carry latent levels from generator to verifier, and the seeded draws. The formulas of the
simulation are in `stats/planted.py`. Never a default model, and no claim about any text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from radar_dagster.errors import BadInputError
from radar_dagster.models.replies import Generation, Judgement, State, generation, judgement, storable
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, Request, ResponseRequest
from radar_dagster.rubric.model import Rubric, content_hash
from radar_dagster.stats.cell import FloatArray
from radar_dagster.stats.planted import discretise, latent_means

_Share = Annotated[float, Field(ge=0, le=1)]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]
#: States that a call of a real model can end in.
_FAILURES = frozenset(State) - {State.OK, State.NO_PROBE, State.MISSING}


class Options(BaseModel):
    """The options of `offline/planted` in radar.yaml; a generator needs `leakage` or `criteria`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Criterion ids; needed where `leakage` is a list of rows.
    criteria: tuple[str, ...] = ()
    #: source -> target -> leakage, or rows in the order of `criteria`. What is not named is 0, the diagonal is 1.
    leakage: dict[str, dict[str, _Number]] | list[list[_Number]] = Field(default_factory=dict)
    #: One self-effect for all criteria, or criterion -> self-effect.
    self_effects: _Number | dict[str, _Number] = 0.7
    #: Standard deviation of a latent score around its mean, on the scale from 0 to 1.
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    #: Share of the variance of responses to the bare task that all criteria have in common, as when some are better.
    common_cause: _Share = 0.0
    #: Standard deviation of a criterion's own level over those responses; one for all, or criterion -> spread.
    spread: _Positive | dict[str, _Positive] = 0.2
    #: state -> share of the calls that end in it.
    failure_rates: dict[State, _Share] = Field(default_factory=dict)
    #: Another seed is another draw of everything.
    seed: int = 0

    @model_validator(mode="after")
    def _consistent(self) -> Options:
        strangers = sorted(state.value for state in self.failure_rates if state not in _FAILURES)
        if strangers:
            allowed = ", ".join(sorted(state.value for state in _FAILURES))
            raise ValueError(f"failure_rates: {strangers[0]!r} is not how a call fails; the states are {allowed}")
        if sum(self.failure_rates.values()) > 1 + 1e-9:
            raise ValueError(f"failure_rates sum to {sum(self.failure_rates.values()):g}, but must not exceed 1")
        if len(set(self.criteria)) != len(self.criteria):
            raise ValueError("criteria names one id twice")
        self._check_names()
        return self

    def _check_names(self) -> None:
        ids = self.ids
        if isinstance(self.leakage, list):
            if [len(row) for row in self.leakage] != [len(ids)] * len(ids):
                raise ValueError(
                    f"leakage as rows needs `criteria` and one row and column for each of its {len(ids)} ids"
                )
        elif unknown := sorted({target for row in self.leakage.values() for target in row} - set(ids)):
            raise ValueError(f"leakage: target {unknown[0]!r} is no source; known are {', '.join(ids)}")
        elif unknown := sorted(set(self.leakage) - set(ids)):
            raise ValueError(f"leakage: source {unknown[0]!r} is not among criteria")
        for name, values in (("self_effects", self.self_effects), ("spread", self.spread)):
            if isinstance(values, dict) and set(values) != set(ids):
                raise ValueError(f"{name} must have a value for each of {', '.join(ids) or 'the criteria'}")

    @property
    def ids(self) -> tuple[str, ...]:
        """The criteria, as listed or in the order of the sources."""
        return self.criteria or (tuple(self.leakage) if isinstance(self.leakage, dict) else ())

    def means(self) -> FloatArray:
        """Latent means (n, 2, n): target, direction (+ first), scored criterion. ValueError when one leaves [0, 1]."""
        return latent_means(self.matrix(), self._of_each(self.self_effects))

    def spreads(self) -> FloatArray:
        """Standard deviations (n,) of the levels of responses to the bare task."""
        return self._of_each(self.spread)

    def _of_each(self, value: float | dict[str, float]) -> FloatArray:
        return np.array([value[i] if isinstance(value, dict) else value for i in self.ids], dtype=np.float64)

    def matrix(self) -> FloatArray:
        """Leakage (n, n), sources as rows, with a diagonal of ones."""
        n = len(self.ids)
        matrix = np.eye(n)
        if isinstance(self.leakage, list):
            matrix = np.array(self.leakage, dtype=np.float64).reshape(n, n)
        else:
            for source, row in self.leakage.items():
                for target, value in row.items():
                    matrix[self.ids.index(source), self.ids.index(target)] = value
        return matrix


class PlantedVerifier:
    """Reads the latent level that a planted text states for the criterion, adds seeded noise, rounds to the scale."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def judge(self, request: JudgementRequest) -> Judgement:
        """`parse_error` for a text that states no level for the criterion; failures at the planted rates."""
        rng = _rng(self._options, request)
        failure = _failure(self._options, rng)
        if failure is not None:
            return Judgement.failed(failure, "planted failure")
        latent = _stated_level(request.response, request.criterion.id)
        if latent is None:
            return Judgement.failed(State.PARSE_ERROR, f"the text states no level for {request.criterion.id!r}")
        drawn = latent + rng.gauss(0.0, self._options.noise)
        scale = request.criterion.scale
        level = scale.min + int(discretise(np.array(drawn), len(scale.levels)))
        return judgement(
            level,
            scale,
            reasoning=f"Simulated: the text states {latent:.3f}; with noise that is {drawn:.3f}.",
            rationale=f"Simulated score for a stated level of {latent:.3f}.",
        )


class Planted(PlantedVerifier):
    """Also writes texts that state the latent level of every criterion for the target and direction asked for."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._means = options.means()

    def check_rubric(self, rubric: Rubric) -> None:
        """Every criterion of the rubric must have been planted."""
        missing = [criterion.id for criterion in rubric.criteria if criterion.id not in self._options.ids]
        if missing:
            raise BadInputError(
                f"rubric {rubric.name}: criterion {missing[0]!r} is not planted; options of offline/planted "
                f"name {', '.join(self._options.ids)}"
            )

    def generate(self, request: GenerationRequest) -> Generation:
        """A list of levels; `refused` for a target that was not planted, failures at the planted rates."""
        rng = _rng(self._options, request)
        failure = _failure(self._options, rng)
        if failure is not None:
            return Generation.failed(failure, "planted failure")
        ids = self._options.ids
        if request.criterion.id not in ids:
            return Generation.failed(State.REFUSED, f"criterion {request.criterion.id!r} is not planted")
        levels = self._means[ids.index(request.criterion.id), "+-".index(request.direction)]
        return self._text(request, levels, rng, "latent levels by the planted matrix")

    def respond(self, request: ResponseRequest) -> Generation:
        """A list of levels around 0.5 that nobody asked for.

        Criterion i deviates by d_i = spread_i·(√c·u + √(1 − c)·e_i), where c is `common_cause` and u and all e_i are
        standard normal; the level of j is 0.5 + Σ_i d_i·L_ij, cut off at 0 and 1. So whatever varies leaks as under
        an intervention, and without any leakage two levels correlate by c all the same.
        """
        rng = _rng(self._options, request)
        failure = _failure(self._options, rng)
        if failure is not None:
            return Generation.failed(failure, "planted failure")
        c, common = self._options.common_cause, rng.gauss(0.0, 1.0)
        own = np.array([rng.gauss(0.0, 1.0) for _ in self._options.ids])
        deviations = self._options.spreads() * (np.sqrt(c) * common + np.sqrt(1 - c) * own)
        levels = np.clip(0.5 + deviations @ self._options.matrix(), 0.0, 1.0)
        return self._text(request, levels, rng, "latent levels that vary by themselves")

    def _text(
        self, request: GenerationRequest | ResponseRequest, levels: FloatArray, rng: Random, detail: str
    ) -> Generation:
        # The tag tells samples apart: without it equal texts would draw equal noise.
        lines = [f"Simulated response {rng.getrandbits(48):012x} to task {request.task.id}."]
        lines += [f"- {name}: {level:.6f}" for name, level in zip(self._options.ids, levels, strict=True)]
        return generation("\n".join(lines), detail=detail)


def build(options: Mapping[str, Any]) -> PlantedVerifier:
    """A simulator from the options of a `ModelSpec`; without `leakage` and `criteria` it can only verify.

    BadInputError names the option that is wrong and what was expected.
    """
    try:
        parsed = Options.model_validate(dict(options))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in fault["loc"])
        message = str(fault["msg"]).removeprefix("Value error, ")
        raise BadInputError(f"offline/planted: options{'.' + place if place else ''}: {message}") from None
    try:
        return Planted(parsed) if parsed.ids else PlantedVerifier(parsed)
    except ValueError as error:
        counted = ", ".join(f"{i} is {name!r}" for i, name in enumerate(parsed.ids))
        raise BadInputError(f"offline/planted: options: {error} ({counted})") from None


def _rng(options: Options, request: Request) -> Random:
    return Random(content_hash([options.seed, type(request).__name__, request.model_dump(mode="json")]))


def _failure(options: Options, rng: Random) -> State | None:
    drawn = rng.random()
    for state, share in sorted(options.failure_rates.items()):
        drawn -= share
        if drawn < 0:
            return state
    return None


_LEVEL = re.compile(r"[01]\.\d{6}")


def _stated_level(text: str, criterion_id: str) -> float | None:
    for line in text.split("\n"):
        name, _, level = line.removeprefix("- ").rpartition(": ")
        if name == storable(criterion_id) and _LEVEL.fullmatch(level):
            return float(level)
    return None
