"""Runs in batch mode that are killed, interrupted or doubled: whatever happens, every reply is paid for once.

The provider is a stub in a process of its own; the runs are processes that end where a test wants it.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from stub_server import StubProcess

from radar_dagster.models.ledger import Ledger

#: Starts runs on command. Imports take seconds, so each run is a fork of this process, and dies alone. Commands are
#: lines of JSON: {"do": "start", "url": …, "ledger": …, "out": …, "die_at": [step, time]} prints the run's process id;
#: {"do": "wait", "pid": …} prints how it ended.
PROGRAM = """
import json, os, signal, sys
from decimal import Decimal
from pathlib import Path
from radar_dagster.models import batch_items
from radar_dagster.models.batch import run_batches
from radar_dagster.models.budget import Budget
from radar_dagster.models.capabilities import Overrides
from radar_dagster.models.driver import Origin
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.hosted import HostedModel
from radar_dagster.models.ledger import Ledger
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.prices import Price, PriceTable
from radar_dagster.models.records import reply_of
from radar_dagster.models.replies import Judgement
from radar_dagster.models.requests import JudgementRequest
from radar_dagster.rubric.model import Criterion, Task

protocol = sys.argv[1]
__import__(protocol)
batch_items.MOST_CALLS = 12
step, left = "never", 1

def reach(reached):
    global left
    left -= reached == step
    if reached == step and left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def between(before, function, after):
    def wrapped(*arguments, **named):
        reach(before)
        result = function(*arguments, **named)
        reach(after)
        return result
    return wrapped

Ledger.record_batch = between("before it is noted", Ledger.record_batch, "noted")
Ledger.batch_submitted = between("handed in", Ledger.batch_submitted, "its id is noted")

def append(self, entries, *, closes=None, plain=Ledger.append):
    reach("read" if closes else "")
    stored = plain(self, entries, closes=closes)
    reach("stored" if closes else "")
    return stored

Ledger.append = append

class Client:
    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def poll_batch(self, batch_id):
        reach("polling")
        return await self._client.poll_batch(batch_id)

    async def batch_results(self, batch_id):
        async for result in self._client.batch_results(batch_id):
            reach("reading")
            yield result

def run(url, ledger):
    endpoint = Endpoint(protocol=protocol, base_url=url, batch_poll_s=0.05, timeout_s=20,
                        capabilities={"*": Overrides(batch=True)})
    model = HostedModel(ModelSpec(model="stub/judge", mode="batch"), "stub", endpoint)
    works = []
    for number in range(40):
        request = JudgementRequest(
            task=Task(id="t", prompt="Explain tides.", reference="The moon pulls."),
            criterion=Criterion(id="clarity", label="Clarity", definition="How clear the response is."),
            response=f"Response {number}: {'word ' * number}",
        )
        exchange = model.exchange(request)
        works.append(model.work(request, exchange, model.key(request, exchange), "text"))
    replies = run_batches(
        works, lambda: Client(model.client()), endpoint=endpoint, origin=Origin("s", "r", "stub", "stub/judge"),
        ledger=Ledger(ledger), prices=PriceTable({"stub/*": Price(input=Decimal(2), output=Decimal(8))}),
        budget=Budget(None), from_entry=lambda entry: reply_of(entry, Judgement),
    )
    return [[work.key, reply.model_dump(mode="json")] for work, reply in zip(works, replies)]

for line in sys.stdin:
    given = json.loads(line)
    if given["do"] == "wait":
        print(os.waitstatus_to_exitcode(os.waitpid(given["pid"], 0)[1]), flush=True)
    elif (pid := os.fork()):
        print(pid, flush=True)
    else:
        step, left = given["die_at"]
        try:
            results = run(given["url"], given["ledger"])
        except KeyboardInterrupt:
            results = "interrupted"
        Path(given["out"]).write_text(json.dumps(results))
        os._exit(0)
