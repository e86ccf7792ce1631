"""The call ledger among processes: killed ones, several at once, forked ones, ones that may not write.

RADAR_TEST_POSTGRES holds the URL of a server on which these tests may make and drop schemas.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
import sqlalchemy

from radar_dagster.errors import OperationalError
from radar_dagster.models.ledger import Entry, Ledger

POSTGRES = "RADAR_TEST_POSTGRES"
PATIENCE_S = 120

#: What every child starts with. Lines are written whole, so that a killed child leaves no half of one.
PRELUDE = """
import asyncio, json, os, random, sys, time
from pathlib import Path
from tempfile import gettempdir
from radar_dagster.errors import OperationalError
from radar_dagster.models.ledger import Entry, Ledger, Writer

place, name, *rest = sys.argv[1:]

def say(value):
    os.write(1, (json.dumps(value) + "\\n").encode())

def entry(key, **changes):
    fields = dict(
        key=key, session="s", run_id=name, role="judge", endpoint="e", model="m", mode="live", attempt=1, final=True,
        state="ok", request="x" * 3000, parameters="{}", reply=name, usd=0.001,
        finished_at="2026-01-01T00:00:00+00:00",
    )
    return Entry(**{**fields, **changes})
"""


def postgres_url() -> sqlalchemy.URL:
    url = os.environ.get(POSTGRES)
    if not url:
        pytest.skip(f"no PostgreSQL: {POSTGRES} is not set")
    return sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a new ledger can be kept: a path, or the URL of an empty schema."""
    if request.param == "sqlite":
        yield str(tmp_path / "ledger.sqlite")
        return
    url, schema = postgres_url(), f"radar_test_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.schema.CreateSchema(schema))
    yield f"{url.render_as_string(hide_password=False)}?options=-csearch_path%3D{schema}"
    with engine.begin() as connection:
        connection.execute(sqlalchemy.schema.DropSchema(schema, cascade=True))
    engine.dispose()


@pytest.fixture
def children() -> Iterator[ExitStack]:
    """Ends the children that a test has left."""
    with ExitStack() as stack:
        yield stack


def start(children: ExitStack, script: str, place: str, name: str = "child", *rest: str, **how: Any) -> Any:
    """A Python process that runs a script after the prelude; its output is lines of JSON."""
    child = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, place, name, *rest],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **how,
    )
    children.callback(child.communicate)
    children.callback(child.kill)
    return child


def heard(child: Any) -> Any:
    """The next line of a child."""
    return json.loads(child.stdout.readline())


def go(*children: Any) -> None:
    """Let children that wait for a line of input go on together."""
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()


def results(*children: Any) -> list[Any]:
    """The last lines of children, which must end well."""
    found = []
    for child in children:
        output, _ = child.communicate(timeout=PATIENCE_S)
        assert child.returncode == 0
        found.append(json.loads(output.splitlines()[-1]))
    return found


def entry(key: str, **changes: Any) -> Entry:
    fields: dict[str, Any] = {
        "key": key, "session": "s", "run_id": "r", "role": "judge", "endpoint": "e", "model": "m", "mode": "live",
        "attempt": 1, "final": True, "state": "ok", "request": "{}", "parameters": "{}", "finished_at": "2026",
    }  # fmt: skip
    return Entry(**{**fields, **changes})


# Kills

COMMIT_FOR_EVER = """
async def one(task, writer):
    number = 0
    while True:
        key = f"{name}-{task}-{number}"
        await writer.claim([key])
        await writer.commit(entry(key))
        say(key)
        number += 1

async def main():
    async with Writer(Ledger(place)) as writer:
        say("started")
        await asyncio.gather(*(one(task, writer) for task in range(16)))

asyncio.run(main())
"""


def test_a_killed_run_has_lost_no_row_that_it_was_told_is_safe(place: str, children: ExitStack) -> None:
    rng = random.Random(5)
    acknowledged: list[str] = []
    for number in range(4):
        child = start(children, COMMIT_FOR_EVER, place, f"run{number}")
        assert heard(child) == "started"
        acknowledged += [heard(child) for _ in range(20)]
        time.sleep(rng.uniform(0.0, 0.4))
        child.kill()
        output, _ = child.communicate()
        acknowledged += [json.loads(line) for line in output.splitlines() if line.endswith('"')]
    with Ledger(place) as ledger:
        assert len(acknowledged) >= 80
        assert set(ledger.answers(acknowledged)) == set(acknowledged)
        assert sum(row.calls for row in ledger.tally()) >= len(acknowledged)


