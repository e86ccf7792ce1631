"""The stub server, through the real SDKs and on the wire: it must not teach clients what no provider does."""

import asyncio
import http.client
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import jsonschema
import openai
import pytest
from stub_server import (
    AuditBrain,
    BatchPlan,
    DefaultBrain,
    ModelFacts,
    Rule,
    Script,
    StubProcess,
    StubServer,
)

#: Servers and clocks: the whole module takes many seconds.
pytestmark = pytest.mark.slow

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "score": {"type": "integer", "enum": [0, 1, 2, 3, 4]},
        "rationale": {"type": "string"},
    },
    "required": ["reasoning", "score", "rationale"],
    "additionalProperties": False,
}
STRICT = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": SCHEMA, "strict": True}}
FORMAT = {"format": {"type": "json_schema", "schema": SCHEMA}}


# Every client of its own would load the machine's certificates again, for a sixth of a second.
HTTP = openai.DefaultHttpxClient(), anthropic.DefaultHttpxClient()


@pytest.fixture(scope="module", autouse=True)
def _closed_at_the_end() -> Iterator[None]:
    yield
    for each in HTTP:
        each.close()


def openai_client(server: StubServer | StubProcess, **more: Any) -> openai.OpenAI:
    """A client without the SDK's own retries."""
    given = {"base_url": server.openai_url, "api_key": "sk-test", "max_retries": 0, "timeout": 5, **more}
    return openai.OpenAI(http_client=HTTP[0], **given)


def anthropic_client(server: StubServer | StubProcess, **more: Any) -> anthropic.Anthropic:
    """A client without the SDK's own retries."""
    given = {"base_url": server.anthropic_url, "api_key": "sk-test", "max_retries": 0, "timeout": 5, **more}
    return anthropic.Anthropic(http_client=HTTP[1], **given)


def chat(server: StubServer | StubProcess, text: str = "Hello", **more: Any) -> Any:
    """One chat completion."""
    given = {"model": "judge", "messages": [{"role": "user", "content": text}], **more}
    return openai_client(server).chat.completions.create(**given)


def message(server: StubServer | StubProcess, text: str = "Hello", **more: Any) -> Any:
    """One message."""
    given = {"model": "judge", "max_tokens": 500, "messages": [{"role": "user", "content": text}], **more}
    return anthropic_client(server).messages.create(**given)


def said(server: StubServer, text: str = "Hello", **more: Any) -> str:
    return chat(server, text, **more).choices[0].message.content


