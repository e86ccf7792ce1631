"""OpenAI's shapes: what is sent to whom, what replies mean, and batches, against real servers on loopback."""

import asyncio
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub_server import Rule, Script, StubServer

from radar_dagster.models.capabilities import Capabilities, Overrides, capabilities_of
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Candidate, Completion, Exchange, Message, Stop, Trouble, Usage
from radar_dagster.models.providers.fields import UnreadableError
from radar_dagster.models.providers.openai import OpenAIClient, connect_client
from radar_dagster.models.replies import State

SCHEMA = {"type": "object", "properties": {"score": {"enum": [1, 2]}}, "required": ["score"],
          "additionalProperties": False}  # fmt: skip
ASK = Exchange((Message("system", "Judge."), Message("user", "Text")), 50, temperature=0.0, effort="low", schema=SCHEMA)


def client_of(url: str, model: str = "m", **fields: Any) -> OpenAIClient:
    endpoint = Endpoint(base_url=url, **fields)
    client = connect_client("local", endpoint, model, capabilities_of(endpoint, model))
    assert isinstance(client, OpenAIClient)
    return client


def send(client: OpenAIClient, exchange: Exchange = ASK) -> Completion:
    async def run() -> Completion:
        try:
            return await client.send(exchange)
        finally:
            await client.close()

    return asyncio.run(run())


def failure(client: OpenAIClient, exchange: Exchange = ASK) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        send(client, exchange)
    return caught.value


def read(reply: Any) -> Completion:
    """A reply as the client reads it, without a server."""
    return OpenAIClient("local", Endpoint(base_url="http://h"), "m", Capabilities())._completion(reply, {})


def choice(message: Any, reason: Any = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": reason, **more}]}


# Sending


def test_a_call_says_what_the_exchange_wants_in_openais_words(wire: Any) -> None:
    wire.says(choice({"content": "4"}))
    ask = Exchange(ASK.messages, 1, temperature=0.0, effort="low", schema=SCHEMA, top_logprobs=50, extra={"seed": 7})
    completion = send(client_of(wire.url), ask)
    body = wire.seen[0].body
    assert wire.seen[0].path == "/v1/chat/completions"
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Text"}],
        "max_tokens": 1,
        "temperature": 0.0,
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "judgement", "strict": True, "schema": SCHEMA},
        },
        "logprobs": True,
        "top_logprobs": 20,
        "seed": 7,
    }
    told = {name: value for name, value in body.items() if name not in ("model", "messages")}
    assert completion.sent == {**told, "response_format": "json_schema"}


def test_what_a_model_can_not_take_is_not_sent(wire: Any) -> None:
    wire.says(choice({"content": "x"}))
    none = Overrides(temperature=False, structured_output=False, logprobs=False, effort=False,
                     max_tokens_field="max_completion_tokens")  # fmt: skip
    client = client_of(wire.url, capabilities={"m": none})
    send(client, Exchange(ASK.messages, 9, 0.5, "low", SCHEMA, 5))
    assert wire.seen[0].body.keys() == {"model", "messages", "max_completion_tokens"}


def test_extra_wins_over_what_the_exchange_says(wire: Any) -> None:
    wire.says(choice({"content": "x"}))
    ask = Exchange(ASK.messages, 9, 0.5, extra={"temperature": 0.1, "max_completion_tokens": 3})
    assert send(client_of(wire.url), ask).sent == {"temperature": 0.1, "max_completion_tokens": 3}


def test_an_azure_deployment_is_named_in_the_path_and_the_key_goes_by_its_own_header(
    wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_KEY", "azure-key-1")
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "stranger")
    wire.says(choice({"content": "x"}))
    client = client_of(
        f"{wire.url}/openai", "gpt-4o", api_version="2024-10-21", deployment="my-4o", api_key_env="AZURE_KEY"
    )
    send(client)
    seen = wire.seen[0]
    assert seen.path == "/openai/deployments/my-4o/chat/completions?api-version=2024-10-21"
    assert seen.headers["api-key"] == "azure-key-1"
    assert "stranger" not in str(seen.headers)
    assert "authorization" not in seen.headers
    assert seen.body["model"] == "my-4o"


