"""Prompts: what a hosted model is told, what it is never told, and how it is asked again."""

import json
from typing import Any

import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.models.exchange import Exchange, Message
from radar_dagster.models.requests import DIRECTIONS, GenerationRequest, JudgementRequest, Request, ResponseRequest
from radar_dagster.models.templates import TEMPLATE_VERSION, RenderOptions, enlarged, render, repair, verdict_schema
from radar_dagster.rubric.loading import benchmark_path, load_rubric
from radar_dagster.rubric.model import Criterion, Kind, Scale, Task, content_hash

TASK = Task(id="the-id", prompt="Explain tides.", source="The moon pulls.", reference="REFERENCE")
GOOD = Criterion(
    id="crit-id",
    label="Clarity",
    definition="Easy to follow.",
    scale=Scale(min=1, max=5),
    anchors={1: "opaque", 5: "plain"},
    weight=123.5,
)
MUCH = Criterion(id="length-id", label="Length", definition="How long it is.", kind=Kind.DESCRIPTIVE)
PLAIN = RenderOptions()
FROM_PROBABILITIES = RenderOptions(score_from="logprobs")


def to_write(criterion: Criterion = GOOD, direction: Any = "+", sample: int = 1) -> GenerationRequest:
    return GenerationRequest(task=TASK, criterion=criterion, direction=direction, sample=sample)


def to_judge(criterion: Criterion = GOOD, response: str = "The sea rises.", repeat: int = 1) -> JudgementRequest:
    return JudgementRequest(task=TASK, criterion=criterion, response=response, repeat=repeat)


def said(request: Request, options: RenderOptions = PLAIN) -> str:
    return "\n".join(message.content for message in render(request, options).messages)


# What is said


@pytest.mark.parametrize("request_", [to_write(), to_write(direction="-"), to_judge()], ids=["up", "down", "judge"])
def test_a_model_is_shown_the_task_and_the_one_criterion(request_: Request) -> None:
    text = said(request_)
    for shown in ("Explain tides.", "The moon pulls.", "Clarity", "Easy to follow.", "Level 1: opaque", "from 1 to 5"):
        assert text.count(shown) == 1, shown


@pytest.mark.parametrize("request_", [to_write(), to_write(direction="-"), to_judge()], ids=["up", "down", "judge"])
def test_no_model_is_shown_the_reference_an_id_or_a_weight(request_: Request) -> None:
    text = said(request_)
    for hidden in ("REFERENCE", "the-id", "crit-id", "123.5"):
        assert hidden not in text


def test_a_task_without_a_source_has_no_source() -> None:
    request = to_judge().model_copy(update={"task": TASK.model_copy(update={"source": None})})
    assert "<source-" in said(to_judge())
    assert "<source-" not in said(request)


@pytest.mark.parametrize(
    ("criterion", "direction", "aim"),
    [
        (GOOD, "+", "strongly satisfies the criterion: one that clearly earns 5"),
        (GOOD, "-", "clearly fails the criterion: one that earns 1"),
        (MUCH, "+", "sits clearly at the high end of the criterion: one that is placed at 4"),
        (MUCH, "-", "sits clearly at the low end of the criterion: one that is placed at 0"),
    ],
)
def test_a_generator_is_told_the_direction_as_the_kind_of_the_criterion_has_it(
    criterion: Criterion, direction: str, aim: str
) -> None:
    text = said(to_write(criterion, direction))
    assert aim in text
    assert "Do not deliberately change anything else" in text
    assert ("plausible" in text) == (criterion is GOOD and direction == "-")
    assert ("never nonsense" in text) == (direction == "-")


@pytest.mark.parametrize("benchmark", ["helpsteer2", "summeval", "sumpubmed"])
def test_no_prompt_names_another_criterion_of_a_shipped_benchmark(benchmark: str) -> None:
    rubric = load_rubric(benchmark_path(benchmark))
    task = Task(id="t", prompt="Write.")
    for criterion in rubric.criteria:
        blank = criterion.model_copy(update={"definition": "Defined."})
        requests: list[Request] = [JudgementRequest(task=task, criterion=blank, response="Done.")]
        requests += [GenerationRequest(task=task, criterion=blank, direction=d, sample=1) for d in DIRECTIONS]
        texts = [said(request).lower() for request in requests]
        others = [other.label.lower() for other in rubric.criteria if other.id != criterion.id]
        assert [other for other in others for text in texts if other in text] == []