def post(server: StubServer, path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a raw POST."""
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=5)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, raw, {"content-type": "application/json", **headers})
    answer = connection.getresponse()
    result = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return result


def raw_bytes(server: StubServer) -> bytes:
    """All bytes that come back on a connection that asks for one completion."""
    body = json.dumps({"model": "judge", "messages": [{"role": "user", "content": "Hello"}]}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: stub\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    received = b""
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=5) as connection:
        connection.sendall(head + body)
        while chunk := connection.recv(65536):
            received += chunk
    return received


# Replies


def test_a_schema_is_satisfied_in_both_protocols_and_by_the_same_verdict(stub: StubServer) -> None:
    through_openai = said(stub, response_format=STRICT)
    through_anthropic = message(stub, output_config=FORMAT).content[0].text
    jsonschema.validate(json.loads(through_openai), SCHEMA)
    assert through_openai == through_anthropic


def test_scores_follow_from_the_text_alone_and_use_every_level(stub: StubServer) -> None:
    texts = [f"Response {number}" for number in range(60)]
    forwards = [json.loads(said(stub, text, response_format=STRICT))["score"] for text in texts]
    backwards = [json.loads(said(stub, text, response_format=STRICT))["score"] for text in reversed(texts)]
    assert forwards == backwards[::-1]
    assert set(forwards) == {0, 1, 2, 3, 4}


def test_equal_prompts_get_as_many_texts_as_they_are_sent_and_an_index_fixes_each(stub: StubServer) -> None:
    assert len({said(stub) for _ in range(5)}) == 5

    def sample(number: int) -> str:
        return said(stub, extra_headers={"x-client-request-id": str(number)})

    first, second = sample(1), sample(2)
    assert first != second
    assert (sample(2), sample(1)) == (second, first)
    stub.settings.brain = DefaultBrain(distinct=False)
    assert said(stub) == said(stub)


def test_a_text_longer_than_the_limit_is_cut_and_no_more_is_billed_than_the_limit(stub: StubServer) -> None:
    stub.settings.reasoning_tokens = 6
    reply = chat(stub, max_tokens=10)
    assert reply.choices[0].finish_reason == "length"
    assert (reply.usage.completion_tokens, reply.usage.completion_tokens_details.reasoning_tokens) == (10, 6)
    assert message(stub, max_tokens=10).stop_reason == "max_tokens"
    assert chat(stub, max_completion_tokens=4).choices[0].message.content == ""


def test_tokens_are_four_bytes_of_utf8_rounded_up(stub: StubServer) -> None:
    stub.settings.brain = lambda ask: "ééé"
    stub.settings.cached_tokens = 1
    usage = chat(stub, "12345").usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens_details.cached_tokens) == (2, 2, 1)
    counted = message(stub, "12345").usage
    assert (counted.input_tokens, counted.cache_read_input_tokens, counted.output_tokens) == (1, 1, 2)
    assert stub.log.tokens() == {"prompt_tokens": 4, "completion_tokens": 4, "reasoning_tokens": 0}
    assert stub.log.tokens(model="other")["prompt_tokens"] == 0


def test_a_brain_may_say_what_utf8_can_not(stub: StubServer) -> None:
    stub.settings.brain = lambda ask: "\ud800 \x00"
    raw = post(stub, "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "x"}]})[2]
    assert rb"\ud800" in raw


def test_probabilities_are_a_distribution_over_digits_whose_likeliest_is_the_reply(stub: StubServer) -> None:
    stub.settings.brain = DefaultBrain(levels=range(5))
    choice = chat(stub, logprobs=True, top_logprobs=20, max_tokens=1).choices[0]
    top = choice.logprobs.content[0].top_logprobs
    assert math.fsum(math.exp(each.logprob) for each in top) == pytest.approx(1)
    assert {each.token for each in top} > {"0", "1", "2", "3", "4"}
    assert choice.message.content == choice.logprobs.content[0].token == top[0].token
    assert top[0].logprob == max(each.logprob for each in top)
    stub.settings.logprobs = "off"
    assert chat(stub, logprobs=True, top_logprobs=5).choices[0].logprobs is None
    stub.settings.logprobs = "rejected"
    with pytest.raises(openai.BadRequestError, match="'logprobs'"):
        chat(stub, logprobs=True, top_logprobs=5)


def test_both_sdks_work_asynchronously_and_many_at_once(stub: StubServer) -> None:
    stub.settings.latency = 0.1

    async def ask() -> list[Any]:
        one = openai.AsyncOpenAI(base_url=stub.openai_url, api_key="k", max_retries=0)
        other = anthropic.AsyncAnthropic(base_url=stub.anthropic_url, api_key="k", max_retries=0)
        async with one, other:
            asked = [{"model": "m", "messages": [{"role": "user", "content": str(number)}]} for number in range(20)]
            calls = [one.chat.completions.create(**each) for each in asked]
            calls += [other.messages.create(max_tokens=100, **each) for each in asked]
            return await asyncio.gather(*calls)

    assert len(asyncio.run(ask())) == 40
    assert stub.log.ok == 40
    assert 20 <= stub.log.peak <= 40
    assert stub.log.in_flight == 0
    assert len(stub.log.asked) == 20  # a content is the same whichever protocol carries it


@pytest.mark.parametrize(
    ("latency", "expected"),
    [
        (0.15, (0.15, 0.4)),
        ((0.1, 0.2), (0.1, 0.45)),
        ({"seconds": 0.1, "per_call": 0.05}, (0.15, 0.4)),
        (lambda ask, in_flight: 0.12 * in_flight, (0.12, 0.4)),
    ],
)
def test_latency_is_as_set(stub: StubServer, latency: Any, expected: tuple[float, float]) -> None:
    chat(stub)  # imports of the SDK are not measured
    stub.settings.latency = latency
    chat(stub)
    assert expected[0] <= (stub.log.calls[-1].seconds or 0) < expected[1]


def test_lognormal_latencies_have_the_median_that_is_asked_for(stub: StubServer) -> None:
    stub.settings.latency = {"median": 0.02, "sigma": 0.3}
    for number in range(25):
        chat(stub, str(number))
    seconds = sorted(record.seconds or 0 for record in stub.log.calls)
    assert 0.012 < seconds[12] < 0.06
    assert seconds[-1] > 1.3 * seconds[0]


# Addresses, keys, models


def test_addresses_without_v1_or_with_it_twice_do_not_exist(stub: StubServer) -> None:
    wrong = openai_client(stub, base_url=stub.url)
    with pytest.raises(openai.NotFoundError, match=r"Invalid URL \(POST /chat/completions\)"):
        wrong.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    twice = anthropic_client(stub, base_url=stub.openai_url)
    with pytest.raises(anthropic.NotFoundError) as problem:
        twice.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    assert problem.value.body["error"]["type"] == "not_found_error"


def test_wrong_keys_get_each_providers_401_and_no_key_is_logged(stub: StubServer) -> None:
    stub.settings.keys = {"sk-right"}
    with pytest.raises(openai.AuthenticationError) as problem:
        chat(stub)
    assert problem.value.code == "invalid_api_key"
    with pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"):
        message(stub)
    status, _, _ = post(stub, "/v1/chat/completions", {})
    assert (status, stub.log.keyless) == (401, 1)
    stub.settings.echo_keys = True
    with pytest.raises(openai.AuthenticationError, match="sk-test"):
        chat(stub)
    stub.settings.keys = {"sk-test"}
    chat(stub)
    message(stub)
    assert "sk-" not in repr(stub.log.records)
    assert stub.log.statuses == {401: 4, 200: 2}


def test_unknown_models_get_each_providers_404(stub: StubServer) -> None:
    stub.settings.models = {"judge": ModelFacts(), "old": ModelFacts(lifecycle="retired")}
    chat(stub)
    with pytest.raises(openai.NotFoundError) as problem:
        chat(stub, model="nope")
    assert problem.value.code == "model_not_found"
    with pytest.raises(anthropic.NotFoundError, match="not_found_error"):
        message(stub, model="nope")
    with pytest.raises(anthropic.NotFoundError, match="model: old"):
        message(stub, model="old")


def test_listings_tell_of_retirement_and_capabilities_in_each_protocol(stub: StubServer) -> None:
    stub.settings.models = {
        "a": ModelFacts(shutdown_date="2027-01-31", retires_at="2027-01-31T00:00:00Z", lifecycle="deprecated"),
        "b": ModelFacts(structured_outputs=False),
    }
    client = openai_client(stub)
    assert {model.id: model.shutdown_date for model in client.models.list()} == {"a": "2027-01-31", "b": None}
    assert client.models.retrieve("b").object == "model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("c")
    claude = anthropic_client(stub)
    listed = {model.id: model for model in claude.models.list()}
    assert listed["a"].retires_at is not None
    assert (listed["a"].lifecycle, listed["a"].retires_at.year) == ("deprecated", 2027)
    told = claude.models.retrieve("b").capabilities
    assert told is not None
    assert told.effort.xhigh is not None
    assert (told.structured_outputs.supported, told.batch.supported, told.effort.xhigh.supported) == (False, True, True)


def test_azures_deployments_are_models_with_their_own_key_header(stub: StubServer) -> None:
    stub.settings.keys = {"az"}
    stub.settings.models = {"mine": ModelFacts()}
    asked = {"model": "mine", "messages": [{"role": "user", "content": "x"}]}
    with openai.AzureOpenAI(
        azure_endpoint=stub.azure_url, api_key="az", api_version="2026-01-01", max_retries=0, timeout=5
    ) as client:
        assert client.chat.completions.create(**asked).choices[0].message.content
        with pytest.raises(openai.NotFoundError, match="deployment"):
            client.chat.completions.create(**{**asked, "model": "other"})
        stub.settings.script = Script([Rule("content_filter")])
        with pytest.raises(openai.BadRequestError) as problem:
            client.chat.completions.create(**asked)
        assert problem.value.code == "content_filter"
    assert post(stub, "/openai/deployments/mine/chat/completions", asked, **{"api-key": "az"})[0] == 404
    stub.settings.script = Script()
    client = openai_client(stub, base_url=f"{stub.azure_url}/openai/v1", api_key="az")
    assert client.chat.completions.create(**asked).choices[0].message.content


# What providers refuse


@pytest.mark.parametrize(
    ("rejects", "sent", "expected", "words"),
    [
        (["temperature"], {"temperature": 0}, ("unsupported_parameter", "temperature"), "'temperature'"),
        ({"temperature": "value"}, {"temperature": 0}, ("unsupported_value", "temperature"), "does not support 0"),
        (["max_tokens"], {"max_tokens": 9}, ("unsupported_parameter", "max_tokens"), "Use 'max_completion_tokens'"),
        (
            ["response_format"],
            {"response_format": STRICT},
            ("unsupported_parameter", "response_format"),
            "not supported",
        ),
        ({"seed": "no seeds here"}, {"seed": 1}, (None, None), "no seeds here"),
    ],
)
def test_openais_400_names_the_parameter(
    stub: StubServer, rejects: Any, sent: dict[str, Any], expected: tuple[str | None, str | None], words: str
) -> None:
    stub.settings.rejects = {"jud*": rejects}
    with pytest.raises(openai.BadRequestError, match=words) as problem:
        chat(stub, **sent)
    assert (problem.value.code, problem.value.param) == expected
    chat(stub)
    assert stub.log.calls[-1].nth == 1, "a request that was rejected has not been seen yet"


def test_anthropics_400_names_the_parameter_in_words(stub: StubServer) -> None:
    stub.settings.rejects = {"judge": ["temperature", "output_config.effort", "output_config.format"]}
    with pytest.raises(anthropic.BadRequestError, match="`temperature` is deprecated for this model"):
        message(stub, extra_body={"temperature": 0.0})
    with pytest.raises(anthropic.BadRequestError, match="does not support the effort parameter"):
        message(stub, output_config={"effort": "low"})
    with pytest.raises(anthropic.BadRequestError, match=r"output_config\.format: Extra inputs"):
        message(stub, output_config=FORMAT)
    message(stub)


def test_schemas_are_validated_as_the_providers_do(stub: StubServer) -> None:
    named = {"type": "json_schema", "json_schema": {"name": "Clarity of prose", "schema": SCHEMA}}
    with pytest.raises(openai.BadRequestError, match=r"response_format\.json_schema\.name"):
        chat(stub, response_format=named)
    lax = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "object"}}}
    with pytest.raises(openai.BadRequestError, match="additionalProperties"):
        chat(stub, response_format=lax)
    bounded = {**SCHEMA, "properties": {"score": {"type": "integer", "minimum": 0, "maximum": 4}}}
    with pytest.raises(anthropic.BadRequestError, match="properties maximum, minimum are not supported"):
        message(stub, output_config={"format": {"type": "json_schema", "schema": bounded}})
    with pytest.raises(openai.BadRequestError, match="at the same time"):
        chat(stub, max_tokens=5, max_completion_tokens=5)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"{}",
        {"model": "m"},
        b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "\\ud800"}]}',
        {"model": "m", "max_tokens": 9, "messages": []},
    ],
)
def test_broken_bodies_get_a_400_in_both_protocols(stub: StubServer, body: Any) -> None:
    for path in ("/v1/chat/completions", "/v1/messages"):
        status, _, raw = post(stub, path, body)
        assert status == 400
        assert json.loads(raw)["error"]["type"] == "invalid_request_error"


def test_anthropic_takes_no_system_role_and_needs_a_limit(stub: StubServer) -> None:
    with pytest.raises(anthropic.BadRequestError, match=r"messages\.0\.role"):
        message(stub, messages=[{"role": "system", "content": "x"}])
    assert b"max_tokens: Field required" in post(stub, "/v1/messages", {"model": "m", "messages": [1]})[2]


# Faults


@pytest.mark.parametrize(
    ("kind", "of_openai", "of_anthropic"),
    [
        ("rate_limited", (429, "rate_limit_exceeded"), (429, "rate_limit_error")),
        ("rate_limited_bare", (429, "rate_limit_exceeded"), (429, "rate_limit_error")),
        ("quota", (429, "insufficient_quota"), (400, "invalid_request_error")),
        ("forbidden", (403, None), (403, "permission_error")),
        ("too_long", (400, "context_length_exceeded"), (400, "invalid_request_error")),
        ("server_error", (500, None), (500, "api_error")),
        ("overloaded", (503, None), (529, "overloaded_error")),
    ],
)
def test_errors_have_each_providers_shape(
    stub: StubServer, kind: str, of_openai: tuple[int, str | None], of_anthropic: tuple[int, str]
) -> None:
    stub.settings.script = Script([Rule(kind)])
    with pytest.raises(openai.APIStatusError) as problem:
        chat(stub)
    assert (problem.value.status_code, problem.value.code) == of_openai
    with pytest.raises(anthropic.APIStatusError) as other:
        message(stub)
    assert (other.value.status_code, other.value.body["error"]["type"]) == of_anthropic
    assert stub.log.faults == {kind: 2}
    assert stub.log.tokens()["prompt_tokens"] == 0


def test_waiting_times_are_told_in_seconds_or_milliseconds(stub: StubServer) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    stub.settings.script = Script([Rule("rate_limited", seconds=7, times=1), Rule("rate_limited_ms", seconds=0.25)])
    assert post(stub, "/v1/chat/completions", body)[1]["retry-after"] == "7"
    headers = post(stub, "/v1/chat/completions", body)[1]
    assert (headers["retry-after-ms"], headers["retry-after"]) == ("250", "1")
    stub.settings.script = Script([Rule("rate_limited", value="Wed, 21 Oct 2037 07:28:00 GMT")])
    assert post(stub, "/v1/chat/completions", body)[1]["retry-after"].endswith("2037 07:28:00 GMT")
    stub.settings.script = Script([Rule("rate_limited_bare")])
    assert "retry-after" not in post(stub, "/v1/chat/completions", body)[1]


@pytest.mark.parametrize("kind", ["dropped", "reset", "reply_lost", "dropped_midway"])
def test_broken_connections_are_connection_errors_of_the_sdks(stub: StubServer, kind: str) -> None:
    stub.settings.script = Script([Rule(kind)])
    with pytest.raises(openai.APIConnectionError):
        chat(stub)
    with pytest.raises(anthropic.APIConnectionError):
        message(stub)
    billed = stub.log.tokens()["completion_tokens"] > 0
    assert billed == (kind in ("reply_lost", "dropped_midway"))
    assert stub.log.ok == 0
    assert stub.log.statuses == {0: 2}


def test_a_dropped_connection_carries_no_byte_and_one_dropped_midway_half_of_the_body(stub: StubServer) -> None:
    stub.settings.script = Script([Rule("dropped", request=1), Rule("dropped_midway", request=2)])
    assert raw_bytes(stub) == b""
    head, _, body = raw_bytes(stub).partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    assert len(body) == length // 2


def test_a_stalled_call_ends_when_the_client_gives_up_and_is_no_success(stub: StubServer) -> None:
    stub.settings.script = Script([Rule("stalled", times=1), Rule("stalled", seconds=0.1, times=1)])
    with pytest.raises(openai.APITimeoutError):
        chat(stub, timeout=0.2)
    stub.wait_until(lambda log: log.in_flight == 0)
    assert (stub.log.calls[0].status, stub.log.ok) == (499, 0)
    chat(stub, timeout=5)
    assert (stub.log.calls[1].seconds or 0) >= 0.09  # a timer may be early by the resolution of its clock
    assert stub.log.ok == 1


def test_a_client_that_leaves_during_the_latency_gets_nothing_and_pays_nothing(stub: StubServer) -> None:
    stub.settings.latency = 0.3
    with pytest.raises(openai.APITimeoutError):
        chat(stub, timeout=0.1)
    stub.wait_until(lambda log: log.in_flight == 0)
    assert (stub.log.calls[0].status, stub.log.calls[0].billed) == (499, False)


def test_bodies_that_are_no_json_arrive_as_such(stub: StubServer) -> None:
    stub.settings.script = Script(
        [Rule("garbage_json_body", request=1), Rule("html_body", request=2), Rule("bad_gateway")]
    )
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    status, headers, raw = post(stub, "/v1/chat/completions", asked)
    assert (status, headers["content-type"]) == (200, "application/json")
    with pytest.raises(ValueError, match="Unterminated|Expecting"):
        json.loads(raw)
    status, headers, raw = post(stub, "/v1/chat/completions", asked)
    assert (status, headers["content-type"]) == (200, "text/html")
    status, headers, raw = post(stub, "/v1/chat/completions", asked)
    assert (status, headers["content-type"], raw[:9]) == (502, "text/html", b"<!doctype")
    assert stub.log.ok == 0


def verdict(stub: StubServer, rule: Rule) -> tuple[str, str]:
    """Text and finish reason of a judgement with a fault; the right score is 2."""
    right = json.dumps({"reasoning": "r", "score": 2, "rationale": "s"})
    stub.settings.brain = lambda ask: right
    stub.settings.script = Script([rule])
    choice = chat(stub, response_format=STRICT).choices[0]
    return choice.message.content, choice.finish_reason


def test_reply_faults_spoil_the_text(stub: StubServer) -> None:
    right = '{"reasoning": "r", "score": 2, "rationale": "s"}'
    assert f"```json\n{right}\n```" in verdict(stub, Rule("fenced"))[0]
    assert verdict(stub, Rule("truncated")) == (right[: len(right) // 2], "length")
    assert json.loads(verdict(stub, Rule("out_of_range"))[0])["score"] == 7
    assert json.loads(verdict(stub, Rule("out_of_range", value="4/5"))[0])["score"] == "4/5"
    assert "score" not in json.loads(verdict(stub, Rule("wrong_schema"))[0])
    twice = verdict(stub, Rule("duplicate_objects"))[0]
    assert (twice.count('"score"'), twice.endswith(right), '"score": 0' in twice) == (2, True, True)
    assert verdict(stub, Rule("empty"))[0] == ""
    thought = verdict(stub, Rule("think_block"))[0]
    assert thought.startswith("<think>")
    assert thought.endswith(f"</think>\n\n{right}")
    assert "</think>" not in verdict(stub, Rule("think_open"))[0]


def test_a_text_without_a_score_has_none_to_spoil_and_no_fault_is_counted(stub: StubServer) -> None:
    stub.settings.script = Script([Rule("out_of_range", contains="letter"), Rule("fenced")])
    assert not said(stub, "Write a letter.").startswith("{")
    assert "```" in said(stub, "Write a note.")
    assert stub.log.faults == {"fenced": 1}


def test_refusals_filters_and_hidden_reasoning_have_each_providers_shape(stub: StubServer) -> None:
    stub.settings.script = Script([Rule("refusal")])
    choice = chat(stub).choices[0]
    assert (choice.message.content, bool(choice.message.refusal), choice.finish_reason) == (None, True, "stop")
    refused = message(stub)
    assert (refused.stop_reason, refused.content, refused.stop_details.type) == ("refusal", [], "refusal")
    stub.settings.script = Script([Rule("content_filter")])
    assert chat(stub).choices[0].finish_reason == "content_filter"
    with pytest.raises(anthropic.BadRequestError, match="content filtering policy"):
        message(stub)
    stub.settings.script = Script([Rule("missing_usage")])
    assert chat(stub).usage is None
    stub.settings.script = Script([Rule("reasoning_apart")])
    assert chat(stub).choices[0].message.reasoning_content
    assert [block.type for block in message(stub).content] == ["thinking", "text"]
    stub.settings.script = Script([Rule("rejected_parameter", parameter="response_format")])
    with pytest.raises(openai.BadRequestError, match="'response_format'"):
        chat(stub)


def outcomes(seed: int, texts: list[str], **rates: float) -> dict[str, list[str | None]]:
    """Faults of each text's three attempts."""
    with StubServer(script=Script.rates(rates, seed=seed)) as server:
        for text in texts:
            post(server, "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": text}]})
        found: dict[str, list[str | None]] = {}
        for record in server.log.calls:
            found.setdefault(record.body["messages"][0]["content"], []).append(record.fault)
        return found