HOLD = """
ledger = Ledger(place)
say(sorted(ledger.claim(rest)))
sys.stdin.readline()
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
def test_the_claims_of_a_killed_process_are_free_at_once(place: str, children: ExitStack) -> None:
    child = start(children, HOLD, place, "holder", "a", "b")
    assert heard(child) == ["a", "b"]
    with Ledger(place) as ledger:
        assert ledger.claim(["a"]) == set()
        child.send_signal(signal.SIGKILL)
        while Path(f"/proc/{child.pid}/stat").exists() and not is_zombie(child.pid):
            time.sleep(0.01)
        # Its parent, this process, has not even noticed yet: in a container nobody may ever do.
        assert ledger.claim(["a"]) == {"a"}
        child.wait()
        assert ledger.claim(["b"]) == {"b"}


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_the_claims_of_a_process_that_ends_well_are_free(place: str, children: ExitStack) -> None:
    child = start(children, HOLD + "ledger.close()\n", place, "holder", "a")
    assert heard(child) == ["a"]
    go(child)
    child.wait(PATIENCE_S)
    with Ledger(place) as ledger:
        assert ledger.claim(["a"]) == {"a"}


# Several at once

OPEN = """
sys.stdin.readline()
with Ledger(place) as ledger:
    ledger.append([entry(name)])
say(name)
"""


def test_many_processes_can_open_a_new_ledger_together(place: str, children: ExitStack) -> None:
    names = [f"p{i}" for i in range(6)]
    processes = [start(children, "say('ready')\n" + OPEN, place, name) for name in names]
    for process in processes:
        assert heard(process) == "ready"
    go(*processes)
    assert results(*processes) == names
    with Ledger(place) as ledger:
        assert set(ledger.answers(names)) == set(names)


CLAIM_IN_ANY_ORDER = """
keys = [f"k{i:04}" for i in range(600)]
random.Random(name).shuffle(keys)
ledger = Ledger(place)
say("ready")
sys.stdin.readline()
mine = []
while keys:
    size = random.randint(1, 40)
    mine += ledger.claim(keys[:size])
    del keys[:size]
say(mine)
sys.stdin.readline()
"""


@pytest.mark.parametrize("count", [2, 4])
def test_every_key_is_claimed_by_exactly_one_process(place: str, children: ExitStack, count: int) -> None:
    processes = [start(children, CLAIM_IN_ANY_ORDER, place, f"p{i}") for i in range(count)]
    for process in processes:
        assert heard(process) == "ready"
    go(*processes)
    claimed = Counter(key for process in processes for key in heard(process))
    assert claimed == {f"k{i:04}": 1 for i in range(600)}


WORK_TOGETHER = """
keys = [f"k{i:04}" for i in range(200)]
random.Random(name).shuffle(keys)

async def one(mine, ledger, writer):
    paid = 0
    for key in mine:
        while not await writer.claim([key]):
            await asyncio.sleep(0.001)  # somebody else is busy with it
        if await asyncio.to_thread(ledger.answers, [key]):
            writer.release([key])
            continue
        await writer.commit(entry(key, state="parse_error", final=False))
        await writer.commit(entry(key, attempt=2))
        paid += 1
    return paid

async def main():
    with Ledger(place) as ledger:
        say("ready")
        sys.stdin.readline()
        async with Writer(ledger) as writer:
            return sum(await asyncio.gather(*(one(keys[i::8], ledger, writer) for i in range(8))))

say(asyncio.run(main()))
"""


@pytest.mark.parametrize("count", [2, 4])
def test_processes_on_the_same_work_pay_for_every_call_once(place: str, children: ExitStack, count: int) -> None:
    processes = [start(children, WORK_TOGETHER, place, f"p{i}") for i in range(count)]
    for process in processes:
        assert heard(process) == "ready"
    go(*processes)
    paid = results(*processes)
    assert sum(paid) == 200
    assert sum(number > 0 for number in paid) > 1
    with Ledger(place) as ledger:
        assert Counter({row.state: row.calls for row in ledger.tally()}) == {"ok": 200, "parse_error": 200}
        assert len(ledger.answers(f"k{i:04}" for i in range(200))) == 200
        assert len(ledger.claim(f"k{i:04}" for i in range(200))) == 200


APPEND = """
ledger = Ledger(place)
say("ready")
sys.stdin.readline()
for i in range(100):
    ledger.append([entry(f"{name}-{i}-{j}") for j in range(5)])
say(name)
"""


def test_rows_of_many_processes_are_all_there(place: str, children: ExitStack) -> None:
    processes = [start(children, APPEND, place, f"p{i}") for i in range(4)]
    for process in processes:
        assert heard(process) == "ready"
    go(*processes)
    results(*processes)
    with Ledger(place) as ledger:
        assert [row.calls for row in ledger.tally()] == [4 * 500]
        assert len(ledger.answers(f"p{p}-{i}-{j}" for p in range(4) for i in range(100) for j in range(5))) == 2_000


FORK = """
ledger = Ledger(place)
ledger.append([entry("before")])
ledger.claim(["parent's"])
pid = os.fork()
if pid == 0:
    try:
        taken = ledger.claim(["parent's", "child's"])
        ledger.append([entry("child", detail=",".join(taken))])
        ledger.release(["parent's"])
    finally:
        os._exit(0)
