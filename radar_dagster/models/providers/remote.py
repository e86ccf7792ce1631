"""What the clients of both protocols have in common: an SDK client per event loop, sending, failures, the listing.

The SDKs' typed methods are passed over for their `post` and `get`: building their models of requests and replies is
most of their CPU, and compatible servers don't keep to those models anyway.

Not here: the shapes of a protocol (`openai.py`, `anthropic.py`), what exceptions and statuses mean (`http.py`), what is
left out after a refusal (`learning.py`).
"""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import quote

import httpx2

from radar_dagster.errors import OperationalError
from radar_dagster.models.capabilities import Capabilities
from radar_dagster.models.clients import ModelCard
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Completion, Exchange, Trouble
from radar_dagster.models.providers import refusals
from radar_dagster.models.providers.fields import UnreadableError, items_of, json_object, mapping_of, text_of
from radar_dagster.models.providers.http import (
    CALL_ID_HEADER,
    Place,
    failed_on_the_way,
    failed_with_status,
    is_secret,
    journey,
    lines_of,
    redacted,
    spellings_of,
    tells,
)
from radar_dagster.models.providers.learning import Learnt
from radar_dagster.models.providers.refusals import Complaint

#: Given to an SDK where no key is needed, so that it looks for none in the environment. It is never sent.
NO_KEY = "none"
#: `extra` may change how a call is answered, but neither what it is about nor the form of its reply.
_RESERVED = frozenset({"model", "messages", "system", "stream", "n"})
#: Seconds for handing in a batch, which may be large.
UPLOAD_S = 600.0
#: Seconds of waiting for the lines of a long body, all in all; `timeout_s` where that is longer.
LONGEST_READ_S = 600.0
#: How far `find_batch` looks: pages of the listing, and seconds by which two clocks may differ.
MOST_PAGES = 50
CLOCKS_S = 300.0
#: Statuses by which servers say that they have no such page.
_NO_PAGE = (400, 404, 405, 410, 501)
#: Kinds of errors that come without a status (in batches, or with a status of 200) and the status they have elsewhere.
_STATUS_OF_KIND = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "overloaded_error": 529,
}  # fmt: skip

#: Whatever a server can say in a reply.
_TEXTS = ("text", "refusal", "reasoning", "served_model", "provider_id")

Ask = Callable[[Any], Awaitable[httpx2.Response]]


