"""What the clients of both protocols do alike: keys and headers, failures, refusals, loops, the listing, batches.

Against real servers on loopback and the real SDKs.
"""

import asyncio
import base64
import gzip
import json
import logging
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import date
from typing import Any, TypeVar

import pytest
from stub_server import BatchPlan, ModelFacts, Rule, Script, StubServer

from radar_dagster.models.capabilities import Capabilities, capabilities_of
from radar_dagster.models.clients import Client, ModelCard
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Completion, Exchange, Message, Stop, Trouble
from radar_dagster.models.providers import anthropic, openai, remote
from radar_dagster.models.replies import State

#: Servers and clocks: the whole module takes many seconds.
pytestmark = pytest.mark.slow

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "enum": [1, 2, 3, 4, 5]}, "reasoning": {"type": "string"}},
    "required": ["score", "reasoning"],
    "additionalProperties": False,
}
ASK = Exchange((Message("system", "You judge."), Message("user", "The cat sat.")), 50, temperature=0.0, schema=SCHEMA)
KEY = "sk-local-0123456789"
STRANGERS = {
    "OPENAI_API_KEY": "stranger-1", "OPENAI_ADMIN_KEY": "stranger-2", "OPENAI_ORG_ID": "stranger-3",
    "OPENAI_PROJECT_ID": "stranger-4", "OPENAI_WEBHOOK_SECRET": "stranger-5",
    "OPENAI_CUSTOM_HEADERS": "X-Team: stranger-6\nAuthorization: Bearer stranger-7\nUser-Agent: stranger-8",
    "AZURE_OPENAI_API_KEY": "stranger-9", "AZURE_OPENAI_AD_TOKEN": "stranger-10",
    "ANTHROPIC_API_KEY": "stranger-11", "ANTHROPIC_AUTH_TOKEN": "stranger-12", "ANTHROPIC_PROFILE": "stranger-13",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Team: stranger-14\nx-api-key: stranger-15",
    "ANTHROPIC_BASE_URL": "http://stranger-16.invalid", "OPENAI_BASE_URL": "http://stranger-17.invalid",
}  # fmt: skip

#: 64 MiB in a few hundred bytes.
BOMB = gzip.compress(gzip.compress(b"0" * 2**26))

T = TypeVar("T")

both = pytest.mark.parametrize("protocol", ["openai", "anthropic"])


def client_of(protocol: str, url: str, model: str = "m", **settings: Any) -> Client:
    endpoint = Endpoint(protocol=protocol, base_url=url, **settings)  # type: ignore[arg-type]
    module = openai if protocol == "openai" else anthropic
    return module.connect_client("local", endpoint, model, capabilities_of(endpoint, model))


def within(client: Client, work: Callable[[Client], Awaitable[T]]) -> T:
    """What the work returns, in an event loop of its own."""

    async def run() -> T:
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


def send(client: Client, exchange: Exchange = ASK) -> Completion:
    return within(client, lambda client: client.send(exchange))


def failure(client: Client, exchange: Exchange = ASK) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        send(client, exchange)
    return caught.value


# Addresses, keys and headers


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
@both
def test_both_spellings_of_an_address_lead_to_the_api(stub: StubServer, protocol: str, end: str) -> None:
    assert send(client_of(protocol, stub.url + end)).stop is Stop.END


