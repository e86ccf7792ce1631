"""The stub as an ASGI application: addresses, keys, calls with their faults, and the stub's own controls.

Here: what happens to a request, in order. Not here: the providers' JSON (`openai_api.py`, `anthropic_api.py`,
`batches.py`), sockets (`server.py`, `wire.py`).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from stub_server import anthropic_api, openai_api
from stub_server.asks import SAMPLE_HEADER, Ask, Protocol
from stub_server.batches import Batches, Sent
from stub_server.calls import admit, read_json, unknown_model
from stub_server.errors import ANTHROPIC, OPENAI, RefusedError, error_of
from stub_server.faults import REPLY, Rule, Script
from stub_server.log import CLIENT_LEFT, DROPPED, Log, Record, harmless
from stub_server.replies import make_reply
from stub_server.settings import Settings
from stub_server.wire import Message, Wire, as_json

APIS: Mapping[Protocol, ModuleType] = {"openai": openai_api, "anthropic": anthropic_api}

_AZURE = re.compile(r"/openai/deployments/([^/]+)/chat/completions")
_HTML = b"<!doctype html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
_FATAL = frozenset({*OPENAI, *ANTHROPIC, "rate_limited_ms", "rate_limited_bare"})


class Route(NamedTuple):
    """An address that is no call: the pattern of its path, its name in the counters, and what answers it."""

    method: str
    pattern: re.Pattern[str]
    name: str
    answer: Callable[[Wire, bytes, tuple[str, ...]], Sent]


class App:
    """The application. `settings` may be changed, and `log` be read, while it runs."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings = settings
        self.log = log
        self.batches = Batches(settings, log)
        self._routes = [
            self._route("GET", "/v1/models", self._models),
            self._route("GET", "/v1/models/{id}", self._model),
            self._route("POST", "/v1/files", self.batches.upload),
            self._route("GET", "/v1/files", self.batches.files),
            self._route("GET", "/v1/files/{id}", self.batches.file),
            self._route("DELETE", "/v1/files/{id}", self.batches.delete_file),
            self._route("GET", "/v1/files/{id}/content", self.batches.file_content),
            self._route("POST", "/v1/batches", self.batches.create),
            self._route("GET", "/v1/batches", self.batches.listing),
            self._route("GET", "/v1/batches/{id}", self.batches.poll),
            self._route("POST", "/v1/batches/{id}/cancel", self.batches.cancel),
            self._route("POST", "/v1/messages/batches", self.batches.create_messages),
            self._route("GET", "/v1/messages/batches", self.batches.listing_messages),
            self._route("GET", "/v1/messages/batches/{id}", self.batches.poll_messages),
            self._route("GET", "/v1/messages/batches/{id}/results", self.batches.results),
            self._route("POST", "/v1/messages/batches/{id}/cancel", self.batches.cancel_messages),
        ]

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer one request."""
        try:
            await self._dispatch(Wire(scope, receive, send))
        except asyncio.CancelledError:
            return  # the server is going down, and the connection is closed already

    async def _dispatch(self, wire: Wire) -> None:
        if wire.method == "POST":
            if wire.path in ("/v1/chat/completions", "/openai/v1/chat/completions"):
                return await self._call(wire, "openai", None)
            if wire.path == "/v1/messages":
                return await self._call(wire, "anthropic", None)
            azure = _AZURE.fullmatch(wire.path)
            if azure is not None:
                return await self._call(wire, "openai", azure[1])
        if wire.path.startswith("/_stub/"):
            return await self._control(wire)
        return await self._other(wire)

    # Calls

    async def _call(self, wire: Wire, protocol: Protocol, deployment: str | None) -> None:
        name = wire.path if deployment is None else "/openai/deployments/{id}/chat/completions"
        record = self.log.open(wire.method, name, "call")
        record.protocol = protocol
        self.log.enter(record)
        try:
            await self._serve(wire, record, protocol, deployment)
        except RefusedError as refused:
            await self._refuse(wire, record, refused)
        finally:
            self.log.leave(record)

    async def _serve(self, wire: Wire, record: Record, protocol: Protocol, deployment: str | None) -> None:
        ask = self._read(wire, record, await wire.body(), protocol, deployment)
        fault = self._fault(ask, record)
        if fault is not None:
            if fault.kind == "content_filter" and (ask.azure or protocol == "anthropic"):
                raise _filtered(protocol)
            if fault.kind == "rejected_parameter":
                raise APIS[protocol].rejected(ask.model, fault.parameter, fault.value or "parameter", None)
            if await self._failed_early(wire, record, fault, ask.model):
                return
        await asyncio.sleep(self.settings.seconds(ask, self.log.in_flight))
        if wire.gone:
            record.status = CLIENT_LEFT
            return
        await self._hand_over(wire, record, ask, fault)

    def _read(self, wire: Wire, record: Record, raw: bytes, protocol: Protocol, deployment: str | None) -> Ask:
        """The request, if it is one that this server would serve; else RefusedError."""
        if self.settings.keep_bodies:
            record.headers = harmless(wire.headers)
        self._check_key(wire, protocol, azure=deployment is not None)
        body = read_json(raw, protocol)
        if self.settings.keep_bodies:
            record.body = body
        if deployment is None:
            ask: Ask = APIS[protocol].ask_from(body, wire.headers.get(SAMPLE_HEADER))
        else:
            if wire.argument("api-version") is None:
                raise RefusedError(404, {"error": {"code": "404", "message": "Resource not found"}})
            ask = openai_api.ask_from(body, wire.headers.get(SAMPLE_HEADER), deployment=deployment)
        record.model, record.content, record.sample = ask.model, ask.content, ask.sample
        admit(ask, self.settings)
        most = self.settings.max_in_flight
        if most is not None and self.log.in_flight > most:
            record.fault = "rate_limited"
            raise error_of("rate_limited", protocol, ask.model)
        return ask

    def _fault(self, ask: Ask, record: Record) -> Rule | None:
        self.log.asked[ask.content] += 1
        self.log.started_calls += 1
        record.nth = ask.nth = self.log.asked[ask.content]
        fault = self.settings.script.pick(ask, self.log.started_calls)
        record.fault = None if fault is None else fault.kind
        return fault

    async def _hand_over(self, wire: Wire, record: Record, ask: Ask, fault: Rule | None) -> None:
        """Make the reply, bill it, send it."""
        ask.draw = self.log.drawn[ask.content]
        self.log.drawn[ask.content] += 1
        reply = make_reply(ask, self.settings, fault)
        if fault is not None and not reply.spoiled and fault.kind in REPLY:
            record.fault = None
        record.bill(reply.prompt_tokens, reply.completion_tokens, reply.reasoning_tokens)
        if self.settings.keep_bodies:
            record.reply = reply.text
        shape = openai_api.completion if ask.protocol == "openai" else anthropic_api.message
        body = as_json(shape(ask, reply, self.settings, f"{ask.content[:16]}{record.number:06d}"))
        await self._deliver(wire, record, fault, Sent(200, body))

    # Everything

    async def _failed_early(self, wire: Wire, record: Record, fault: Rule, model: str) -> bool:
        """Carry out what a fault does before there is a reply; whether the request is over."""
        if fault.kind in _FATAL:
            raise error_of(fault.kind, record.protocol or "openai", model, fault.seconds, fault.value)
        if fault.kind == "bad_gateway":
            record.status = 502
            self.log.leave(record)
            await wire.send(502, _HTML, "text/html")
            return True
        if fault.kind in ("dropped", "reset"):
            record.status = DROPPED
            self.log.leave(record)
            await wire.drop(reset=fault.kind == "reset")
            return True
        if fault.kind == "stalled" and await wire.wait_gone(fault.seconds):
            record.status = CLIENT_LEFT
            return True
        if fault.kind == "slow":
            await asyncio.sleep(0.5 if fault.seconds is None else fault.seconds)
        return False

    async def _deliver(self, wire: Wire, record: Record, fault: Rule | None, sent: Sent) -> None:
        """Send a reply, unless the fault is one of its delivery."""
        self.log.leave(record)
        kind = None if fault is None else fault.kind
        if wire.gone:
            record.status = CLIENT_LEFT
        elif kind == "reply_lost":
            record.status = DROPPED
            await wire.drop()
        elif kind == "dropped_midway":
            record.status = DROPPED
            await wire.send_half(sent.status, sent.body, sent.content_type)
        elif fault is not None and kind == "endless":
            record.status = CLIENT_LEFT
            lines = [fault.value.encode()] if fault.value else sent.body.splitlines()
            await wire.send_endless(sent.status, sent.body, lines, fault.seconds or 0.0, sent.content_type)
        elif kind == "garbage_json_body":
            record.status = 200
            await wire.send(200, sent.body[: len(sent.body) // 3])
        elif kind == "html_body":
            record.status = 200
            await wire.send(200, _HTML, "text/html")
        else:
            record.status, record.ok = sent.status, 200 <= sent.status < 300
            if record.ok and record.content is not None:
                self.log.answered[record.content] += 1
            await wire.send(sent.status, sent.body, sent.content_type, _identity(record))

    async def _refuse(self, wire: Wire, record: Record, refused: RefusedError) -> None:
        record.status = refused.status
        self.log.leave(record)
        await wire.send(refused.status, as_json(refused.body), headers={**_identity(record), **refused.headers})

    def _check_key(self, wire: Wire, protocol: Protocol, *, azure: bool = False) -> None:
        headers = wire.headers
        bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
        key = headers.get("api-key") or headers.get("x-api-key") or bearer
        if not key:
            self.log.keyless += 1
        accepted = self.settings.keys
        if accepted is None or key in accepted:
            return
        shown = f": {key}" if self.settings.echo_keys and key else ""
        if azure:
            text = f"Access denied due to invalid subscription key or wrong API endpoint{shown}."
            raise RefusedError(401, {"error": {"code": "401", "message": text}})
        if protocol == "anthropic":
            raise RefusedError(401, anthropic_api.error("authentication_error", f"invalid x-api-key{shown}"))
        text = f"Incorrect API key provided{shown}." if key else "You didn't provide an API key."
        raise RefusedError(401, openai_api.error(text, "invalid_request_error", None, "invalid_api_key"))

    # Files, batches, models

    async def _other(self, wire: Wire) -> None:
        protocol = _protocol(wire)
        body = await wire.body()
        route, ids = self._find(wire)
        record = self.log.open(wire.method, wire.path if route is None else route.name, "other")
        record.protocol = protocol
        if self.settings.keep_bodies:
            record.headers = harmless(wire.headers)
        try:
            self._check_key(wire, protocol)
            if route is None:
                raise _no_such_address(wire, protocol)
            fault = self.settings.script.pick_at(f"{wire.method} {wire.path}")
            record.fault = None if fault is None else fault.kind
            if fault is not None and await self._failed_early(wire, record, fault, ""):
                return
            await self._deliver(wire, record, fault, route.answer(wire, body, ids))
        except RefusedError as refused:
            await self._refuse(wire, record, refused)

    @staticmethod
    def _route(method: str, name: str, answer: Callable[[Wire, bytes, tuple[str, ...]], Sent]) -> Route:
        return Route(method, re.compile(re.escape(name).replace(r"\{id\}", "([^/]+)")), name, answer)

    def _find(self, wire: Wire) -> tuple[Route | None, tuple[str, ...]]:
        path = wire.path.removeprefix("/openai") if wire.path.startswith("/openai/v1/") else wire.path
        for route in self._routes:
            found = route.pattern.fullmatch(path) if route.method == wire.method else None
            if found is not None:
                return route, found.groups()
        return None, ()

    def _models(self, wire: Wire, _body: bytes, _ids: tuple[str, ...]) -> Sent:
        protocol = _protocol(wire)
        known = self.settings.listed()
        if protocol == "anthropic":
            data = [
                anthropic_api.model_of(name, facts) for name, facts in known.items() if facts.lifecycle != "retired"
            ]
            edges = (
                {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
            )
            return Sent(200, as_json({"data": data, "has_more": False, **edges}))
        data = [openai_api.model_of(name, facts) for name, facts in known.items()]
        return Sent(200, as_json({"object": "list", "data": data}))

    def _model(self, wire: Wire, _body: bytes, ids: tuple[str, ...]) -> Sent:
        protocol = _protocol(wire)
        facts = self.settings.listed().get(ids[0])
        if facts is None:
            raise unknown_model(ids[0], protocol)
        return Sent(200, as_json(APIS[protocol].model_of(ids[0], facts)))

    # The stub's own controls

    async def _control(self, wire: Wire) -> None:
        body = await wire.body()
        try:
            answer = self._controlled(wire, json.loads(body) if body else {})
        except (ValueError, TypeError, KeyError) as problem:
            await wire.send(400, as_json({"error": str(problem)}))
            return
        await wire.send(404 if answer is None else 200, as_json(answer))

    def _controlled(self, wire: Wire, given: Any) -> Any:
        name = wire.path.removeprefix("/_stub/")
        if name == "counters":
            return self.log.counters()
        if name == "log":
            return self.log.rows(int(wire.argument("since") or 0))
        if name == "reset":
            self.log.clear()
        elif name == "script":
            self.settings.script = Script.from_json(given)
        elif name == "settings":
            self.settings.change(given)
        else:
            return None
        return {"done": name}


def _identity(record: Record) -> dict[str, str]:
    """The headers with the id of a request, in either provider's name."""
    identity = f"req_{record.number:06d}"
    return {"x-request-id": identity, "request-id": identity}


def _protocol(wire: Wire) -> Protocol:
    return "anthropic" if "anthropic-version" in wire.headers or wire.path.startswith("/v1/messages") else "openai"


def _no_such_address(wire: Wire, protocol: Protocol) -> RefusedError:
    if protocol == "anthropic":
        return RefusedError(404, anthropic_api.error("not_found_error", "Not Found"))
    return RefusedError(404, openai_api.error(f"Invalid URL ({wire.method} {wire.path})", "invalid_request_error"))


def _filtered(protocol: Protocol) -> RefusedError:
    if protocol == "anthropic":
        return anthropic_api.filtered()
    text = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
    results = {"violence": {"filtered": True, "severity": "medium"}, "hate": {"filtered": False, "severity": "safe"}}
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": results}
    told = {"message": text, "type": None, "param": "prompt", "code": "content_filter", "status": 400}
    return RefusedError(400, {"error": {**told, "innererror": inner}})