def test_faults_by_rate_do_not_depend_on_the_order_of_arrival() -> None:
    texts = [str(number) for number in range(80)]
    rates = {"server_error": 0.2, "fenced": 0.2}
    by_rounds = outcomes(1, texts * 3, **rates)
    by_text = outcomes(1, [text for text in reversed(texts) for _ in range(3)], **rates)
    assert by_rounds == by_text
    first = [faults[0] for faults in by_rounds.values()]
    assert 5 <= first.count("server_error") <= 30
    for faults in by_rounds.values():
        assert "server_error" not in faults[1:], "faults of the transport hit the first attempt only"
        assert faults[1] == faults[2], "faults of the reply follow the content"
    assert outcomes(2, texts, server_error=0.2) != outcomes(1, texts, server_error=0.2)


def test_the_sdks_own_retries_get_over_a_first_attempt_that_failed(stub: StubServer) -> None:
    stub.settings.script = Script.rates({"rate_limited_ms": 1.0})
    openai_client(stub, max_retries=1).chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    assert [record.status for record in stub.log.calls] == [429, 200]


def test_rules_choose_by_prompt_model_schema_number_and_predicate(stub: StubServer) -> None:
    stub.settings.script = Script(
        [
            Rule("refusal", contains="Task 3"),
            Rule("truncated", model="other*", attempts=1),
            Rule("empty", schema=True, protocol="anthropic"),
            Rule("server_error", request=7),
            Rule("content_filter", when=lambda ask: ask.body.get("user") == "mallory"),
        ]
    )
    chat(stub, "Task 3")
    chat(stub, model="other-1")
    chat(stub, model="other-1")
    chat(stub, response_format=STRICT)
    message(stub, output_config=FORMAT)
    chat(stub, user="mallory")
    with pytest.raises(openai.InternalServerError):
        chat(stub, "seventh")
    assert [record.fault for record in stub.log.calls] == [
        "refusal", "truncated", None, None, "empty", "content_filter", "server_error",
    ]  # fmt: skip


