"""Runs on hosted models that are killed or interrupted: nothing is lost, nothing is paid twice, nothing differs after.

The server is a stub in this process, the runs are children. What the server has sent and what the ledger holds are
joined by the id that each reply carries.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hosted_workspace import BRAIN, KEY, Child, Processes, ledger_of, result_tables, rows_of, write_workspace
from stub_server import Rule, Script, StubServer
from stub_server.brains import brain_from
from stub_server.log import Record

from radar_dagster.tables import COUPLING_TABLES, GRID_TABLES, VALIDATION_TABLES

pytestmark = pytest.mark.slow

WRITER, JUDGE = "oai-writer", "ant-judge"
AUDIT = ("audit", "letters", "--generator", WRITER, "--verifier", JUDGE)
SEED = 20260

#: Accidents, and replies that a second attempt mends; by what is said alone, so that they come again after a kill.
FAULTS = (
    Rule("server_error", share=0.05),
    Rule("rate_limited", share=0.03, seconds=0.05),
    Rule("dropped", share=0.03),
    Rule("out_of_range", share=0.15, when=lambda ask: "An earlier reply to this message" not in ask.text),
    Rule("truncated", share=0.15, when=lambda ask: ask.max_tokens in (800, 1000)),
    Rule("fenced", share=0.1),
)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path / "output") as processes:
        yield processes


@pytest.fixture
def server(stub: StubServer) -> StubServer:
    """It takes its time with every reply, so that there is always something in flight."""
    stub.settings.keys = {KEY}
    stub.settings.brain = brain_from(BRAIN)
    stub.settings.latency = (0.01, 0.06)
    stub.settings.script = Script(FAULTS, seed=SEED)
    return stub


def workspace(folder: Path, server: StubServer) -> Path:
    return write_workspace(folder, server.openai_url, server.anthropic_url, endpoint={"concurrency": 8})


# What a ledger and a server have to say of the same calls


Attempt = tuple[str, int]
"""What was said (the stub's content), and the limit of tokens: two attempts at a call differ in one of them."""


def said(record: Record) -> Attempt:
    return str(record.content), int(record.body["max_tokens"])


def number_of(row: dict[str, Any]) -> int | None:
    """The server's number of the request whose reply a row holds."""
    return None if row["provider_id"] is None else int(row["provider_id"][-6:])


def with_replies(ledger: Path) -> list[dict[str, Any]]:
    return [row for row in rows_of(ledger) if row["reply"] is not None]


def content_of(ledger: Path) -> list[tuple[Any, ...]]:
    """What was paid for: every reply with all that it is a reply to, but for times and the server's ids."""
    columns = ("key", "role", "endpoint", "model", "state", "final", "request", "parameters", "reply", "parsed", "usd",
               "input_tokens", "output_tokens", "detail")  # fmt: skip
    return sorted(tuple(row[column] for column in columns) for row in with_replies(ledger))


@dataclass(frozen=True)
class Paid:
    """The replies that a server has handed over, and which of them a ledger knows."""

    records: list[Record]
    known: set[int]

    @classmethod
    def so_far(cls, server: StubServer, ledger: Path) -> Paid:
        records = [record for record in server.log.calls if record.ok]
        rows = with_replies(ledger) if ledger.exists() else []
        return cls(records, {number for row in rows if (number := number_of(row)) is not None})

    @property
    def lost(self) -> list[Record]:
        """Replies that were on their way to a run when it was killed."""
        return [record for record in self.records if record.number not in self.known]

    def check(self) -> None:
        """Each attempt is known once; what was paid for a second time is what was lost, and nothing else."""
        known = Counter(said(record) for record in self.records if record.number in self.known)
        assert set(known.values()) == {1}
        again = Counter(said(record) for record in self.records) - known
        assert again == Counter(said(record) for record in self.lost)


# Kills


def test_a_run_that_is_killed_at_random_moments_pays_for_nothing_twice(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    clean, killed = workspace(tmp_path / "clean", server), workspace(tmp_path / "killed", server)
    assert processes.start_stages(clean, WRITER, JUDGE).wait() == 0
    Paid.so_far(server, ledger_of(clean)).check()
    calls = len(server.log.calls)
    states = Counter(row["state"] for row in with_replies(ledger_of(clean)))
    assert states["ok"] == 24 + 72
    assert states["parse_error"] > 0
    assert states["truncated"] > 0

    server.reset()
    chance = random.Random(SEED)
    kills = 0
    for moment in sorted(chance.sample(range(1, calls), 10)):
        before = Paid.so_far(server, ledger_of(killed))
        run = processes.start_stages(killed, WRITER, JUDGE)
        wait_for(server, run, moment)
        time.sleep(chance.uniform(0, 0.02))
        run.kill()
        kills += run.code == -signal.SIGKILL
        # What the ledger knew when this run began was not asked for again by it.
        asked = [record for record in server.log.calls if record.content and record.number > last(before)]
        assert not {said(record) for record in before.records if record.number in before.known} & {
            said(record) for record in asked
        }
    assert kills >= 8
    assert processes.start_stages(killed, WRITER, JUDGE).wait() == 0

    Paid.so_far(server, ledger_of(killed)).check()
    assert content_of(ledger_of(killed)) == content_of(ledger_of(clean))
    assert result_tables(killed) == result_tables(clean)


def last(paid: Paid) -> int:
    return max((record.number for record in paid.records), default=0)


def wait_for(server: StubServer, run: Child, calls: int) -> None:
    """Wait until the server has been called so often, or the run is over."""
    while len(server.log.calls) < calls and run.runs:
        time.sleep(0.004)


def test_a_fresh_run_that_is_killed_goes_on_in_its_own_session(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    server.settings.script = Script()
    folder = workspace(tmp_path / "workspace", server)
    assert processes.start_stages(folder, WRITER, JUDGE).wait() == 0
    tables, old = result_tables(folder), rows_of(ledger_of(folder))
    calls = len(server.log.calls)
    assert calls == len(old) == 24 + 72

    server.reset()
    fresh = {"session": "fresh", "fresh": True}
    run = processes.start_stages(folder, WRITER, JUDGE, **fresh)
    wait_for(server, run, calls // 2)
    run.kill()
    kept = len(rows_of(ledger_of(folder))) - len(old)
    assert 0 < kept < calls
    lost = server.log.ok - kept
    assert processes.start_stages(folder, WRITER, JUDGE, **fresh).wait() == 0
    assert server.log.ok == calls + lost
    rows = rows_of(ledger_of(folder))
    assert rows[: len(old)] == old
    assert {row["session"] for row in rows[len(old) :]} == {"fresh"}
    assert result_tables(folder) == tables

    server.reset()
    assert processes.start_stages(folder, WRITER, JUDGE).wait() == 0
    assert server.log.calls == []


# Whole audits


@pytest.fixture
def clean(server: StubServer, tmp_path: Path, processes: Processes) -> Path:
    """A whole audit that nobody disturbed. What the server saw of it is forgotten."""
    folder = workspace(tmp_path / "clean", server)
    audit = processes.radar(folder, *AUDIT)
    assert audit.code in (0, 1, 3), audit.err
    server.reset()
    return folder


def test_audits_that_are_killed_or_interrupted_end_as_if_they_had_not_been(
    server: StubServer, clean: Path, tmp_path: Path, processes: Processes
) -> None:
    expected, answers = result_tables(clean), content_of(ledger_of(clean))
    assert len(expected) == len(COUPLING_TABLES) + len(VALIDATION_TABLES) + len(GRID_TABLES) + len(
        ("rubric", "probes", "scores")
    )
    for how in (signal.SIGKILL, signal.SIGINT):
        server.reset()
        folder = workspace(tmp_path / how.name, server)
        audit = processes.start_radar(folder, *AUDIT)
        wait_for(server, audit, 60)  # the probes are written, and some of them judged
        audit.send(how)
        audit.wait()
        paid = Paid.so_far(server, ledger_of(folder))
        if how is signal.SIGINT:
            assert audit.code == 130
            assert "Interrupted." in audit.err
            assert paid.lost == []
        else:
            assert audit.code == -signal.SIGKILL
        assert len(paid.known) < len(answers)

        resumed = processes.radar(folder, *AUDIT)
        assert resumed.code in (0, 1, 3), resumed.err
        Paid.so_far(server, ledger_of(folder)).check()
        assert content_of(ledger_of(folder)) == answers
        assert result_tables(folder) == expected
        shutil.rmtree(folder)