def test_higher_is_not_better_on_a_descriptive_criterion() -> None:
    for request in (to_write(MUCH), to_judge(MUCH)):
        assert "not better" in said(request)
        assert "Higher is better" not in said(request)
    assert "Higher is better" in said(to_judge(GOOD))


def test_a_verifier_is_told_nothing_of_directions_and_generators() -> None:
    text = said(to_judge()).lower()
    for word in ("direction", "target", "generator", "probe", "deliberately", "intervention", "model"):
        assert word not in text


def test_samples_and_repeats_are_asked_alike() -> None:
    assert render(to_write(sample=1), PLAIN) == render(to_write(sample=7), PLAIN)
    assert render(to_judge(repeat=1), PLAIN) == render(to_judge(repeat=2), PLAIN)


def test_the_beginning_of_a_prompt_is_the_same_for_all_responses_to_a_task() -> None:
    one, other = (render(to_judge(response=text), PLAIN).messages[1].content for text in ("One.", "Another."))
    start = one.index("<response-")
    assert one[:start] == other[:start]
    assert one[start:] != other[start:]


def test_levels_without_a_description_are_explained_only_where_there_are_some() -> None:
    full = GOOD.model_copy(update={"anchors": dict.fromkeys(range(1, 6), "x")})
    told = [
        "not described" in said(to_judge(criterion))
        for criterion in (GOOD, full, GOOD.model_copy(update={"anchors": {}}))
    ]
    assert told == [True, False, False]


# What is asked for


def test_a_generation_is_asked_for_as_free_text() -> None:
    exchange = render(to_write(), PLAIN)
    assert [message.role for message in exchange.messages] == ["system", "user"]
    assert (exchange.temperature, exchange.max_tokens) == (0.9, 800)
    assert (exchange.schema, exchange.top_logprobs, exchange.effort) == (None, None, None)


def test_a_verdict_is_asked_for_with_its_schema() -> None:
    exchange = render(to_judge(), PLAIN)
    assert [message.role for message in exchange.messages] == ["system", "user"]
    assert (exchange.temperature, exchange.max_tokens, exchange.top_logprobs) == (0, 1000, None)
    assert exchange.schema == verdict_schema(Scale(min=1, max=5))


def test_the_schema_has_reasoning_first_and_levels_instead_of_bounds() -> None:
    schema = verdict_schema(Scale(min=-1, max=2))
    assert list(schema["properties"]) == schema["required"] == ["reasoning", "score", "rationale"]
    assert schema["properties"]["score"] == {"type": "integer", "enum": [-1, 0, 1, 2]}
    assert schema["additionalProperties"] is False
    assert "imum" not in json.dumps(schema)


def test_a_score_from_probabilities_is_asked_for_as_one_token() -> None:
    exchange = render(to_judge(), FROM_PROBABILITIES)
    assert (exchange.max_tokens, exchange.top_logprobs, exchange.schema) == (1, 20, None)
    assert "JSON" not in said(to_judge(), FROM_PROBABILITIES)
    assert "Reply with one digit, 1 to 5." in exchange.messages[1].content


def test_a_scale_without_single_digits_is_refused_where_probabilities_are_wanted() -> None:
    wide = GOOD.model_copy(update={"scale": Scale(min=0, max=10)})
    with pytest.raises(BadInputError, match=r"criterion crit-id: .* the scale is 0\.\.10"):
        render(to_judge(wide), FROM_PROBABILITIES)
    assert render(to_judge(wide), PLAIN).schema is not None


@pytest.mark.parametrize("request_", [to_write(), to_judge()], ids=["generate", "judge"])
def test_options_come_before_the_defaults_of_a_role(request_: Request) -> None:
    options = RenderOptions(max_tokens=5, temperature=0.0, effort="low", extra={"seed": 1})
    exchange = render(request_, options)
    assert (exchange.max_tokens, exchange.temperature, exchange.effort) == (5, 0.0, "low")
    assert exchange.extra == {"seed": 1}