def test_a_script_survives_the_way_through_json() -> None:
    script = Script.from_json(
        {
            "seed": 3,
            "rates": {"fenced": 0.5, "dropped": 0.25},
            "rules": [
                {"kind": "server_error", "share": 0.5, "first_attempt_only": False},
                {"kind": "empty", "recovers_after": 2},
            ],
        }
    )
    again = Script.from_json(json.loads(json.dumps(script.to_json())))
    assert again.to_json() == script.to_json()
    assert [rule.kind for rule in again.rules] == ["server_error", "empty", "dropped", "fenced"]
    assert [rule.attempts for rule in again.rules] == [None, 2, 1, None]
    with pytest.raises(ValueError, match="no fault 'droped'"):
        Rule("droped")


def test_more_calls_at_once_than_allowed_are_turned_away(stub: StubServer) -> None:
    stub.settings.max_in_flight, stub.settings.latency = 3, 0.2

    async def ask() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=stub.openai_url, api_key="k", max_retries=0) as client:
            asked = [{"model": "m", "messages": [{"role": "user", "content": str(number)}]} for number in range(8)]
            return await asyncio.gather(
                *(client.chat.completions.create(**each) for each in asked), return_exceptions=True
            )

    asyncio.run(ask())
    assert stub.log.statuses == {200: 3, 429: 5}


