"""Requests carried by aiohttp, against servers that count connections, keep what they got and answer anything."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.models.providers.transport import Transport, _socket

CERTIFICATES = httpx2.create_ssl_context()
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass
class Counting:
    """An HTTP server. `gate` holds back replies; what a path says goes wrong."""

    url: str = ""
    connections: int = 0
    open: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    #: What every connection so far is written to with.
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
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
async def connected(
    idle_s: float = 5.0, most: int = 20, certificate: Path | None = None
) -> AsyncIterator[tuple[Counting, httpx2.AsyncClient]]:
    """With a certificate (and its key, in one file), over TLS."""
    told = Counting()
    told.gate.set()
    theirs, ours = None, CERTIFICATES
    if certificate is not None:
        theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        theirs.load_cert_chain(certificate)
        ours = ssl.create_default_context(cafile=certificate)
    server = await asyncio.start_server(told.serve, "127.0.0.1", ssl=theirs)
    told.url = f"{'http' if theirs is None else 'https'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = Transport(ours, most, idle_s)
    async with httpx2.AsyncClient(transport=transport, base_url=told.url) as client:
        yield told, client
    server.close()


def run(test: Callable[[Counting, httpx2.AsyncClient], Awaitable[None]], idle_s: float = 5.0, most: int = 20) -> None:
    async def inside() -> None:
        async with asyncio.timeout(10), connected(idle_s, most) as (told, client):
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


def test_more_calls_than_places_wait_for_one_even_if_some_are_given_up() -> None:
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
def test_a_call_that_fails_leaves_its_place_to_others(path: str) -> None:
    async def calls(told: Counting, client: httpx2.AsyncClient) -> None:
        for _ in range(3):
            with pytest.raises(httpx2.RemoteProtocolError):
                await client.post(path)
            assert (await client.get("/")).content == b"ok"
        assert told.connections == 4  # the good connection was used again before each failure but the first

    run(calls, most=1)


def test_a_cancelled_call_closes_its_connection_and_its_place_is_used_again() -> None:
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

    run(calls, most=1)


def test_a_body_that_is_given_up_frees_its_place() -> None:
    async def calls(told: Counting, client: httpx2.AsyncClient) -> None:
        async with client.stream("GET", "/") as response:
            assert response.status_code == 200
        assert (await client.get("/")).content == b"ok"

    run(calls, most=1)


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
        async with connected() as (told, client):
            told.gate.clear()
            waiting = [asyncio.create_task(client.get("/")) for _ in range(3)]
            await until(lambda: told.open == 3)
            told.gate.set()
            await asyncio.gather(*waiting)
            assert told.open == 3
        await until(lambda: told.open == 0)
        return told

    assert asyncio.run(calls()).connections == 3


# What comes between two calls is no reply to the second


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 that vouches for itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    made = tmp_path_factory.mktemp("tls") / "server.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([openssl, *words.split(), "-keyout", made, "-out", f"{made}.crt"], check=True, capture_output=True)
    made.write_text(made.read_text() + Path(f"{made}.crt").read_text())
    return made


UNASKED = [
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno",
    b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno",
    b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nno",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n",
    b"no",
    b"",  # the end of the connection
]


def unasked(said: bytes, *, noticed: bool, certificate: Path | None = None) -> None:
    """A server says something of its own accord; the event loop has read it (`noticed`) or not when a call begins."""

    async def inside() -> None:
        async with asyncio.timeout(10), connected(most=1, certificate=certificate) as (told, client):
            for number in range(1, 4):
                assert (await client.get("/")).content == b"ok"
                assert told.connections == number
                writer = told.writers[-1]
                writer.write(said) if said else writer.close()
                if noticed:
                    await asyncio.sleep(0.02)
            assert (await client.get("/")).content == b"ok"

    asyncio.run(inside())


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("said", UNASKED)
def test_what_nobody_asked_for_is_no_reply_to_the_next_call(said: bytes, noticed: bool) -> None:
    unasked(said, noticed=noticed)


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("said", UNASKED)
def test_over_tls_neither(said: bytes, noticed: bool, certificate: Path) -> None:
    unasked(said, noticed=noticed, certificate=certificate)


def test_a_server_may_speak_first() -> None:
    async def inside() -> int:
        full = b"HTTP/1.1 503 Full\r\n\r\n"
        async with asyncio.timeout(10), answering(full, after=b"") as (url, _), client_of() as client:
            return (await client.get(url)).status_code

    assert asyncio.run(inside()) == 503


# What goes out is what httpx2 made of the request


@asynccontextmanager
async def answering(answer: bytes, *, after: bytes = b"\r\n\r\n") -> AsyncIterator[tuple[str, bytearray]]:
    """A server that says one thing to everybody once it has read so far, and hangs up; and what it has read."""
    got = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while after not in got[-(2**17) :] and (piece := await reader.read(2**16)):
                got.extend(piece)
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", got
    server.close()


@asynccontextmanager
async def client_of() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(transport=Transport(CERTIFICATES, 4, 5), timeout=5) as client:
        yield client


def sent(send: Callable[[httpx2.AsyncClient, str], Awaitable[object]], *, after: bytes = b"\r\n\r\n") -> bytes:
    """What arrives at a server."""

    async def inside() -> bytes:
        async with asyncio.timeout(10), answering(OK, after=after) as (url, got), client_of() as client:
            await send(client, url)
            return bytes(got)

    return asyncio.run(inside())


def test_no_header_is_added() -> None:
    async def send(client: httpx2.AsyncClient, url: str) -> None:
        request = httpx2.Request("POST", url, headers={"Host": "x.test", "X-One": "1"}, content=b"")
        await client.send(request)

    lines = sent(send).split(b"\r\n")
    assert lines[0] == b"POST / HTTP/1.1"
    assert {line.lower() for line in lines[1:] if line} == {b"host: x.test", b"x-one: 1", b"content-length: 0"}


def test_a_path_stays_as_it_was_written() -> None:
    wanted = "/deployments/a%2Fb%20c%C3%A4/x?api-version=2024-10-21&q=%2B"
    assert sent(lambda client, url: client.get(url + wanted)).startswith(f"GET {wanted} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize("size", [1, 2**20, 2**20 + 1, 5 * 2**20])
@pytest.mark.filterwarnings("error")  # aiohttp warns of large bodies
def test_a_body_of_any_size_arrives_whole(size: int) -> None:
    body = b"x" * (size - 1) + b"."
    got = sent(lambda client, url: client.post(url, content=body), after=b"x." if size > 1 else b"\r\n\r\n.")
    head, _, arrived = got.partition(b"\r\n\r\n")
    assert arrived == body
    assert f"content-length: {size}".encode() in head.lower()
    assert b"transfer-encoding" not in head.lower()


def test_a_file_arrives_whole_and_with_its_length() -> None:
    content = b"line\n" * 100_000
    got = sent(lambda client, url: client.post(url, files={"file": ("a.jsonl", content)}), after=b"--\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    assert content in body
    assert f"content-length: {len(body)}".encode() in head.lower()
    assert b"transfer-encoding" not in head.lower()


def test_connections_are_probed_when_idle() -> None:
    made = _socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1)))
    with made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


# What comes back


def received(answer: bytes) -> httpx2.Response:
    """What becomes of an answer."""

    async def inside() -> httpx2.Response:
        async with asyncio.timeout(10), answering(answer) as (url, _), client_of() as client:
            return await client.get(url)

    return asyncio.run(inside())


def test_a_response_is_told_as_it_is() -> None:
    head = b"HTTP/1.1 529 Site Is Overloaded\r\nRetry-After: 7\r\nx-a: 1\r\nx-a: 2\r\ncontent-length: 2\r\n\r\nno"
    response = received(head)
    assert (response.status_code, response.reason_phrase, response.content) == (529, "Site Is Overloaded", b"no")
    assert response.headers.get_list("x-a") == ["1", "2"]
    assert response.headers["retry-after"] == "7"


def test_a_status_may_be_explained_in_any_letters_and_headers_may_be_many() -> None:
    response = received(b"HTTP/1.1 400 Ung\xfcltig\r\ncontent-length: 2\r\n\r\nno")
    assert (response.status_code, response.content) == (400, b"no")
    assert response.extensions["reason_phrase"] == b"Ung\xfcltig"
    many = b"".join(b"x-%d: y\r\n" % number for number in range(200))
    assert len(received(b"HTTP/1.1 200 OK\r\n" + many + b"content-length: 0\r\n\r\n").headers) == 201


def test_bodies_in_chunks_and_up_to_the_end_are_read_whole() -> None:
    chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert received(chunks).content == b"abcde"
    assert received(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabcde").content == b"abcde"


def test_nothing_is_unpacked() -> None:
    packed = gzip.compress(b"x" * 10_000)
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}\r\n\r\n".encode()

    async def inside() -> bytes:
        async with asyncio.timeout(10), answering(head + packed) as (url, _), client_of() as client:
            response = await client.send(httpx2.Request("GET", url), stream=True)
            return b"".join([chunk async for chunk in response.aiter_raw()])

    assert asyncio.run(inside()) == packed


def test_a_redirect_is_not_followed() -> None:
    assert received(b"HTTP/1.1 307 X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n").status_code == 307


# How it fails: whether the connection stood decides whether a call may have been paid for


def failure(send: Callable[[httpx2.AsyncClient], Awaitable[object]]) -> httpx2.TransportError:
    async def inside() -> httpx2.TransportError:
        async with asyncio.timeout(15), client_of() as client:
            with pytest.raises(httpx2.TransportError) as raised:
                await send(client)
            return raised.value

    return asyncio.run(inside())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_closed_port_is_no_connection(host: str) -> None:
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        error = failure(lambda client: client.get(f"http://{host}:{taken.getsockname()[1]}"))
    assert type(error) is httpx2.ConnectError
    assert "Connect call failed" in str(error) or "Cannot assign" in str(error)
    assert "ssl:" not in str(error)  # aiohttp names it even where there is none


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", ["nowhere.invalid", "two..dots.invalid", f"{'long' * 20}.invalid", "1.2.3"])
def test_a_name_that_nobody_knows_is_no_connection(scheme: str, host: str) -> None:
    error = failure(lambda client: client.get(f"{scheme}://{host}"))
    assert isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)  # the second where no name server answers


def test_a_server_without_tls_is_no_connection() -> None:
    async def send(client: httpx2.AsyncClient) -> None:
        async with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n", after=b"") as (url, _):
            await client.get(url.replace("http:", "https:"))

    error = failure(send)
    assert type(error) is httpx2.ConnectError
    assert "SSL" in str(error)


def test_a_connection_that_does_not_come_to_stand_in_time_is_told_as_that() -> None:
    async def send(client: httpx2.AsyncClient) -> None:
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            address = full.getsockname()
            waiting = [socket.socket() for _ in range(3)]  # until there is no more room for those who wait
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(address)
            try:
                await client.get(f"http://127.0.0.1:{address[1]}", timeout=httpx2.Timeout(5, connect=0.2))
            finally:
                for one in waiting:
                    one.close()

    assert type(failure(send)) is httpx2.ConnectTimeout


def test_silence_after_the_request_is_a_timeout_of_reading() -> None:
    async def send(client: httpx2.AsyncClient) -> None:
        async with answering(b"", after=b"never") as (url, _):
            await client.get(url, timeout=httpx2.Timeout(5, read=0.1))

    assert type(failure(send)) is httpx2.ReadTimeout


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
        b"HTTP/1.1 099 X\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2**17 + b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
    ],
)
def test_what_breaks_after_the_request_went_out_never_passes_for_no_connection(answer: bytes) -> None:
    async def send(client: httpx2.AsyncClient) -> None:
        async with answering(answer) as (url, _):
            await client.post(url, content=b"{}")

    error = failure(send)
    assert isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError)
    assert str(error).strip()
    assert "\n" not in str(error)


def test_a_large_request_that_is_cut_off_never_passes_for_no_connection() -> None:
    async def send(client: httpx2.AsyncClient) -> None:
        async def cut_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.transport.abort()

        server = await asyncio.start_server(cut_off, "127.0.0.1")
        try:
            await client.post(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", content=b"x" * 2**24)
        finally:
            server.close()

    assert isinstance(failure(send), httpx2.RemoteProtocolError | httpx2.ReadError)


PIECES = [
    b"HTTP/1.1 ", b"HTTP/1.0 ", b"200", b"999", b"-1", b" OK", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\0", b"\xff",
    b"content-length: ", b"transfer-encoding: chunked", b"connection: close", b"set-cookie: a=b", b"5", b"0", b"abc",
    b"content-encoding: gzip", b": ", b"1\r\na\r\n0\r\n\r\n", b"location: http://[", b"upgrade: h2c", b"101",
    b"100", b"204",
]  # fmt: skip


@pytest.mark.slow
@given(st.lists(st.sampled_from(PIECES), max_size=14).map(b"".join) | st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_whatever_a_server_says_is_a_response_or_a_failure_of_the_transport(said: bytes) -> None:
    async def inside() -> None:
        for answer in (said, b"HTTP/1.1 200 OK\r\n" + said):
            async with asyncio.timeout(10), answering(answer) as (url, _), client_of() as client:
                with suppress(httpx2.TransportError):
                    async with client.stream("GET", url) as response:
                        _ = [chunk async for chunk in response.aiter_raw()]

    asyncio.run(inside())
