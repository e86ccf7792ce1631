"""What is wrong with a model is found before the other model's probes are paid; what only a call can tell is a note."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosted_workspace import BRAIN, KEY, KEY_VARIABLE, Processes, environment, ledger_of, rows_of, write_workspace
from stub_server import Rule, Script, StubServer
from stub_server.brains import brain_from

pytestmark = pytest.mark.slow

PAIR = ("--generator", "oai-writer", "--verifier", "ant-judge", "--probes", "1", "--tasks", "1", "--json")
KNOWN = ["writer-1", "judge-1"]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path / "output") as processes:
        yield processes


@pytest.fixture
def server(stub: StubServer) -> StubServer:
    stub.settings.keys = {KEY}
    stub.settings.brain = brain_from(BRAIN)
    stub.settings.models = KNOWN
    return stub


def workspace(server: StubServer, folder: Path, ant: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A workspace whose judge's endpoint differs as `ant` says."""
    common = {"api_key_env": KEY_VARIABLE, "timeout_s": 20}
    endpoints = {
        "oai": {"base_url": server.openai_url, **common},
        "ant": {"protocol": "anthropic", "base_url": server.anthropic_url, **common, **(ant or {})},
    }
    return write_workspace(folder, server.openai_url, server.anthropic_url, endpoints=endpoints, **changes)


def refused(processes: Processes, server: StubServer, folder: Path, **env: str) -> str:
    """The one message of an audit that did not begin, although its generator could have."""
    child = processes.radar(folder, "audit", "letters", *PAIR, env=environment(**env))
    assert child.code == 4, child.err
    assert child.out == ""
    assert server.log.calls == []
    assert "Traceback" not in child.err
    line: str = child.err.strip().splitlines()[-1]
    assert line.startswith("Error: ")
    return line


def test_a_judge_that_its_endpoint_denies_ends_the_audit_before_a_probe_is_paid(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    server.settings.models = ["writer-1"]
    folder = workspace(server, tmp_path / "w")
    line = refused(processes, server, folder)
    assert "endpoint ant, model judge-1: HTTP 404: the endpoint does not know the model judge-1" in line
    assert "correct its name in radar.yaml, or set `look_up: false` under endpoints.ant" in line
    assert not list(folder.rglob("*.parquet"))


def test_a_judges_wrong_key_ends_the_audit_before_a_probe_is_paid(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    folder = workspace(server, tmp_path / "w", {"api_key_env": "OTHER_KEY"})
    line = refused(processes, server, folder, OTHER_KEY="sk-not-the-right-one-1")
    assert "endpoint ant, model judge-1: HTTP 401" in line
    assert "is the key in OTHER_KEY right?" in line
    assert "sk-not" not in line


def test_a_judge_at_an_address_where_nobody_is_ends_the_audit_before_a_probe_is_paid(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        gone = f"http://127.0.0.1:{listening.getsockname()[1]}"
    line = refused(processes, server, workspace(server, tmp_path / "w", {"base_url": gone}))
    assert f"endpoint ant, model judge-1: no connection to {gone}" in line


def test_everything_that_is_wrong_is_told_at_once(server: StubServer, tmp_path: Path, processes: Processes) -> None:
    server.settings.models = ["something-else"]
    line = refused(processes, server, workspace(server, tmp_path / "w"))
    assert "endpoint oai, model writer-1" in line
    assert "endpoint ant, model judge-1" in line


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("it lists nothing", "note: ant/judge-1: {url} answers, but lists no models"),
        ("the key may not list", "note: endpoint ant, model judge-1: HTTP 403"),
        ("the listing is broken", "note: endpoint ant, model judge-1: HTTP 500"),
        ("the listing is a web page", "note: endpoint ant, model judge-1: the reply is a web page"),
        ("radar.yaml says not to ask", None),
    ],
)
def test_a_judge_that_may_answer_all_the_same_is_called_after_a_note(
    server: StubServer, tmp_path: Path, processes: Processes, why: str, said: str | None
) -> None:
    kinds = {"the key may not list": "forbidden", "the listing is broken": "server_error"}
    page = "GET /v1/models/judge-1"
    if why == "it lists nothing":
        server.settings.models = None
    elif said is not None:
        server.settings.script = Script([Rule(kinds.get(why, "html_body"), path=page)])
    folder = workspace(server, tmp_path / "w", {"look_up": said is not None})
    child = processes.radar(folder, "audit", "letters", *PAIR)
    assert child.code in (0, 1, 3), child.err
    assert len(server.log.calls) == 6 + 18
    asked = [record for record in server.log.records if record.method == "GET" and record.protocol == "anthropic"]
    if said is None:
        assert asked == []
        assert "note: " not in child.err
    else:
        assert said.format(url=server.anthropic_url) in child.err


def test_what_the_ledger_answers_needs_neither_network_nor_key(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    folder = workspace(server, tmp_path / "w")
    first = processes.radar(folder, "audit", "letters", *PAIR)
    assert first.code in (0, 1, 3), first.err
    assert server.log.paths["GET /v1/models/{id}"] == 2  # each model once
    server.stop()
    keyless = {name: value for name, value in environment().items() if name != KEY_VARIABLE}
    again = processes.radar(folder, "audit", "letters", *PAIR, env=keyless)
    assert (again.code, again.document["leakage"]) == (first.code, first.document["leakage"])
    shutil.rmtree(folder / ".radar" / "lake")  # the ledger alone has it all
    without_tables = processes.radar(folder, "audit", "letters", *PAIR, env=keyless)
    assert (without_tables.code, without_tables.document["leakage"]) == (first.code, first.document["leakage"])
    assert len(rows_of(ledger_of(folder))) == 24


def test_so_it_is_with_baselines(server: StubServer, tmp_path: Path, processes: Processes) -> None:
    folder = workspace(server, tmp_path / "w")
    assert processes.radar(folder, "audit", "letters", *PAIR).code in (0, 1, 3)
    first = processes.radar(folder, "audit", "letters", *PAIR, "--baselines")
    assert first.code in (0, 1, 3), first.err
    made = len(server.log.calls)
    assert made > 24
    server.stop()
    keyless = {name: value for name, value in environment().items() if name != KEY_VARIABLE}
    again = processes.radar(folder, "audit", "letters", *PAIR, "--baselines", env=keyless)
    assert (again.code, again.document["leakage"]) == (first.code, first.document["leakage"])
    assert len(rows_of(ledger_of(folder))) == made
    spent = [line for line in again.err.splitlines() if line.startswith("Spent: $0.00 this time, $")]
    assert len(spent) == 1
    shutil.rmtree(folder / ".radar")
    assert "no key" in processes.radar(folder, "audit", "letters", *PAIR, "--baselines", env=keyless).err