# Brains


def test_the_audit_brain_scores_what_it_planted() -> None:
    brain = AuditBrain(
        {"Criterion: Clarity": "c1", "Criterion: Tone": "c2"}, up=["earn the top"], down=["earn the bottom"]
    )
    with StubServer(brain=brain) as server:
        for direction, expected in (("top", {3, 4}), ("bottom", {0, 1})):
            scores, others = [], []
            for number in range(20):
                text = said(server, f"Task {number}. Criterion: Clarity. Write what would earn the {direction}.")
                judged = f"Criterion: Clarity. Judge this text: {text}"
                scores.append(json.loads(said(server, judged, response_format=STRICT))["score"])
                judged = f"Criterion: Tone. Judge this text: {text}"
                others.append(json.loads(said(server, judged, response_format=STRICT))["score"])
            assert set(scores) == expected
            assert len(set(others)) >= 4


def test_a_judge_without_a_schema_is_known_by_its_prompt(stub: StubServer) -> None:
    stub.settings.brain = DefaultBrain(levels=(1, 2, 3), judge_when="Answer in JSON")
    assert set(json.loads(said(stub, "Answer in JSON."))) == {"reasoning", "score", "rationale"}
    assert not said(stub, "Write a letter.").startswith("{")


# Batches


def lines_of(texts: list[str], **changes: Any) -> bytes:
    """OpenAI's input file; custom ids are id-0, id-1, …"""
    lines = [
        {
            "custom_id": f"id-{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "judge", "messages": [{"role": "user", "content": text}], "response_format": STRICT},
            **changes,
        }
        for number, text in enumerate(texts)
    ]
    return "\n".join(map(json.dumps, lines)).encode()