#: Of `TEMPLATE_VERSION` -> a hash of prompts made with it. A version that was ever released is never changed.
PROMPTS = {1: "76a7627d35daf00c"}


def test_a_change_of_the_prompts_is_a_new_version() -> None:
    requests: list[Request] = [to_judge(c) for c in (GOOD, MUCH)]
    requests += [to_write(c, d) for c in (GOOD, MUCH) for d in DIRECTIONS]
    exchanges = [render(r, o) for r in requests for o in (PLAIN, FROM_PROBABILITIES)]
    exchanges.append(repair(exchanges[0], "x" * 5000, "too long"))
    messages = [[message.content for message in exchange.messages] for exchange in exchanges]
    assert PROMPTS[TEMPLATE_VERSION] == content_hash(messages)[:16]


RESPONSE_PROMPT = {1: "0a23a6e797b327a6"}


def test_a_bare_task_is_asked_for_with_its_source_and_nothing_of_the_audit() -> None:
    exchange = render(ResponseRequest(task=TASK, sample=3), PLAIN)
    text = "\n".join(message.content for message in exchange.messages)
    for shown in ("Explain tides.", "The moon pulls."):
        assert text.count(shown) == 1, shown
    for hidden in ("REFERENCE", "the-id", "criteri", "scale", "level", "score"):
        assert hidden not in text.lower(), hidden
    assert exchange.schema is None
    assert render(ResponseRequest(task=TASK, sample=4), PLAIN) == exchange


def test_a_change_of_the_prompt_for_bare_tasks_is_a_new_version() -> None:
    messages = [message.content for message in render(ResponseRequest(task=TASK, sample=1), PLAIN).messages]
    assert RESPONSE_PROMPT[TEMPLATE_VERSION] == content_hash(messages)[:16]


# Asking again


def test_a_repair_restates_the_request_and_shows_what_came_back() -> None:
    exchange = render(to_judge(), PLAIN)
    again = repair(exchange, '{"score": "4/5"}', "expected an integer level 1..5, found '4/5'")
    assert again.messages[0] == exchange.messages[0]
    assert again.messages[1].content.startswith(exchange.messages[1].content)
    added = again.messages[1].content.removeprefix(exchange.messages[1].content)
    assert "could not be used: expected an integer level 1..5, found '4/5'." in added
    assert '\n{"score": "4/5"}\n' in added
    unchanged = ("max_tokens", "temperature", "schema", "effort", "top_logprobs", "extra")
    assert all(getattr(again, name) == getattr(exchange, name) for name in unchanged)
    assert len(again.messages) == 2


def test_a_repair_is_the_same_every_time_and_differs_from_the_request() -> None:
    exchange = render(to_judge(), PLAIN)
    assert repair(exchange, "four", "no JSON") == repair(exchange, "four", "no JSON")
    assert repair(exchange, "", "the reply is empty") != exchange


def test_a_long_reply_is_shown_by_its_beginning_and_its_end() -> None:
    reply = "B" * 500 + "M" * 3000 + "E" * 1500
    shown = repair(render(to_judge(), PLAIN), reply, "no JSON").messages[1].content
    assert "B" * 500 + "\n[3000 characters left out]\n" + "E" * 1500 in shown
    assert "M" * 10 not in shown


def test_a_generation_can_be_repaired_too() -> None:
    exchange = render(to_write(), PLAIN)
    again = repair(exchange, "", "the reply holds no text")
    assert again.messages[1].content.startswith(exchange.messages[1].content)
    assert "the reply holds no text" in again.messages[1].content


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, 513), (100, 612), (512, 2048), (800, 3200), (1000, 4000), (9000, 32_768), (32_768, 32_768), (40_000, 40_000)],
)
def test_a_truncated_call_gets_more_tokens_up_to_a_bound(before: int, after: int) -> None:
    exchange = Exchange(messages=(Message("user", "Go."),), max_tokens=before, temperature=0.5)
    assert enlarged(exchange) == Exchange(messages=(Message("user", "Go."),), max_tokens=after, temperature=0.5)
