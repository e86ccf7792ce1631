"""Looking up names in a way that nobody has to wait for.

Where there is no network, the system takes up to half a minute to say that it knows no such name. asyncio gives up a
look-up at once, but its event loop ends only when the look-up does, and so does the process. Here each look-up has a
thread of its own, which may be left behind.

Not here: how long a look-up may take (`http.py`), connecting (`transport.py`).
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

from aiohttp.abc import AbstractResolver, ResolveResult

_NUMERIC = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV


class Resolver(AbstractResolver):
    """What the system knows of names. aiohttp asks once for all who want the same one, and remembers the answer."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host; OSError when there are none, UnicodeError when the name can be none."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[ResolveResult]] = loop.create_future()

        def look_up() -> None:
            found: list[ResolveResult] | Exception
            try:
                found = _addresses(host, port, family)
            except Exception as error:
                found = error
            with suppress(RuntimeError):  # the loop has gone, and with it whoever wanted to know
                loop.call_soon_threadsafe(_settle, answer, found)

        threading.Thread(target=look_up, name="look-up", daemon=True).start()
        return await answer

    async def close(self) -> None:
        """Nothing is kept open."""


def _settle(answer: asyncio.Future[list[ResolveResult]], found: list[ResolveResult] | Exception) -> None:
    if answer.done():  # given up
        return
    if isinstance(found, Exception):
        answer.set_exception(found)
    else:
        answer.set_result(found)


def _addresses(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    found: list[ResolveResult] = []
    for kind, _, protocol, _, address in socket.getaddrinfo(host, port, family, socket.SOCK_STREAM):
        number, _ = socket.getnameinfo(address, _NUMERIC)  # with the interface, where an address holds on one alone
        found.append(
            ResolveResult(
                hostname=host,
                host=number,
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
        )
    return found
