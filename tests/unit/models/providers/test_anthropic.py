"""Anthropic's shapes: what is sent, what replies mean, and batches, against real servers on loopback."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub_server import Rule, Script, StubServer

from radar_dagster.models.capabilities import Capabilities, Overrides, capabilities_of
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Completion, Exchange, Message, Stop, Trouble, Usage
from radar_dagster.models.providers.anthropic import AnthropicClient, connect_client

SCHEMA = {"type": "object", "properties": {"score": {"enum": [1, 2]}}, "required": ["score"],
          "additionalProperties": False}  # fmt: skip
ASK = Exchange((Message("system", "Judge."), Message("user", "Text")), 50, 0.0, "low", SCHEMA)


def client_of(url: str, **fields: Any) -> AnthropicClient:
    endpoint = Endpoint(protocol="anthropic", base_url=url, **fields)
    client = connect_client("local", endpoint, "m", capabilities_of(endpoint, "m"))
    assert isinstance(client, AnthropicClient)
    return client


def send(client: AnthropicClient, exchange: Exchange = ASK) -> Completion:
    async def run() -> Completion:
        try:
            return await client.send(exchange)
        finally:
            await client.close()

    return asyncio.run(run())


def read(reply: Any) -> Completion:
    """A reply as the client reads it, without a server."""
    endpoint = Endpoint(protocol="anthropic", base_url="http://h")
    return AnthropicClient("local", endpoint, "m", Capabilities())._completion(reply, {})


def texts(*values: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value} for value in values]}


# Sending


def test_a_call_says_what_the_exchange_wants_in_anthropics_words(wire: Any) -> None:
    wire.says(texts("x"))
    messages = (Message("system", "One."), Message("system", "Two."), Message("user", "Hi"), Message("assistant", "Oh"))
    ask = Exchange(messages, 9, 0.5, "low", SCHEMA, top_logprobs=5, extra={"top_k": 3, "output_config": {"style": "x"}})
    completion = send(client_of(wire.url), ask)
    body = wire.seen[0].body
    assert wire.seen[0].path == "/v1/messages"
    assert wire.seen[0].headers["anthropic-version"]
    assert body == {
        "model": "m",
        "system": "One.\n\nTwo.",
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Oh"}],
        "max_tokens": 9,
        "temperature": 0.5,
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low", "style": "x"},
        "top_k": 3,
    }
    assert completion.sent == {
        "max_tokens": 9,
        "temperature": 0.5,
        "output_config": {"format": "json_schema", "effort": "low", "style": "x"},
        "top_k": 3,
    }


def test_what_a_model_can_not_take_is_not_sent(wire: Any) -> None:
    wire.says(texts("x"))
    none = Overrides(temperature=False, structured_output=False, effort=False)
    send(client_of(wire.url, capabilities={"m": none}), Exchange((Message("user", "Hi"),), 9, 0.5, "low", SCHEMA))
    assert wire.seen[0].body == {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}


def test_a_deployment_replaces_the_models_name(wire: Any) -> None:
    wire.says(texts("x"))
    send(client_of(wire.url, deployment="mine"))
    assert wire.seen[0].body["model"] == "mine"


def test_effort_and_format_are_left_out_one_by_one(stub: StubServer) -> None:
    stub.settings.rejects = {"m": ["output_config.effort"]}
    client = client_of(stub.url)
    with pytest.raises(CallFailed) as caught:
        send(client)
    assert caught.value.trouble is Trouble.DROPPED
    assert not client.capabilities.effort
    assert client.capabilities.structured_output
    assert send(client).sent["output_config"] == {"format": "json_schema"}


def test_a_server_that_knows_no_output_config_gets_none_in_the_end(wire: Any) -> None:
    client = client_of(wire.url)
    wire.says({"error": {"message": "output_config: Extra inputs are not permitted"}}, 400)
    troubles = []
    for _ in range(3):
        with pytest.raises(CallFailed) as caught:
            send(client)
        troubles.append(caught.value.trouble)
    assert troubles == [Trouble.DROPPED, Trouble.DROPPED, Trouble.REJECTED]
    assert client.parameters(ASK) == {"max_tokens": 50, "temperature": 0.0}


# Replies


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("end_turn", Stop.END), ("stop_sequence", Stop.END), ("max_tokens", Stop.LENGTH), ("refusal", Stop.REFUSAL),
     ("model_context_window_exceeded", Stop.LENGTH), ("pause_turn", Stop.LENGTH), ("tool_use", Stop.END),
     ("length", Stop.LENGTH), ("max_output_tokens", Stop.LENGTH), ("MAX_TOKENS", Stop.LENGTH),
     (None, Stop.END), (7, Stop.END), ("who_knows", Stop.END)],
)  # fmt: skip
def test_every_stop_reason_has_a_meaning(reason: Any, stop: Stop) -> None:
    assert read({**texts("x"), "stop_reason": reason}).stop is stop


def test_text_and_thinking_are_kept_apart() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "a"}, {"type": "tool_use", "input": {}}, {"type": "text", "text": "b"},
        {"type": "text", "text": None}, None, "stray", {"type": "thinking", "thinking": "so"},
    ]  # fmt: skip
    completion = read({"content": content})
    assert (completion.text, completion.reasoning) == ("ab", "hm\nso")
    assert read({"content": []}).text == ""
    assert read({"content": "plain"}).text == "plain"


def test_a_refusal_is_told_in_the_providers_words_where_it_has_some() -> None:
    reply = {"content": [], "stop_reason": "refusal"}
    assert read({**reply, "stop_details": {"explanation": "No.", "category": "bio"}}).refusal == "No."
    assert read({**reply, "stop_details": {"explanation": None, "category": "bio"}}).refusal == "bio"
    assert read(reply).refusal is None
    assert read({**texts("x"), "stop_details": {"explanation": "No."}}).refusal is None


def test_usage_counts_cached_tokens_as_read() -> None:
    usage = {
        "input_tokens": 10, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 30, "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 5},
    }  # fmt: skip
    assert read({**texts("x"), "usage": usage}).usage == Usage(240, 7, 200, 30, 5)
    assert read({**texts("x"), "usage": {"input_tokens": 10, "output_tokens": 7}}).usage == Usage(10, 7)


@pytest.mark.parametrize("nonsense", [-1, "12", 1.5, True, None, [], 10**7 + 1, 10**12, 10**30])
def test_counts_that_are_none_are_unknown(nonsense: Any) -> None:
    usage = dict.fromkeys(("input_tokens", "output_tokens", "cache_read_input_tokens"), nonsense)
    assert read({**texts("x"), "usage": usage}).usage == Usage()
    assert read({**texts("x"), "usage": nonsense}).usage == Usage()


def test_one_count_that_cannot_be_makes_all_of_them_unknown() -> None:
    usage = {"input_tokens": 10, "output_tokens": 7, "cache_read_input_tokens": 10**9}
    assert read({**texts("x"), "usage": usage}).usage == Usage()
    assert read({**texts("x"), "usage": {**usage, "cache_read_input_tokens": 10**7}}).usage.output_tokens == 7


@pytest.mark.parametrize(("kind", "stop"), [("truncated", Stop.LENGTH), ("refusal", Stop.REFUSAL), ("empty", Stop.END)])
def test_stops_of_the_stub_are_told_apart(stub: StubServer, kind: str, stop: Stop) -> None:
    stub.settings.script = Script([Rule(kind)])
    assert send(client_of(stub.url)).stop is stop


def test_reasoning_of_the_stub_is_kept_apart(stub: StubServer) -> None:
    stub.settings.script = Script([Rule("reasoning_apart")])
    completion = send(client_of(stub.url))
    assert completion.reasoning
    assert completion.reasoning not in completion.text


FIELDS = st.sampled_from(
    ["content", "type", "text", "thinking", "stop_reason", "stop_details", "explanation", "category", "usage", "error",
     "input_tokens", "output_tokens", "cache_read_input_tokens", "model", "id", "message"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=30,
)


@given(st.dictionaries(FIELDS, JSON, max_size=6))
def test_any_object_is_a_reply_or_a_failure(reply: dict[str, Any]) -> None:
    client = AnthropicClient("local", Endpoint(protocol="anthropic", base_url="http://h"), "m", Capabilities())
    for shape in (reply, {**reply, "content": [reply]}):
        try:
            completion = client._read(json.dumps(shape).encode(), client._sent(ASK))
        except CallFailed:
            continue
        for count in (completion.usage.input_tokens, completion.usage.output_tokens):
            assert count is None or count >= 0


# Batches of odd servers


def line(custom_id: Any, **result: Any) -> bytes:
    return json.dumps({"custom_id": custom_id, "result": result}).encode() + b"\n"


def error(kind: str, words: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": words}}


def test_every_kind_of_result_has_a_meaning_and_the_results_address_is_not_followed(wire: Any) -> None:
    wire.pages["/v1/messages/batches/b/results"] = (
        b"".join(
            [
                line("good", type="succeeded", message=texts("x\u2028y")),
                line("good", type="succeeded", message=texts("again")),
                b"{\n[]\n\n",
                line(7, type="succeeded", message=texts("x")),
                line("bare", type="succeeded"),
                line("expired", type="expired"),
                line("canceled", type="canceled"),
                line("bad", type="errored", error=error("invalid_request_error", "messages: empty")),
                line("key", type="errored", error=error("authentication_error", "invalid x-api-key")),
                line("busy", type="errored", error=error("overloaded_error", "Overloaded")),
                line("down", type="errored", error=error("api_error", "Internal server error")),
                line("odd", type=7),
                line(
                    "drop", type="errored", error=error("invalid_request_error", "`temperature` is deprecated for it.")
                ),
            ]
        ),
        200,
        {},
    )

    async def run() -> dict[str, Completion | CallFailed]:
        client = client_of(wire.url)
        found = [result async for result in client.batch_results("b")]
        await client.close()
        assert len(found) == 10
        assert not client.capabilities.temperature
        return dict(found)

    results = asyncio.run(run())
    assert isinstance(results["good"], Completion)
    assert results["good"].text == "x\u2028y"
    troubles = {name: result.trouble for name, result in results.items() if isinstance(result, CallFailed)}
    assert troubles == {
        "bare": Trouble.TRANSIENT, "expired": Trouble.TRANSIENT, "canceled": Trouble.TRANSIENT,
        "bad": Trouble.REJECTED, "key": Trouble.FATAL, "busy": Trouble.BUSY, "down": Trouble.TRANSIENT,
        "odd": Trouble.TRANSIENT, "drop": Trouble.DROPPED,
    }  # fmt: skip
    assert [seen.path for seen in wire.seen] == ["/v1/messages/batches/b/results"]


def batch(name: str, size: int, created: float, status: str = "in_progress") -> dict[str, Any]:
    moment = datetime.fromtimestamp(created, UTC).isoformat()
    return {"id": name, "created_at": moment, "processing_status": status, "request_counts": {"processing": size}}


def find(wire: Any, batches: list[Any], known: set[str] = frozenset()) -> str | None:  # type: ignore[assignment]
    wire.pages["/v1/messages/batches"] = ({"data": batches, "has_more": False}, 200, {})
    client = client_of(wire.url)
    return asyncio.run(client.find_batch("token", 10_000.0, ["a", "b"], known))


def test_a_running_batch_is_ours_only_if_it_is_the_only_one_of_its_size_and_time(wire: Any) -> None:
    ours = batch("ours", 2, 10_001)
    assert find(wire, [None, ours, batch("larger", 3, 10_001), batch("older", 2, 9_000)]) == "ours"
    assert find(wire, [ours, batch("another", 2, 10_002)], {"another"}) == "ours"
    assert find(wire, []) is None


def test_while_two_of_our_size_run_nobody_can_tell_and_the_question_is_to_be_asked_again(wire: Any) -> None:
    with pytest.raises(CallFailed, match="one of them may be ours") as raised:
        find(wire, [batch("ours", 2, 10_001), batch("another", 2, 10_002)])
    assert raised.value.trouble is Trouble.TRANSIENT


def test_a_batch_that_ended_is_known_by_its_results(wire: Any) -> None:
    wire.pages["/v1/messages/batches/theirs/results"] = (line("x", type="expired"), 200, {})
    wire.pages["/v1/messages/batches/ours/results"] = (b"?\n" + line("b", type="expired") * 3, 200, {})
    ended = [batch(name, 2, 10_001, "ended") for name in ("theirs", "ours")]
    assert find(wire, ended) == "ours"
    assert find(wire, [ended[0]]) is None


def test_a_batch_whose_results_are_archived_has_failed(wire: Any) -> None:
    wire.says({**batch("b", 0, 10_001, "ended"), "archived_at": "2026-01-01T00:00:00Z"})
    status = asyncio.run(client_of(wire.url).poll_batch("b"))
    assert (status.state, status.message) == ("failed", "the results of the batch are archived")
