"""Which parameter an error is about, by the words of providers and servers.

`data/errors/refusals.json` holds errors as OpenAI, Anthropic, Gemini, Mistral, DeepSeek, Groq, xAI, vLLM and gateways
send them, and some that only quote what a user wrote.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radar_dagster.models.providers.anthropic import AnthropicClient
from radar_dagster.models.providers.openai import OpenAIClient
from radar_dagster.models.providers.refusals import RefusedParameter, complaint_in, complaint_of, refused_parameter

SENT = {
    "max_tokens": 100, "temperature": 0, "response_format": {"type": "json_schema"}, "reasoning_effort": "turbo",
    "logprobs": True, "top_logprobs": 20, "seed": 7, "top_p": 0.9,
}  # fmt: skip
SENT_TO_CLAUDE = {
    "max_tokens": 100, "temperature": 0, "output_config.format": {"type": "json_schema"},
    "output_config.effort": "turbo", "top_k": 5,
}  # fmt: skip


CASES = json.loads((Path(__file__).parents[3] / "data" / "errors" / "refusals.json").read_text(encoding="utf-8"))
CLIENTS = {"openai": (OpenAIClient, SENT), "anthropic": (AnthropicClient, SENT_TO_CLAUDE)}


def refused(body: object, protocol: str = "openai", sent: dict[str, Any] | None = None) -> RefusedParameter | None:
    client, everything = CLIENTS[protocol]
    return refused_parameter(complaint_of(body), everything if sent is None else sent, client.spoken)


@pytest.mark.parametrize("case", [case for case in CASES if case["parameter"]], ids=lambda case: str(case["body"])[:80])
def test_an_error_names_a_parameter_and_whether_it_can_be_taken_at_all(case: dict[str, Any]) -> None:
    assert refused(case["body"], case["protocol"]) == RefusedParameter(case["parameter"], case["unsupported"])


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case["parameter"]], ids=lambda case: str(case["body"])[:80]
)
def test_an_error_that_only_mentions_or_quotes_a_parameter_is_about_none(case: dict[str, Any]) -> None:
    assert refused(case["body"], case["protocol"]) is None


def test_what_was_not_sent_is_not_refused() -> None:
    body = {"error": {"message": "Unsupported parameter: 'temperature' is not supported.", "param": "temperature"}}
    assert refused(body) == RefusedParameter("temperature", unsupported=True)
    assert refused(body, sent={"max_tokens": 5}) is None


FIELDS = ["error", "message", "detail", "loc", "msg", "code", "param", "type", "metadata", "raw"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_a_complaint(body: object) -> None:
    complaint = complaint_of(body)
    refused_parameter(complaint, SENT, OpenAIClient.spoken)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_complaint(content: bytes) -> None:
    refused_parameter(complaint_in(content), SENT, OpenAIClient.spoken)


@pytest.mark.parametrize(
    "hostile", ['"' * 20_000, "'a " * 7000, "`" * 20_000 + "'", "[{" * 9000, '{"' * 9000, "b'{" * 6000]
)
def test_a_hostile_message_takes_no_time(hostile: str) -> None:
    complaint = complaint_of({"error": {"message": hostile}})
    assert refused_parameter(complaint, SENT, OpenAIClient.spoken) is None


def test_a_web_page_is_called_one() -> None:
    assert complaint_in(b"<html><body>temperature is not supported</body></html>").message == "a web page"


def test_an_error_nested_without_end_is_a_complaint() -> None:
    for name in ("message", "error", "detail", "loc"):
        nested: object = "temperature is not supported"
        for _ in range(800):
            nested = {name: nested, "msg": [nested]} if name != "loc" else [{"loc": [nested], "msg": nested}]
        refused({"error": {"message": nested, "detail": nested, "code": nested, "param": nested}})
