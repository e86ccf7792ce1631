"""Models behind OpenAI's chat completions: OpenAI itself, Azure, and servers that speak its protocol.

Here: what is sent, how replies are read, batches. Not here: what both protocols share (`remote.py`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import httpx2

from radar_dagster.models.capabilities import Capabilities
from radar_dagster.models.clients import BatchStatus, Client, ModelCard
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Candidate, Completion, Exchange, Stop, Trouble, Usage
from radar_dagster.models.providers import refusals
from radar_dagster.models.providers.fields import (
    CUT,
    UnreadableError,
    candidate_of,
    count_of,
    date_of,
    items_of,
    json_object,
    mapping_of,
    moment_of,
    name_of,
    named_type,
    reason_of,
    text_of,
    usage_of,
)
from radar_dagster.models.providers.http import http_options
from radar_dagster.models.providers.remote import CLOCKS_S, MOST_PAGES, NO_KEY, UPLOAD_S, RemoteClient

if TYPE_CHECKING:
    from openai import AsyncOpenAI

#: OpenAI's names must match [A-Za-z0-9_-]{1,64}, so a criterion's name is none.
SCHEMA_NAME = "judgement"
#: OpenAI and most of its followers list at most so many candidates of a token.
MOST_CANDIDATES = 20

_LIMITS = ("max_tokens", "max_completion_tokens")
_STOPS: Mapping[str, Stop] = {
    **dict.fromkeys(CUT, Stop.LENGTH),
    "content_filter": Stop.FILTER, "safety": Stop.FILTER, "recitation": Stop.FILTER, "refusal": Stop.REFUSAL,
}  # fmt: skip
#: The server gave up in the middle: vLLM, OpenRouter, DeepSeek.
_INTERRUPTED = frozenset({"abort", "error", "insufficient_system_resource"})
#: What models that reason answer, with a 400, when the limit was used up before any text.
_CUT_SHORT = "output limit was reached"
#: What a listing such as OpenRouter's calls the things that `Capabilities` has names for.
_LISTED = {
    "temperature": "temperature", "structured_outputs": "structured_output", "logprobs": "logprobs",
    "reasoning_effort": "effort",
}  # fmt: skip
#: The mark that `find_batch` looks for.
_MARK = "radar"


def connect_client(name: str, endpoint: Endpoint, model: str, capabilities: Capabilities) -> Client:
    """A client for a model at the endpoint called `name`; nothing is connected before the first call."""
    import_module("openai")  # takes a second or more: not when an event loop waits, and not for offline models
    return OpenAIClient(name, endpoint, model, capabilities)


class OpenAIClient(RemoteClient):
    """Chat completions, and batches of them."""

    canonical: ClassVar[Mapping[str, str]] = {
        "max_tokens": "max_tokens_field",
        "max_completion_tokens": "max_tokens_field",
        "temperature": "temperature",
        "response_format": "structured_output",
        "reasoning_effort": "effort",
        "logprobs": "logprobs",
        "top_logprobs": "logprobs",
    }
    spoken: ClassVar[Mapping[str, Sequence[str]]] = {
        "response_format": ("response format", "json_schema", "structured outputs", "structured output"),
        "reasoning_effort": ("reasoning effort", "reasoning.effort", "effort"),
        "logprobs": ("log probs",),
    }
    calls: ClassVar[str] = "/chat/completions"
    models: ClassVar[str] = "/models"
    listing: ClassVar[str] = "/models"

    def _connect(self, key: str | None) -> AsyncOpenAI:
        import openai

        endpoint = self._endpoint
        headers: dict[str, str] = {}
        if key:
            headers = {"api-key": key} if endpoint.api_version else {"Authorization": f"Bearer {key}"}
        options = http_options(endpoint, headers)
        common: dict[str, Any] = {
            "api_key": key or NO_KEY,
            "timeout": options["timeout"],
            "max_retries": 0,
            "http_client": openai.DefaultAsyncHttpxClient(**options),
        }
        if endpoint.api_version is None:
            return openai.AsyncOpenAI(base_url=endpoint.url, **common)
        return openai.AsyncAzureOpenAI(
            azure_endpoint=endpoint.url,
            azure_deployment=quote(self.wire_model, safe=""),
            api_version=endpoint.api_version,
            **common,
        )

    # Sending:

    async def send(self, exchange: Exchange) -> Completion:
        """One call. Raises CallFailed, and nothing else but cancellation."""
        try:
            return await super().send(exchange)
        except CallFailed as error:
            if error.status == 400 and _CUT_SHORT in error.message:
                return Completion(text="", stop=Stop.LENGTH, sent=error.sent)
            raise

    def _said(self, exchange: Exchange) -> dict[str, Any]:
        return {"messages": [{"role": role, "content": content} for role, content in exchange.messages]}

    def _parameters(self, exchange: Exchange) -> dict[str, Any]:
        takes = self.capabilities
        wanted: dict[str, Any] = {}
        if not exchange.extra.keys() & set(_LIMITS):
            wanted[takes.max_tokens_field] = exchange.max_tokens
        if takes.temperature and exchange.temperature is not None:
            wanted["temperature"] = exchange.temperature
        if takes.effort and exchange.effort is not None:
            wanted["reasoning_effort"] = exchange.effort
        if takes.structured_output and exchange.schema is not None:
            schema = {"name": SCHEMA_NAME, "strict": True, "schema": exchange.schema}
            wanted["response_format"] = {"type": "json_schema", "json_schema": schema}
        if takes.logprobs and exchange.top_logprobs is not None:
            wanted |= {"logprobs": True, "top_logprobs": min(exchange.top_logprobs, MOST_CANDIDATES)}
        return {**wanted, **exchange.extra}

    def _body(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return dict(parameters)

    # Reading:

    def _completion(self, reply: Mapping[str, Any], sent: Mapping[str, Any]) -> Completion:
        choice = mapping_of(next(iter(items_of(reply.get("choices"))), None))
        message = choice.get("message")
        if not isinstance(message, dict):
            raise UnreadableError("the reply holds no choice with a message")
        reason = reason_of(choice.get("finish_reason"))
        if reason in _INTERRUPTED:
            raise UnreadableError(f"the endpoint gave up in the middle of the reply ({reason})")
        text, refusal, reasoning = _contents(message)
        return Completion(
            text=text,
            stop=Stop.REFUSAL if refusal else _STOPS.get(reason, Stop.END),
            sent=sent,
            usage=_usage(reply.get("usage")),
            refusal=refusal,
            reasoning=reasoning,
            candidates=_candidates(choice.get("logprobs")),
            served_model=name_of(reply.get("model")),
            provider_id=name_of(reply.get("id")),
        )

    def _card(self, entry: Mapping[str, Any]) -> ModelCard:
        listed = entry.get("supported_parameters")
        known = {name: wire in listed for wire, name in _LISTED.items()} if isinstance(listed, list) else {}
        return ModelCard(listed=True, capabilities=known, retires=date_of(entry.get("shutdown_date")))

    # Batches:

    async def submit_batch(self, items: Sequence[tuple[str, Exchange]], token: str) -> str:
        """Hand in calls as a file and a batch that is marked with the token; returns the batch's id."""
        content = b"".join(self._line(custom_id, exchange) for custom_id, exchange in items)
        file = await self._json(lambda sdk: _uploaded(sdk, content), seconds=max(UPLOAD_S, self._endpoint.timeout_s))
        body = {
            "input_file_id": file.get("id"),
            "endpoint": self._batch_url,
            "completion_window": "24h",
            "metadata": {_MARK: token},
        }
        batch = await self._json(lambda sdk: sdk.post("/batches", cast_to=httpx2.Response, body=body))
        return self._id_of(batch)

    def _line(self, custom_id: str, exchange: Exchange) -> bytes:
        body = self._request(exchange, self._sent(exchange))
        line = {"custom_id": custom_id, "method": "POST", "url": self._batch_url, "body": body}
        try:
            return json.dumps(line, allow_nan=False).encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise self._place.failed(Trouble.REJECTED, f"the request can't be sent: {error}") from None

    @property
    def _batch_url(self) -> str:
        return "/chat/completions" if self._endpoint.is_azure else "/v1/chat/completions"

    def _id_of(self, batch: Mapping[str, Any]) -> str:
        identity = text_of(batch.get("id"))
        if identity is None:
            raise self._place.failed(Trouble.TRANSIENT, "the endpoint took a batch but gave no id", may_be_billed=True)
        return identity

    async def find_batch(
        self, token: str, since: float, ids: Collection[str] = (), known: Collection[str] = ()
    ) -> str | None:
        """The batch that bears the token in its metadata; `ids` are not needed."""
        del ids
        after = ""
        for _ in range(MOST_PAGES):
            page = await self._get(f"/batches?limit=100{after}")
            batches = [mapping_of(item) for item in items_of(page.get("data"))]
            for batch in batches:
                identity = text_of(batch.get("id"))
                if identity and identity not in known and mapping_of(batch.get("metadata")).get(_MARK) == token:
                    return identity
            oldest = batches[-1] if batches else {}
            created = moment_of(oldest.get("created_at"))
            last = text_of(oldest.get("id"))
            if not page.get("has_more") or last is None or (created is not None and created < since - CLOCKS_S):
                return None
            after = f"&after={quote(last, safe='')}"
        return None

    async def poll_batch(self, batch_id: str) -> BatchStatus:
        """Where a batch stands. One that expired or was cancelled has ended: what was done by then can be read."""
        batch = await self._batch(batch_id)
        counts = mapping_of(batch.get("request_counts"))
        done = (count_of(counts.get("completed")) or 0) + (count_of(counts.get("failed")) or 0)
        total = count_of(counts.get("total")) or 0
        status = batch.get("status")
        if status == "failed":
            return BatchStatus("failed", done, total, self._batch_fault(batch))
        if status in ("completed", "expired", "cancelled"):
            return BatchStatus("ended", done, total, None if status == "completed" else str(status))
        return BatchStatus("running", done, total)

    def _batch_fault(self, batch: Mapping[str, Any]) -> str:
        faults = [mapping_of(item) for item in items_of(mapping_of(batch.get("errors")).get("data"))]
        words = "; ".join(filter(None, (text_of(fault.get("message")) for fault in faults[:3])))
        return self._place.failed(Trouble.REJECTED, f"the batch failed: {words or 'no reason given'}").message

    async def batch_results(self, batch_id: str) -> AsyncGenerator[tuple[str, Completion | CallFailed]]:
        """The results in the batch's two files. `Completion.sent` is empty: results don't tell what was sent."""
        batch = await self._batch(batch_id)
        seen: set[str] = set()
        for field in ("output_file_id", "error_file_id"):
            file = text_of(batch.get(field))
            if file is None:
                continue
            async with aclosing(self._lines(f"/files/{quote(file, safe='')}/content")) as lines:
                async for line in lines:
                    found = self._result(line)
                    if found is not None and found[0] not in seen:
                        seen.add(found[0])
                        yield found

    def _result(self, line: bytes) -> tuple[str, Completion | CallFailed] | None:
        """One line of a file of results; None when it does not tell which call it belongs to."""
        try:
            entry = json_object(line)
        except UnreadableError:
            return None
        custom_id = text_of(entry.get("custom_id"))
        if custom_id is None:
            return None
        try:
            return custom_id, self._result_of(entry)
        except CallFailed as error:
            return custom_id, error

    def _result_of(self, entry: Mapping[str, Any]) -> Completion:
        sent = self._sent_in_batch()
        response = mapping_of(entry.get("response"))
        body, status = response.get("body"), response.get("status_code")
        if isinstance(status, int) and 300 <= status < 600:
            raise self._failed(status, {}, refusals.complaint_of(body), sent)
        if isinstance(body, dict):
            return self._read(body, sent)
        # Calls that were not made: the batch expired or was cancelled before.
        error = mapping_of(entry.get("error"))
        words = text_of(error.get("message")) or text_of(error.get("code")) or "a result without a reply"
        raise self._place.failed(Trouble.TRANSIENT, words)

    async def cancel_batch(self, batch_id: str) -> None:
        """Ask for the end of a batch; one that has ended is left as it is."""
        path = f"/batches/{quote(batch_id, safe='')}/cancel"
        try:
            await self._json(lambda sdk: sdk.post(path, cast_to=httpx2.Response))
        except CallFailed as error:
            if error.status not in (400, 409):
                raise

    async def _batch(self, batch_id: str) -> Mapping[str, Any]:
        return await self._get(f"/batches/{quote(batch_id, safe='')}")


