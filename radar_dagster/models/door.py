"""The one door for model calls: every audit asks generators and verifiers through `Door`, and nothing else does.

It resolves aliases, gives each request its key, lets the ledger answer what it can, has the rest called, and returns
each reply as a row of the call's record.

Not here: which requests are made (`stages.py`), how programmatic models are called (`programmatic.py`) and hosted ones
(`driver.py`, `batch.py`).
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from radar_dagster.errors import BadInputError
from radar_dagster.models.budget import Budget, budget_of
from radar_dagster.models.collector import without_what_is_there
from radar_dagster.models.driver import Origin, Work, run
from radar_dagster.models.exchange import Exchange
from radar_dagster.models.hosted import HostedModel, ScoreFrom
from radar_dagster.models.naming import PROGRAMMATIC, ModelSpec, is_rule_based
from radar_dagster.models.parsing import NO_CANDIDATES
from radar_dagster.models.prices import PriceTable
from radar_dagster.models.programmatic import call_each
from radar_dagster.models.progress import Listener
from radar_dagster.models.providers import ChecksRubric, Generator, Model, Responder, Verifier, connect, version_of
from radar_dagster.models.records import reply_of
from radar_dagster.models.replies import Generation, Judgement, State
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, Request, ResponseRequest, request_key
from radar_dagster.models.settings import DoorSettings
from radar_dagster.rubric.model import Rubric

if TYPE_CHECKING:
    from radar_dagster.models.ledger import Entry, Ledger, Spent, TallyRow

Role = type[Generator] | type[Verifier] | type[Responder]

_LACKING: Mapping[Role, str] = {
    Generator: "is no generator",
    Verifier: "is no verifier",
    Responder: "can't answer a task without a criterion, which passive baselines need: it has no method `respond`",
}

_Reply = TypeVar("_Reply", Generation, Judgement)


@dataclass(frozen=True, slots=True)
class Call(Generic[_Reply]):
    """A finished call: the key of its request (None if no call was made), the model that answered, and the reply.

    `notes` stand beside the parameters that were sent: what could not be sent, and how the score was read.
    """

    key: str | None
    spec: ModelSpec
    reply: _Reply
    notes: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The columns that probes and scores share; see `tables.PROBES`."""
        return {
            "state": self.reply.state.value,
            "detail": self.reply.detail,
            "model": self.spec.model,
            "rule_based": is_rule_based(self.spec),
            "parameters": json.dumps({**self.notes, **self.reply.parameters}, sort_keys=True, default=str),
            "call_key": self.key,
            "input_tokens": self.reply.input_tokens,
            "output_tokens": self.reply.output_tokens,
            "usd": self.reply.usd,
        }


