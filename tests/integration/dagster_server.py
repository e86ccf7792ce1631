"""`dagster dev` on loopback as a context manager, with just enough GraphQL to launch a backfill and wait for it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LAUNCH = """
mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}"""
_RELOAD = """
mutation($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) {
    __typename
    ... on WorkspaceLocationEntry { loadStatus }
    ... on PythonError { message }
  }
}"""
_STATUS = """
query($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status error { message } } }
}"""


@dataclass
class Server:
    """A running `dagster dev`."""

    url: str
    log: Path

    def query(self, document: str, **variables: Any) -> dict[str, Any]:
        """POST a GraphQL document; AssertionError on errors."""
        body = json.dumps({"query": document, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        assert not answer.get("errors"), answer["errors"]
        data: dict[str, Any] = answer["data"]
        return data

    def reload(self) -> None:
        """Load the code location again, as the button in the UI does."""
        answer = self.query(_RELOAD, name="radar_dagster.definitions")["reloadRepositoryLocation"]
        assert answer["__typename"] == "WorkspaceLocationEntry", answer
        assert answer["loadStatus"] == "LOADED", answer

    def backfill(self, assets: Sequence[str], partitions: Sequence[str], timeout_s: float = 600) -> str:
        """Launch a backfill of the assets' partitions, wait for its end and return its status."""
        params = {"assetSelection": [{"path": [asset]} for asset in assets], "partitionNames": list(partitions)}
        launched = self.query(_LAUNCH, params=params)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            state = self.query(_STATUS, id=launched["backfillId"])["partitionBackfillOrError"]
            if state["status"] not in {"REQUESTED", "CANCELING"}:
                return str(state["status"])
            time.sleep(1)
        raise AssertionError(f"backfill still {state} after {timeout_s} s; {self.log.read_text()[-2000:]}")


@contextmanager
def dagster_dev(workspace: Path, home: Path) -> Iterator[Server]:
    """Serve the workspace's definitions; ended with its daemon and code server on exit."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text(
        "telemetry: {enabled: false}\nnux: {enabled: false}\nconcurrency: {runs: {max_concurrent_runs: 4}}\n"
    )
    port = _free_port()
    log = home / "dev.log"
    command = ["-m", "dagster", "dev", "-m", "radar_dagster.definitions", "-h", "127.0.0.1", "-p", str(port)]
    environment = {**os.environ, "DAGSTER_HOME": str(home), "RADAR_WORKSPACE": str(workspace)}
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=workspace,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(f"http://127.0.0.1:{port}", log)
    try:
        _wait_until_served(server, process)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _wait_until_served(server: Server, process: subprocess.Popen[bytes], timeout_s: float = 120) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        assert process.poll() is None, server.log.read_text()[-2000:]
        try:
            server.query("{ repositoriesOrError { __typename ... on RepositoryConnection { nodes { name } } } }")
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"not served after {timeout_s} s; {server.log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
