"""Connections that are each a pool of their own, against a server that counts them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import pytest

from radar_dagster.models.providers.lanes import Lanes

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass
class Counting:
    """An HTTP server. `gate` holds back replies; what a path says goes wrong."""

    url: str = ""
    connections: int = 0
    open: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split()[1]
                await self.gate.wait()
                if path == b"/drop":
                    return
                writer.write(OK[:-1] if path == b"/half" else OK)
                await writer.drain()
                if path in (b"/half", b"/last"):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def lanes(idle_s: float = 5.0, most: int = 20) -> AsyncIterator[tuple[Counting, httpx2.AsyncClient]]:
    told = Counting()
    told.gate.set()
    server = await asyncio.start_server(told.serve, "127.0.0.1")
    told.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = Lanes(httpx2.create_ssl_context(), most, idle_s)
    async with httpx2.AsyncClient(transport=transport, base_url=told.url) as client:
        yield told, client
    server.close()


def run(test: Callable[[Counting, httpx2.AsyncClient], Awaitable[None]], idle_s: float = 5.0, most: int = 20) -> None:
    async def inside() -> None:
        async with asyncio.timeout(10), lanes(idle_s, most) as (told, client):
            await test(told, client)

    asyncio.run(inside())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_calls_one_after_the_other_share_a_connection() -> None:
    async def calls(told: Counting, client: httpx2.AsyncClient) -> None:
        for _ in range(5):
            assert (await client.get("/")).content == b"ok"
        assert told.connections == 1

    run(calls)


def test_calls_at_once_have_a_connection_each_and_later_calls_use_them_again() -> None:
    async def calls(told: Counting, client: httpx2.AsyncClient) -> None:
        for _ in range(3):
            told.gate.clear()
            waiting = [asyncio.create_task(client.get("/")) for _ in range(20)]
            await until(lambda: told.connections == 20)
            told.gate.set()
            assert {response.content for response in await asyncio.gather(*waiting)} == {b"ok"}
        assert told.connections == 20

    run(calls)


def test_more_calls_than_lanes_wait_for_one_even_if_some_are_given_up() -> None:
    async def calls(told: Counting, client: httpx2.AsyncClient) -> None:
        told.gate.clear()
        waiting = [asyncio.create_task(client.get("/")) for _ in range(9)]
        await until(lambda: told.connections == 3)
        await asyncio.sleep(0.05)
        for given_up in (waiting[0], waiting[4]):  # one that is under way, one that waits
            given_up.cancel()
        told.gate.set()
        replies = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(reply, httpx2.Response) for reply in replies) == 7
        assert told.connections == 4

    run(calls, most=3)


@pytest.mark.parametrize("path", ["/drop", "/half"])
def test_a_call_that_fails_leaves_its_lane_to_others(path: str) -> None:
    async def calls(told: Counting, client: httpx2.AsyncClient) -> None:
        for _ in range(3):
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.get(path)
            assert (await client.get("/")).content == b"ok"
        assert told.connections == 4  # the good connection was used again before each failure but the first
        assert len(client._transport._all) == 1  # type: ignore[attr-defined]

    run(calls)


def test_a_cancelled_call_closes_its_connection_and_its_lane_is_used_again() -> None:
    async def calls(told: Counting, client: httpx2.AsyncClient) -> None:
        told.gate.clear()
        waiting = asyncio.create_task(client.get("/"))
        await until(lambda: told.connections == 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        told.gate.set()
        await until(lambda: told.open == 0)
        assert (await client.get("/")).content == b"ok"
        assert told.connections == 2

    run(calls)


def test_a_body_that_is_given_up_frees_the_lane() -> None:
    async def calls(told: Counting, client: httpx2.AsyncClient) -> None:
        async with client.stream("GET", "/") as response:
            assert response.status_code == 200
        assert (await client.get("/")).content == b"ok"
        assert len(client._transport._all) == 1  # type: ignore[attr-defined]

    run(calls)


def test_a_connection_that_the_server_has_closed_is_replaced() -> None:
    async def calls(told: Counting, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/last")).content == b"ok"
        await until(lambda: told.open == 0)
        assert (await client.get("/")).content == b"ok"
        assert told.connections == 2

    run(calls)


def test_a_connection_that_was_idle_for_too_long_is_replaced() -> None:
    async def calls(told: Counting, client: httpx2.AsyncClient) -> None:
        await client.get("/")
        await asyncio.sleep(0.1)
        await client.get("/")
        assert told.connections == 2

    run(calls, idle_s=0.05)


def test_closing_the_client_closes_all_connections() -> None:
    async def calls() -> Counting:
        async with lanes() as (told, client):
            told.gate.clear()
            waiting = [asyncio.create_task(client.get("/")) for _ in range(3)]
            await until(lambda: told.open == 3)
            told.gate.set()
            await asyncio.gather(*waiting)
            assert told.open == 3
        await until(lambda: told.open == 0)
        return told

    assert asyncio.run(calls()).connections == 3
