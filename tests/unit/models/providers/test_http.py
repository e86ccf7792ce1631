"""Words of servers before they are shown, wishes to be called later, long bodies, and what statuses mean."""

import asyncio
import base64
from collections.abc import AsyncIterator
from email.utils import formatdate
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import Trouble
from radar_dagster.models.providers import http
from radar_dagster.models.providers.http import (
    Place,
    failed_on_the_way,
    failed_with_status,
    http_options,
    journey,
    lines_of,
    redacted,
    retry_after,
    spellings_of,
    tells,
)
from radar_dagster.models.providers.refusals import complaint_of
from radar_dagster.models.replies import State

KEY = "sk-proj-Abc_123-xyz"
PLACE = Place("local", "judge-1", "http://host/v1", "LOCAL_KEY", (KEY,))


@pytest.mark.parametrize(
    "words",
    [
        f"Incorrect API key provided: {KEY}. You can find yours at https://platform.openai.com.",
        f"bad header Authorization: Bearer {KEY}",
        f'{{"headers": {{"x-api-key": "{KEY}"}}}}',
        f"got {KEY}{KEY}",
        f"\x00{KEY}\u202e",
        "x" * 290 + KEY,
    ],
)
def test_a_key_that_a_server_repeats_is_redacted(words: str) -> None:
    shown = redacted(words, [KEY])
    assert KEY not in shown
    assert KEY[:12] not in shown
    assert len(shown) <= 300


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("Incorrect API key provided: sk-abcd********wxyz.", "Incorrect API key provided: [redacted]"),
        ("got Authorization: Bearer eyJhbGciOi.J9-x", "got Authorization: [redacted]"),
        ("sent api_key=abcd-1234-efgh here", "sent [redacted] here"),
        ("Bearer authentication is required", "Bearer authentication is required"),
        ("the api-key: missing", "the api-key: missing"),
    ],
)
def test_what_looks_like_a_secret_is_redacted_and_plain_words_are_not(words: str, shown: str) -> None:
    assert redacted(words, []) == shown


def test_a_key_with_special_characters_is_redacted_in_addresses_too() -> None:
    key = "p@ss/w0rd+long"
    assert redacted("GET /v1?key=p%40ss%2Fw0rd%2Blong", [key]) == "GET /v1?key=[redacted]"


def test_a_key_in_base64_is_redacted_in_each_of_its_three_forms() -> None:
    for before in range(4):
        told = base64.b64encode(b"u" * before + KEY.encode() + b"!").decode()
        shown = redacted(f"got {told}", [KEY])
        assert "[redacted]" in shown
        assert told[8:20] not in shown


#: Ways in which a careless server may write a character of a key.
_WAYS = (
    str, str.lower, str.upper,
    lambda char: f"%{ord(char):02x}", lambda char: f"%{ord(char):02X}", lambda char: f"%25{ord(char):02x}",
    lambda char: f"\\u{ord(char):04x}", lambda char: f"%5Cu{ord(char):04X}",
)  # fmt: skip


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\\%"), min_size=14, max_size=40),
    st.lists(st.sampled_from(_WAYS), min_size=40, max_size=40),
    st.sampled_from(["", "you sent ", "Ü=", "%", "%2", "\\n", "\\", "\\u00"]),
)
@example("00key-secret-abcdef", [str] * 14 + [_WAYS[3]] * 26, "%")
@example("0key-secret-abcdef", [str] * 14 + [_WAYS[5]] * 26, "%2")
@example("41key-secret-abcdef", [str] * 14 + [_WAYS[6]] * 26, "\\u00")
def test_a_key_is_found_in_any_case_and_behind_any_escapes(key: str, ways: list[Any], before: str) -> None:
    told = "".join(way(char) for way, char in zip(ways, key, strict=False))
    assert tells(f"{before}{told} there", spellings_of([key]))
    shown = redacted(f"{before}{told} there", [key])
    assert key.lower() not in shown.lower()
    assert told not in shown
    assert "[redacted]" in shown


@given(st.text(max_size=60))
def test_a_text_without_the_key_tells_none_and_stays_as_it_is(text: str) -> None:
    assume("sk-proj" not in text.lower())
    assert not tells(text, spellings_of([KEY]))
    assert redacted(text, [KEY]) == redacted(text, [])