def test_azure_through_the_stub_by_both_of_its_apis(stub: StubServer) -> None:
    dated = client_of(stub.azure_url, "gpt-4o", api_version="2024-10-21", deployment="dep")
    assert send(dated).text
    assert send(client_of(f"{stub.azure_url}/openai/v1", "gpt-4o", deployment="dep")).text
    assert {record.model for record in stub.log.records} == {"dep"}
    stub.settings.script = Script([Rule("content_filter")])
    error = failure(dated)
    assert (error.trouble, error.state) == (Trouble.REJECTED, State.FILTERED)


def test_the_limit_goes_by_its_other_name_once_the_first_is_refused(stub: StubServer) -> None:
    stub.settings.rejects = {"m": ["max_tokens"]}
    client = client_of(stub.url)
    assert failure(client).trouble is Trouble.DROPPED
    assert client.capabilities.max_tokens_field == "max_completion_tokens"
    assert "max_tokens" in client.dropped["max_tokens_field"]
    assert send(client).sent["max_completion_tokens"] == 50
    stub.settings.rejects = {"m": ["max_tokens", "max_completion_tokens"]}
    assert failure(client).trouble is Trouble.FATAL


def test_probabilities_that_are_refused_by_403_are_left_out(wire: Any) -> None:
    client = client_of(wire.url)
    wire.says({"error": {"message": "You are not allowed to request logprobs from this model."}}, 403)
    ask = Exchange(ASK.messages, 1, top_logprobs=5)
    assert failure(client, ask).trouble is Trouble.DROPPED
    assert not client.capabilities.logprobs
    wire.says(choice({"content": "4"}))
    assert send(client, ask).sent == {"max_tokens": 1}


def test_a_limit_used_up_by_reasoning_is_a_cut_reply_though_it_comes_as_an_error(wire: Any) -> None:
    words = "Could not finish the message because max_tokens or model output limit was reached. Please try again."
    wire.says({"error": {"message": words, "type": "invalid_request_error"}}, 400)
    completion = send(client_of(wire.url))
    assert (completion.text, completion.stop) == ("", Stop.LENGTH)
    assert completion.sent["max_tokens"] == 50


# Replies


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop", Stop.END), ("length", Stop.LENGTH), ("content_filter", Stop.FILTER), ("tool_calls", Stop.END),
     ("function_call", Stop.END), ("model_length", Stop.LENGTH), ("MAX_TOKENS", Stop.LENGTH), ("SAFETY", Stop.FILTER),
     ("max_output_tokens", Stop.LENGTH), ("Max Output-Tokens", Stop.LENGTH), ("token_limit", Stop.LENGTH),
     ("max_completion_tokens", Stop.LENGTH), ("context_length_exceeded", Stop.LENGTH), ("incomplete", Stop.LENGTH),
     (None, Stop.END), ("", Stop.END), (7, Stop.END), ({}, Stop.END), ("eos", Stop.END), ("lengthy", Stop.END)],
)  # fmt: skip
def test_every_finish_reason_has_a_meaning(reason: Any, stop: Stop) -> None:
    assert read(choice({"content": "text"}, reason)).stop is stop


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource"])
def test_a_reply_that_the_server_gave_up_is_none(reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        read(choice({"content": "half a"}, reason))


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "text"}, "text", None),
        ({"content": None}, "", None),
        ({}, "", None),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", None),
        ({"content": ["a", "b", 7, None, {"text": 9}]}, "ab", None),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, "a"]}, "a", "hm"),
        ({"content": "a", "reasoning_content": "hm"}, "a", "hm"),
        ({"content": "a", "reasoning": "hm"}, "a", "hm"),
        ({"content": "a", "reasoning": [{"text": "h"}, {"text": "m"}]}, "a", "h\nm"),
        ({"content": "a", "reasoning_content": 7, "reasoning": {}}, "a", None),
    ],
)  # fmt: skip
def test_text_and_reasoning_come_in_many_forms_and_are_kept_apart(
    message: Any, text: str, reasoning: str | None
) -> None:
    completion = read(choice(message))
    assert (completion.text, completion.reasoning, completion.stop) == (text, reasoning, Stop.END)


