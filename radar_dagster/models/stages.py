"""Intervene and judge: from a rubric to probes, from probes to scores. Every audit's data comes from these two stages,
and what it is compared with from the same two without an intervention: passive responses and their scores.

Here: which requests a stage makes and how replies become rows. Not here: how a request is answered (`door.py`), what is
computed from the rows (`stats/`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pandas as pd

from radar_dagster.errors import BadInputError
from radar_dagster.models.door import Call, Door
from radar_dagster.models.progress import Listener
from radar_dagster.models.providers import Generator, Responder, Verifier
from radar_dagster.models.replies import Generation, Judgement, State
from radar_dagster.models.requests import DIRECTIONS, GenerationRequest, JudgementRequest, ResponseRequest
from radar_dagster.rubric.model import Rubric
from radar_dagster.stats.passive import PURPOSES
from radar_dagster.tables import PASSIVE_RESPONSES, PASSIVE_SCORES, PROBES, SCORES

_Asked = TypeVar("_Asked", GenerationRequest, ResponseRequest)


def probe_requests(rubric: Rubric, probes: int) -> list[GenerationRequest]:
    """T·n·2·N requests: task by task, criterion by criterion, + before −, samples from 1."""
    return [
        GenerationRequest(task=task, criterion=criterion, direction=direction, sample=sample)
        for task in rubric.tasks
        for criterion in rubric.criteria
        for direction in DIRECTIONS
        for sample in range(1, probes + 1)
    ]


def passive_requests(rubric: Rubric, responses: int) -> list[ResponseRequest]:
    """T·2·M requests: task by task, samples from 1; every sample belongs to the purpose that `purpose_of` says."""
    return [
        ResponseRequest(task=task, sample=sample)
        for task in rubric.tasks
        for sample in range(1, len(PURPOSES) * responses + 1)
    ]


def purpose_of(sample: int) -> str:
    """Which baseline a passive sample (from 1) is for: they take turns, so that more responses only add samples.

    >>> [purpose_of(sample) for sample in (1, 2, 3)]
    ['correlation', 'whitening', 'correlation']
    """
    return PURPOSES[(sample - 1) % len(PURPOSES)]


def judgement_requests(rubric: Rubric, responses: pd.DataFrame) -> list[JudgementRequest]:
    """One request per criterion for each probe or passive response that has a text, in their and the criteria's order.

    A response says nothing of how it came about: one that was judged before, as whatever, is answered by the ledger.
    """
    return [
        JudgementRequest(task=rubric.task(task), criterion=criterion, response=text)
        for task, state, text in zip(responses["task"], responses["state"], responses["text"], strict=True)
        if state == State.OK
        for criterion in rubric.criteria
    ]


def probe_id(request: GenerationRequest) -> str:
    """A readable id, unique within a cell: a task id holds no slash, so the first two cut it apart again."""
    return f"{request.task.id}/{request.direction}{request.sample}/{request.criterion.id}"


def response_id(request: ResponseRequest) -> str:
    """A readable id of a passive response, unique within a cell."""
    return f"{request.task.id}/{purpose_of(request.sample)}/{request.sample}"


def make_probes(
    rubric: Rubric, door: Door, generator: str, probes: int, listener: Listener | None = None
) -> pd.DataFrame:
    """Stage 1: one row per probe, failures included; see `tables.PROBES`."""
    requests = probe_requests(rubric, probes)
    calls = door.generate(generator, requests, listener)
    rows = _text_rows(
        rubric,
        requests,
        calls,
        lambda request: {
            "probe": probe_id(request),
            "target": request.criterion.id,
            "direction": request.direction,
        },
    )
    return pd.DataFrame(rows, columns=PROBES.names)


def make_passive(
    rubric: Rubric, door: Door, generator: str, responses: int, listener: Listener | None = None
) -> pd.DataFrame:
    """Responses to the bare tasks, so many per task and baseline; one row each, see `tables.PASSIVE_RESPONSES`.

    BadInputError, before any call, when the generator can't answer a task without a criterion.
    """
    door.check(generator, Responder, rubric)
    requests = passive_requests(rubric, responses)
    calls = door.respond(generator, requests, listener)
    rows = _text_rows(
        rubric,
        requests,
        calls,
        lambda request: {"response": response_id(request), "purpose": purpose_of(request.sample)},
    )
    return pd.DataFrame(rows, columns=PASSIVE_RESPONSES.names)


def _text_rows(
    rubric: Rubric,
    requests: Sequence[_Asked],
    calls: Sequence[Call[Generation]],
    told: Callable[[_Asked], dict[str, Any]],
) -> list[dict[str, Any]]:
    """A row per written text; `told` says what is particular to its request."""
    return [
        {
            **told(request),
            "task": request.task.id,
            "sample": request.sample,
            "text": call.reply.text,
            "rubric_version": rubric.version,
            **call.record(),
        }
        for request, call in zip(requests, calls, strict=True)
    ]


def judge_probes(
    rubric: Rubric, probes: pd.DataFrame, door: Door, verifier: str, listener: Listener | None = None
) -> pd.DataFrame:
    """Stage 2: one row per probe × criterion, failures included; see `tables.SCORES`.

    A probe whose generation failed is not judged: its rows have the state `no_probe`. BadInputError when the probes
    were made from another version of the rubric: scoring old responses on new words would mean nothing.
    """
    require_version(probes, rubric, "probes")
    kept = ("probe", "task", "target", "direction", "sample", "rubric_version")
    rows = _score_rows(rubric, probes, door, verifier, listener, kept=kept, what="probe")
    return pd.DataFrame(rows, columns=SCORES.names)


def judge_passive(
    rubric: Rubric, responses: pd.DataFrame, door: Door, verifier: str, listener: Listener | None = None
) -> pd.DataFrame:
    """One row per passive response × criterion, failures included; see `tables.PASSIVE_SCORES`. As `judge_probes`."""
    require_version(responses, rubric, "passive responses")
    kept = ("response", "task", "purpose", "sample", "rubric_version")
    rows = _score_rows(rubric, responses, door, verifier, listener, kept=kept, what="response")
    return pd.DataFrame(rows, columns=PASSIVE_SCORES.names)


def _score_rows(
    rubric: Rubric,
    texts: pd.DataFrame,
    door: Door,
    verifier: str,
    listener: Listener | None,
    *,
    kept: Sequence[str],
    what: str,
) -> list[dict[str, Any]]:
    """A row per text × criterion, with the `kept` columns of the text; `what` calls a text by its name."""
    calls = iter(door.judge(verifier, judgement_requests(rubric, texts), listener))
    spec = door.spec(verifier)
    rows = []
    for text in texts.to_dict("records"):
        for criterion in rubric.criteria:
            if text["state"] == State.OK:
                call = next(calls)
            else:
                reason = f"the {what}'s generation ended as {text['state']}"
                call = Call(None, spec, Judgement.failed(State.NO_PROBE, reason))
            score = _score(call, criterion.id, criterion.scale.proportion)
            rows.append({**{name: text[name] for name in kept}, **score})
    return rows


def _score(call: Call[Judgement], criterion: str, proportion: Callable[[float], float]) -> dict[str, Any]:
    reply = call.reply
    score = reply.score if reply.state == State.OK else None
    expected = reply.expected if reply.state == State.OK else None
    level = score if expected is None else expected
    return {
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


def check_responders(rubric: Rubric, door: Door, generators: Sequence[str]) -> None:
    """Raise BadInputError when a generator can't answer the bare tasks, as passive baselines need; makes no call."""
    for generator in generators:
        door.check(generator, Responder, rubric)
