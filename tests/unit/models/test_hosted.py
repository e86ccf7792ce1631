"""A hosted model: the options it takes, and what makes two calls one or two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.models import templates
from radar_dagster.models.capabilities import Overrides
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.hosted import HostedModel
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, Request, ResponseRequest
from radar_dagster.rubric.model import Criterion, Kind, Rubric, Scale, Task

TASK = Task(id="t", prompt="Write a letter.")
CLARITY = Criterion(id="clarity", label="Clarity", definition="How clear it is.")
PROBE = GenerationRequest(task=TASK, criterion=CLARITY, direction="+", sample=1)
SCORE = JudgementRequest(task=TASK, criterion=CLARITY, response="Dear all, this is a letter.")
RESPONSE = ResponseRequest(task=TASK, sample=1)
HERE = Endpoint(base_url="http://127.0.0.1:8000/v1")


def model(name: str = "here/m", endpoint: Endpoint = HERE, **options: Any) -> HostedModel:
    return HostedModel(ModelSpec(model=name, options=options), "here", endpoint)


def key(request: Request = SCORE, **how: Any) -> str:
    asked = model(**how)
    return asked.key(request, asked.exchange(request))


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temprature": 0}, r"here/m: options.temprature: .*options of hosted models are temperature, max_tokens"),
        ({"temperature": 3}, r"options.temperature: .*less than or equal to 2"),
        ({"temperature": float("nan")}, r"options.temperature: .*finite"),
        ({"max_tokens": 0}, r"options.max_tokens: .*greater than or equal to 1"),
        ({"effort": ""}, r"options.effort"),
        ({"score_from": "vibes"}, r"options.score_from: .*'text' or 'logprobs'"),
        ({"extra": [1]}, r"options.extra: .*dictionary"),
    ],
)
def test_wrong_options_are_told_with_those_that_exist(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        model(**options)


def test_roles_have_defaults_that_options_replace() -> None:
    written, judged = model().exchange(PROBE), model().exchange(SCORE)
    assert (written.temperature, written.max_tokens, written.schema) == (0.9, 800, None)
    assert (judged.temperature, judged.max_tokens) == (0.0, 1000)
    assert judged.schema == templates.verdict_schema(CLARITY.scale)
    other = model(temperature=0.3, max_tokens=50, extra={"seed": 7}).exchange(PROBE)
    assert (other.temperature, other.max_tokens, dict(other.extra)) == (0.3, 50, {"seed": 7})


@pytest.mark.parametrize(
    ("name", "options", "effort"),
    [
        ("here/m", {}, None),
        ("here/m@low", {}, "low"),
        ("here/m@xhigh", {}, "xhigh"),
        ("here/m@second-opinion", {}, None),
        ("here/m@low", {"effort": "max"}, "max"),
        ("here/m", {"effort": "whatever the server knows"}, "whatever the server knows"),
    ],
)
def test_a_variant_is_an_effort_or_tells_two_uses_apart(name: str, options: dict[str, Any], effort: str | None) -> None:
    assert model(name, **options).exchange(SCORE).effort == effort


def test_a_model_that_reasons_has_room_for_it() -> None:
    reasons = Endpoint(base_url=HERE.base_url, capabilities={"m": Overrides(reasons=True)})
    assert model(endpoint=reasons).exchange(PROBE).max_tokens > 800
    assert model(endpoint=reasons, max_tokens=600).exchange(PROBE).max_tokens == 600


def test_only_a_model_that_can_be_batched_may_be_wanted_in_batches() -> None:
    rubric = Rubric(name="r", criteria=(CLARITY, CLARITY.model_copy(update={"id": "other"})), tasks=(TASK,))
    batched = Endpoint(base_url=HERE.base_url, capabilities={"m": Overrides(batch=True)})
    HostedModel(ModelSpec(model="here/m", mode="batch"), "here", batched).check_rubric(rubric)
    with pytest.raises(BadInputError, match="here/m"):
        HostedModel(ModelSpec(model="here/m", mode="batch"), "here", HERE).check_rubric(rubric)


# Keys


def with_(request: Request, **changes: Any) -> Request:
    return request.model_copy(update=changes)


CHANGED: dict[str, Callable[[], str]] = {
    "the server": lambda: key(endpoint=Endpoint(base_url="http://127.0.0.1:8001/v1")),
    "the protocol": lambda: key(endpoint=Endpoint(base_url="http://127.0.0.1:8000/v1", protocol="anthropic")),
    "the version of the API": lambda: key(
        endpoint=Endpoint(base_url="http://127.0.0.1:8000", api_version="2026-01-01")
    ),
    "the model": lambda: key(name="here/m2"),
    "the deployment": lambda: key(endpoint=Endpoint(base_url=HERE.base_url, deployment="d")),
    "what the file says of the model": lambda: key(
        endpoint=Endpoint(base_url=HERE.base_url, capabilities={"m*": Overrides(temperature=False)})
    ),
    "temperature": lambda: key(temperature=0.1),
    "the limit": lambda: key(max_tokens=999),
    "effort": lambda: key(effort="low"),
    "effort by the variant": lambda: key(name="here/m@high"),
    "extra": lambda: key(extra={"top_p": 0.5}),
    "how the score is read": lambda: model().key(SCORE, model().exchange(SCORE, "logprobs")),
    "the response": lambda: key(with_(SCORE, response="Another letter.")),
    "the repeat": lambda: key(with_(SCORE, repeat=2)),
    "the task": lambda: key(with_(SCORE, task=Task(id="t", prompt="Write two letters."))),
    "the source": lambda: key(with_(SCORE, task=Task(id="t", prompt="Write a letter.", source="A story."))),
    "the definition": lambda: key(with_(SCORE, criterion=CLARITY.model_copy(update={"definition": "Is it clear?"}))),
    "the label": lambda: key(with_(SCORE, criterion=CLARITY.model_copy(update={"label": "Lucidity"}))),
    "the scale": lambda: key(with_(SCORE, criterion=CLARITY.model_copy(update={"scale": Scale(min=1, max=7)}))),
    "an anchor": lambda: key(with_(SCORE, criterion=CLARITY.model_copy(update={"anchors": {0: "Muddled."}}))),
    "the kind": lambda: key(with_(SCORE, criterion=CLARITY.model_copy(update={"kind": Kind.DESCRIPTIVE}))),
    "the role": lambda: key(PROBE),
    "the sample": lambda: key(with_(PROBE, sample=2)),
    "the direction": lambda: key(with_(PROBE, direction="-")),
    "no criterion": lambda: key(RESPONSE),
    "the sample of a bare response": lambda: key(with_(RESPONSE, sample=2)),
}


def test_whatever_can_change_an_answer_changes_the_key() -> None:
    keys = {"as it was": key(), **{what: make() for what, make in CHANGED.items()}}
    assert len(set(keys.values())) == len(keys)
    assert all(len(each) == 64 and set(each) <= set("0123456789abcdef") for each in keys.values())


def test_keys_of_calls_that_were_paid_for_stay_as_they_are() -> None:
    # Computed before there were requests without a criterion.
    assert key(PROBE) == "7ba4f3ddfa0c472e793dbe4b0636a6906c1f7128651d804095fb6c8492447386"
    assert key(SCORE) == "580ecd6f5ded1651b3bdb627a5d7d71ffbc42055e5f562d9884912570572b6a5"


@pytest.mark.parametrize(
    "same",
    [
        lambda: key(endpoint=Endpoint(base_url="http://127.0.0.1:8000")),
        lambda: key(endpoint=Endpoint(base_url="HTTP://127.0.0.1:8000/v1/")),
        lambda: key(
            endpoint=Endpoint(base_url=HERE.base_url, timeout_s=9, concurrency=1, api_key_env="K", max_attempts=1)
        ),
        lambda: key(endpoint=Endpoint(base_url=HERE.base_url, capabilities={"other*": Overrides(temperature=False)})),
        lambda: key(name="here/m@second-opinion"),
        lambda: key(temperature=0),
        lambda: key(max_tokens=1000),
        lambda: key(with_(SCORE, criterion=CLARITY.model_copy(update={"weight": 3.0, "id": "lucidity"}))),
        lambda: key(with_(SCORE, task=Task(id="another", prompt="Write a letter.", reference="Dear all."))),
    ],
)
def test_what_the_model_never_sees_does_not(same: Callable[[], str]) -> None:
    assert same() == key()


def test_a_batch_asks_for_the_same_as_live_calls() -> None:
    batched = HostedModel(ModelSpec(model="here/m", mode="batch"), "here", HERE)
    assert batched.key(SCORE, batched.exchange(SCORE)) == key()


def test_a_work_is_named_after_its_key() -> None:
    asked = model()
    exchange = asked.exchange(SCORE)
    work = asked.work(SCORE, exchange, asked.key(SCORE, exchange), "text")
    assert work.key == key()
    assert work.exchange.call_id == key()[:40]
    assert work.role == "judge"


def test_a_bare_response_is_written_like_a_probe_and_comes_back_from_a_batch_as_what_it_is() -> None:
    asked = model()
    exchange = asked.exchange(RESPONSE)
    probe = asked.exchange(PROBE)
    assert (exchange.max_tokens, exchange.temperature) == (probe.max_tokens, probe.temperature)
    revived = asked.revive(asked.key(RESPONSE, exchange), asked.recipe(RESPONSE, "text"))
    assert revived.role == "generate"
    assert revived.exchange.messages == exchange.messages
    assert asked.key(RESPONSE, revived.exchange) == key(RESPONSE)