os.waitpid(pid, 0)
ledger.append([entry("after")])
with Ledger(place) as other:
    free = sorted(other.claim(["parent's", "child's"]))
say([free, ledger.history("child")[0].detail, len(ledger.answers(["before", "after"]))])
ledger.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
def test_a_forked_process_has_claims_and_connections_of_its_own(place: str, children: ExitStack) -> None:
    assert results(start(children, FORK, place)) == [[["child's"], "child's", 2]]


# Ledgers that can't be written

FULL = """
import resource
ledger = Ledger(place)
ledger.append([entry("before")])
size = Path(place).stat().st_size + Path(place + "-wal").stat().st_size + 1_000_000
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

async def main():
    done, errors = 0, []
    async def one(i):
        nonlocal done
        try:
            await writer.commit(entry(f"k{i}"))
            done += 1
        except OperationalError as error:
            errors.append(str(error))
    async with Writer(ledger) as writer:
        for i in range(0, 400, 20):
            await asyncio.gather(*(one(j) for j in range(i, i + 20)))
        say([done, errors])

try:
    asyncio.run(main())
except OperationalError as error:
    pass
"""


def test_a_disk_without_room_is_an_error_that_names_the_file_and_loses_nothing(
    tmp_path: Path, children: ExitStack
) -> None:
    pytest.importorskip("resource")
    place = str(tmp_path / "ledger.sqlite")
    ((done, errors),) = results(start(children, FULL, place))
    assert done > 0
    assert done + len(errors) == 400
    assert all("ledger.sqlite: " in error for error in errors)
    with Ledger(place) as ledger:
        assert len(ledger.answers(f"k{i}" for i in range(400))) == done


TRY = """
try:
    with Ledger(place) as ledger:
        ledger.append([entry("new")])
    say("written")
except OperationalError as error:
    say(str(error))
"""

#: The administrator may write anything: then somebody else tries, with all that he needs already imported.
AS_SOMEBODY = """
if os.geteuid() == 0:
    Ledger(place + "-other").close()
    os.setuid(65_534)
say("ready")
sys.stdin.readline()
"""


def test_a_ledger_that_may_not_be_written_is_named(tmp_path: Path, children: ExitStack) -> None:
    folder = tmp_path / "folder"
    path = folder / "ledger.sqlite"
    with Ledger(path) as ledger:
        ledger.append([entry("old")])
    child = start(children, AS_SOMEBODY + TRY, str(path))
    assert heard(child) == "ready"
    path.chmod(0o444)
    folder.chmod(0o555)
    shared = Path(gettempdir()).resolve()
    for parent in tmp_path.parents:  # pytest's folders let nobody else in; how deep they are depends on xdist
        if parent.is_relative_to(shared) and parent != shared:
            parent.chmod(0o755)
    tmp_path.chmod(0o755)
    go(child)
    try:
        (said,) = results(child)
    finally:
        folder.chmod(0o755)
    assert "ledger.sqlite: attempt to write a readonly database" in said


WITHOUT_DRIVER = "sys.modules['psycopg'] = None\n" + TRY


def test_a_missing_driver_is_named_with_what_to_install(children: ExitStack) -> None:
    (said,) = results(start(children, WITHOUT_DRIVER, "postgresql://user:hunter2@127.0.0.1:1/db"))
    assert 'pip install "radar-dagster[postgres]"' in said
    assert "hunter2" not in said


def test_a_schema_that_is_not_there_is_an_error(children: ExitStack) -> None:
    url = postgres_url().render_as_string(hide_password=False)
    with pytest.raises(OperationalError, match="no schema has been selected"):
        Ledger(f"{url}?options=-csearch_path%3Dradar_test_none")


def test_connections_that_the_server_has_cut_are_replaced() -> None:
    url, name = postgres_url(), f"radar_test_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(url)
    shown = url.render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.schema.CreateSchema(name))
    with Ledger(f"{shown}?options=-csearch_path%3D{name}&application_name={name}") as ledger:
        ledger.append([entry("before")])
        with engine.begin() as connection:
            ours = sqlalchemy.text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :n")
            assert connection.execute(ours, {"n": name}).scalars().all() == [True]
        ledger.append([entry("after")])
        assert set(ledger.answers(["before", "after"])) == {"before", "after"}
    with engine.begin() as connection:
        connection.execute(sqlalchemy.schema.DropSchema(name, cascade=True))
    engine.dispose()