@dataclass(frozen=True, slots=True)
class Sent:
    """The parameters of a call: as they went out, by their names on the wire, and as they are recorded."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    shown: Mapping[str, Any] = field(default_factory=dict)


_NOTHING = Sent()


class RemoteClient(ABC):
    """One model at one endpoint, inside one event loop at a time; what it learnt of the model outlives the loop.

    The key is read when the first call is made.
    """

    #: Parameters by their names on the wire (with dots where they are nested) -> their names in `Capabilities`.
    canonical: ClassVar[Mapping[str, str]]
    #: Parameters by their names on the wire -> what else error messages call them.
    spoken: ClassVar[Mapping[str, Sequence[str]]]
    #: Where calls go, where a model has its page, and where all are listed, relative to the SDK's base URL.
    calls: ClassVar[str]
    models: ClassVar[str]
    listing: ClassVar[str]

    def __init__(self, name: str, endpoint: Endpoint, model: str, capabilities: Capabilities) -> None:
        self.endpoint_name = name
        self.model = model
        self.wire_model = endpoint.deployment or model
        self._endpoint = endpoint
        self._learnt = Learnt(capabilities, self.canonical)
        #: Parameters of calls so far, for refusals inside a batch.
        self._asked: dict[str, Any] = dict.fromkeys(self.canonical)
        self._sdk: Any = None  # the two SDKs have no type in common
        #: Where calls go, as a whole: of a relative address the SDKs make a new one for every call.
        self._address = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keys: tuple[str, ...] = ()
        #: What no reply may hold.
        self._secrets: Sequence[str] = ()

    @property
    def capabilities(self) -> Capabilities:
        """What is sent to the model now."""
        return self._learnt.capabilities

    @property
    def dropped(self) -> Mapping[str, str]:
        """What the model has refused in this run -> the endpoint's words."""
        return dict(self._learnt.dropped)

    # What a protocol adds:

    @abstractmethod
    def _connect(self, key: str | None) -> Any:
        """A new SDK client."""

    @abstractmethod
    def _said(self, exchange: Exchange) -> dict[str, Any]:
        """The messages, as the protocol wants them."""

    @abstractmethod
    def _parameters(self, exchange: Exchange) -> dict[str, Any]:
        """What the exchange asks for and the model can take, by names on the wire; `extra` is merged last."""

    @abstractmethod
    def _body(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as they stand in the body."""

    @abstractmethod
    def _completion(self, reply: Mapping[str, Any], sent: Mapping[str, Any]) -> Completion:
        """Read a reply; UnreadableError when it is none."""

    @abstractmethod
    def _card(self, entry: Mapping[str, Any]) -> ModelCard:
        """Read a model's entry in the listing."""

    # Sending:

    def parameters(self, exchange: Exchange) -> Mapping[str, Any]:
        """What would be sent now besides model and messages, as `Completion.sent` tells it."""
        return self._sent(exchange).shown

    async def send(self, exchange: Exchange) -> Completion:
        """One call. Raises CallFailed, and nothing else but cancellation."""
        sent = self._sent(exchange)
        body = self._request(exchange, sent)
        named = {"headers": {CALL_ID_HEADER: exchange.call_id}} if exchange.call_id else {}
        response = await self._ask(
            lambda sdk: sdk.post(self._address, cast_to=httpx2.Response, body=body, options=named), sent
        )
        return self._read(response.content, sent)

    def _sent(self, exchange: Exchange) -> Sent:
        parameters = self._learnt.without_refused(self._parameters(exchange))
        self._asked.update(parameters)
        return Sent(parameters, self._body({name: _shown(value) for name, value in parameters.items()}))

    def _request(self, exchange: Exchange, sent: Sent) -> dict[str, Any]:
        """The body of a call; CallFailed when `extra` holds what it must not."""
        reserved = sorted(_RESERVED & exchange.extra.keys())
        if reserved:
            words = f"options.extra can't set {', '.join(reserved)}"
            raise self._place.failed(Trouble.FATAL, words, sent=sent.shown)
        return {"model": self.wire_model, **self._said(exchange), **self._body(sent.parameters)}

    def _read(self, content: bytes | Mapping[str, Any], sent: Sent) -> Completion:
        """The completion in a reply; CallFailed when there is none."""
        reply: Mapping[str, Any] = {}
        try:
            reply = json_object(content) if isinstance(content, bytes) else content
            completion = self._completion(reply, sent.shown)
        except UnreadableError as error:
            # Gateways send errors with a status of 200; they are read as what they are.
            if isinstance(reply.get("error"), dict | str) and reply["error"]:
                raise self._failed_without_status(reply, sent) from None
            raise self._place.failed(Trouble.TRANSIENT, str(error), may_be_billed=True, sent=sent.shown) from None
        if self._secrets and self._tells_a_key(completion):
            # With the key it must not be stored, and without it would no longer be what the model said.
            words = "the reply repeats the key; it was not kept"
            raise self._place.failed(Trouble.REJECTED, words, may_be_billed=True, sent=sent.shown)
        return completion

    def _tells_a_key(self, completion: Completion) -> bool:
        """A server may repeat the headers of a request in all that it says."""
        said = [getattr(completion, name) or "" for name in _TEXTS]
        said += [candidate.token for candidate in completion.candidates or ()]
        return any(tells(text, self._secrets) for text in said)

    # Asking the endpoint:

    async def _ask(self, ask: Ask, sent: Sent = _NOTHING, seconds: float | None = None) -> httpx2.Response:
        """One request, given up after `seconds`; CallFailed for whatever goes wrong."""
        sdk = self._connected()
        with journey() as way:
            try:
                async with asyncio.timeout(seconds or self._endpoint.timeout_s):
                    return await ask(sdk)
            except Exception as error:  # whatever an SDK raises concerns this one call, and the run goes on without it
                raise self._failure(error, sent, left=way.left) from None

    async def _json(self, ask: Ask, seconds: float | None = None) -> Mapping[str, Any]:
        """One request whose reply is a JSON object."""
        response = await self._ask(ask, seconds=seconds)
        try:
            return json_object(response.content)
        except UnreadableError as error:
            raise self._place.failed(Trouble.TRANSIENT, str(error)) from None

    async def _get(self, path: str) -> Mapping[str, Any]:
        return await self._json(lambda sdk: sdk.get(path, cast_to=httpx2.Response))

    async def _lines(self, path: str) -> AsyncGenerator[bytes]:
        """The lines of a long body, as they arrive; CallFailed when their end is too long in coming."""
        response = await self._ask(lambda sdk: sdk.get(path, cast_to=httpx2.Response, stream=True))
        most = left = max(LONGEST_READ_S, self._endpoint.timeout_s)
        lines = lines_of(response)
        try:
            while left > 0:
                start = time.monotonic()
                async with asyncio.timeout(left):
                    line = await anext(lines, None)
                if line is None:
                    return
                left -= time.monotonic() - start  # what is done with a line takes its own time
                yield line
            raise TimeoutError
        except TimeoutError:
            words = f"the results had no end within {most:g} s (or timeout_s, if longer)"
            raise self._place.failed(Trouble.TRANSIENT, words) from None
        except Exception as error:  # the same as for one request
            raise failed_on_the_way(self._place, error, {}, left=True) from None
        finally:
            await response.aclose()

    def _connected(self) -> Any:
        """The SDK client of the running loop. One of an earlier loop can be used no more, not even to close it."""
        loop = asyncio.get_running_loop()
        if self._sdk is None or self._loop is not loop:
            try:
                key = self._endpoint.api_key(self.endpoint_name)
                self._keys = (key,) if key else ()
                self._secrets = spellings_of(filter(is_secret, self._keys))
                self._sdk = self._connect(key)
                self._address = _whole(self.calls, self._sdk.base_url)
            except OperationalError as error:
                raise CallFailed(Trouble.FATAL, str(error)) from None
            except Exception as error:  # such as a proxy's address in the environment that is none
                words = f"no way to connect: {type(error).__name__}: {error}"
                raise self._place.failed(Trouble.FATAL, words) from None
            self._loop = loop
        return self._sdk

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        sdk, self._sdk = self._sdk, None
        if sdk is not None and self._loop is asyncio.get_running_loop():
            await sdk.close()

    # Failures:

    @property
    def _place(self) -> Place:
        endpoint, model = self._endpoint, self.model
        if self.wire_model != model:
            model = f"{model} (sent as {self.wire_model})"
        return Place(self.endpoint_name, model, endpoint.url, endpoint.key_variable, self._keys)

    def _failure(self, error: Exception, sent: Sent, *, left: bool) -> CallFailed:
        response = getattr(error, "response", None)
        if not isinstance(response, httpx2.Response):
            return failed_on_the_way(self._place, error, sent.shown, left=left)
        content = response.content if response.is_stream_consumed else b""
        return self._failed(response.status_code, response.headers, refusals.complaint_in(content), sent)

    def _failed(
        self, status: int, headers: Mapping[str, str], complaint: Complaint, sent: Sent, *, assumed: bool = False
    ) -> CallFailed:
        """A failure with a status; one that is about a parameter changes what is sent from now on."""
        # Some refuse a parameter by 403 ("You are not allowed to request logprobs from this model") or by 501.
        if status in (400, 403, 422, 501) and not refusals.is_too_long(complaint):
            refused = refusals.refused_parameter(complaint, sent.parameters, self.spoken)
            if refused is not None:
                trouble, text = self._learnt.from_refusal(refused, redacted(complaint.message, self._keys))
                words = f"{text}: {complaint.message}"
                return self._place.failed(trouble, words, status=None if assumed else status, sent=sent.shown)
        failure = failed_with_status(self._place, status, headers, complaint, sent.shown, assumed=assumed)
        failure.unknown_model = refusals.denies_model(complaint, (self.model, self.wire_model))
        return failure

    def _failed_without_status(self, body: object, sent: Sent) -> CallFailed:
        """An error that came as a part of a reply or of a batch's results."""
        complaint = refusals.complaint_of(body)
        statuses = [int(kind) for kind in complaint.kinds if re.fullmatch("[45][0-9]{2}", kind)]
        statuses += [_STATUS_OF_KIND[kind] for kind in sorted(complaint.kinds) if kind in _STATUS_OF_KIND]
        return self._failed(next(iter(statuses), 500), {}, complaint, sent, assumed=True)

    def _sent_in_batch(self) -> Sent:
        """What a call of a batch may have held: its results don't tell, and the batch may be another process's."""
        return Sent(self._asked)

    # The listing:

    async def describe(self) -> ModelCard:
        """What the endpoint lists of the model. Raises CallFailed when it can't be reached or refuses the key.

        A server without a page for the model is asked for all models; one that has neither lists nothing.
        """
        names = tuple(dict.fromkeys((self.wire_model, self.model)))
        denied: str | None = None
        for name in names:
            entry, words = await self._page(f"{self.models}/{quote(name, safe='')}")
            if self._is_page_of(entry, name):
                return self._card(entry)
            denied = denied or words
        listing, _ = await self._page(self.listing)
        entries = items_of(listing.get("data"))
        for entry in map(mapping_of, entries):
            # llama.cpp lists a model once, with all the names that it goes by.
            if any(name in names for name in (entry.get("id"), *items_of(entry.get("aliases")))):
                return self._card(entry)
        if not entries:
            return ModelCard(listed=None, capabilities={})
        # What a resource on Azure lists are models, and what is called are deployments of them.
        return ModelCard(listed=False, capabilities={}, denied=None if self._endpoint.is_azure else denied)

    def _is_page_of(self, entry: Mapping[str, Any], name: str) -> bool:
        """Whether an object is the model's page: servers answer what they don't know with all kinds of things."""
        # Gemini's names have a folder before them.
        names = {text.removeprefix("models/").casefold() for text in (entry.get("id"), name) if isinstance(text, str)}
        return text_of(entry.get("id")) is not None and len(names) == 1

    async def _page(self, path: str) -> tuple[Mapping[str, Any], str | None]:
        """A page's object; an empty one where there is no such page, with the words that deny the model, if any."""
        try:
            return await self._get(path), None
        except CallFailed as error:
            if error.status in _NO_PAGE:
                return {}, error.message if error.unknown_model else None
            raise


def _shown(value: object) -> object:
    """A parameter as it is recorded: the content of a schema belongs to the request's key."""
    is_schema = isinstance(value, dict) and value.get("type") == "json_schema"
    return "json_schema" if is_schema else value


def _whole(path: str, base: httpx2.URL) -> str:
    """The address of a path below a base that ends in a slash, as the SDKs put it together."""
    return str(base.copy_with(raw_path=base.raw_path + path.removeprefix("/").encode()))