async def _uploaded(sdk: AsyncOpenAI, content: bytes) -> httpx2.Response:
    raw = await sdk.files.with_raw_response.create(file=("radar.jsonl", content, "application/jsonl"), purpose="batch")
    return raw.http_response


def _contents(message: Mapping[str, Any]) -> tuple[str, str | None, str | None]:
    """Text, refusal and reasoning of a message; the text may come in parts, reasoning in a field of its own."""
    content = message.get("content")
    texts: list[str] = []
    declined: list[str] = []
    thoughts = [_thought(message.get("reasoning_content")) or _thought(message.get("reasoning"))]
    if isinstance(content, list):
        for part in content:
            _sort_part(part, texts, declined, thoughts)
    elif isinstance(content, str):
        texts.append(content)
    elif content is not None:
        raise UnreadableError(f"the message's content is neither a text nor a list of parts, but {named_type(content)}")
    refusal = text_of(message.get("refusal")) or "\n".join(declined) or None
    return "".join(texts), refusal, "\n".join(filter(None, thoughts)) or None


def _sort_part(part: object, texts: list[str], declined: list[str], thoughts: list[str | None]) -> None:
    fields = mapping_of(part)
    if isinstance(part, str):
        texts.append(part)
    elif fields.get("type") == "refusal":
        declined.append(text_of(fields.get("refusal")) or "")
    elif fields.get("type") in ("thinking", "reasoning"):
        thoughts.append(_thought(fields.get("thinking")) or _thought(fields.get("text")))
    else:
        texts.append(text_of(fields.get("text")) or "")