class Door:
    """Calls models by their alias.

    `session` names what a budget and `fresh` hold for: an invocation of the command line, or a run of Dagster's when it
    is empty. With `fresh`, rows of other sessions answer nothing. Nothing is opened or connected before it is needed.
    """

    def __init__(self, settings: DoorSettings, *, session: str = "", run_id: str = "", fresh: bool = False) -> None:
        self._settings = settings
        self._run_id = run_id or uuid.uuid4().hex
        self._session = session or self._run_id
        self._fresh = fresh
        if settings.plugins is not None and str(settings.plugins) not in sys.path:
            sys.path.append(str(settings.plugins))  # last: a user's file never hides an installed module
        self._connected: dict[str, Model | HostedModel] = {}
        self.prices = PriceTable(settings.prices)

    def spec(self, alias: str) -> ModelSpec:
        """What an alias stands for; BadInputError with the known ones when it is not configured."""
        return self._settings.spec(alias)

    def check(self, alias: str, role: Role, rubric: Rubric) -> None:
        """Raise BadInputError if the model can't play the role or can't serve the rubric; makes no call."""
        model = self.model(alias)
        if not isinstance(model, HostedModel) and not isinstance(model, role):
            raise self._is_not(alias, role)
        if isinstance(model, ChecksRubric):
            model.check_rubric(rubric)

    def check_calls(self, alias: str) -> None:
        """Raise OperationalError if calls to the model could not be made: no key, or a budget and no price."""
        model = self.model(alias)
        if isinstance(model, HostedModel):
            model.endpoint.api_key(model.endpoint_name)
            if not self.prices.is_known(model.spec.model, model.endpoint):
                self.budget.require_prices([model.spec.model])

    def generate(
        self, alias: str, requests: Sequence[GenerationRequest], listener: Listener | None = None
    ) -> list[Call[Generation]]:
        """One generation per request, in the order of the requests; failures are states."""
        model = self.model(alias)
        if isinstance(model, HostedModel):
            return self._ask_hosted(model, requests, Generation, listener=listener)
        if not isinstance(model, Generator):
            raise self._is_not(alias, Generator)
        return self._ask_here(alias, requests, model.generate, Generation, listener)

    def respond(
        self, alias: str, requests: Sequence[ResponseRequest], listener: Listener | None = None
    ) -> list[Call[Generation]]:
        """One response to a bare task per request, in the order of the requests; failures are states."""
        model = self.model(alias)
        if isinstance(model, HostedModel):
            return self._ask_hosted(model, requests, Generation, listener=listener)
        if not isinstance(model, Responder):
            raise self._is_not(alias, Responder)
        return self._ask_here(alias, requests, model.respond, Generation, listener)

    def judge(
        self, alias: str, requests: Sequence[JudgementRequest], listener: Listener | None = None
    ) -> list[Call[Judgement]]:
        """One judgement per request, in the order of the requests; failures are states."""
        model = self.model(alias)
        if isinstance(model, HostedModel):
            score_from, notes = self._how_to_score(model, requests)
            return self._ask_hosted(model, requests, Judgement, listener=listener, score_from=score_from, notes=notes)
        if not isinstance(model, Verifier):
            raise self._is_not(alias, Verifier)
        return self._ask_here(alias, requests, model.judge, Judgement, listener)

    def keys(self, alias: str, requests: Sequence[Request]) -> list[str]:
        """The keys of requests, without asking; those that probes and scores made from them would have."""
        model, spec = self.model(alias), self.spec(alias)
        if isinstance(model, HostedModel):
            score_from, _ = self._known_method(model, requests)
            return [model.key(request, model.exchange(request, score_from or "logprobs")) for request in requests]
        version = version_of(spec, model)
        return [request_key(spec, request, version) for request in requests]

    def answered(self, alias: str, requests: Sequence[Request]) -> int:
        """How many of the requests the ledger answers; 0 where there is no ledger yet. Creates nothing."""
        if not self._has_ledger:
            return 0
        keys = self.keys(alias, requests)
        known = self.ledger.answers(keys, session=self._only)
        return sum(key in known for key in keys)  # one row may answer several

    def recalled(self, alias: str, requests: Sequence[GenerationRequest | ResponseRequest]) -> list[Generation | None]:
        """The generations that the ledger answers, None where it does not. Makes no call and creates nothing."""
        if not self._has_ledger:
            return [None] * len(requests)
        keys = self.keys(alias, requests)
        known = self.ledger.answers(keys, session=self._only)
        return [reply_of(known[key], Generation) if key in known else None for key in keys]

    def history(self, digits: str) -> list[Entry]:
        """Every attempt at the call whose key begins so, the oldest first; empty where the ledger has none.

        BadInputError when several calls have such a key. Creates nothing.
        """
        keys = self.ledger.keys_from(digits) if self._has_ledger else []
        if len(keys) > 1:
            raise BadInputError(f"several calls begin with {digits}: {', '.join(key[:20] for key in keys)}")
        return self.ledger.history(keys[0]) if keys else []

    def close(self) -> None:
        """Close the ledger's connections, if there are any."""
        if "ledger" in self.__dict__:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _is_not(self, alias: str, role: Role) -> BadInputError:
        return BadInputError(f"{alias} ({self.spec(alias).model}) {_LACKING[role]}")

    @property
    def _has_ledger(self) -> bool:
        """Whether there is a ledger that could answer; a file is not created for that."""
        url = self._settings.ledger_url
        return url is not None and ("://" in url or Path(url).is_file())

    def model(self, alias: str) -> Model | HostedModel:
        """The model behind an alias; BadInputError when its name or its options are no good."""
        if alias not in self._connected:
            spec = self.spec(alias)
            endpoint = self._settings.endpoint(spec)
            hosted = None if endpoint is None else HostedModel(spec, spec.name.provider, endpoint)
            self._connected[alias] = hosted or connect(spec)
        return self._connected[alias]

    @cached_property
    def ledger(self) -> Ledger:
        """The call ledger; OperationalError when it can't be opened, ValueError when none is configured."""
        from radar_dagster.models.ledger import Ledger

        if self._settings.ledger_url is None:
            raise ValueError("calls to hosted models need a ledger")
        return Ledger(self._settings.ledger_url)

    @cached_property
    def budget(self) -> Budget:
        """What this session may spend; all doors of a session in this process share one."""
        return budget_of(self._session, self._settings.budget_usd, self._spent)

    def tally(self) -> list[TallyRow]:
        """What the calls of this run came to so far, by role, model and state."""
        return self.ledger.tally(run_id=self._run_id) if self._settings.ledger_url else []

    def spent_in_session(self) -> Spent:
        """What the hosted calls of the session came to so far."""
        from radar_dagster.models.ledger import Spent

        rows = self.ledger.tally(session=self._session) if self._has_ledger else []
        return Spent.of(row for row in rows if row.endpoint not in PROGRAMMATIC)

    def spent_on(self, calls: Iterable[tuple[str, Sequence[Request]]]) -> Spent:
        """What every attempt at these requests came to, whoever made it; those to hosted models count, by alias."""
        from radar_dagster.models.ledger import Spent

        hosted = [(alias, requests) for alias, requests in calls if isinstance(self.model(alias), HostedModel)]
        keys = {key for alias, requests in hosted for key in self.keys(alias, requests)}
        return self.ledger.spent_on(sorted(keys)) if keys and self._has_ledger else Spent()

    @property
    def _only(self) -> str | None:
        return self._session if self._fresh else None

    def _spent(self) -> Decimal:
        """What earlier doors of this session have spent; of what nobody can tell, the most that it can have been."""
        if self._settings.budget_usd is None or not self._has_ledger:
            return Decimal(0)
        return sum((row.most_usd for row in self.ledger.tally(session=self._session)), Decimal(0))

    def _origin(self, endpoint: str, model: str, mode: Literal["live", "batch"] = "live") -> Origin:
        return Origin(self._session, self._run_id, endpoint, model, mode, self._fresh)

    def _ask_here(
        self,
        alias: str,
        requests: Sequence[Any],
        ask: Callable[[Any], _Reply],
        kind: type[_Reply],
        listener: Listener | None,
    ) -> list[Call[_Reply]]:
        """Programmatic models: those that the ledger does not answer are called in this process."""
        spec = self.spec(alias)
        keys = self.keys(alias, requests)
        ledger = self.ledger if self._settings.ledger_url else None
        known = ledger.answers(keys, session=self._only) if ledger else {}
        if is_rule_based(spec):
            ask = _free(ask)
        missing = [(key, request) for key, request in zip(keys, requests, strict=True) if key not in known]
        origin = self._origin(spec.name.provider, spec.model)
        made = call_each(
            missing, ask, ledger=ledger, origin=origin, from_ledger=len(keys) - len(missing), listener=listener
        )
        fresh = iter(made)
        return [
            Call(key, spec, reply_of(known[key], kind) if key in known else next(fresh), spec.options) for key in keys
        ]

    def _how_to_score(
        self, model: HostedModel, requests: Sequence[JudgementRequest]
    ) -> tuple[ScoreFrom, Mapping[str, Any]]:
        """How the scores of all these requests are read, and the record of it; two methods never meet in a cell.

        Whether an endpoint gives token probabilities only its first reply tells: that call is made by itself, once.
        """
        if model.options.score_from == "text" or not requests:
            return "text", {}
        known, reason = self._known_method(model, requests)
        score_from: ScoreFrom = known or "logprobs"
        if known is None:
            (trial,) = self._ask_hosted(model, requests[:1], Judgement, score_from="logprobs", live=True)
            if trial.reply.detail == NO_CANDIDATES:
                score_from, reason = "text", model.sent_no_probabilities
        notes: dict[str, Any] = {"score_from": score_from}
        return score_from, ({**notes, "score_from_reason": reason} if reason else notes)

    def _known_method(self, model: HostedModel, requests: Sequence[Request]) -> tuple[ScoreFrom | None, str | None]:
        """How the requests' scores are read, and why not from probabilities, as far as is known without a call."""
        judgements = [request for request in requests if isinstance(request, JudgementRequest)]
        if model.options.score_from == "text" or not judgements:
            return "text", None
        reason = next((why for why in map(model.no_probabilities, judgements) if why), None)
        if reason is not None:
            return "text", reason
        rows = self._history(model.key(judgements[0], model.exchange(judgements[0], "logprobs")))
        if any(row.state == State.OK for row in rows):
            return "logprobs", None
        if rows and rows[-1].detail == NO_CANDIDATES:
            return "text", model.sent_no_probabilities
        return None, None

    def _history(self, key: str) -> list[Entry]:
        """What the ledger has of a call, as far as this session may look."""
        if not self._has_ledger:
            return []
        return [row for row in self.ledger.history(key) if self._only in (None, row.session)]

    def _ask_hosted(
        self,
        model: HostedModel,
        requests: Sequence[Any],
        kind: type[_Reply],
        *,
        listener: Listener | None = None,
        score_from: ScoreFrom = "text",
        notes: Mapping[str, Any] | None = None,
        live: bool = False,
    ) -> list[Call[_Reply]]:
        """Hosted models: those that the ledger does not answer go out, one by one (`live`) or in the model's mode."""
        if not requests:
            return []
        mode = "live" if live else model.spec.mode
        terms: dict[str, Any] = {
            "endpoint": model.endpoint,
            "origin": self._origin(model.endpoint_name, model.spec.model, mode),
            "ledger": self.ledger,
            "prices": self.prices,
            "budget": self.budget,
            "from_entry": lambda entry: reply_of(entry, kind),
            "title": f"{_VERBS[kind]} {model.spec.model}",
            "listener": listener,
        }
        ask = self._ask_in_batches if mode == "batch" else self._ask_live
        answered = ask(model, requests, score_from, terms)
        wanted = _wanted(model.exchange(requests[0], score_from))
        return [Call(key, model.spec, reply, _notes(notes or {}, wanted, reply)) for key, reply in answered]

    @without_what_is_there()
    def _ask_live(
        self, model: HostedModel, requests: Sequence[Any], score_from: ScoreFrom, terms: Mapping[str, Any]
    ) -> list[tuple[str, Any]]:
        """Key and reply of each request. The driver asks the ledger first, and has works made when it needs them."""
        keys: list[str] = []

        def works() -> Iterator[Work[Any]]:
            for request in requests:
                exchange = model.exchange(request, score_from)
                keys.append(model.key(request, exchange))
                yield model.work(request, exchange, keys[-1], score_from)

        asked: Iterable[Work[Any]] = works()
        if not self._fresh and self.ledger.has_open_batches():  # a fresh run pays again, and is not held up
            asked = list(asked)
            self._refuse_what_is_in_a_batch(model, keys)
        replies = run(asked, model.client, total=len(requests), **terms)
        return list(zip(keys, replies, strict=True))

    def _refuse_what_is_in_a_batch(self, model: HostedModel, keys: Sequence[str]) -> None:
        """BadInputError when calls are under way in a batch, and would be paid twice."""
        waiting = self.ledger.open_batch_keys(keys)
        if waiting and (unanswered := waiting.keys() - self.ledger.answers(waiting)):
            raise BadInputError(
                f"{len(unanswered):,} calls to {model.spec.model} are in a batch that is under way at the provider: "
                "keep `mode: batch` until it has ended, or pay for them again with --fresh"
            )

    def _ask_in_batches(
        self, model: HostedModel, requests: Sequence[Any], score_from: ScoreFrom, terms: Mapping[str, Any]
    ) -> list[tuple[str, Any]]:
        """Key and reply of each request; those that the ledger does not answer are handed in."""
        from radar_dagster.models.batch import run_batches

        exchanges = [model.exchange(request, score_from) for request in requests]
        keys = [model.key(request, exchange) for request, exchange in zip(requests, exchanges, strict=True)]
        known = self.ledger.answers(keys, session=self._only)
        missing = [place for place, key in enumerate(keys) if key not in known]
        works = [model.work(requests[place], exchanges[place], keys[place], score_from) for place in missing]
        recipes = {keys[place]: model.recipe(requests[place], score_from) for place in missing}
        replies = run_batches(
            works, model.client, from_ledger=len(keys) - len(missing), recipes=recipes, revive=model.revive, **terms
        )
        sent = iter(replies)
        read = terms["from_entry"]
        return [(key, read(known[key]) if key in known else next(sent)) for key in keys]


