"""A loopback server that answers whatever a test tells it to, for shapes that the stub server has no reason to know."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Seen:
    """A request as it arrived; names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)


@dataclass
class Wire:
    """Gives one answer to everything: a body (JSON or bytes), a status and headers. `pages` have their own.

    `streams` write their body themselves until the client has enough, which `ended` is told.
    """

    url: str
    reply: tuple[Any, int, dict[str, str]] = field(default_factory=lambda: (b"", 404, {}))
    pages: dict[str, tuple[Any, int, dict[str, str]]] = field(default_factory=dict)
    streams: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    ended: Callable[[], None] = lambda: None
    seen: list[Seen] = field(default_factory=list)

    def says(self, body: Any, status: int = 200, **headers: str) -> None:
        """From now on, this is the answer to everything that has no page of its own."""
        self.reply = (body, status, {name.replace("_", "-"): value for name, value in headers.items()})

    def answer(self, path: str) -> tuple[Any, int, dict[str, str]]:
        return self.pages.get(path.partition("?")[0], self.reply)


@pytest.fixture
def wire() -> Iterator[Wire]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            named = {name.lower(): value for name, value in self.headers.items()}
            told.seen.append(Seen(self.command, self.path, named, content))
            if self.path in told.streams:
                self.stream(told.streams[self.path])
                return
            body, status, headers = told.answer(self.path)
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            with suppress(ConnectionError):  # a client may have enough
                self.wfile.write(raw)

        def stream(self, write: Callable[[BaseHTTPRequestHandler], None]) -> None:
            self.close_connection = True
            self.send_response(200)
            self.end_headers()
            with suppress(ConnectionError):
                write(self)
            told.ended()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told = Wire(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield told
    server.shutdown()
    thread.join()
    server.server_close()
