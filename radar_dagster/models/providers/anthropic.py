"""Models behind Anthropic's messages: Anthropic itself, and servers that speak its protocol.

Here: what is sent, how replies are read, batches. Not here: what both protocols share (`remote.py`).
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import httpx2

from radar_dagster.models.capabilities import Capabilities
from radar_dagster.models.clients import BatchStatus, Client, ModelCard
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Completion, Exchange, Stop, Trouble, Usage
from radar_dagster.models.providers.fields import (
    CUT,
    UnreadableError,
    count_of,
    date_of,
    items_of,
    json_object,
    mapping_of,
    moment_of,
    name_of,
    reason_of,
    text_of,
    usage_of,
)
from radar_dagster.models.providers.http import http_options
from radar_dagster.models.providers.remote import CLOCKS_S, MOST_PAGES, NO_KEY, UPLOAD_S, RemoteClient

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

#: `pause_turn` asks for the turn to be continued, so what there is of it is cut. After `tool_use` nothing is missing:
#: no tools are offered.
_STOPS: Mapping[str, Stop] = {
    **dict.fromkeys(CUT, Stop.LENGTH),
    "pause_turn": Stop.LENGTH,
    "refusal": Stop.REFUSAL,
}
#: An alias's page tells the dated name: `claude-x-1-0` and `claude-x-latest` are `claude-x-1-20250514` and the like.
_ALIAS_END = re.compile(r"-(?:latest|0)$")
_OUTPUT = "output_config"
#: What the listing calls the things that `Capabilities` has names for.
_LISTED = {"structured_outputs": "structured_output", "effort": "effort", "batch": "batch"}


def connect_client(name: str, endpoint: Endpoint, model: str, capabilities: Capabilities) -> Client:
    """A client for a model at the endpoint called `name`; nothing is connected before the first call."""
    import_module("anthropic")  # takes a second or more: not when an event loop waits, and not for offline models
    return AnthropicClient(name, endpoint, model, capabilities)


class AnthropicClient(RemoteClient):
    """Messages, and batches of them. The protocol has no probabilities of tokens."""

    canonical: ClassVar[Mapping[str, str]] = {
        "max_tokens": "max_tokens_field",
        "temperature": "temperature",
        "output_config.format": "structured_output",
        "output_config.effort": "effort",
    }
    spoken: ClassVar[Mapping[str, Sequence[str]]] = {
        "output_config.format": ("output_config", "output_format", "output format", "structured outputs"),
        "output_config.effort": ("output_config", "effort"),
    }
    calls: ClassVar[str] = "/v1/messages"
    models: ClassVar[str] = "/v1/models"
    listing: ClassVar[str] = "/v1/models?limit=1000"

    def _connect(self, key: str | None) -> AsyncAnthropic:
        import anthropic

        endpoint = self._endpoint
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        if key and not endpoint.is_official:
            headers["X-Api-Key"] = key  # where older servers look for it
        options = http_options(endpoint, headers)
        return anthropic.AsyncAnthropic(
            api_key=key or NO_KEY,
            base_url=endpoint.url,
            timeout=options["timeout"],
            max_retries=0,
            open_telemetry=False,
            http_client=anthropic.DefaultAsyncHttpxClient(**options),
        )

    # Sending:

    def _said(self, exchange: Exchange) -> dict[str, Any]:
        system = "\n\n".join(content for role, content in exchange.messages if role == "system")
        turns = [{"role": role, "content": content} for role, content in exchange.messages if role != "system"]
        return {"system": system, "messages": turns} if system else {"messages": turns}

    def _parameters(self, exchange: Exchange) -> dict[str, Any]:
        takes = self.capabilities
        wanted: dict[str, Any] = {"max_tokens": exchange.max_tokens}
        if takes.temperature and exchange.temperature is not None:
            wanted["temperature"] = exchange.temperature
        if takes.structured_output and exchange.schema is not None:
            wanted[f"{_OUTPUT}.format"] = {"type": "json_schema", "schema": exchange.schema}
        if takes.effort and exchange.effort is not None:
            wanted[f"{_OUTPUT}.effort"] = exchange.effort
        extra = dict(exchange.extra)
        inside = mapping_of(extra.pop(_OUTPUT, None))
        return {**wanted, **extra, **{f"{_OUTPUT}.{name}": value for name, value in inside.items()}}

    def _body(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {}
        for name, value in parameters.items():
            outer, _, inner = name.partition(".")
            if inner and outer == _OUTPUT:
                body.setdefault(_OUTPUT, {})[inner] = value
            else:
                body[name] = value
        return body

    # Reading:

    def _completion(self, reply: Mapping[str, Any], sent: Mapping[str, Any]) -> Completion:
        content = reply.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            raise UnreadableError("the reply holds no content")
        blocks = [mapping_of(block) for block in content]
        stop = _STOPS.get(reason_of(reply.get("stop_reason")), Stop.END)
        details = mapping_of(reply.get("stop_details"))
        refusal = text_of(details.get("explanation")) or text_of(details.get("category"))
        return Completion(
            text="".join(text_of(block.get("text")) or "" for block in blocks if block.get("type") == "text"),
            stop=stop,
            sent=sent,
            usage=_usage(reply.get("usage")),
            refusal=refusal if stop is Stop.REFUSAL else None,
            reasoning="\n".join(filter(None, (text_of(block.get("thinking")) for block in blocks))) or None,
            served_model=name_of(reply.get("model")),
            provider_id=name_of(reply.get("id")),
        )

    def _is_page_of(self, entry: Mapping[str, Any], name: str) -> bool:
        identity = text_of(entry.get("id")) or ""
        return super()._is_page_of(entry, name) or identity.startswith(f"{_ALIAS_END.sub('', name)}-")

    def _card(self, entry: Mapping[str, Any]) -> ModelCard:
        listed = mapping_of(entry.get("capabilities"))
        known = {name: mapping_of(listed.get(wire)).get("supported") for wire, name in _LISTED.items()}
        return ModelCard(
            listed=True,
            capabilities={name: value for name, value in known.items() if isinstance(value, bool)},
            lifecycle=name_of(entry.get("lifecycle")),
            retires=date_of(entry.get("retires_at")),
        )

    # Batches:

    async def submit_batch(self, items: Sequence[tuple[str, Exchange]], token: str) -> str:
        """Hand in calls; returns the batch's id. The protocol has no place for the token: see `find_batch`."""
        del token
        calls = [
            {"custom_id": custom_id, "params": self._request(exchange, self._sent(exchange))}
            for custom_id, exchange in items
        ]
        batch = await self._json(
            lambda sdk: sdk.post("/v1/messages/batches", cast_to=httpx2.Response, body={"requests": calls}),
            seconds=max(UPLOAD_S, self._endpoint.timeout_s),
        )
        identity = text_of(batch.get("id"))
        if identity is None:
            raise self._place.failed(Trouble.TRANSIENT, "the endpoint took a batch but gave no id", may_be_billed=True)
        return identity

    async def find_batch(
        self, token: str, since: float, ids: Collection[str] = (), known: Collection[str] = ()
    ) -> str | None:
        """A batch that was created after `since` and holds our `ids`.

        The listing shows neither marks nor ids of calls, so one that has ended is known by its first result. One that
        still runs shows nothing but its size: it is taken for ours when it is the only one of our size. If it is
        somebody else's, its results will have other ids, and ours are found missing when it has ended. While several
        of our size run nobody can tell: CallFailed, to be asked again.
        """
        del token
        running: list[str] = []
        async for batch in self._batches_since(since):
            identity = text_of(batch.get("id"))
            if identity is None or identity in known or _total(batch) != len(ids):
                continue
            if batch.get("processing_status") != "ended":
                running.append(identity)
            elif await self._holds(identity, ids):
                return identity
        if len(running) > 1:
            words = f"{len(running)} batches of the same size are running, and one of them may be ours"
            raise self._place.failed(Trouble.TRANSIENT, words)
        return running[0] if running else None

    async def _batches_since(self, since: float) -> AsyncGenerator[Mapping[str, Any], None]:
        """The batches of the workspace, newest first."""
        after = ""
        for _ in range(MOST_PAGES):
            page = await self._get(f"/v1/messages/batches?limit=100{after}")
            batches = [mapping_of(item) for item in items_of(page.get("data"))]
            for batch in batches:
                created = moment_of(batch.get("created_at"))
                if created is None or created >= since - CLOCKS_S:
                    yield batch
            last = batches[-1] if batches else {}
            identity, created = text_of(last.get("id")), moment_of(last.get("created_at"))
            if not page.get("has_more") or identity is None or (created is not None and created < since - CLOCKS_S):
                return
            after = f"&after_id={quote(identity, safe='')}"

    async def _holds(self, batch_id: str, ids: Collection[str]) -> bool:
        try:
            async with aclosing(self._lines(_results(batch_id))) as lines:
                async for line in lines:
                    found = self._result(line)
                    if found is not None:
                        return found[0] in ids
        except CallFailed as error:
            if error.status != 404:  # archived
                raise
        return False

    async def poll_batch(self, batch_id: str) -> BatchStatus:
        """Where a batch stands. `failed` means that its results are archived and can't be read any more."""
        batch = await self._get(f"/v1/messages/batches/{quote(batch_id, safe='')}")
        total = _total(batch)
        done = total - (count_of(mapping_of(batch.get("request_counts")).get("processing")) or 0)
        if batch.get("processing_status") != "ended":
            return BatchStatus("running", done, total)
        if batch.get("archived_at") is not None:
            return BatchStatus("failed", done, total, "the results of the batch are archived")
        return BatchStatus("ended", done, total)

    async def batch_results(self, batch_id: str) -> AsyncGenerator[tuple[str, Completion | CallFailed], None]:
        """The results of a batch that has ended. `Completion.sent` is empty: results don't tell what was sent."""
        seen: set[str] = set()
        # The address in the batch's `results_url` is passed over: it may lead the key to another host.
        async with aclosing(self._lines(_results(batch_id))) as lines:
            async for line in lines:
                found = self._result(line)
                if found is not None and found[0] not in seen:
                    seen.add(found[0])
                    yield found

    def _result(self, line: bytes) -> tuple[str, Completion | CallFailed] | None:
        """One line of the results; None when it does not tell which call it belongs to."""
        try:
            entry = json_object(line)
        except UnreadableError:
            return None
        custom_id = text_of(entry.get("custom_id"))
        if custom_id is None:
            return None
        try:
            return custom_id, self._result_of(mapping_of(entry.get("result")))
        except CallFailed as error:
            return custom_id, error

    def _result_of(self, result: Mapping[str, Any]) -> Completion:
        sent = self._sent_in_batch()
        if result.get("type") == "succeeded":
            return self._read(mapping_of(result.get("message")), sent)
        if result.get("type") == "errored":
            raise self._failed_without_status(result.get("error"), sent)
        # Calls that were not made: the batch expired or was cancelled before.
        words = name_of(result.get("type")) or "a result without a reply"
        raise self._place.failed(Trouble.TRANSIENT, f"in the batch: {words}")

    async def cancel_batch(self, batch_id: str) -> None:
        """Ask for the end of a batch; one that has ended is left as it is."""
        path = f"/v1/messages/batches/{quote(batch_id, safe='')}/cancel"
        try:
            await self._json(lambda sdk: sdk.post(path, cast_to=httpx2.Response))
        except CallFailed as error:
            if error.status not in (400, 409):
                raise


def _results(batch_id: str) -> str:
    return f"/v1/messages/batches/{quote(batch_id, safe='')}/results"


def _total(batch: Mapping[str, Any]) -> int:
    counts = mapping_of(batch.get("request_counts"))
    return sum(
        count_of(counts.get(name)) or 0 for name in ("processing", "succeeded", "errored", "canceled", "expired")
    )


def _usage(value: object) -> Usage:
    usage = usage_of(value)
    read = count_of(usage.get("input_tokens"))
    cached = count_of(usage.get("cache_read_input_tokens"))
    stored = count_of(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=None if read is None else read + (cached or 0) + (stored or 0),
        output_tokens=count_of(usage.get("output_tokens")),
        cached_input_tokens=cached,
        cache_write_tokens=stored,
        reasoning_tokens=count_of(mapping_of(usage.get("output_tokens_details")).get("thinking_tokens")),
    )
