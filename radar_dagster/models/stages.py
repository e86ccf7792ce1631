"""Intervene and judge: from a rubric to probes, from probes to scores. Every audit's data comes from these two stages.

Here: which requests a stage makes and how replies become rows. Not here: how a request is answered (`door.py`), what is
computed from the rows (`stats/`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from radar_dagster.errors import BadInputError
from radar_dagster.models.door import Call, Door
from radar_dagster.models.progress import Listener
from radar_dagster.models.providers import Generator, Verifier
from radar_dagster.models.replies import Judgement, State
from radar_dagster.models.requests import DIRECTIONS, GenerationRequest, JudgementRequest
from radar_dagster.rubric.model import Rubric
from radar_dagster.tables import PROBES, SCORES


def probe_requests(rubric: Rubric, probes: int) -> list[GenerationRequest]:
    """T·n·2·N requests: task by task, criterion by criterion, + before −, samples from 1."""
    return [
        GenerationRequest(task=task, criterion=criterion, direction=direction, sample=sample)
        for task in rubric.tasks
        for criterion in rubric.criteria
        for direction in DIRECTIONS
        for sample in range(1, probes + 1)
    ]


def judgement_requests(rubric: Rubric, probes: pd.DataFrame) -> list[JudgementRequest]:
    """One request per criterion for each probe that has a text, in the order of the probes and of the criteria."""
    return [
        JudgementRequest(task=rubric.task(task), criterion=criterion, response=text)
        for task, state, text in zip(probes["task"], probes["state"], probes["text"], strict=True)
        if state == State.OK
        for criterion in rubric.criteria
    ]


def probe_id(request: GenerationRequest) -> str:
    """A readable id, unique within a cell: a task id holds no slash, so the first two cut it apart again."""
    return f"{request.task.id}/{request.direction}{request.sample}/{request.criterion.id}"


def make_probes(
    rubric: Rubric, door: Door, generator: str, probes: int, listener: Listener | None = None
) -> pd.DataFrame:
    """Stage 1: one row per probe, failures included; see `tables.PROBES`."""
    requests = probe_requests(rubric, probes)
    calls = door.generate(generator, requests, listener)
    rows = [
        {
            "probe": probe_id(request),
            "task": request.task.id,
            "target": request.criterion.id,
            "direction": request.direction,
            "sample": request.sample,
            "text": call.reply.text,
            "rubric_version": rubric.version,
            **call.record(),
        }
        for request, call in zip(requests, calls, strict=True)
    ]
    return pd.DataFrame(rows, columns=PROBES.names)


def judge_probes(
    rubric: Rubric, probes: pd.DataFrame, door: Door, verifier: str, listener: Listener | None = None
) -> pd.DataFrame:
    """Stage 2: one row per probe × criterion, failures included; see `tables.SCORES`.

    A probe whose generation failed is not judged: its rows have the state `no_probe`. BadInputError when the probes
    were made from another version of the rubric: scoring old responses on new words would mean nothing.
    """
    require_version(probes, rubric, "probes")
    calls = iter(door.judge(verifier, judgement_requests(rubric, probes), listener))
    spec = door.spec(verifier)
    rows = []
    for probe in probes.to_dict("records"):
        for criterion in rubric.criteria:
            if probe["state"] == State.OK:
                call = next(calls)
            else:
                reason = f"the probe's generation ended as {probe['state']}"
                call = Call(None, spec, Judgement.failed(State.NO_PROBE, reason))
            rows.append(_score_row(probe, criterion.id, criterion.scale.proportion, call))
    return pd.DataFrame(rows, columns=SCORES.names)


def _score_row(
    probe: dict[Any, Any], criterion: str, proportion: Callable[[float], float], call: Call[Judgement]
) -> dict[str, Any]:
    reply = call.reply
    score = reply.score if reply.state == State.OK else None
    expected = reply.expected if reply.state == State.OK else None
    level = score if expected is None else expected
    return {
        **{name: probe[name] for name in ("probe", "task", "target", "direction", "sample", "rubric_version")},
        "criterion": criterion,
        "score": score,
        "expected": expected,
        "p": None if level is None else proportion(level),
        "reasoning": reply.reasoning,
        "rationale": reply.rationale,
        **call.record(),
    }


def require_version(frame: pd.DataFrame, rubric: Rubric, what: str) -> None:
    """Raise BadInputError unless every row of probes or scores was made from this version of the rubric."""
    found = set(frame["rubric_version"])
    if found != {rubric.version}:
        raise BadInputError(
            f"the stored {what} of {rubric.name} were made from another version of the rubric "
            f"({', '.join(sorted(found))}; now {rubric.version}): make them again"
        )


def check_models(rubric: Rubric, door: Door, generators: Sequence[str], verifiers: Sequence[str]) -> None:
    """Raise BadInputError when a model can't play its role on this rubric; makes no call."""
    for generator in generators:
        door.check(generator, Generator, rubric)
    for verifier in verifiers:
        door.check(verifier, Verifier, rubric)
