"""`radar dev`: the Dagster UI on this workspace.

Not here: the definitions that it opens (`definitions.py`).
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from typing import NoReturn

from radar_dagster.cli import output
from radar_dagster.config import WORKSPACE_VARIABLE, current_workspace, workspace_file
from radar_dagster.errors import BadInputError


def run(*, host: str, port: int, as_json: bool) -> NoReturn:
    """Become `dagster dev`, with this workspace's instance and configuration; Ctrl-C ends it."""
    from radar_dagster.runs import open_instance

    _check_port(host, port)
    workspace = current_workspace()
    open_instance(workspace).dispose()
    file = workspace_file()
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(workspace.dagster_home),
        WORKSPACE_VARIABLE: str(file or workspace.root),
    }
    url = f"http://{host}:{port}"
    if as_json:
        output.print_json(
            {"url": url, "workspace": environment[WORKSPACE_VARIABLE], "home": str(workspace.dagster_home)}
        )
        sys.stdout.flush()
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    else:
        output.on_stderr(f"Dagster on {url} for {environment[WORKSPACE_VARIABLE]}; Ctrl-C ends it")
    # A shell that starts this in the background has it ignore Ctrl-C, and Dagster would inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-m", "dagster", "dev", "-m", "radar_dagster.definitions", "-h", host, "-p", str(port)]
    os.execve(sys.executable, command, environment)


def _check_port(host: str, port: int) -> None:
    """BadInputError when Dagster could not listen there: it would print its error and go on for ever."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BadInputError(f"--host {host}: {error.strerror or error}") from None
    faults = []
    for family, _, _, _, address in found:
        try:
            socket.create_server(address[:2], family=family).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise BadInputError(f"port {port} is taken; use --port") from None
            faults.append(os.strerror(error.errno) if error.errno else str(error))
    if len(faults) == len(found):
        raise BadInputError(f"cannot listen on {host}:{port}: {faults[0]}")
