"""What is there of an audit already: tables that are current, calls that the ledger answers, models still to be called.

Here: questions, which create nothing and call no model. Not here: running what is missing (`runs.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from radar_dagster.config import Workspace
from radar_dagster.lake import Lake
from radar_dagster.models.door import Door
from radar_dagster.models.hosted import HostedModel
from radar_dagster.models.replies import State
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, Request, ResponseRequest
from radar_dagster.models.stages import judgement_requests, passive_requests, probe_requests
from radar_dagster.partitions import BENCHMARK, GENERATOR, PAIR, Pair
from radar_dagster.rubric.model import Rubric

if TYPE_CHECKING:
    from radar_dagster.models.ledger import Spent


class Held(NamedTuple):
    """How many of a stage's calls the ledger answers, out of all."""

    answered: int
    calls: int

    @property
    def whole(self) -> bool:
        """Whether no call is left."""
        return self.answered == self.calls


class Stock:
    """One benchmark's calls and tables. The rubric is that of the audit, with its selection of tasks.

    With `baselines`, passive responses and their scores count among the calls. No table is asked for these: a run makes
    both from what the ledger has.
    """

    def __init__(
        self, workspace: Workspace, benchmark: str, rubric: Rubric, door: Door, *, baselines: bool = False
    ) -> None:
        self._workspace = workspace
        self._benchmark = benchmark
        self._rubric = rubric
        self._door = door
        self._lake = Lake(workspace.store_url)
        self._requests = probe_requests(rubric, workspace.audit.probes)
        self._passive = passive_requests(rubric, workspace.audit.passive_responses) if baselines else []

    def has_probes(self, generator: str) -> bool:
        """Whether the stored probes came of exactly these requests, every one of them `ok`."""
        return self._has("probes", generator, self._requests, **{BENCHMARK: self._benchmark, GENERATOR: generator})

    def has_scores(self, pair: Pair) -> bool:
        """The same of the scores of the stored probes."""
        probes = self._lake.read("probes", **{BENCHMARK: self._benchmark, GENERATOR: pair.generator})
        requests = judgement_requests(self._rubric, probes)
        return self._has("scores", pair.verifier, requests, **{BENCHMARK: self._benchmark, PAIR: pair.key})

    @property
    def _texts(self) -> list[GenerationRequest | ResponseRequest]:
        return [*self._requests, *self._passive]

    def held_texts(self, generator: str) -> Held:
        """How many of the probes (and passive responses) the ledger holds."""
        return Held(self._door.answered(generator, self._texts), len(self._texts))

    def held_scores(self, pair: Pair) -> Held:
        """How many of the scores the ledger holds, among those of texts that it holds as well."""
        calls = len(self._texts) * len(self._rubric.criteria)
        return Held(self._door.answered(pair.verifier, self._judgements(pair.generator)), calls)

    def to_call(self, pairs: Iterable[Pair]) -> list[str]:
        """The hosted models that an audit of these pairs would call, each once."""
        wanted: list[str] = []
        for pair in pairs:
            hosted = {alias: isinstance(self._door.model(alias), HostedModel) for alias in pair}
            if not any(hosted.values()):
                continue
            stored = not self._passive and self.has_probes(pair.generator)
            if hosted[pair.generator] and not stored and not self.held_texts(pair.generator).whole:
                wanted.append(pair.generator)
            scored = stored and self.has_scores(pair)
            if hosted[pair.verifier] and not scored and not self.held_scores(pair).whole:
                wanted.append(pair.verifier)
        return list(dict.fromkeys(wanted))

    def spent(self, pairs: Sequence[Pair]) -> Spent:
        """What the calls for texts and scores of these pairs came to, in every session that made some of them."""
        texts: list[tuple[str, Sequence[Request]]] = [
            (generator, self._texts) for generator in dict.fromkeys(pair.generator for pair in pairs)
        ]
        return self._door.spent_on([*texts, *((pair.verifier, self._judgements(pair.generator)) for pair in pairs)])

    def _judgements(self, generator: str) -> list[JudgementRequest]:
        """The requests for scores of those texts that the ledger holds."""
        replies = self._door.recalled(generator, self._texts)
        rows = [
            (request.task.id, State.OK, reply.text)
            for request, reply in zip(self._texts, replies, strict=True)
            if reply is not None
        ]
        return judgement_requests(self._rubric, pd.DataFrame(rows, columns=["task", "state", "text"]))

    def _has(self, table: str, alias: str, requests: Sequence[Request], **dims: str) -> bool:
        if not self._lake.exists(table, **dims):
            return False
        stored = self._lake.read(table, **dims)
        if not (stored["state"] == State.OK).all():
            return False
        return bool(stored["call_key"].tolist() == self._door.keys(alias, requests))
