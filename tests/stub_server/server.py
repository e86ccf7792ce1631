"""Running a stub: in a thread of this process, or in a process of its own.

Here: sockets, threads, processes. Not here: what is answered (`app.py`).
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from uvicorn.config import Config
from uvicorn.server import ServerState

from stub_server.app import App
from stub_server.log import Log
from stub_server.settings import Settings
from stub_server.wire import Protocol

try:
    from uvloop import new_event_loop
except ImportError:  # Windows
    new_event_loop = asyncio.new_event_loop  # type: ignore[assignment]


class _Addresses:
    url: str

    @property
    def openai_url(self) -> str:
        """`base_url` of an OpenAI client."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """`base_url` of an Anthropic client."""
        return self.url

    @property
    def azure_url(self) -> str:
        """`azure_endpoint` of an Azure client; Azure's v1 API is at /openai/v1 below it."""
        return self.url


class StubServer(_Addresses):
    """A stub in a background thread; a context manager. Keyword arguments are fields of `Settings`.

    `settings` may be changed and `log` be read at any time.
    """

    def __init__(self, settings: Settings | None = None, *, port: int = 0, **fields: Any) -> None:
        self.settings = settings or Settings(**fields)
        self.log = Log()
        self.app = App(self.settings, self.log)
        self._port = port
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._socket: socket.socket | None = None

    def start(self) -> Self:
        """Listen on loopback, and answer in a thread of its own."""
        self._listen()
        self._thread = threading.Thread(target=self.run, name="stub server", daemon=True)
        self._thread.start()
        if not self._started.wait(10):
            raise RuntimeError("the stub server did not start within ten seconds")
        return self

    def stop(self) -> None:
        """Cut all connections and end the thread."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._thread = None

    def run(self, ready: Callable[[], None] | None = None) -> None:
        """Listen and answer in this thread until the loop is stopped; `ready` is called when the port is open."""
        self._listen()
        state = ServerState()
        config = Config(
            self.app,
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=3600,
        )
        config.load()

        def connect() -> Protocol:
            return Protocol(config=config, server_state=state, app_state={}, _loop=self._loop)

        server = self._loop.run_until_complete(self._loop.create_server(connect, sock=self._socket, backlog=2048))
        self._started.set()
        if ready is not None:
            ready()
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(_hang_up(state))
        self._loop.close()

    def quit(self) -> None:
        """End `run`; for signal handlers and other threads."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def reset(self) -> None:
        """Forget what was logged."""
        self.log.clear()

    def wait_until(self, condition: Callable[[Log], bool], timeout: float = 10.0) -> None:
        """Wait until the log is as wanted; TimeoutError if it does not come to that."""
        _wait(lambda: condition(self.log), timeout, 0.005)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _listen(self) -> None:
        if self._socket is None:
            self._loop = new_event_loop()
            self._socket = socket.create_server(("127.0.0.1", self._port), backlog=2048)
            self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"


async def _hang_up(state: ServerState) -> None:
    for connection in list(state.connections):
        connection.transport.abort()
    await asyncio.sleep(0)  # every connection learns that it is lost before its task is cancelled
    await asyncio.sleep(0)
    tasks = list(state.tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class StubProcess(_Addresses):
    """A stub in a process of its own; a context manager. Keyword arguments are settings in their JSON form.

    It ends with the process that started it, however that ends.
    """

    pid: int

    def __init__(self, *, port: int = 0, **settings: Any) -> None:
        self._command = [sys.executable, str(Path(__file__).parent), "--port", str(port), "--with-parent"]
        self._command += ["--settings", json.dumps(settings)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the process and wait for its address."""
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the stub server ended with {self._process.wait()} before it listened")
        told = json.loads(line)
        self.url, self.pid = told["url"], told["pid"]
        return self

    def stop(self) -> None:
        """End the process, all its connections and what it remembers."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def counters(self) -> dict[str, Any]:
        """GET /_stub/counters."""
        counters: dict[str, Any] = self._ask("counters")
        return counters

    def records(self, since: int = 0) -> list[dict[str, Any]]:
        """GET /_stub/log: the fields of `Record`, from number `since` + 1 on."""
        rows: list[dict[str, Any]] = self._ask(f"log?since={since}")
        return rows

    def reset(self) -> None:
        """Forget what was logged."""
        self._ask("reset", {})

    def script(self, script: Mapping[str, Any]) -> None:
        """Set the script; see `Script.from_json`, and `Script.to_json` for one that exists."""
        self._ask("script", script)

    def change(self, **settings: Any) -> None:
        """Change settings, in their JSON form."""
        self._ask("settings", settings)

    def wait_until(self, condition: Callable[[dict[str, Any]], bool], timeout: float = 10.0) -> None:
        """Wait until the counters are as wanted; TimeoutError if it does not come to that."""
        _wait(lambda: condition(self.counters()), timeout, 0.05)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _ask(self, name: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_stub/{name}", data)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)


def _wait(condition: Callable[[], bool], timeout: float, pause: float) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the stub server did not see what was waited for within {timeout:g} s")
        time.sleep(pause)
