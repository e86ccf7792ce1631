"""Many connections to one endpoint, each in a pool of its own.

The HTTP library looks through all connections of a pool when a call begins and when it ends, and probes the idle ones:
with a hundred calls in flight that is half of what a call costs. A pool of one connection has nothing to look through.

Here: which pool a call gets. Not here: connecting, keeping alive, HTTP itself (the library's), how many calls may be in
flight (`limits.py`).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable

import httpx2

#: A long silence is no reason for a router in between to forget the connection: a reply may take minutes.
_PROBE_EVERY_S = 60
_PROBES = 5


class Lanes(httpx2.AsyncBaseTransport):
    """At most so many lanes as `most`: further requests wait for one. The lane that was used last is used next.

    For one event loop. A connection that was idle for more than `idle_s` seconds is not used again.
    """

    def __init__(self, certificates: ssl.SSLContext, most: int, idle_s: float) -> None:
        self._certificates = certificates
        self._limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=idle_s)
        self._places = asyncio.Semaphore(most)
        self._all: list[httpx2.AsyncHTTPTransport] = []
        self._free: list[httpx2.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request in a lane of its own, which is free again when the response has been read or given up."""
        await self._places.acquire()
        lane = self._free.pop() if self._free else self._new()
        try:
            response = await lane.handle_async_request(request)
        except BaseException:  # a cancelled call too: the lane has closed its connection
            self._give_back(lane)
            raise
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _LaneStream(response.stream, lambda: self._give_back(lane))
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        for lane in self._all:
            await lane.aclose()

    def _new(self) -> httpx2.AsyncHTTPTransport:
        lane = httpx2.AsyncHTTPTransport(
            verify=self._certificates, limits=self._limits, socket_options=_socket_options()
        )
        self._all.append(lane)
        return lane

    def _give_back(self, lane: httpx2.AsyncHTTPTransport) -> None:
        self._free.append(lane)
        self._places.release()


class _LaneStream(httpx2.AsyncByteStream):
    """A response's body that tells when it is done with."""

    def __init__(self, body: httpx2.AsyncByteStream, done: Callable[[], None]) -> None:
        self._body = body
        self._done: Callable[[], None] | None = done

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._body.__aiter__()

    async def aclose(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            try:
                await self._body.aclose()
            finally:
                done()


def _socket_options() -> list[tuple[int, int, int]]:
    """Probes of idle connections, as far as the system knows them."""
    # macOS has another name for the first one.
    idle = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)
    wanted = (
        (idle, _PROBE_EVERY_S),
        (getattr(socket, "TCP_KEEPINTVL", None), _PROBE_EVERY_S),
        (getattr(socket, "TCP_KEEPCNT", None), _PROBES),
    )
    probes = [(socket.IPPROTO_TCP, option, value) for option, value in wanted if option is not None]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *probes]
