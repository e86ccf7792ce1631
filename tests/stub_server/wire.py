"""HTTP as the stub needs it: one request and its connection, which can also be mistreated.

Here: reading a body, sending a reply whole or by half, closing the connection early. Not here: what is sent (`app.py`).
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from itertools import cycle
from typing import Any
from urllib.parse import parse_qs

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Message = MutableMapping[str, Any]

JSON = "application/json"


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which hands the connection itself to the application."""

    def on_message_begin(self) -> None:
        """Put the transport where the application finds it."""
        super().on_message_begin()
        self.scope["transport"] = self.transport  # type: ignore[typeddict-unknown-key]


class Wire:
    """One request."""

    __slots__ = ("_receive", "_send", "_transport", "headers", "method", "path", "query")

    def __init__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        self._receive = receive
        self._send = send
        self._transport = scope["transport"]
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode()
        self.headers: dict[str, str] = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}

    def argument(self, name: str) -> str | None:
        """An argument of the query string."""
        found = parse_qs(self.query).get(name)
        return found[0] if found else None

    async def body(self) -> bytes:
        """The whole body."""
        message = await self._receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            message = await self._receive()
            body += message.get("body", b"")
        return body

    @property
    def gone(self) -> bool:
        """Whether the connection is closed."""
        closing: bool = self._transport.is_closing()
        return closing

    async def send(
        self, status: int, body: bytes, content_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        """A whole reply."""
        await self._start(status, body, content_type, headers)
        await self._send({"type": "http.response.body", "body": body})

    async def send_half(self, status: int, body: bytes, content_type: str = JSON) -> None:
        """The headers and half of the body, then the end of the connection."""
        await self._start(status, body, content_type, None)
        await self._send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        await self.drop()

    async def send_endless(
        self, status: int, body: bytes, lines: Sequence[bytes], seconds: float, content_type: str
    ) -> None:
        """The body, and after it the lines over and over, until the client leaves."""
        head = [(b"content-type", content_type.encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        for line in cycle(lines):
            if self.gone:
                return
            await self._send({"type": "http.response.body", "body": line + b"\n", "more_body": True})
            await asyncio.sleep(seconds)

    async def drop(self, *, reset: bool = False) -> None:
        """Close the connection, by a reset instead of a farewell if asked."""
        if reset:
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()
        await self.wait_gone(None)

    async def wait_gone(self, seconds: float | None) -> bool:
        """Wait until the connection is closed, at most so long; whether it is."""
        try:
            async with asyncio.timeout(seconds):
                while (await self._receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            return False
        return True

    async def _start(self, status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None) -> None:
        named = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
        named += [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        await self._send({"type": "http.response.start", "status": status, "headers": named})


def as_json(body: Any) -> bytes:
    """JSON in ASCII: lone surrogates of a hostile brain stay escapes."""
    return json.dumps(body, separators=(",", ":")).encode()