"""

FAULTS = {"expired": 0.1, "errored": 0.1, "wrong_schema": 0.15, "truncated": 0.05, "refusal": 0.05}


class Run:
    """A run in a process of its own."""

    def __init__(self, place: "Place", pid: int, out: Path) -> None:
        self.pid = pid
        self._place = place
        self._out = out

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self) -> Any:
        """Its results, or "interrupted"; None when it was killed."""
        code = self._place.command(do="wait", pid=self.pid)
        assert code in (0, -signal.SIGKILL)
        return json.loads(self._out.read_text()) if code == 0 else None


class Place:
    """A stub, a ledger, and runs that start on them."""

    def __init__(self, stub: StubProcess, protocol: str, path: Path, starter: "subprocess.Popen[str]") -> None:
        self.stub = stub
        self._path = path
        self._url = stub.openai_url if protocol == "openai" else stub.anthropic_url
        self._starter = starter
        self._runs = 0

    def command(self, **given: Any) -> int:
        """Have the starter do something."""
        assert self._starter.stdin is not None
        assert self._starter.stdout is not None
        self._starter.stdin.write(json.dumps(given) + "\n")
        self._starter.stdin.flush()
        return int(self._starter.stdout.readline())

    def start(self, step: str = "never", time_: int = 1, ledger: str = "ledger.sqlite") -> Run:
        """A run that has just begun; it kills itself when it reaches the step for the so-manieth time."""
        self._runs += 1
        out = self._path / f"{self._runs}.json"
        files = {"ledger": str(self._path / ledger), "out": str(out)}
        return Run(self, self.command(do="start", url=self._url, die_at=[step, time_], **files), out)

    def run(self, step: str = "never", time_: int = 1, ledger: str = "ledger.sqlite") -> Any:
        """A run from its beginning to its end."""
        return self.start(step, time_, ledger).end()

    def rows(self, keys: Sequence[str], ledger: str = "ledger.sqlite") -> dict[str, list[tuple[Any, ...]]]:
        """What the ledger holds of each key, but for times, ids and the numbers of attempts."""
        with Ledger(self._path / ledger) as opened:
            return {
                key: [
                    (row.state, row.final, row.mode, row.reply, row.parsed, row.parameters, row.usd)
                    for row in opened.history(key)
                ]
                for key in keys
            }

    def items(self) -> Counter[str]:
        """How often the provider has worked on each request."""
        ids = [record["custom_id"] for record in self.stub.records() if record["place"] == "item"]
        assert len(set(ids)) == len(ids)
        return Counter(name.partition("-")[2] for name in ids)

    def open_batches(self, *, noted: bool = False) -> int:
        """Batches that are not closed; with `noted`, those whose id is known."""
        with Ledger(self._path / "ledger.sqlite") as opened:
            batches = opened.open_batches("stub", "stub/judge")
        return sum(batch.provider_id is not None or not noted for batch in batches)

    def check(self, results: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Results are those of a run to which nothing happened; rows and payments too where there is an answer.

        Requests that end without one are tried again by every run.
        """
        answered = [key for key, reply in results if reply["state"] == "ok"]
        assert len(answered) >= 25
        rows, items = self.rows(answered), self.items()
        self.stub.reset()
        assert self.run(ledger="undisturbed.sqlite") == results
        assert rows == self.rows(answered, "undisturbed.sqlite")
        undisturbed = self.items()
        assert [items[key[:40]] for key in answered] == [undisturbed[key[:40]] for key in answered]
        assert self.open_batches() == 0


@pytest.fixture(scope="module", params=["openai", "anthropic"])
def starter(request: pytest.FixtureRequest) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [sys.executable, "-c", PROGRAM, request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield request.param, process
        process.kill()


@pytest.fixture
def place(starter: tuple[str, "subprocess.Popen[str]"], tmp_path: Path) -> Iterator[Place]:
    protocol, process = starter
    with StubProcess(script={"rates": FAULTS, "seed": 3}, batch={"polls": 2, "seconds": 0.2}) as stub:
        yield Place(stub, protocol, tmp_path, process)


@pytest.mark.slow
def test_a_run_that_is_killed_at_every_step_pays_for_nothing_twice(place: Place) -> None:
    deaths = [
        ("before it is noted", 1), ("noted", 2), ("handed in", 2), ("its id is noted", 1), ("polling", 3),
        ("reading", 5), ("read", 1), ("stored", 1), ("handed in", 1), ("stored", 2),
    ]  # fmt: skip
    for step, time_ in deaths:
        assert place.run(step, time_) is None, f"it should have died: {step}"
    place.check(place.run())


@pytest.mark.slow
def test_a_run_that_is_killed_at_random_moments_pays_for_nothing_twice(place: Place) -> None:
    seed = 1 if os.environ.get("CI") else random.randrange(1_000_000)
    print(f"seed {seed}")
    moments = random.Random(seed)
    for _ in range(10):
        run = place.start()
        time.sleep(moments.uniform(0, 1.5))
        run.send(signal.SIGKILL)
        run.end()
    place.check(place.run())


@pytest.mark.slow
def test_of_several_runs_at_once_each_request_is_handed_in_by_one(place: Place) -> None:
    runs = [place.start() for _ in range(3)]
    first, *others = [run.end() for run in runs]
    assert others == [first, first]
    place.check(first)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["noted", "handed in", "polling", "read", "stored"])
def test_when_a_run_dies_the_one_beside_it_takes_over(place: Place, step: str) -> None:
    mortal, other = place.start(step), place.start()
    mortal.end()
    results = other.end()
    # Where the other came to its end before the dead one died, what that began last is left to the next run.
    place.run()
    place.check(results)


@pytest.mark.slow
def test_an_interrupt_leaves_the_batches_to_the_next_run(place: Place) -> None:
    place.stub.change(batch={"polls": 2, "seconds": 3600})
    run = place.start()
    until(lambda: place.open_batches(noted=True) == 4)
    began = time.monotonic()
    run.send(signal.SIGINT)
    assert run.end() == "interrupted"
    assert time.monotonic() - began < 10
    assert place.open_batches() == 4
    place.stub.change(batch={"polls": 2, "seconds": 0.2})
    place.check(place.run())


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