@pytest.mark.parametrize("content", [7, True, {}, 1.5])
def test_content_that_is_no_text_is_no_reply(content: Any) -> None:
    with pytest.raises(UnreadableError, match="neither a text nor a list"):
        read(choice({"content": content}))


def test_a_refusal_is_told_in_the_models_own_words() -> None:
    for message in (
        {"content": None, "refusal": "I can't."},
        {"content": [{"type": "refusal", "refusal": "I can't."}]},
    ):
        completion = read(choice(message))
        assert (completion.stop, completion.refusal, completion.text) == (Stop.REFUSAL, "I can't.", "")
    assert read(choice({"content": "a", "refusal": ""})).refusal is None


def test_usage_counts_everything_once() -> None:
    usage = {
        "prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }  # fmt: skip
    assert read(choice({}) | {"usage": usage}).usage == Usage(100, 30, 40, 10, 20)
    # Gemini and xAI count reasoning in the total alone.
    apart = {"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 150, "reasoning_tokens": 20}
    assert read(choice({}) | {"usage": apart}).usage == Usage(100, 50, reasoning_tokens=20)
    deepseek = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 8}
    assert read(choice({}) | {"usage": deepseek}).usage == Usage(9, 1, 8)


@pytest.mark.parametrize("nonsense", [-1, "12", 1.5, True, None, [], {}, 10**7 + 1, 10**30, float("nan")])
def test_counts_that_are_none_are_unknown(nonsense: Any) -> None:
    names = ("prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details")
    usage = {**dict.fromkeys(names, nonsense), "completion_tokens_details": {"reasoning_tokens": nonsense}}
    assert read(choice({}) | {"usage": usage}).usage == Usage()
    assert read(choice({}) | {"usage": nonsense}).usage == Usage()


@pytest.mark.parametrize("absurd", [10**12, 1e12, float("inf")])
def test_one_count_that_cannot_be_makes_all_of_them_unknown(absurd: Any) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17, "queue_time": -1, "cost": 1e9}
    assert read(choice({}) | {"usage": usage}).usage == Usage(10, 7)
    assert read(choice({}) | {"usage": {**usage, "total_tokens": absurd}}).usage == Usage()
    assert read(choice({}) | {"usage": {**usage, "completion_tokens_details": {"reasoning_tokens": absurd}}}).usage == (
        Usage()
    )


def test_candidates_are_those_of_the_first_token_with_the_one_that_was_taken() -> None:
    first = {
        "token": "4", "logprob": -2.0,
        "top_logprobs": [
            {"token": "3", "logprob": -0.2}, {"token": "5", "logprob": 0.0001}, {"token": "3", "logprob": -9.0},
            {"token": "2", "logprob": -math.inf}, {"token": "1", "logprob": None}, {"token": 1, "logprob": -1.0},
            {"token": "0", "logprob": 3.0}, {"token": "9", "logprob": True}, None,
        ],
    }  # fmt: skip
    completion = read(choice({"content": "4"}, logprobs={"content": [first, {"token": "x", "logprob": -1.0}]}))
    assert completion.candidates == (Candidate("3", -0.2), Candidate("5", 0.0), Candidate("4", -2.0))


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}, {"content": []}, {"content": [7]}, [], "x"])
def test_without_probabilities_there_are_no_candidates(logprobs: Any) -> None:
    assert read(choice({"content": "4"}, logprobs=logprobs)).candidates is None