def test_an_exception_that_nobody_expects_may_be_billed_once_the_request_has_left() -> None:
    error = RuntimeError("odd")
    before = failed_on_the_way(PLACE, error, {})
    assert (before.trouble, before.may_be_billed) == (Trouble.REJECTED, False)
    assert "the request can't be sent: RuntimeError: odd" in before.message
    after = failed_on_the_way(PLACE, error, {}, left=True)
    assert (after.trouble, after.may_be_billed) == (Trouble.REJECTED, True)
    assert "the reply can't be read: RuntimeError: odd" in after.message


def test_a_request_is_followed_until_it_leaves() -> None:
    async def run() -> list[bool]:
        options = http_options(Endpoint(base_url="http://host"), {})
        known = []
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(200)),
                                      event_hooks=options["event_hooks"]) as client:  # fmt: skip
            for send in (False, True):
                with journey() as way:
                    if send:
                        await client.get("http://host")
                known.append(way.left)
        return known

    assert asyncio.run(run()) == [False, True]


def test_a_short_key_is_redacted_as_a_word_and_spares_other_words() -> None:
    assert redacted("key x is not for index", ["x"]) == "key [redacted] is not for index"


@given(st.text(max_size=700), st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=8, max_size=30))
def test_shown_words_are_short_on_one_line_and_without_the_key(text: str, key: str) -> None:
    half = len(text) // 2
    shown = redacted(text[:half] + key + text[half:], [key])
    assert len(shown) <= 300
    assert not any(character in shown for character in "\n\r\t\x00\x1b\u202e")
    assert key not in shown or key in "[redacted]"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "1", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "2", "retry-after-ms": "soon"}, 2.0),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after": "0"}, 0.0),
        ({}, None),
    ],
)
def test_a_wish_to_be_called_later_comes_in_three_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=1_000_000.0) == seconds


@pytest.mark.parametrize("nonsense", ["-1", "nan", "inf", "1e3", "99999999", "Thu, 99 Foo", "", "٣", "0x10", "9" * 400])
def test_a_nonsensical_wish_is_none(nonsense: str) -> None:
    assert retry_after({"retry-after": nonsense}) is None


@given(st.text(max_size=50))
def test_any_wish_is_some_seconds_or_none(text: str) -> None:
    wish = retry_after({"retry-after": text, "retry-after-ms": text})
    assert wish is None or 0 <= wish <= 86_400