@both
def test_a_stranger_s_server_sees_its_own_key_and_nothing_of_the_environment(
    wire: Any, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in STRANGERS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LOCAL_KEY", KEY)
    wire.says({}, 500)
    failure(client_of(protocol, wire.url, api_key_env="LOCAL_KEY"))
    failure(client_of(protocol, wire.url))
    with_key, without = (seen.headers for seen in wire.seen)
    assert "stranger" not in str([with_key, without])
    assert with_key["authorization"] == f"Bearer {KEY}"
    assert with_key.get("x-api-key") == (KEY if protocol == "anthropic" else None)
    assert not {"authorization", "x-api-key", "api-key"} & without.keys()
    assert without["user-agent"] == "radar-dagster"
    assert not [name for name in without if name.startswith("x-stainless")]


@both
def test_the_built_in_endpoint_keeps_what_the_environment_says(
    wire: Any, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upper = protocol.upper()
    monkeypatch.setenv(f"{upper}_BASE_URL", wire.url)
    monkeypatch.setenv(f"{upper}_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv(f"{upper}_CUSTOM_HEADERS", "X-Team: blue")
    wire.says({}, 500)
    endpoint = Endpoint(protocol=protocol)  # type: ignore[arg-type]
    module = openai if protocol == "openai" else anthropic
    failure(module.connect_client(protocol, endpoint, "m", Capabilities()))
    headers = wire.seen[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["x-team"] == "blue"
    assert headers.get("openai-organization") == ("org-1" if protocol == "openai" else None)


@both
def test_a_missing_key_is_fatal_and_names_its_variable(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_KEY", raising=False)
    error = failure(client_of(protocol, "http://127.0.0.1:9", api_key_env="LOCAL_KEY"))
    assert error.trouble is Trouble.FATAL
    assert error.message == "endpoint local: no key; set the environment variable LOCAL_KEY"


@both
def test_a_refused_key_is_fatal_and_shown_nowhere(
    stub: StubServer, protocol: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LOCAL_KEY", KEY)
    stub.settings.keys = {"another-key"}
    stub.settings.echo_keys = True
    client = client_of(protocol, stub.url, api_key_env="LOCAL_KEY")
    with caplog.at_level(logging.DEBUG):
        error = failure(client)
    assert (error.trouble, error.status) == (Trouble.FATAL, 401)
    assert "endpoint local, model m" in error.message
    assert "LOCAL_KEY" in error.message
    for text in (error.message, repr(error), repr(client), caplog.text):
        assert KEY not in text


def reply_of(protocol: str, text: str, thoughts: str = "hm") -> dict[str, Any]:
    if protocol == "openai":
        return {"choices": [{"message": {"content": text, "reasoning_content": thoughts}}]}
    return {"content": [{"type": "text", "text": text}, {"type": "thinking", "thinking": thoughts}]}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (KEY, f"your headers: {KEY}"),
        (KEY, '{"rationale": "' + "".join(f"\\u{ord(character):04x}" for character in KEY) + '"}'),
        (KEY, '{"rationale": "C:\\\\' + KEY.replace("k", "\\u006B") + '"}'),
        ("abc/DEF+0123456789/xyz==", '{"rationale": "abc\\/DEF+0123456789\\/xyz=="}'),
        ("abc/DEF+0123456789/xyz==", "GET /?key=abc%2FDEF%2B0123456789%2Fxyz%3D%3D"),
        (KEY, base64.b64encode(KEY.encode()).decode()),
        (KEY, "Basic " + base64.b64encode(f"me:{KEY}!".encode()).decode()),
        (KEY, base64.urlsafe_b64encode(f"user:{KEY}".encode()).decode()),
    ],
)
@both
def test_a_reply_that_repeats_the_key_is_a_failure_without_it(
    wire: Any, protocol: str, key: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_KEY", key)
    client = client_of(protocol, wire.url, api_key_env="LOCAL_KEY")
    for reply in (reply_of(protocol, said), reply_of(protocol, "4", said), {**reply_of(protocol, "4"), "id": said}):
        wire.says(reply)
        error = failure(client)
        assert (error.trouble, error.may_be_billed) == (Trouble.REJECTED, True)
        assert "the reply repeats the key; it was not kept" in error.message
        assert said not in error.message
    wire.says(reply_of(protocol, "4"))
    assert send(client).text == "4"


@pytest.mark.parametrize(
    "key", ["none", "EMPTY", "ollama", "test", "score", "x", "sk-1234", "password", "placeholder-key", "000000000000"]
)
@both
def test_a_key_that_is_a_word_changes_no_reply(
    wire: Any, protocol: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_KEY", key)
    text = f'{{"{key}": 3, "rationale": "We checked, and {key} of the parts \\u0041 were missing."}}'
    wire.says(reply_of(protocol, text, key))
    completion = send(client_of(protocol, wire.url, api_key_env="LOCAL_KEY"))
    assert (completion.text, completion.reasoning) == (text, key)


@both
def test_a_key_hidden_by_escapes_is_redacted_in_errors_too(
    wire: Any, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_KEY", "abc/DEF+0123456789/xyz==")
    wire.says({"error": {"message": "bad: abc\\/DEF+0123456789\\/xyz== or abc/DEF+0123456789/xyz=="}}, 400)
    message = failure(client_of(protocol, wire.url, api_key_env="LOCAL_KEY")).message
    assert message.endswith("bad: [redacted] or [redacted]")


@both
def test_a_redirect_is_not_followed(wire: Any, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_KEY", KEY)
    wire.says(b"", 307, location=f"{wire.url}/elsewhere")
    error = failure(client_of(protocol, wire.url, api_key_env="LOCAL_KEY"))
    assert len(wire.seen) == 1
    assert error.trouble is Trouble.UNREACHABLE
    assert f"redirects to {wire.url}/elsewhere" in error.message


def test_no_sdk_is_loaded_before_the_first_call() -> None:
    code = (
        "import sys; from radar_dagster.models import door;"
        "from radar_dagster.models.providers import openai, anthropic;"
        "print([name for name in ('openai', 'anthropic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Connections that fail


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@both
def test_a_closed_port_is_unreachable_and_named(protocol: str) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    error = failure(client_of(protocol, url))
    assert error.trouble is Trouble.UNREACHABLE
    assert f"no connection to {url}" in error.message
    assert not error.may_be_billed
    assert error.status is None


@both
def test_an_unknown_host_is_unreachable(protocol: str) -> None:
    error = failure(client_of(protocol, "http://nobody.invalid:8000"))
    assert error.trouble is Trouble.UNREACHABLE
    assert "http://nobody.invalid:8000" in error.message


@both
def test_https_to_a_plain_port_is_unreachable_and_says_why(stub: StubServer, protocol: str) -> None:
    error = failure(client_of(protocol, stub.url.replace("http://", "https://")))
    assert error.trouble is Trouble.UNREACHABLE
    assert "is https right" in error.message


@both
def test_a_stalled_reply_is_given_up_and_may_be_billed(stub: StubServer, protocol: str) -> None:
    stub.settings.script = Script([Rule("stalled")])
    start = time.monotonic()
    error = failure(client_of(protocol, stub.url, timeout_s=0.3))
    assert time.monotonic() - start < 3
    assert (error.trouble, error.may_be_billed) == (Trouble.TRANSIENT, True)
    assert "timeout_s" in error.message


@both
def test_a_reply_that_trickles_is_given_up_in_time_too(protocol: str) -> None:
    def trickle(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        try:
            for _ in range(100):
                connection.sendall(b" ")
                time.sleep(0.05)
        except OSError:
            connection.close()

    async def run() -> CallFailed:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = client_of(protocol, f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.4)
            server = asyncio.create_task(asyncio.to_thread(trickle, listener))
            with pytest.raises(CallFailed) as caught:
                await client.send(ASK)
            await client.close()
            await server
            return caught.value

    error = asyncio.run(run())
    assert (error.trouble, error.may_be_billed) == (Trouble.TRANSIENT, True)


@pytest.mark.parametrize("kind", ["dropped", "reset", "reply_lost", "dropped_midway"])
@both
def test_a_connection_that_breaks_after_sending_may_be_billed(stub: StubServer, protocol: str, kind: str) -> None:
    stub.settings.script = Script([Rule(kind)])
    error = failure(client_of(protocol, stub.url))
    assert (error.trouble, error.may_be_billed) == (Trouble.TRANSIENT, True)
    assert error.sent["max_tokens"] == 50


@both
def test_cancellation_passes_through(stub: StubServer, protocol: str) -> None:
    stub.settings.latency = 30.0

    async def run() -> None:
        client = client_of(protocol, stub.url)
        task = asyncio.create_task(client.send(ASK))
        while not stub.log.in_flight:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.close()

    asyncio.run(run())


@both
def test_a_client_serves_one_loop_after_the_other(stub: StubServer, protocol: str) -> None:
    client = client_of(protocol, stub.url)
    for _ in range(2):
        assert asyncio.run(client.send(ASK)).text  # type: ignore[arg-type]  # and the loop ends without a close
    assert send(client).text


@both
def test_calls_share_at_most_as_many_connections_as_are_allowed(stub: StubServer, protocol: str) -> None:
    stub.settings.latency = 0.05

    async def work(client: Client) -> None:
        await asyncio.gather(*(client.send(ASK) for _ in range(6)))

    within(client_of(protocol, stub.url, concurrency=2), work)
    assert stub.log.ok == 6
    assert stub.log.peak == 2


# Replies that are none


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"{", "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"9" * 5000, "no JSON"),
        (b"[1]", "no JSON object but a list"),
        (b"null", "null"),
        (b"{}", "the reply holds no"),
        (b"<!doctype html><p>Welcome", "a web page"),
        (b'{"choices": [], "content": null}', "the reply holds no"),
        (b'{"choices": [7], "content": 7}', "the reply holds no"),
        (b'{"choices": {}, "content": {}}', "the reply holds no"),
    ],
)
@both
def test_a_body_that_is_no_reply_is_an_accident_that_may_be_billed(
    wire: Any, protocol: str, body: bytes, words: str
) -> None:
    wire.says(body)
    error = failure(client_of(protocol, wire.url))
    assert (error.trouble, error.may_be_billed, error.state) == (Trouble.TRANSIENT, True, State.TRANSPORT_ERROR)
    assert words in error.message


@both
def test_a_body_without_an_end_is_given_up(wire: Any, protocol: str) -> None:
    wire.says(b'{"pad": "' + b"x" * (33 * 2**20))
    error = failure(client_of(protocol, wire.url))
    assert (error.trouble, error.may_be_billed) == (Trouble.REJECTED, True)
    assert "too large" in error.message


@both
def test_bodies_are_asked_for_as_they_are(wire: Any, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{protocol.upper()}_BASE_URL", wire.url)
    monkeypatch.setenv(f"{protocol.upper()}_API_KEY", KEY)
    wire.says({}, 500)
    module = openai if protocol == "openai" else anthropic
    failure(client_of(protocol, wire.url))
    failure(module.connect_client(protocol, Endpoint(protocol=protocol), "m", Capabilities()))  # type: ignore[arg-type]
    assert [seen.headers["accept-encoding"] for seen in wire.seen] == ["identity", "identity"]


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "identity, GZIP", "br", "zstd", "who-knows"])
@both
def test_a_compressed_reply_is_refused_before_it_is_read(wire: Any, protocol: str, encoding: str) -> None:
    client = client_of(protocol, wire.url, concurrency=1)
    wire.says(BOMB, content_encoding=encoding)
    tracemalloc.start()
    error = failure(client)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (error.trouble, error.may_be_billed) == (Trouble.REJECTED, True)
    assert "the reply is compressed (" in error.message
    assert "switch compression off" in error.message
    assert most < 32 * 2**20
    wire.says(reply_of(protocol, "4"), content_encoding="identity")
    assert send(client).text == "4"
    wire.says(reply_of(protocol, "4"), content_encoding="utf-8")
    assert send(client).text == "4"


@both
def test_the_status_of_a_compressed_failure_counts(wire: Any, protocol: str) -> None:
    client = client_of(protocol, wire.url, concurrency=1)
    body = gzip.compress(json.dumps({"error": {"message": "Slow down"}}).encode())
    wire.says(body, 429, content_encoding="gzip", retry_after="3")
    error = failure(client)
    assert (error.trouble, error.status, error.retry_after) == (Trouble.BUSY, 429, 3.0)


@pytest.mark.parametrize("status", [200, 429])
@both
def test_a_body_that_is_not_read_does_not_keep_its_connection(wire: Any, protocol: str, status: int) -> None:
    wire.says(BOMB, status, content_encoding="gzip")

    async def work(client: Client) -> list[Any]:
        calls = asyncio.gather(*(client.send(ASK) for _ in range(3)), return_exceptions=True)
        return await asyncio.wait_for(calls, 20)

    troubles = [error.trouble for error in within(client_of(protocol, wire.url, concurrency=1), work)]
    assert troubles == [Trouble.REJECTED if status == 200 else Trouble.BUSY] * 3


@both
def test_an_error_with_a_status_of_200_is_an_error(wire: Any, protocol: str) -> None:
    client = client_of(protocol, wire.url)
    wire.says({"error": {"code": 429, "message": "Slow down"}})
    assert failure(client).trouble is Trouble.BUSY
    wire.says({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert failure(client).trouble is Trouble.BUSY
    wire.says({"error": "Unsupported parameter: 'temperature' is not supported", "code": 400})
    assert failure(client).trouble is Trouble.DROPPED
    wire.says({"error": {"message": "who knows"}})
    error = failure(client)
    assert error.trouble is Trouble.TRANSIENT
    assert error.status is None  # none was sent
    assert "HTTP" not in error.message


@both
def test_what_the_request_can_not_say_is_refused_without_an_exception(wire: Any, protocol: str) -> None:
    client = client_of(protocol, wire.url)
    for content in ("\ud800",):
        error = failure(client, Exchange((Message("user", content),), 5))
        assert error.trouble is Trouble.REJECTED
    error = failure(client, Exchange((Message("user", "x"),), 5, extra={"bias": float("nan")}))
    assert error.trouble is Trouble.REJECTED
    error = failure(client, Exchange((Message("user", "x"),), 5, extra={"when": object()}))
    assert (error.trouble, error.may_be_billed) == (Trouble.REJECTED, False)
    assert not wire.seen


@both
def test_what_a_batch_can_not_say_is_refused_without_an_exception(wire: Any, protocol: str) -> None:
    for odd in (float("nan"), object()):
        items = [("a", Exchange((Message("user", "x"),), 5, extra={"odd": odd}))]
        with pytest.raises(CallFailed) as caught:
            within(client_of(protocol, wire.url), lambda client, items=items: client.submit_batch(items, "token"))
        assert caught.value.trouble is Trouble.REJECTED
    assert not wire.seen


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@both
def test_calls_go_through_the_proxy_that_the_environment_names(
    wire: Any, protocol: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, wire.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    wire.says({}, 500)
    assert failure(client_of(protocol, "http://model.invalid")).status == 500
    assert [seen.path.removeprefix("http://model.invalid/v1/") for seen in wire.seen] == [
        "chat/completions" if protocol == "openai" else "messages"
    ]


@both
def test_a_proxy_in_the_environment_that_is_none_is_fatal(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://proxy:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    error = failure(client_of(protocol, "http://host.example"))
    assert error.trouble is Trouble.FATAL
    assert "endpoint local, model m: no way to connect" in error.message


@pytest.mark.parametrize("name", ["model", "messages", "stream", "n", "system"])
@both
def test_extra_can_not_change_what_a_call_is_about(wire: Any, protocol: str, name: str) -> None:
    error = failure(client_of(protocol, wire.url), Exchange((Message("user", "x"),), 5, extra={name: True}))
    assert error.trouble is Trouble.FATAL
    assert f"options.extra can't set {name}" in error.message


# Statuses, through the SDKs


@pytest.mark.parametrize(
    ("kind", "trouble"),
    [
        ("rate_limited", Trouble.BUSY), ("overloaded", Trouble.BUSY), ("quota", Trouble.FATAL),
        ("forbidden", Trouble.FATAL), ("too_long", Trouble.REJECTED), ("server_error", Trouble.TRANSIENT),
        ("bad_gateway", Trouble.TRANSIENT), ("html_body", Trouble.TRANSIENT), ("garbage_json_body", Trouble.TRANSIENT),
    ],
)  # fmt: skip
@both
def test_faults_of_a_server_are_told_apart(stub: StubServer, protocol: str, kind: str, trouble: Trouble) -> None:
    stub.settings.script = Script([Rule(kind)])
    error = failure(client_of(protocol, stub.url))
    assert error.trouble is trouble
    assert len(stub.log.records) == 1  # the SDK repeats nothing


@both
def test_a_wish_to_wait_is_passed_on(stub: StubServer, protocol: str) -> None:
    stub.settings.script = Script([Rule("rate_limited_ms")])
    assert failure(client_of(protocol, stub.url)).retry_after == 0.05


@both
def test_an_unknown_model_and_a_wrong_path_are_told_apart(stub: StubServer, protocol: str) -> None:
    stub.settings.models = {"known": ModelFacts()}
    error = failure(client_of(protocol, stub.url))
    assert error.trouble is Trouble.FATAL
    assert "does not know the model m" in error.message
    error = failure(client_of(protocol, f"{stub.url}/nowhere"))
    assert error.trouble is Trouble.FATAL
    assert f"nothing answers at {stub.url}/nowhere" in error.message


@both
def test_a_hostile_error_is_short_and_harmless(wire: Any, protocol: str) -> None:
    client = client_of(protocol, wire.url)
    wire.says({"error": {"message": "\x1b[31m\u202e" + "x" * 10_000, "type": ["?"], "code": {"a": 1}, "param": 7}}, 400)
    error = failure(client)
    assert error.trouble is Trouble.REJECTED
    assert len(error.message) < 400
    assert error.message.isprintable()
    for body in (b"[" * 50_000, b'{"error": {"details": {"error_code": []}}}', b"\xff" * 100, b"[[]]", b'"x"', b"null"):
        wire.says(body, 429)
        assert failure(client).trouble is Trouble.BUSY


# Refused parameters


@both
def test_a_refused_parameter_is_left_out_from_then_on(stub: StubServer, protocol: str) -> None:
    stub.settings.rejects = {"m": ["temperature"]}
    client = client_of(protocol, stub.url)
    error = failure(client)
    assert (error.trouble, error.status) == (Trouble.DROPPED, 400)
    assert error.sent["temperature"] == 0.0
    assert not client.capabilities.temperature
    assert "temperature" in client.dropped["temperature"]
    completion = send(client)
    assert completion.sent.keys() == {"max_tokens", "response_format" if protocol == "openai" else "output_config"}
    assert "temperature" not in stub.log.records[-1].body
    assert client.parameters(ASK) == completion.sent


@both
def test_calls_under_way_when_a_parameter_is_refused_are_dropped_too(stub: StubServer, protocol: str) -> None:
    stub.settings.rejects = {"m": ["temperature"]}
    stub.settings.latency = 0.05

    async def work(client: Client) -> list[Any]:
        return await asyncio.gather(*(client.send(ASK) for _ in range(5)), return_exceptions=True)

    client = client_of(protocol, stub.url)
    assert {error.trouble for error in within(client, work)} == {Trouble.DROPPED}
    assert send(client).text


@both
def test_a_refusal_of_what_is_no_longer_sent_is_no_reason_to_try_again(wire: Any, protocol: str) -> None:
    client = client_of(protocol, wire.url)
    wire.says({"error": {"message": "`temperature` is deprecated for this model."}}, 400)
    assert [failure(client).trouble for _ in range(3)] == [Trouble.DROPPED, Trouble.REJECTED, Trouble.REJECTED]


@both
def test_structured_output_and_extra_are_left_out_one_by_one(stub: StubServer, protocol: str) -> None:
    schema = "response_format" if protocol == "openai" else "output_config.format"
    stub.settings.rejects = {"m": [schema, "top_k"]}
    client = client_of(protocol, stub.url)
    ask = Exchange(ASK.messages, 50, schema=SCHEMA, extra={"top_k": 5, "seed": 1})
    assert {failure(client, ask).trouble for _ in range(2)} == {Trouble.DROPPED}
    assert send(client, ask).sent == {"max_tokens": 50, "seed": 1}
    assert client.dropped.keys() == {"structured_output", "top_k"}
    assert not client.capabilities.structured_output


@both
def test_a_wrong_value_is_fatal_and_not_left_out(wire: Any, protocol: str) -> None:
    client = client_of(protocol, wire.url)
    name = "reasoning_effort" if protocol == "openai" else "output_config.effort"
    wire.says({"error": {"message": f"{name}: Input should be 'low', 'medium' or 'high'"}}, 400)
    ask = Exchange(ASK.messages, 50, effort="turbo")
    for _ in range(2):
        error = failure(client, ask)
        assert error.trouble is Trouble.FATAL
        assert f"the value of {name} is not accepted" in error.message
    assert client.dropped == {}
    assert client.capabilities.effort


@both
def test_a_limit_that_is_too_large_fails_its_call_alone(wire: Any, protocol: str) -> None:
    client = client_of(protocol, wire.url)
    wire.says({"error": {"message": "max_tokens: 50 > 10, which is the maximum allowed number of output tokens"}}, 400)
    assert failure(client).trouble is Trouble.REJECTED
    assert client.dropped == {}


# The listing


@both
def test_a_listed_model_tells_when_it_retires(stub: StubServer, protocol: str) -> None:
    stub.settings.models = {
        "m": ModelFacts(
            shutdown_date="2027-03-01", retires_at="2027-03-01T12:00:00Z", lifecycle="deprecated", effort=False
        )
    }
    card = within(client_of(protocol, stub.url), lambda client: client.describe())
    assert card.listed
    assert card.retires == date(2027, 3, 1)
    if protocol == "anthropic":
        assert card.lifecycle == "deprecated"
        assert card.capabilities == {"structured_output": True, "effort": False, "batch": True}


@both
def test_a_model_without_a_page_is_looked_for_in_the_list(wire: Any, protocol: str) -> None:
    wire.says({"detail": "Not Found"}, 404)
    wire.pages["/v1/models"] = ({"object": "list", "data": [None, 7, {"id": 3}, {"id": "org/m"}]}, 200, {})
    client = client_of(protocol, wire.url, "org/m")
    assert within(client, lambda client: client.describe()) == ModelCard(listed=True, capabilities={})
    assert wire.seen[0].path == "/v1/models/org%2Fm"
    client = client_of(protocol, wire.url, "org/other")
    assert within(client, lambda client: client.describe()).listed is False


@both
def test_an_object_about_something_else_is_no_page_of_the_model(wire: Any, protocol: str) -> None:
    wire.says({"id": "other", "supported_parameters": [], "retires_at": "2027-01-01", "shutdown_date": "2027-01-01"})
    client = client_of(protocol, wire.url, "m", deployment="wire-m")
    assert within(client, lambda client: client.describe()) == ModelCard(listed=None, capabilities={})
    assert [seen.path.partition("?")[0] for seen in wire.seen] == [
        "/v1/models/wire-m", "/v1/models/m", "/v1/models"
    ]  # fmt: skip
    for name in ("wire-m", "m", "models/m", "M"):
        wire.pages["/v1/models/wire-m"] = wire.pages["/v1/models/m"] = ({"id": name}, 200, {})
        assert within(client, lambda client: client.describe()).listed


@pytest.mark.parametrize(
    ("name", "identity", "listed"),
    [
        ("claude-x-4-5", "claude-x-4-5-20250929", True),
        ("claude-x-4-0", "claude-x-4-20250514", True),
        ("claude-x-3-latest", "claude-x-3-20241022", True),
        ("claude-x-4-5-20250929", "claude-x-4-5-20250929", True),
        ("claude-x-4-5", "claude-y-4-5-20250929", None),
        ("claude-x-4", "claude-x-45", None),
        ("claude-x-4-5-20250929", "claude-x-4-5", None),
    ],
)
def test_the_page_of_an_alias_tells_the_dated_name(wire: Any, name: str, identity: str, listed: bool | None) -> None:
    wire.says({"id": identity})
    assert within(client_of("anthropic", wire.url, name), lambda client: client.describe()).listed is listed
    if name != identity:
        assert within(client_of("openai", wire.url, name), lambda client: client.describe()).listed is None


@both
def test_a_model_is_found_by_each_name_that_it_goes_by(wire: Any, protocol: str) -> None:
    wire.says({"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}, 404)
    wire.pages["/v1/models"] = ({"data": [{"id": "b", "aliases": "m"}, {"id": "a", "aliases": [None, "m"]}]}, 200, {})
    assert within(client_of(protocol, wire.url, "m"), lambda client: client.describe()).listed
    assert within(client_of(protocol, wire.url, "x"), lambda client: client.describe()).listed is False


#: What servers answer when a model's page is asked for: the body of a 404, and whether it denies the model `m-1`.
_NO_PAGES = [
    ({"error": {"message": "The model `m-1` does not exist", "code": "model_not_found"}}, True),
    ({"type": "error", "error": {"type": "not_found_error", "message": "model: m-1"}}, True),
    ({"error": {"message": "model 'm-1' not found", "type": "api_error"}}, True),
    ({"detail": "Not Found"}, False),
    ({"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}, False),
    ({"error": {"message": "Cannot GET /v1/models/m-1: not found", "type": "not_found_error"}}, False),
    ({"message": "no Route matched with those values"}, False),
    (b"<html>404 Not Found: /v1/models/m-1</html>", False),
]


@pytest.mark.parametrize(("body", "denies"), _NO_PAGES)
@both
def test_only_an_endpoint_that_lists_others_and_says_so_denies_a_model(
    wire: Any, protocol: str, body: Any, denies: bool
) -> None:
    wire.says(body, 404)
    client = client_of(protocol, wire.url, "m-1")
    assert within(client, lambda client: client.describe()).denied is None  # it lists nothing at all
    wire.pages["/v1/models"] = ({"data": [{"id": "m-2"}]}, 200, {})
    card = within(client_of(protocol, wire.url, "m-1"), lambda client: client.describe())
    assert card.listed is False
    assert (card.denied is not None) is denies
    if denies:
        assert f"endpoint {client.endpoint_name}, model m-1: HTTP 404" in str(card.denied)


@both
def test_a_server_without_a_listing_answers_but_lists_nothing(wire: Any, protocol: str) -> None:
    wire.says(b"", 404)
    client = client_of(protocol, wire.url)
    assert within(client, lambda client: client.describe()) == ModelCard(listed=None, capabilities={})


@pytest.mark.parametrize(("status", "trouble"), [(401, Trouble.FATAL), (500, Trouble.TRANSIENT)])
@both
def test_a_listing_that_fails_is_a_failure(wire: Any, protocol: str, status: int, trouble: Trouble) -> None:
    wire.says({}, status)
    with pytest.raises(CallFailed) as caught:
        within(client_of(protocol, wire.url), lambda client: client.describe())
    assert caught.value.trouble is trouble


def test_a_long_complaint_leaves_room_for_the_advice(wire: Any) -> None:
    wire.says({"error": {"message": "no " * 500}}, 401)
    error = failure(client_of("openai", wire.url))
    assert "api_key_env" in error.message
    wire.says({"error": {"message": "no " * 500}}, 404)
    assert "is base_url right" in failure(client_of("openai", wire.url)).message


@both
def test_an_empty_error_beside_a_reply_is_none(wire: Any, protocol: str) -> None:
    reply = {"choices": [{"message": {"content": "4"}}], "content": "4"}
    wire.says({**reply, "error": {"message": None, "code": None}})
    assert send(client_of(protocol, wire.url)).text == "4"


@both
def test_a_reply_nested_without_end_is_a_reply_or_a_failure(wire: Any, protocol: str) -> None:
    deep = b"[" * 900 + b"]" * 900
    for body in (
        b'{"choices": [{"message": {"content": "4"}, "finish_reason": %s}], "content": "4", "stop_reason": %s}',
        b'{"error": {"message": %s, "code": %s}}',
        b'{"detail": [{"loc": %s, "msg": %s}]}',
    ):
        for status in (200, 400):
            wire.says(body % (deep, deep), status)
            try:
                send(client_of(protocol, wire.url))
            except CallFailed:
                continue


# Batches


async def finished(client: Client, batch: str) -> dict[str, Completion | CallFailed]:
    while (await client.poll_batch(batch)).state == "running":
        await asyncio.sleep(0)
    return {custom_id: result async for custom_id, result in client.batch_results(batch)}


ITEMS = [(f"id-{number}", Exchange((Message("user", f"Text {number}"),), 50, schema=SCHEMA)) for number in range(4)]


@both
def test_a_batch_is_handed_in_polled_and_read(stub: StubServer, protocol: str) -> None:
    stub.settings.batch = BatchPlan(polls=1)

    async def work(client: Client) -> None:
        batch = await client.submit_batch(ITEMS, "token-1")
        status = await client.poll_batch(batch)
        assert (status.state, status.total) == ("running", 4)
        results = await finished(client, batch)
        assert results.keys() == {custom_id for custom_id, _ in ITEMS}
        for result in results.values():
            assert isinstance(result, Completion)
            assert json.loads(result.text)["score"] in (1, 2, 3, 4, 5)
            assert result.usage.output_tokens
            assert result.sent == {}
        status = await client.poll_batch(batch)
        assert (status.state, status.done, status.total) == ("ended", 4, 4)

    within(client_of(protocol, stub.url), work)
    sent = [record.body for record in stub.log.records if record.place == "item"]
    assert all("temperature" not in body and body["max_tokens"] == 50 for body in sent)


@both
def test_items_that_expired_or_failed_are_failures_of_their_own(stub: StubServer, protocol: str) -> None:
    stub.settings.batch = BatchPlan(polls=0)
    stub.settings.script = Script([Rule("expired", custom_id="id-1"), Rule("errored", custom_id="id-2")])

    async def work(client: Client) -> dict[str, Completion | CallFailed]:
        return await finished(client, await client.submit_batch(ITEMS, "token-1"))

    results = within(client_of(protocol, stub.url), work)
    assert isinstance(results["id-0"], Completion)
    assert isinstance(results["id-1"], CallFailed)
    assert results["id-1"].trouble is Trouble.TRANSIENT
    assert isinstance(results["id-2"], CallFailed)


@both
def test_a_parameter_refused_inside_a_batch_is_left_out_of_the_next(stub: StubServer, protocol: str) -> None:
    stub.settings.batch = BatchPlan(polls=0)
    stub.settings.rejects = {"m": ["temperature", "top_k"]}

    async def work(client: Client) -> None:
        items = [("a", Exchange(ASK.messages, 50, temperature=0.0, extra={"top_k": 5}))]
        for number in range(2):
            results = await finished(client, await client.submit_batch(items, f"token-{number}"))
            assert isinstance(results["a"], CallFailed)
            assert results["a"].trouble is Trouble.DROPPED
        results = await finished(client, await client.submit_batch(items, "token-2"))
        assert isinstance(results["a"], Completion)

    within(client_of(protocol, stub.url), work)


@both
def test_a_batch_whose_id_was_lost_is_found_again(stub: StubServer, protocol: str) -> None:
    stub.settings.batch = BatchPlan(polls=2, page=2)
    path = "POST /v1/batches" if protocol == "openai" else "POST /v1/messages/batches"
    stub.settings.script = Script([Rule("reply_lost", path=path, times=1)])
    others = [("other-1", ASK), ("other-2", ASK)]

    async def work(client: Client) -> None:
        start = time.time()
        with pytest.raises(CallFailed) as caught:
            await client.submit_batch(ITEMS, "token-1")
        assert caught.value.may_be_billed
        known = [await client.submit_batch(others, f"other-{number}") for number in range(3)]
        ids = {custom_id for custom_id, _ in ITEMS}
        found = await client.find_batch("token-1", start, ids, known)
        assert found is not None
        assert found not in known
        assert (await finished(client, found)).keys() == ids
        assert await client.find_batch("token-1", start, ids, known) == found
        assert await client.find_batch("token-9", start, {"x", "y", "z"}, known) is None

    within(client_of(protocol, stub.url), work)


@both
def test_a_cancelled_batch_ends_and_keeps_what_was_done(stub: StubServer, protocol: str) -> None:
    stub.settings.batch = BatchPlan(polls=100)

    async def work(client: Client) -> None:
        batch = await client.submit_batch(ITEMS, "token-1")
        await client.cancel_batch(batch)
        stub.settings.batch.polls = 1
        results = await finished(client, batch)
        assert any(isinstance(result, Completion) for result in results.values())
        await client.cancel_batch(batch)  # one that has ended is left as it is

    within(client_of(protocol, stub.url), work)


@both
def test_results_that_break_off_are_a_failure_after_those_that_arrived(stub: StubServer, protocol: str) -> None:
    stub.settings.batch = BatchPlan(polls=0)
    path = "GET /v1/files/*/content" if protocol == "openai" else "GET /v1/messages/batches/*/results"
    stub.settings.script = Script([Rule("dropped_midway", path=path, times=1)])

    async def work(client: Client) -> None:
        batch = await client.submit_batch(ITEMS, "token-1")
        await client.poll_batch(batch)
        with pytest.raises(CallFailed) as caught:
            await finished(client, batch)
        assert caught.value.trouble is Trouble.TRANSIENT
        assert len(await finished(client, batch)) == 4

    within(client_of(protocol, stub.url), work)


@both
def test_results_that_drip_for_ever_are_given_up(wire: Any, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "LONGEST_READ_S", 0.5)
    ended = threading.Event()

    def drip(handler: Any) -> None:
        number = 0
        while True:
            line = json.dumps({"custom_id": f"foreign-{number}", "result": {"type": "expired"}})
            handler.wfile.write(f"{line}\n".encode())
            number += 1
            time.sleep(0.02)

    wire.pages["/v1/batches/b"] = ({"id": "b", "status": "completed", "output_file_id": "out"}, 200, {})
    for path in ("/v1/files/out/content", "/v1/messages/batches/b/results"):
        wire.streams[path] = drip
    wire.ended = ended.set

    read: list[str] = []

    async def work(client: Client) -> None:
        async for name, _ in client.batch_results("b"):
            read.append(name)

    start = time.monotonic()
    with pytest.raises(CallFailed, match=r"the results had no end within 0\.5 s") as caught:
        within(client_of(protocol, wire.url, timeout_s=0.2), work)
    assert caught.value.trouble is Trouble.TRANSIENT
    assert len(read) > 3
    assert 0.4 < time.monotonic() - start < 5
    assert ended.wait(5)  # the connection is closed


@both
def test_the_time_that_results_take_to_be_stored_does_not_count(
    stub: StubServer, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LONGEST_READ_S", 0.3)
    stub.settings.batch = BatchPlan(polls=0)

    async def work(client: Client) -> int:
        batch = await client.submit_batch(ITEMS, "token-1")
        await client.poll_batch(batch)
        read = 0
        async for _ in client.batch_results(batch):
            await asyncio.sleep(0.2)
            read += 1
        return read

    assert within(client_of(protocol, stub.url, timeout_s=0.3), work) == len(ITEMS)
