"""What can't go on ends within seconds, with one message that says what to set, and costs nothing."""

from __future__ import annotations

import math
import os
import pty
import re
import select
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic  # noqa: F401 - imported here, its seconds are none of a test's
import openai  # noqa: F401
import pytest
from hosted_workspace import (
    BRAIN,
    KEY,
    KEY_VARIABLE,
    PRICES,
    Processes,
    environment,
    ledger_of,
    rows_of,
    write_workspace,
)
from stub_server import Rule, Script, StubServer
from stub_server.brains import brain_from

from radar_dagster.config import load_workspace
from radar_dagster.errors import OperationalError
from radar_dagster.lake import Lake
from radar_dagster.models.door import Door
from radar_dagster.models.stages import judgement_requests, make_probes, probe_requests

WRITERS = ["oai-writer", "ant-writer"]
#: The first fatal error ends a run within so many seconds.
SOON_S = 5.0


@pytest.fixture
def server(stub: StubServer) -> StubServer:
    stub.settings.keys = {KEY}
    stub.settings.brain = brain_from(BRAIN)
    return stub


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path / "output") as processes:
        yield processes


@pytest.fixture
def folder(server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.delenv("RADAR_LEDGER", raising=False)
    return write_workspace(tmp_path / "workspace", server.openai_url, server.anthropic_url)


@pytest.fixture
def closed_port() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def refusal(folder: Path, writer: str) -> str:
    """What a run says that can't go on, soon."""
    workspace = load_workspace(folder / "radar.yaml")
    door = Door(workspace.door)
    requests = probe_requests(workspace.rubric("letters"), 2)
    started = time.monotonic()
    with pytest.raises(OperationalError) as error:
        door.generate(writer, requests)
    assert time.monotonic() - started < SOON_S
    door.close()
    return str(error.value)


def everywhere(address: str, **more: Any) -> dict[str, Any]:
    """Both endpoints at one address."""
    common = {"api_key_env": KEY_VARIABLE, "base_url": address, **more}
    return {"oai": common, "ant": {"protocol": "anthropic", **common}}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_wrong_key_is_told_with_its_variable(
    server: StubServer, folder: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-this-is-not-it")
    message = refusal(folder, writer)
    endpoint = writer[:3]
    assert f"endpoint {endpoint}, model writer-1: HTTP 401" in message
    assert f"is the key in {KEY_VARIABLE} right?" in message
    assert "sk-this" not in message
    assert server.log.ok == 0


@pytest.mark.parametrize("writer", WRITERS)
def test_a_missing_key_is_told_with_the_variable_to_set(
    server: StubServer, folder: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    assert refusal(folder, writer) == f"endpoint {writer[:3]}: no key; set the environment variable {KEY_VARIABLE}"
    assert server.log.records == []


@pytest.mark.parametrize("writer", WRITERS)
def test_an_unknown_model_is_named(server: StubServer, folder: Path, writer: str) -> None:
    server.settings.models = ["judge-1"]
    message = refusal(folder, writer)
    assert f"endpoint {writer[:3]}, model writer-1: HTTP 404: the endpoint does not know the model writer-1" in message
    assert server.log.ok == 0


@pytest.mark.parametrize("writer", WRITERS)
def test_an_address_without_an_api_is_told_with_the_setting(server: StubServer, tmp_path: Path, writer: str) -> None:
    wrong = f"{server.url}/api/v2"
    folder = write_workspace(tmp_path / "wrong", wrong, wrong)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, KEY)
        message = refusal(folder, writer)
    assert f"nothing answers at {wrong}" in message
    assert "is base_url right (does it lack or repeat /v1)?" in message


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_an_address_may_end_in_v1_or_not(
    server: StubServer, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    folder = write_workspace(tmp_path / "workspace", f"{server.url}{suffix}", f"{server.url}{suffix}")
    workspace = load_workspace(folder / "radar.yaml")
    requests = probe_requests(workspace.rubric("letters"), 1)[:1]
    with Door(workspace.door) as door:
        for writer in WRITERS:
            assert door.generate(writer, requests)[0].reply.state == "ok"


@pytest.mark.parametrize("writer", WRITERS)
def test_a_server_that_is_not_there_is_told_with_its_address(
    tmp_path: Path, writer: str, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    gone = f"http://127.0.0.1:{closed_port}"
    message = refusal(write_workspace(tmp_path / "gone", gone, gone), writer)
    assert f"endpoint {writer[:3]}, model writer-1: no connection to {gone}" in message
    assert "is base_url right, and does a server run there?" in message


@pytest.mark.parametrize("writer", WRITERS)
def test_a_name_that_nobody_knows_is_told_with_the_address(
    tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    nobody = "http://no-such-host.invalid"
    message = refusal(write_workspace(tmp_path / "nobody", nobody, nobody), writer)
    assert f"no connection to {nobody}" in message
    assert "is base_url right" in message


@pytest.mark.parametrize(
    ("ledger", "told"),
    [
        ("postgresql://radar@127.0.0.1:{port}/radar", "set the ledger's URL to a server that runs"),
        ("/proc/no-such-folder/ledger.sqlite", "/proc/no-such-folder/ledger.sqlite"),
    ],
    ids=["no server", "no folder"],
)
def test_without_a_ledger_no_call_is_made(
    server: StubServer, folder: Path, closed_port: int, ledger: str, told: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RADAR_LEDGER", ledger.format(port=closed_port))
        message = refusal(folder, "oai-writer")
    assert message.startswith("the call ledger ")
    assert told in message
    assert server.log.records == []


@pytest.mark.parametrize("writer", WRITERS)
def test_a_provider_that_is_down_from_the_first_call_ends_the_run(
    server: StubServer, tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    server.settings.script = Script([Rule("server_error")])
    endpoint = {"max_attempts": 2}
    folder = write_workspace(tmp_path / "down", server.openai_url, server.anthropic_url, endpoint=endpoint)
    message = refusal(folder, writer)
    assert f"{writer[:3]}/writer-1" in message
    assert "the last 20 requests all failed" in message
    assert "HTTP 500" in message
    rows = rows_of(ledger_of(folder))
    assert len(rows) == len(server.log.calls)
    assert {(row["status"], row["state"]) for row in rows} <= {(500, "transport_error"), (None, "transport_error")}


# The same from the command line: exit code 4, one message, nothing on stdout


def explained(child: Any) -> str:
    """The last line of a command that could not be done."""
    assert child.code == 4, child.err
    assert child.out == ""
    assert "Traceback" not in child.err
    line: str = child.err.strip().splitlines()[-1]
    assert line.startswith("Error: ")
    return line


@pytest.mark.slow
def test_a_command_that_cannot_be_done_ends_with_4_before_it_begins(
    server: StubServer, folder: Path, processes: Processes, closed_port: int
) -> None:
    keyless = {name: value for name, value in environment().items() if name != KEY_VARIABLE}
    line = explained(processes.radar(folder, "audit", "letters", env=keyless))
    assert line == f"Error: endpoint oai: no key; set the environment variable {KEY_VARIABLE}"
    away = environment(RADAR_LEDGER=f"postgresql://radar@127.0.0.1:{closed_port}/radar")
    assert "set the ledger's URL to a server that runs" in explained(
        processes.radar(folder, "audit", "letters", env=away)
    )
    write_workspace(folder, server.openai_url, server.anthropic_url, prices={"ant/*": {"input": 1, "output": 1}})
    priceless = processes.radar(folder, "audit", "letters", "--budget", "5", "--json")
    assert "the price of oai/writer-1 is unknown" in explained(priceless)
    assert "prices: {" in explained(priceless)
    assert server.log.records == []


@pytest.mark.slow
@pytest.mark.parametrize("why", ["wrong key", "unknown model", "not there", "down"])
def test_an_audit_that_cannot_go_on_ends_with_4(
    server: StubServer, tmp_path: Path, processes: Processes, closed_port: int, why: str
) -> None:
    url, env, told = server.url, environment(), ""
    if why == "wrong key":
        env, told = environment(**{KEY_VARIABLE: "sk-wrong"}), f"is the key in {KEY_VARIABLE} right?"
    elif why == "unknown model":
        server.settings.models, told = ["judge-1"], "does not know the model writer-1"
    elif why == "not there":
        url, told = f"http://127.0.0.1:{closed_port}", "no connection to"
    else:
        server.settings.script, told = Script([Rule("server_error")]), "HTTP 500"
    folder = write_workspace(tmp_path / "workspace", url, url, endpoint={"max_attempts": 1})
    pair = ("--generator", "oai-writer", "--verifier", "ant-judge")
    audit = processes.radar(folder, "audit", "letters", *pair, "--probes", "1", "--tasks", "1", "--json", env=env)
    line = explained(audit)
    assert told in line
    assert "writer-1" in line
    assert server.log.ok == 0


class Terminal:
    """A terminal that a test reads and types on; `path` is where a process finds it."""

    def __init__(self) -> None:
        self._master, self._slave = pty.openpty()
        self.path = os.ttyname(self._slave)

    def read_until(self, words: str) -> str:
        """What was said up to these words, or a little further."""
        said = ""
        while words not in said:
            assert select.select([self._master], [], [], 60)[0], said
            said += os.read(self._master, 4096).decode()
        return said

    def type(self, line: str) -> None:
        os.write(self._master, f"{line}\n".encode())

    def close(self) -> None:
        os.close(self._slave)
        os.close(self._master)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


@pytest.mark.slow
@pytest.mark.parametrize("baselines", [False, True])
def test_on_a_terminal_an_audit_says_what_it_may_cost_and_a_no_is_no_verdict(
    server: StubServer, folder: Path, processes: Processes, terminal: Terminal, baselines: bool
) -> None:
    pair = ("--generator", "oai-writer", "--verifier", "ant-judge", *["--baselines"] * baselines)
    audit = processes.start_radar(folder, "audit", "letters", *pair, "--budget", "2", terminal=terminal.path)
    said = terminal.read_until("Go on?")
    # Two tasks, so many responses for each of two baselines, and each of them scored on three criteria.
    more = 2 * 2 * load_workspace(folder / "radar.yaml").audit.passive_responses * (1 + 3) * baselines
    assert f"This audit makes {96 + more} calls to oai/writer-1, ant/judge-1, about $" in said
    assert "It stops before it costs more than $2." in said
    terminal.type("n")
    terminal.read_until("Interrupted.")
    assert audit.wait() == 130
    assert audit.out == ""
    assert server.log.records == []
    assert not list(folder.rglob("*.parquet"))


# Budgets


def cost(server: StubServer) -> float:
    """What all calls came to by the server's own count, in US dollars."""
    total = 0.0
    for endpoint, protocol in (("oai", "openai"), ("ant", "anthropic")):
        billed = [record for record in server.log.calls if record.billed and record.protocol == protocol]
        price = PRICES[endpoint]
        total += math.fsum(each.prompt_tokens * price[0] + each.completion_tokens * price[1] for each in billed) / 1e6
    return total


@pytest.mark.slow
def test_a_budget_is_a_hard_stop_and_a_larger_one_pays_for_the_rest(
    server: StubServer, folder: Path, processes: Processes
) -> None:
    server.settings.script = Script.rates({"server_error": 0.05, "out_of_range": 0.1, "reply_lost": 0.03}, seed=5)
    server.settings.latency = (0.0, 0.02)
    audit = ("audit", "letters", "--generator", "oai-writer", "--verifier", "ant-judge", "--json")
    stopped = processes.radar(folder, *audit, "--budget", "0.08")
    line = explained(stopped)
    assert "the budget of $0.08 was spent" in line
    assert "--budget" in line
    assert 0.04 < cost(server) <= 0.08
    scores = Lake(str(folder / ".radar/lake")).read("scores", benchmark="letters", pair="oai-writer~ant-judge")
    states = Counter(scores["state"])
    assert states["ok"] > 0
    assert states["budget_stopped"] > 0
    assert scores.loc[scores["state"] == "budget_stopped", ["score", "p", "usd"]].isna().all(axis=None)
    assert scores.loc[scores["state"] == "budget_stopped", "detail"].str.contains("budget of").all()
    answered = {row["key"] for row in rows_of(ledger_of(folder)) if row["state"] == "ok"}

    server.reset()
    finished = processes.radar(folder, *audit, "--budget", "1")
    assert finished.code in (0, 1, 3), finished.err
    asked = {str(record.sample) for record in server.log.calls}
    assert asked
    assert not asked & {key[:40] for key in answered}
    states = Counter(row["state"] for row in finished.document["states"])
    assert "budget_stopped" not in states


def test_a_budget_without_a_price_is_refused_before_the_first_call(
    server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    folder = write_workspace(tmp_path / "w", server.openai_url, server.anthropic_url, prices={}, budget_usd=3)
    assert "the price of oai/writer-1 is unknown" in refusal(folder, "oai-writer")
    assert server.log.records == []


def test_what_a_lost_reply_may_have_cost_counts_against_the_budget(
    server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    server.settings.script = Script([Rule("reply_lost", share=0.5)], seed=1)
    folder = write_workspace(tmp_path / "w", server.openai_url, server.anthropic_url, budget_usd=0.03)
    workspace = load_workspace(folder / "radar.yaml")
    with Door(workspace.door) as door:
        probes = make_probes(workspace.rubric("letters"), door, "oai-writer", 2)
        assert "budget_stopped" in set(probes["state"])
        assert judgement_requests(workspace.rubric("letters"), probes)
    assert cost(server) <= 0.03


# What it has cost, and how to go on


def spent(err: str) -> tuple[float, float, str]:
    """Of the line at the end of an audit: dollars this time, dollars in all, and what is said of a budget."""
    (line,) = [line for line in err.splitlines() if line.startswith("Spent: ")]
    found = re.fullmatch(
        r"Spent: \$([\d.]+)(?: and at most \S+ more \([^)]*\))? this time, "
        r"\$([\d.]+)(?: and at most \S+ more \([^)]*\))? on this audit in all(.*)\.", line
    )  # fmt: skip
    assert found is not None, line
    return float(found[1]), float(found[2]), found[3]


@pytest.mark.slow
def test_an_audit_ends_by_telling_what_was_spent_now_and_in_all_and_what_is_left(
    server: StubServer, folder: Path, processes: Processes
) -> None:
    audit = ("audit", "letters", "--generator", "oai-writer", "--verifier", "ant-judge", "--json")
    stopped = processes.radar(folder, *audit, "--budget", "0.08")
    assert stopped.code == 4
    now, in_all, left = spent(stopped.err)
    assert now == in_all == pytest.approx(cost(server), abs=1e-4)
    assert left == f"; ${0.08 - now:.4f} of the budget of $0.08 is left"
    finished = processes.radar(folder, *audit)
    now, in_all, left = spent(finished.err)
    assert in_all == pytest.approx(cost(server), abs=1e-4)
    assert 0 < now < in_all
    assert left == ""
    server.stop()
    assert spent(processes.radar(folder, *audit).err)[:2] == (0.0, in_all)


@pytest.mark.slow
def test_ctrl_c_says_which_calls_are_waited_for_and_how_to_go_on(
    server: StubServer, folder: Path, processes: Processes
) -> None:
    server.settings.latency = 2.0
    audit = processes.start_radar(folder, "audit", "letters", "--generator", "oai-writer", "--verifier", "ant-judge")
    server.wait_until(lambda log: log.in_flight >= 2)
    audit.send(signal.SIGINT)
    assert audit.wait() == 130
    found = re.search(r"interrupted; no more calls start. Waiting up to 30 s for (\d+) calls? that", audit.err)
    assert found is not None, audit.err
    assert 2 <= int(found[1]) <= len(server.log.calls)
    assert "run the same command again to go on where this one was" in audit.err
    assert spent(audit.err)[0] == pytest.approx(cost(server), abs=1e-4)
    assert len(rows_of(ledger_of(folder))) == len(server.log.calls) == server.log.ok
    assert audit.err.strip().splitlines()[-1] == "Interrupted."