def submit(client: openai.OpenAI, content: bytes, **more: Any) -> Any:
    file = client.files.create(file=("input.jsonl", content), purpose="batch")
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", **more
    )


def read_lines(client: openai.OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    return [json.loads(line) for line in client.files.content(file_id).text.splitlines()]


@pytest.fixture
def client(stub: StubServer) -> Any:
    return openai_client(stub)


@pytest.fixture
def claude(stub: StubServer) -> Any:
    return anthropic_client(stub)


def test_openais_batch_goes_through_its_states_and_answers_as_live_calls_do(stub: StubServer, client: Any) -> None:
    stub.settings.batch = BatchPlan(polls=2)
    texts = [f"Response {number}" for number in range(12)]
    batch = submit(client, lines_of(texts), metadata={"token": "t1"})
    states = [batch.status] + [(batch := client.batches.retrieve(batch.id)).status for _ in range(3)]
    assert states == ["validating", "in_progress", "in_progress", "completed"]
    assert (batch.request_counts.completed, batch.request_counts.total, batch.error_file_id) == (12, 12, None)
    results = read_lines(client, batch.output_file_id)
    ids = [line["custom_id"] for line in results]
    assert sorted(ids) == sorted(f"id-{number}" for number in range(12))
    assert ids != [f"id-{number}" for number in range(12)], "results come in another order"
    for line in results:
        reply = openai.types.chat.ChatCompletion.model_validate(line["response"]["body"])
        live = said(stub, texts[int(line["custom_id"][3:])], response_format=STRICT)
        assert (line["response"]["status_code"], line["error"], reply.choices[0].message.content) == (200, None, live)
    assert (len(stub.log.items), stub.log.ok) == (12, 12)


def test_items_of_openais_batch_expire_err_and_are_missing_from_the_output(stub: StubServer, client: Any) -> None:
    stub.settings.script = Script(
        [Rule("expired", custom_id="id-1"), Rule("errored", custom_id="id-2"), Rule("refusal", custom_id="id-3")]
    )
    stub.settings.batch = BatchPlan(polls=0)
    batch = client.batches.retrieve(submit(client, lines_of(["a", "b", "c", "d"])).id)
    assert (batch.status, batch.request_counts.failed) == ("expired", 2)
    good = {line["custom_id"]: line for line in read_lines(client, batch.output_file_id)}
    bad = {line["custom_id"]: line for line in read_lines(client, batch.error_file_id)}
    assert (set(good), set(bad)) == ({"id-0", "id-3"}, {"id-1", "id-2"})
    assert (bad["id-1"]["response"], bad["id-1"]["error"]["code"]) == (None, "batch_expired")
    assert (bad["id-2"]["response"]["status_code"], bad["id-2"]["error"]) == (500, None)
    assert good["id-3"]["response"]["body"]["choices"][0]["message"]["refusal"]


def test_an_item_that_expired_by_rate_succeeds_when_it_is_sent_again(stub: StubServer, client: Any) -> None:
    stub.settings.script, stub.settings.batch = Script.rates({"expired": 1.0}), BatchPlan(polls=0)
    ended = [client.batches.retrieve(submit(client, lines_of(["a"])).id).status for _ in range(2)]
    assert ended == ["expired", "completed"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "invalid_json_line"),
        (b"", "empty_file"),
        (lines_of(["a"]) + b"\n" + lines_of(["b"]), "duplicate_custom_id"),
        (lines_of(["a"], url="/v1/embeddings"), "url_mismatch"),
        (lines_of(["a", "b", "c", "d"]), "too_many_tasks"),
        (lines_of(["a"]) + b"\n" + lines_of(["b"], custom_id="x", body={"model": "other"}), "model_mismatch"),
    ],
)
def test_a_bad_input_file_makes_openais_batch_fail_later(
    stub: StubServer, client: Any, content: bytes, code: str
) -> None:
    stub.settings.batch = BatchPlan(limit=3)
    batch = submit(client, content)
    assert batch.status == "validating"
    batch = client.batches.retrieve(batch.id)
    assert (batch.status, batch.errors.data[0].code) == ("failed", code)
    assert (batch.output_file_id, batch.error_file_id) == (None, None)