@pytest.mark.parametrize(
    ("status", "body", "trouble", "words"),
    [
        (401, {"error": {"message": "Invalid key"}}, Trouble.FATAL, "is the key in LOCAL_KEY right"),
        (403, {"error": {"message": "no access"}}, Trouble.FATAL, "LOCAL_KEY"),
        (402, {"error": {"message": "Insufficient Balance"}}, Trouble.FATAL, "can't pay"),
        (404, {"detail": "Not Found"}, Trouble.FATAL, "nothing answers at http://host/v1"),
        (
            404,
            {"error": {"message": "Invalid URL (POST /v1/v1/chat/completions)"}},
            Trouble.FATAL,
            "nothing answers at",
        ),
        (
            404,
            {"error": {"message": "The model `judge-1` does not exist"}},
            Trouble.FATAL,
            "does not know the model judge-1",
        ),
        (
            404,
            {"type": "error", "error": {"type": "not_found_error", "message": "model: judge-1"}},
            Trouble.FATAL,
            "does not know the model",
        ),
        (
            404,
            {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}},
            Trouble.FATAL,
            "does not know the model",
        ),
        (405, {}, Trouble.FATAL, "nothing answers at http://host/v1"),
        (400, {"error": {"message": "invalid model ID"}}, Trouble.FATAL, "does not know the model"),
        (
            400,
            {"error": {"message": "Invalid model: judge-1", "type": "invalid_model"}},
            Trouble.FATAL,
            "does not know the model",
        ),
        (
            400,
            {"error": {"message": "Your credit balance is too low to access the Anthropic API."}},
            Trouble.FATAL,
            "can't pay",
        ),
        (
            400,
            {"error": {"message": "This model's maximum context length is 4096 tokens."}},
            Trouble.REJECTED,
            "longer than the model's context",
        ),
        (
            400,
            {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}},
            Trouble.REJECTED,
            "longer than the model's context",
        ),
        (400, {"error": {"message": "messages: at least one message is required"}}, Trouble.REJECTED, "at least one"),
        (413, {"error": {"message": "too large"}}, Trouble.REJECTED, "too large"),
        (408, {}, Trouble.TRANSIENT, "HTTP 408"),
        (409, {}, Trouble.TRANSIENT, "HTTP 409"),
        (429, {"error": {"message": "Rate limit reached"}}, Trouble.BUSY, "Rate limit"),
        (
            429,
            {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}},
            Trouble.FATAL,
            "can't pay",
        ),
        (
            429,
            [
                {
                    "error": {
                        "code": 429,
                        "message": "You exceeded your current quota, please check your plan",
                        "status": "RESOURCE_EXHAUSTED",
                    }
                }
            ],
            Trouble.BUSY,
            "exceeded",
        ),
        (
            429,
            {"error": {"message": "Request too large for judge-1: Limit 30000, Requested 50000"}},
            Trouble.REJECTED,
            "Request too large",
        ),
        (500, {"error": {"message": "insufficient funds in the simulation"}}, Trouble.TRANSIENT, "HTTP 500"),
        (501, {"error": {"message": "This server does not support it."}}, Trouble.REJECTED, "does not support"),
        (503, {}, Trouble.BUSY, "HTTP 503"),
        (
            529,
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            Trouble.BUSY,
            "Overloaded",
        ),
        (418, {}, Trouble.REJECTED, "HTTP 418"),
    ],
)
def test_what_a_status_means(status: int, body: object, trouble: Trouble, words: str) -> None:
    failure = failed_with_status(PLACE, status, {"retry-after": "3"}, complaint_of(body), {"temperature": 0})
    assert failure.trouble is trouble
    assert words in failure.message
    assert "endpoint local, model judge-1: HTTP" in failure.message
    assert failure.status == status
    assert failure.sent == {"temperature": 0}
    assert failure.retry_after == (3.0 if trouble in (Trouble.BUSY, Trouble.TRANSIENT) else None)
    assert failure.state is State.TRANSPORT_ERROR


@pytest.mark.parametrize(
    "body",
    [
        {
            "error": {
                "code": "content_filter",
                "message": "The response was filtered",
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            }
        },
        {"error": {"code": "invalid_prompt", "message": "Invalid prompt: we've limited access to this content."}},
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"},
        },
        {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}},
    ],
)
def test_a_content_filter_that_answers_with_an_error_is_a_state_of_its_own(body: object) -> None:
    failure = failed_with_status(PLACE, 400, {}, complaint_of(body), {})
    assert (failure.trouble, failure.state) == (Trouble.REJECTED, State.FILTERED)


def test_a_redirect_names_where_it_leads() -> None:
    failure = failed_with_status(PLACE, 307, {"location": "https://host/v1"}, complaint_of(""), {})
    assert failure.trouble is Trouble.UNREACHABLE
    assert "http://host/v1 redirects to https://host/v1" in failure.message


def test_a_gateway_that_gave_up_waiting_may_have_cost_something() -> None:
    assert failed_with_status(PLACE, 504, {}, complaint_of(""), {}).may_be_billed
    assert not failed_with_status(PLACE, 500, {}, complaint_of(""), {}).may_be_billed


class Chunks(httpx2.AsyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


def read_lines(chunks: list[bytes]) -> list[bytes]:
    async def read() -> list[bytes]:
        return [line async for line in lines_of(httpx2.Response(200, stream=Chunks(chunks)))]

    return asyncio.run(read())


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_lines_are_those_between_line_feeds_however_they_arrive(content: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cut for cut in cuts if cut < len(content)), len(content)]
    chunks = [content[start:end] for start, end in pairwise(places)]
    expected = content.split(b"\n")
    assert read_lines(chunks) == (expected if expected[-1] else expected[:-1])


def test_other_ends_of_lines_stay_inside_a_line() -> None:
    line = '{"text": "one\u2028two\x85three"}'.encode()
    assert read_lines([line + b"\n" + line]) == [line, line]


def test_a_line_longer_than_any_reply_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST_BODY", 10)
    assert read_lines([b"short\n" + b"x" * 8, b"x" * 8, b"x\nend"]) == [b"short", b"end"]
