"""Looking up names. The system's own look-up is replaced where it shall hang, which no test can make it do."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import httpx2
import pytest

from radar_dagster.models.providers.names import Resolver
from radar_dagster.models.providers.transport import Transport


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: over.wait(20) and [])
    yield
    over.set()


@pytest.mark.usefixtures("hanging")
def test_nobody_waits_for_a_look_up_that_hangs() -> None:
    async def call() -> None:
        transport = Transport(httpx2.create_ssl_context(), 4, 4)
        async with httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(5, connect=0.2)) as client:
            for _ in range(2):
                with pytest.raises(httpx2.ConnectTimeout):
                    await client.get("http://somewhere.test")

    began = time.monotonic()
    asyncio.run(call())
    assert time.monotonic() - began < 2
    left = [thread for thread in threading.enumerate() if thread.name == "look-up"]
    assert left
    assert all(thread.daemon for thread in left)  # the process ends without them


@pytest.mark.parametrize("port", [0, 80])
def test_a_name_has_the_addresses_that_the_system_knows(port: int) -> None:
    found = asyncio.run(Resolver().resolve("localhost", port, socket.AF_UNSPEC))
    known = socket.getaddrinfo("localhost", port, socket.AF_UNSPEC, socket.SOCK_STREAM)
    assert [(each["family"], each["host"], each["port"]) for each in found] == [
        (family, address[0], port) for family, _, _, _, address in known
    ]
    assert {each["hostname"] for each in found} == {"localhost"}


@pytest.mark.parametrize(("name", "failure"), [("nowhere.invalid", OSError), ("two..dots", UnicodeError)])
def test_a_name_without_addresses_is_told_as_that(name: str, failure: type[Exception]) -> None:
    with pytest.raises(failure):
        asyncio.run(Resolver().resolve(name))