def test_a_batch_whose_submission_was_never_answered_is_found_by_its_metadata(stub: StubServer, client: Any) -> None:
    stub.settings.batch = BatchPlan(page=2)
    stub.settings.script = Script([Rule("reply_lost", path="POST /v1/batches", times=1)])
    with pytest.raises(openai.APIConnectionError):
        submit(client, lines_of(["a"]), metadata={"token": "lost"})
    for number in range(4):
        submit(client, lines_of(["a"]), metadata={"token": f"other {number}"})
    tokens = [batch.metadata["token"] for batch in client.batches.list()]
    assert tokens == ["other 3", "other 2", "other 1", "other 0", "lost"]
    assert stub.log.paths["GET /v1/batches"] >= 3


def test_whole_batches_fail_and_are_cancelled(stub: StubServer, client: Any) -> None:
    batch = submit(client, lines_of(["a", "b", "c", "d"]))
    assert client.batches.cancel(batch.id).status == "cancelling"
    batch = client.batches.retrieve(batch.id)
    assert batch.status == "cancelled"
    assert len(read_lines(client, batch.output_file_id)) == 2
    assert {line["error"]["code"] for line in read_lines(client, batch.error_file_id)} == {"batch_cancelled"}
    with pytest.raises(openai.ConflictError):
        client.batches.cancel(batch.id)
    stub.settings.batch = BatchPlan(fail="no quota")
    batch = client.batches.retrieve(submit(client, lines_of(["a"])).id)
    assert (batch.status, batch.errors.data[0].message) == ("failed", "no quota")


def test_files_are_kept_listed_and_deleted(client: Any) -> None:
    made = client.files.create(file=("é.jsonl", b"one\r\n--two\n"), purpose="batch")
    assert client.files.content(made.id).content == b"one\r\n--two\n"
    assert [file.id for file in client.files.list()] == [made.id]
    assert client.files.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.content(made.id)


def requests_of(texts: list[str]) -> list[dict[str, Any]]:
    asked = [{"model": "judge", "max_tokens": 300, "messages": [{"role": "user", "content": text}]} for text in texts]
    return [
        {"custom_id": f"id-{number}", "params": {**each, "output_config": FORMAT}} for number, each in enumerate(asked)
    ]


