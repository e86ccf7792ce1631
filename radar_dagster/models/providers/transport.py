"""The SDKs' requests, carried by aiohttp, which takes half the processor time of httpx2's own transport, or less.

Its parser is C, and it does not look through all connections whenever a request begins or ends. The SDKs speak to
httpx2, which lets a transport do the sending. The SDKs' own transports for aiohttp tell a connection that broke after
the request went out as one that never stood; here that is the difference between a call that may have been paid for and
one that was not, so every failure is told apart where it happens.

Here: a request out, a response in, failures as httpx2's own exceptions. Not here: what an exception means for the call
(`http.py`), how many calls may be in flight (`limits.py`).
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import aiohttp
import httpx2
import yarl

from radar_dagster.models.providers.names import Resolver

#: A long silence is no reason for a router in between to forget the connection: a reply may take minutes.
_PROBE_EVERY_S = 60
_PROBES = 5
#: Bytes of a line or field among a response's headers, and how many of these there may be.
_LONGEST_HEADER = 2**16
_MOST_HEADERS = 256
#: A body above this many bytes is sent in pieces; aiohttp would warn that it holds up the event loop.
_LARGE_BODY = 2**20
#: What httpx2 decides, and aiohttp would add by itself.
_NOT_BY_ITSELF = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Transport(httpx2.AsyncBaseTransport):
    """At most `most` connections, for one event loop; one that was idle for more than `idle_s` seconds is not reused.

    Raises httpx2's exceptions. A request that waits for a connection has no time limit here: aiohttp would take that
    for time spent connecting, and the endpoint for one that can't be reached.
    """

    def __init__(self, certificates: ssl.SSLContext, most: int, idle_s: float) -> None:
        self._certificates = certificates
        self._idle_s = idle_s
        self._places = asyncio.Semaphore(most)
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; the response's body is read from the connection as it is asked for."""
        await self._places.acquire()
        try:
            response = await self._sent(request)
            return httpx2.Response(
                response.status,
                headers=response.raw_headers,
                stream=_Body(response, self._places.release),
                extensions={
                    "http_version": b"HTTP/1.1",
                    "reason_phrase": (response.reason or "").encode(errors="surrogateescape"),  # as aiohttp read it
                },
            )
        except BaseException:  # a cancelled request too: aiohttp has closed its connection
            self._places.release()
            raise

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _sent(self, request: httpx2.Request) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = self._open()
        with _as_httpx2():
            response = await self._session.request(
                request.method,
                yarl.URL(str(request.url), encoded=True),  # as httpx2 wrote it: `%2F` in a deployment's name stays
                headers=request.headers.multi_items(),
                data=_body(request),
                allow_redirects=False,
                timeout=_timeout(request.extensions.get("timeout", {})),
            )
        if response.status < 200:  # another protocol, which nobody had asked for
            response.close()
            raise httpx2.RemoteProtocolError(f"no HTTP response: status {response.status}")
        return response

    def _open(self) -> aiohttp.ClientSession:
        """aiohttp without what httpx2 has: redirects, cookies, proxies, encodings.

        It repeats a GET by itself, once, when a kept connection broke under it; calls are POSTs, and never repeated.
        """
        connector = _Connector(
            limit=0,
            ssl=self._certificates,
            keepalive_timeout=self._idle_s,
            socket_factory=_socket,
            resolver=Resolver(),
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_NOT_BY_ITSELF,
            auto_decompress=False,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            max_headers=_MOST_HEADERS,
        )


class _Connector(aiohttp.TCPConnector):
    """Uses no connection again on which something came that nobody had asked for: it would pass for the next reply.

    aiohttp asks only whether such a connection still stands.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used: WeakSet[asyncio.BaseProtocol] = WeakSet()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.connector.Connection:
        """A connection for a request: one that was used before and is silent, or a new one."""
        while True:
            try:
                connection = await super().connect(req, traces, timeout)
            except (ValueError, RuntimeError) as error:  # a host's name that can be none; no thread to look it up
                raise httpx2.ConnectError(str(error)) from error
            protocol = connection.protocol
            assert protocol is not None
            if protocol not in self._used:  # a server may well speak first: "too many connections"
                self._used.add(protocol)
                return connection
            if not protocol.should_close and not _has_news(protocol.transport):
                return connection
            connection.close()


def _has_news(transport: asyncio.Transport | None) -> bool:
    """Whether something has come that the event loop has not read yet: bytes, or the connection's end."""
    if transport is None:
        return True
    connected = transport.get_extra_info("socket").fileno()
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([connected], [], [], 0)[0])
    waiting = select.poll()
    waiting.register(connected, select.POLLIN)
    return bool(waiting.poll(0))


class _Body(httpx2.AsyncByteStream):
    """A response's body that tells when it is done with. Closed before its end, it closes the connection as well."""

    def __init__(self, response: aiohttp.ClientResponse, done: Callable[[], None]) -> None:
        self._response = response
        self._done: Callable[[], None] | None = done

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_httpx2():
            async for chunk in self._response.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            self._response.close()
            done()


@contextmanager
def _as_httpx2() -> Iterator[None]:
    """Failures as httpx2 would tell them."""
    try:
        yield
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise _translated(error) from error


#: What matters is whether the connection stood when it failed. From the special to the general; anything else is a
#: `ReadError`, for whether it was on the way there or back nobody can tell.
_KINDS: tuple[tuple[type[Exception], type[httpx2.TransportError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx2.ConnectTimeout),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (aiohttp.InvalidURL, httpx2.UnsupportedProtocol),
    (aiohttp.NonHttpUrlClientError, httpx2.UnsupportedProtocol),
    (TimeoutError, httpx2.ReadTimeout),
    (aiohttp.ServerDisconnectedError, httpx2.RemoteProtocolError),
    (aiohttp.ClientPayloadError, httpx2.RemoteProtocolError),
    (aiohttp.ClientResponseError, httpx2.RemoteProtocolError),
)


def _translated(error: Exception) -> httpx2.TransportError:
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), httpx2.ReadError)
    return kind(" ".join(_words(error).split()))


def _words(error: Exception) -> str:
    """What went wrong, without aiohttp's account of where it was going."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"SSL: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            return str(error.os_error)
        case aiohttp.ClientResponseError():
            return f"no HTTP response: {error.message}"
        case _:
            return str(error)


def _body(request: httpx2.Request) -> bytes | httpx2.SyncByteStream | httpx2.AsyncByteStream | None:
    """Bytes, or a stream of them where they are many or not at hand; aiohttp takes the length from the headers."""
    try:
        content = request.content
    except httpx2.RequestNotRead:
        return request.stream
    return (content or None) if len(content) <= _LARGE_BODY else request.stream


def _timeout(wanted: Mapping[str, float | None]) -> aiohttp.ClientTimeout:
    """Looking up a name is part of connecting, and is what takes its time where there is no network."""
    return aiohttp.ClientTimeout(total=None, connect=wanted.get("connect"), sock_read=wanted.get("read"))


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that probes an idle connection, as far as the system knows how."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # macOS has another name for the first one.
    idle = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)
    for option, value in (
        (idle, _PROBE_EVERY_S),
        (getattr(socket, "TCP_KEEPINTVL", None), _PROBE_EVERY_S),
        (getattr(socket, "TCP_KEEPCNT", None), _PROBES),
    ):
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