def test_candidates_of_the_stub_are_its_digits(stub: StubServer) -> None:
    completion = send(client_of(stub.url), Exchange(ASK.messages, 1, 0.0, top_logprobs=5))
    assert completion.candidates is not None
    assert len(completion.candidates) >= 5
    assert completion.text in {candidate.token for candidate in completion.candidates}
    assert completion.sent == {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": 5}


@pytest.mark.parametrize(
    ("kind", "stop"),
    [("truncated", Stop.LENGTH), ("refusal", Stop.REFUSAL), ("content_filter", Stop.FILTER), ("empty", Stop.END)],
)
def test_stops_of_the_stub_are_told_apart(stub: StubServer, kind: str, stop: Stop) -> None:
    stub.settings.script = Script([Rule(kind)])
    completion = send(client_of(stub.url))
    assert completion.stop is stop
    assert (completion.refusal is not None) == (kind == "refusal")


def test_names_and_ids_are_short_and_storable() -> None:
    completion = read({**choice({"content": "x"}), "model": "\x1b[31m" + "m" * 999, "id": 7})
    assert completion.served_model is not None
    assert completion.served_model.startswith("\\x1b[31mmmm")
    assert len(completion.served_model) == 200
    assert completion.provider_id is None


FIELDS = st.sampled_from(
    ["choices", "message", "content", "finish_reason", "logprobs", "top_logprobs", "token", "logprob", "usage", "text",
     "prompt_tokens", "completion_tokens", "total_tokens", "refusal", "reasoning", "type", "error", "model", "id"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(FIELDS, JSON, max_size=6))
def test_any_object_is_a_reply_or_a_failure(reply: dict[str, Any]) -> None:
    client = OpenAIClient("local", Endpoint(base_url="http://h"), "m", Capabilities())
    for shape in (reply, {**reply, "choices": [reply]}, {"choices": [{**reply, "message": reply}]}):
        try:
            completion = client._read(json.dumps(shape).encode(), client._sent(ASK))
        except CallFailed:
            continue
        for count in (completion.usage.input_tokens, completion.usage.output_tokens):
            assert count is None or count >= 0
        for candidate in completion.candidates or ():
            assert math.isfinite(candidate.logprob)


# Batches of odd servers


def results_of(wire: Any, output: bytes | None, errors: bytes | None = None) -> dict[str, Completion | CallFailed]:
    wire.pages["/v1/batches/b"] = (
        {"id": "b", "status": "expired", "output_file_id": output and "out", "error_file_id": errors and "err"}, 200, {}
    )  # fmt: skip
    wire.pages["/v1/files/out/content"] = (output or b"", 200, {})
    wire.pages["/v1/files/err/content"] = (errors or b"", 200, {})

    async def run() -> dict[str, Completion | CallFailed]:
        client = client_of(wire.url)
        found = [result async for result in client.batch_results("b")]
        await client.close()
        assert len({custom_id for custom_id, _ in found}) == len(found)
        return dict(found)

    return asyncio.run(run())


def line(custom_id: Any, **more: Any) -> bytes:
    return json.dumps({"custom_id": custom_id, **more}).encode() + b"\n"


def test_hostile_lines_of_results_are_left_out_or_failures_of_their_call(wire: Any) -> None:
    good = {"status_code": 200, "body": choice({"content": "line\u2028end"})}
    output = b"".join(
        [
            line("good", response=good),
            line("good", response={"status_code": 200, "body": choice({"content": "again"})}),
            b"{\n\n[1]\nnull\n",
            b"\xff\xfe\n",
            line(7, response=good),
            line("no body", response={"status_code": 200}),
            line("no choices", response={"status_code": 200, "body": {}}),
            line("text", response="x", error="y"),
            json.dumps({"custom_id": "raw", "response": good}, ensure_ascii=False).encode(),
        ]
    )
    errors = line("expired", response=None, error={"code": "batch_expired", "message": "This request expired."})
    errors += line("late", response={"status_code": 429, "body": {"error": {"message": "Slow down"}}})
    results = results_of(wire, output, errors)
    assert isinstance(results["good"], Completion)
    assert results["good"].text == "line\u2028end"
    assert isinstance(results["raw"], Completion)
    failures = {name: result.trouble for name, result in results.items() if isinstance(result, CallFailed)}
    assert failures == {
        "no body": Trouble.TRANSIENT, "no choices": Trouble.TRANSIENT, "text": Trouble.TRANSIENT,
        "expired": Trouble.TRANSIENT, "late": Trouble.BUSY,
    }  # fmt: skip
    assert "This request expired." in str(results["expired"])


def test_a_batch_without_files_has_no_results(wire: Any) -> None:
    assert results_of(wire, None) == {}


@pytest.mark.parametrize(
    ("batch", "state", "words"),
    [
        ({"status": "failed", "errors": {"data": [{"message": "Invalid file"}, None]}}, "failed", "Invalid file"),
        ({"status": "failed", "errors": None}, "failed", "no reason given"),
        ({"status": "expired"}, "ended", "expired"),
        ({"status": "cancelled"}, "ended", "cancelled"),
        ({"status": "completed"}, "ended", ""),
        ({"status": "validating"}, "running", ""),
        ({"status": 7, "request_counts": {"total": "9", "completed": -1}}, "running", ""),
        ({}, "running", ""),
    ],
)
def test_where_a_batch_stands(wire: Any, batch: Any, state: str, words: str) -> None:
    wire.says(batch)
    client = client_of(wire.url)
    status = asyncio.run(client.poll_batch("b"))
    assert status.state == state
    assert words in (status.message or "")
    assert (status.done, status.total) == (0, 0)


def test_a_batch_is_looked_for_page_by_page_and_not_before_its_time(wire: Any) -> None:
    old, new = {"id": "old", "created_at": 1_000}, {"id": "new", "created_at": 9_000, "metadata": {"radar": "other"}}
    wire.says({"data": [None, new], "has_more": True})
    client = client_of(wire.url)
    assert asyncio.run(client.find_batch("token", 8_000.0)) is None
    assert wire.seen[1].path == "/v1/batches?limit=100&after=new"
    assert len(wire.seen) <= 50
    wire.seen.clear()
    wire.says({"data": [new, old], "has_more": True})
    assert asyncio.run(client.find_batch("token", 8_000.0)) is None
    assert len(wire.seen) == 1
    wire.says({"data": [{**new, "metadata": {"radar": "token"}}]})
    assert asyncio.run(client.find_batch("token", 8_000.0)) == "new"
    assert asyncio.run(client.find_batch("token", 8_000.0, known={"new"})) is None


def test_a_batch_goes_up_as_a_file_that_is_marked(wire: Any) -> None:
    wire.pages["/v1/files"] = ({"id": "file-1"}, 200, {})
    wire.pages["/v1/batches"] = ({"id": "batch-1"}, 200, {})

    async def run() -> str:
        client = client_of(wire.url)
        identity = await client.submit_batch([("a", ASK), ("b", ASK)], "token-1")
        await client.close()
        return identity

    assert asyncio.run(run()) == "batch-1"
    upload, asked = wire.seen
    assert b'name="purpose"\r\n\r\nbatch\r\n' in upload.content
    lines = [json.loads(line) for line in upload.content.split(b"\n") if line.startswith(b"{")]
    assert [line["custom_id"] for line in lines] == ["a", "b"]
    assert lines[0]["url"] == "/v1/chat/completions"
    assert lines[0]["body"]["messages"][1] == {"role": "user", "content": "Text"}
    assert asked.body == {
        "input_file_id": "file-1",
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "metadata": {"radar": "token-1"},
    }


def test_a_batch_without_an_id_is_a_failure_that_may_be_billed(wire: Any) -> None:
    wire.says({"id": None})
    with pytest.raises(CallFailed) as caught:
        asyncio.run(client_of(wire.url).submit_batch([("a", ASK)], "token-1"))
    assert caught.value.may_be_billed