def test_anthropics_batch_ends_with_each_kind_of_result(stub: StubServer, claude: Any) -> None:
    stub.settings.script = Script(
        [
            Rule("expired", custom_id="id-1"),
            Rule("errored", custom_id="id-2"),
            Rule("canceled", custom_id="id-3"),
            Rule("errored", custom_id="id-4", value="too_long"),
        ]
    )
    batch = claude.messages.batches.create(requests=requests_of([str(number) for number in range(12)]))
    assert (batch.processing_status, batch.request_counts.processing, batch.results_url) == ("in_progress", 12, None)
    assert claude.messages.batches.retrieve(batch.id).processing_status == "in_progress"
    batch = claude.messages.batches.retrieve(batch.id)
    assert (batch.processing_status, batch.request_counts.succeeded, batch.request_counts.errored) == ("ended", 8, 2)
    results = {entry.custom_id: entry.result for entry in claude.messages.batches.results(batch.id)}
    assert list(results) != sorted(results, key=lambda name: int(name[3:]))
    assert [results[f"id-{number}"].type for number in range(5)] == [
        "succeeded", "expired", "errored", "canceled", "errored",
    ]  # fmt: skip
    assert results["id-2"].error.error.type == "api_error"
    assert results["id-4"].error.error.type == "invalid_request_error"
    jsonschema.validate(json.loads(results["id-0"].message.content[0].text), SCHEMA)


def test_anthropics_batches_are_listed_cancelled_and_validated(stub: StubServer, claude: Any) -> None:
    stub.settings.batch = BatchPlan(page=2, limit=3)
    made = [claude.messages.batches.create(requests=requests_of(["a"])).id for _ in range(5)]
    assert [batch.id for batch in claude.messages.batches.list()] == made[::-1]
    assert claude.messages.batches.cancel(made[0]).processing_status == "canceling"
    assert claude.messages.batches.retrieve(made[0]).request_counts.canceled == 1
    with pytest.raises(anthropic.APIStatusError, match="request_too_large"):
        claude.messages.batches.create(requests=requests_of(["a", "b", "c", "d"]))
    with pytest.raises(anthropic.BadRequestError, match="custom_id"):
        claude.messages.batches.create(requests=[{**requests_of(["a"])[0], "custom_id": "not allowed!"}])
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.batches.retrieve("msgbatch_none")


def test_a_download_of_results_breaks_off_once(stub: StubServer, claude: Any) -> None:
    stub.settings.batch = BatchPlan(polls=0)
    stub.settings.script = Script([Rule("dropped_midway", path="GET */results", times=1)])
    batch = claude.messages.batches.create(requests=requests_of([str(number) for number in range(20)]))
    claude.messages.batches.retrieve(batch.id)
    with pytest.raises(httpx2.RemoteProtocolError):  # while reading a stream, the SDK does not wrap errors
        list(claude.messages.batches.results(batch.id))
    assert len(list(claude.messages.batches.results(batch.id))) == 20


# In a process of its own


def test_a_stub_in_its_own_process_is_controlled_and_read_over_http(stub_process: StubProcess) -> None:
    stub_process.script({"rules": [{"kind": "server_error", "request": 1}]})
    with pytest.raises(openai.InternalServerError):
        chat(stub_process)
    stub_process.change(latency=0.05, models=["judge"], rejects={"judge": ["temperature"]}, keep_bodies=False)
    message(stub_process)
    with pytest.raises(openai.BadRequestError):
        chat(stub_process, temperature=0)
    stub_process.wait_until(lambda counters: counters["calls"] == 3)
    counters = stub_process.counters()
    assert counters["statuses"] == {"500": 1, "200": 1, "400": 1}
    assert (counters["ok"], counters["faults"], counters["peak"]) == (1, {"server_error": 1}, 1)
    assert [record["fault"] for record in stub_process.records(since=1)] == [None, None]
    stub_process.reset()
    assert stub_process.counters()["calls"] == 0
    with pytest.raises(urllib.error.HTTPError):
        stub_process.change(latncy=1)


def test_a_stub_process_takes_its_settings_at_the_start() -> None:
    brain = {"kind": "audit", "marks": {"Tone": "t"}, "up": ["up"], "down": ["down"]}
    with StubProcess(brain=brain, batch={"polls": 0}, models={"judge": {"retires_at": None}}) as server:
        assert "QUALITY(t)=high" in chat(server, "Tone up").choices[0].message.content


def test_a_stub_process_ends_when_the_process_that_started_it_is_killed() -> None:
    program = (
        "import sys, time; sys.path.append(sys.argv[1]); from stub_server import StubProcess\n"
        "print(StubProcess().start().url, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(Path(__file__).parents[1])], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    url = parent.stdout.readline().strip()
    urllib.request.urlopen(f"{url}/_stub/counters", timeout=5).close()
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()

    def refused() -> bool:
        try:
            urllib.request.urlopen(f"{url}/_stub/counters", timeout=5).close()
        except OSError:
            return True
        return False

    deadline = time.monotonic() + 10
    while not refused():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("make", [StubServer, lambda: StubServer(latency=30.0)])
def test_a_stopped_stub_cuts_its_connections_at_once(make: Callable[[], StubServer]) -> None:
    server = make().start()
    connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=5)
    body = b'{"model": "m", "messages": [{"role": "user", "content": "x"}]}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    connection.sendall(head + body)
    server.wait_until(lambda log: len(log.calls) == 1)
    started = time.monotonic()
    server.stop()
    assert time.monotonic() - started < 1
    connection.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=5)
