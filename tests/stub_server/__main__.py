"""`python tests/stub_server --port 0`: a stub in a process of its own, which prints one line of JSON with its URL."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

# Python put this folder first; the package is found beside it, and its modules must not hide installed ones.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from stub_server.server import StubServer  # noqa: E402
from stub_server.settings import settings_from  # noqa: E402


def main() -> None:
    """Serve until SIGTERM or SIGINT, or with --with-parent until standard input ends."""
    parser = argparse.ArgumentParser(prog="stub_server", description="A stub of model providers on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--settings", type=json.loads, default={}, help="settings as a JSON object; see settings.py")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input ends")
    given = parser.parse_args()
    server = StubServer(settings_from(given.settings), port=given.port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    if given.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    server.run(ready=lambda: print(json.dumps({"url": server.url, "pid": os.getpid()}), flush=True))


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


main()
