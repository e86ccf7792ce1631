"""Processes that audit the same thing at once on one ledger: every call is paid by one of them, and all have the reply.

RADAR_TEST_POSTGRES holds the URL of a server on which these tests may make and drop schemas.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from hosted_workspace import BRAIN, KEY, Processes, environment, result_tables, write_workspace
from stub_server import Rule, Script, StubServer
from stub_server.brains import brain_from

from radar_dagster.tables import COUPLING_TABLES, GRID_TABLES, VALIDATION_TABLES

pytestmark = pytest.mark.slow

POSTGRES = "RADAR_TEST_POSTGRES"
WRITER, JUDGE = "ant-writer", "oai-judge"
AUDIT = ("audit", "letters", "--generator", WRITER, "--verifier", JUDGE, "--json")
#: 2 tasks × 3 criteria × 2 directions × 2 samples, each judged on 3 criteria.
PROBES, SCORES = 24, 72


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path / "output") as processes:
        yield processes


@pytest.fixture
def server(stub: StubServer) -> StubServer:
    stub.settings.keys = {KEY}
    stub.settings.brain = brain_from(BRAIN)
    stub.settings.latency = (0.01, 0.1)
    return stub


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """What RADAR_LEDGER says: the path of a file, or the URL of an empty schema."""
    if request.param == "sqlite":
        yield str(tmp_path / "shared" / "ledger.sqlite")
        return
    url = os.environ.get(POSTGRES)
    if not url:
        pytest.skip(f"no PostgreSQL: {POSTGRES} is not set")
    schema = f"radar_test_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.schema.CreateSchema(schema))
    yield f"{url}?options=-csearch_path%3D{schema}"
    with engine.begin() as connection:
        connection.execute(sqlalchemy.schema.DropSchema(schema, cascade=True))
    engine.dispose()


def calls_in(place: str) -> list[sqlalchemy.Row[tuple[str, str]]]:
    """Key and state of every call of a ledger, read without the package."""
    url = place.replace("postgresql://", "postgresql+psycopg://") if "://" in place else f"sqlite:///{place}"
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(sqlalchemy.text("SELECT key, state FROM calls ORDER BY id")).all()
    engine.dispose()
    return list(rows)


def twins(tmp_path: Path, server: StubServer, **changes: object) -> list[Path]:
    return [write_workspace(tmp_path / name, server.openai_url, server.anthropic_url, **changes) for name in "ab"]


def test_two_processes_on_one_ledger_pay_for_every_call_once(
    server: StubServer, tmp_path: Path, processes: Processes, place: str
) -> None:
    env = environment(RADAR_LEDGER=place)
    folders = twins(tmp_path, server, endpoint={"concurrency": 8})
    running = [processes.start_stages(folder, WRITER, JUDGE, env=env) for folder in folders]
    for child in running:
        assert child.wait() == 0, child.err
    assert (server.log.ok, len(server.log.calls)) == (PROBES + SCORES, PROBES + SCORES)
    assert server.log.repeated == {}
    rows = calls_in(place)
    assert Counter(row.state for row in rows) == {"ok": PROBES + SCORES}
    assert len({row.key for row in rows}) == PROBES + SCORES
    first, second = (result_tables(folder) for folder in folders)
    assert first == second != {}
    assert not list(tmp_path.glob("[ab]/.radar/ledger*"))


def test_whole_audits_at_once_come_to_the_same_tables(
    server: StubServer, tmp_path: Path, processes: Processes, place: str
) -> None:
    accidents = {"rate_limited_ms": 0.05, "server_error": 0.05, "dropped": 0.03}
    server.settings.script = Script([Rule(kind, share=share) for kind, share in accidents.items()])
    folders = twins(tmp_path, server)
    env = environment(RADAR_LEDGER=place)
    audits = [processes.start_radar(folder, *AUDIT, env=env) for folder in folders]
    for audit in audits:
        assert audit.wait() in (0, 1, 3), audit.err
    assert server.log.ok == PROBES + SCORES
    assert server.log.repeated == {}
    assert Counter(row.state for row in calls_in(place))["ok"] == PROBES + SCORES
    first, second = (result_tables(folder) for folder in folders)
    assert first == second
    assert len(first) == len(COUPLING_TABLES) + len(VALIDATION_TABLES) + len(GRID_TABLES) + len(
        ("rubric", "probes", "scores")
    )
    told = [{name: rows for name, rows in audit.document.items() if name != "report"} for audit in audits]
    assert told[0] == told[1]


def test_of_two_processes_the_one_that_lives_takes_over_what_the_killed_one_held(
    server: StubServer, tmp_path: Path, processes: Processes, place: str
) -> None:
    server.settings.latency = 0.3
    env = environment(RADAR_LEDGER=place)
    first, second = twins(tmp_path, server, endpoint={"concurrency": 4})
    killed = processes.start_stages(first, WRITER, JUDGE, env=env)
    server.wait_until(lambda log: log.ok >= 2, timeout=60)
    lives = processes.start_stages(second, WRITER, JUDGE, env=env)
    server.wait_until(lambda log: log.ok >= 8, timeout=60)
    killed.kill()
    server.settings.latency = 0.0
    assert lives.wait() == 0, lives.err
    rows = calls_in(place)
    assert Counter(row.state for row in rows) == {"ok": PROBES + SCORES}
    # What is paid twice is what was on its way to the killed one: no more than it may have in flight.
    assert PROBES + SCORES <= server.log.ok <= PROBES + SCORES + 4