_VERBS = {Generation: "write", Judgement: "judge"}


def _wanted(exchange: Exchange) -> Mapping[str, Any]:
    """The parameters that a model may not take: its options, and so the same for all requests."""
    return {"temperature": exchange.temperature, "effort": exchange.effort, **exchange.extra}


def _notes(notes: Mapping[str, Any], wanted: Mapping[str, Any], reply: Generation | Judgement) -> Mapping[str, Any]:
    """What the record says beside the parameters that were sent: what was wanted and not taken."""
    if not reply.parameters:  # nothing was sent
        return notes
    left_out = [name for name, value in wanted.items() if value is not None and name not in reply.parameters]
    if "effort" in left_out and _EFFORT_NAMES & _names_in(reply.parameters):
        left_out.remove("effort")
    return {**notes, **{name: "provider default" if name == "temperature" else "not taken" for name in left_out}}


#: How the protocols call an effort.
_EFFORT_NAMES = frozenset({"reasoning_effort", "effort"})


def _names_in(parameters: Mapping[str, Any]) -> set[str]:
    """The names of parameters, and of those within them (`output_config: {effort: …}`)."""
    inner = [value for value in parameters.values() if isinstance(value, Mapping)]
    return {*parameters, *(name for value in inner for name in value)}


def _free(ask: Callable[[Any], _Reply]) -> Callable[[Any], _Reply]:
    """Models of this package cost nothing."""
    return lambda request: ask(request).model_copy(update={"usd": 0.0})