def _thought(value: object) -> str | None:
    """Reasoning as a text, or as a list of parts with texts."""
    parts = [text_of(mapping_of(part).get("text")) for part in items_of(value)]
    return text_of(value) or "\n".join(filter(None, parts)) or None


def _usage(value: object) -> Usage:
    usage = usage_of(value)
    read, cached = count_of(usage.get("prompt_tokens")), mapping_of(usage.get("prompt_tokens_details"))
    written, total = count_of(usage.get("completion_tokens")), count_of(usage.get("total_tokens"))
    if read is not None and written is not None and total is not None and total > read + written:
        written = total - read  # some count the tokens of reasoning in the total alone
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_input_tokens=_first(cached.get("cached_tokens"), usage.get("prompt_cache_hit_tokens")),
        cache_write_tokens=count_of(cached.get("cache_write_tokens")),
        reasoning_tokens=_first(
            mapping_of(usage.get("completion_tokens_details")).get("reasoning_tokens"), usage.get("reasoning_tokens")
        ),
    )


def _first(*values: object) -> int | None:
    return next((count for value in values if (count := count_of(value)) is not None), None)


def _candidates(value: object) -> tuple[Candidate, ...] | None:
    """The candidates for the first token, most probable first as listed; the one that was taken is always there."""
    first = mapping_of(next(iter(items_of(mapping_of(value).get("content"))), None))
    listed = [candidate_of(item) for item in (*items_of(first.get("top_logprobs")), first)]
    found: dict[str, Candidate] = {}
    for candidate in filter(None, listed):
        found.setdefault(candidate.token, candidate)
    return tuple(found.values()) or None
