"""Many calls to an endpoint that is played by a class: another client, with faults as written, and a real ledger."""

import asyncio
import itertools
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radar_dagster.errors import OperationalError
from radar_dagster.models import chains, driver, limits, supply
from radar_dagster.models.budget import Budget
from radar_dagster.models.capabilities import Capabilities
from radar_dagster.models.clients import BatchStatus, ModelCard
from radar_dagster.models.driver import Origin, Work, run
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import CallFailed, Completion, Exchange, Message, Stop, Trouble, Usage
from radar_dagster.models.ledger import Ledger
from radar_dagster.models.limits import Pace
from radar_dagster.models.prices import Price, PriceTable
from radar_dagster.models.progress import Tally, watching
from radar_dagster.models.records import reply_of
from radar_dagster.models.replies import Generation, State

#: Servers and clocks: the whole module takes many seconds.
pytestmark = pytest.mark.slow

PRICES = PriceTable({"local/*": Price(input=Decimal(0), output=Decimal(0))})
ORIGIN = Origin("session", "run", "local", "local/m")


@dataclass
class Act:
    """What the endpoint does with one call: after so many seconds it says something, or fails."""

    says: str = "ok"
    seconds: float = 0.0
    fails: CallFailed | None = None
    output_tokens: int = 10


def fails(trouble: Trouble, seconds: float = 0.0, **facts: Any) -> Act:
    return Act(seconds=seconds, fails=CallFailed(trouble, f"local/m: {trouble.value}", **facts))


@dataclass
class Server:
    """An endpoint. `acts` maps a work's number to what is done with its calls, one after the other; then `usual`."""

    acts: dict[int, list[Act]] = field(default_factory=dict)
    usual: Act = field(default_factory=Act)
    starts: list[tuple[float, int]] = field(default_factory=list)
    answered: Counter[int] = field(default_factory=Counter)
    in_flight: int = 0
    most_in_flight: int = 0
    closed: int = 0

    def sent(self, number: int | None = None) -> int:
        return sum(number in (None, sent) for _, sent in self.starts)


class PlayedClient:
    """A client of a `Server`."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    @property
    def dropped(self) -> Mapping[str, str]:
        return {}

    async def send(self, exchange: Exchange) -> Completion:
        server = self.server
        found = re.search(r"work (\d+)", exchange.messages[-1].content)
        assert found is not None
        number = int(found[1])
        server.starts.append((time.monotonic(), number))
        acts = server.acts.get(number)
        act = acts.pop(0) if acts else server.usual
        server.in_flight += 1
        server.most_in_flight = max(server.most_in_flight, server.in_flight)
        try:
            await asyncio.sleep(act.seconds)
        finally:
            server.in_flight -= 1
        if act.fails is not None:
            raise act.fails
        server.answered[number] += act.says == "ok"
        sent = {"max_tokens": exchange.max_tokens}
        return Completion(f"{act.says}: {number}", Stop.END, sent, Usage(20, act.output_tokens))

    async def describe(self) -> ModelCard:
        raise NotImplementedError

    async def submit_batch(self, items: Sequence[tuple[str, Exchange]], token: str) -> str:
        raise NotImplementedError

    async def find_batch(self, token: str, since: float) -> str | None:
        raise NotImplementedError

    async def poll_batch(self, batch_id: str) -> BatchStatus:
        raise NotImplementedError

    def batch_results(self, batch_id: str) -> AsyncIterator[tuple[str, Completion | CallFailed]]:
        raise NotImplementedError

    async def cancel_batch(self, batch_id: str) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.server.closed += 1


def read(completion: Completion) -> Generation:
    state, _, number = completion.text.partition(": ")
    if state == "ok":
        return Generation(state=State.OK, text=f"text {number}")
    return Generation.failed(State(state), f"it was a {state}")


_prefixes = itertools.count()


def works(count: int, keys: str | None = None) -> list[Work[Generation]]:
    """Works 0, 1, …; keys of their own unless a prefix is given."""
    prefix = f"k{next(_prefixes)}" if keys is None else keys
    return [
        Work(f"{prefix}-{number}", "generate", said(f"work {number}"), read, Generation.failed)
        for number in range(count)
    ]


def said(text: str) -> Exchange:
    return Exchange((Message("user", text),), max_tokens=100)


def send(
    server: Server,
    asked: Iterable[Work[Generation]],
    ledger: Ledger,
    *,
    origin: Origin = ORIGIN,
    prices: PriceTable = PRICES,
    budget: Decimal | None = None,
    pace: Pace | None = None,
    listener: Any = None,
    client: type[PlayedClient] = PlayedClient,
    total: int | None = None,
    **settings: Any,
) -> list[Generation]:
    endpoint = Endpoint(**{"base_url": "http://127.0.0.1:9/v1", "concurrency": 8, **settings})
    return run(
        asked,
        lambda: client(server),
        total=len(list(asked)) if total is None else total,
        endpoint=endpoint,
        origin=origin,
        ledger=ledger,
        prices=prices,
        budget=Budget(budget),
        from_entry=lambda entry: reply_of(entry, Generation),
        pace=pace or Pace(endpoint.concurrency, endpoint.requests_per_minute, endpoint.tokens_per_minute),
        listener=listener,
    )


def states(replies: Sequence[Generation]) -> list[str]:
    return [reply.state.value for reply in replies]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of milliseconds, for tests that fail a thousand times."""
    monkeypatch.setattr(chains, "_BACKOFF_S", 0.002)
    monkeypatch.setattr(limits, "_OWN_PAUSE_S", 0.002)


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few works make many groups."""
    monkeypatch.setattr(supply, "_GROUP", 4)
    monkeypatch.setattr(supply, "_PIECE", 3)
    monkeypatch.setattr(driver, "_READY_LOW", 2)
    monkeypatch.setattr(driver, "_TAKEN_HIGH", 8)


@pytest.fixture(scope="module")
def shared_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with Ledger(tmp_path_factory.mktemp("shared") / "ledger.sqlite") as opened:
        yield opened


# Results


def test_outcomes_come_in_the_order_of_the_works_whatever_the_replies_do(ledger: Ledger) -> None:
    server = Server({number: [Act(seconds=0.01 * (number % 7))] for number in range(40)})
    replies = send(server, works(40), ledger)
    assert [reply.text for reply in replies] == [f"text {number}" for number in range(40)]
    assert states(replies) == ["ok"] * 40
    assert server.closed == 1


def test_nothing_to_send_needs_no_client(ledger: Ledger) -> None:
    server = Server()
    assert send(server, [], ledger) == []
    assert server.closed == 0


def test_a_row_is_in_the_ledger_for_every_outcome(ledger: Ledger) -> None:
    asked = works(300)  # more than one group of claims
    replies = send(Server(), asked, ledger)
    answers = ledger.answers(work.key for work in asked)
    assert [reply_of(answers[work.key], Generation) for work in asked] == replies
    assert ledger.claim(work.key for work in asked) == {work.key for work in asked}  # all were given back


def test_works_of_one_key_are_sent_once_and_share_the_outcome(ledger: Ledger) -> None:
    server = Server()
    asked = works(2)
    tallies: list[Tally] = []
    replies = send(server, [asked[0], asked[1], asked[0]], ledger, listener=tallies.append)
    assert [reply.text for reply in replies] == ["text 0", "text 1", "text 0"]
    assert server.sent() == 2
    assert (tallies[-1].done, tallies[-1].total) == (3, 3)


def test_it_works_inside_a_running_event_loop(ledger: Ledger) -> None:
    async def main() -> list[Generation]:
        return send(Server(), works(3), ledger)

    assert states(asyncio.run(main())) == ["ok"] * 3


def test_a_client_that_cannot_be_made_is_told_to_the_caller(ledger: Ledger) -> None:
    def no_key() -> PlayedClient:
        raise OperationalError("endpoint local: no key; set the environment variable LOCAL_KEY")

    with pytest.raises(OperationalError, match="LOCAL_KEY"):
        run(
            works(1), no_key, total=1, endpoint=Endpoint(), origin=ORIGIN, ledger=ledger, prices=PRICES,
            budget=Budget(None), from_entry=lambda entry: reply_of(entry, Generation), pace=Pace(1),
        )  # fmt: skip


# Taking works


def noted(asked: Iterable[Work[Generation]], taken: list[Work[Generation]]) -> Iterator[Work[Generation]]:
    """The works, each of which is noted when it is taken."""
    for work in asked:
        taken.append(work)
        yield work


def held_until(condition: Callable[[], bool]) -> type[PlayedClient]:
    """A client that sends nothing before the condition holds; a bug to the driver if it never does."""

    class Held(PlayedClient):
        async def send(self, exchange: Exchange) -> Completion:
            async with asyncio.timeout(20):
                while not condition():
                    await asyncio.sleep(0.002)
            return await super().send(exchange)

    return Held


def test_works_are_taken_as_they_are_needed(ledger: Ledger) -> None:
    taken: list[Work[Generation]] = []
    ahead: list[int] = []

    class Watching(PlayedClient):
        async def send(self, exchange: Exchange) -> Completion:
            ahead.append(len(taken) - len(self.server.starts))
            return await super().send(exchange)

    replies = send(Server(), noted(works(3_000), taken), ledger, total=3_000, client=Watching, concurrency=64)
    assert states(replies) == ["ok"] * 3_000
    assert ahead[0] <= supply._GROUP  # the first call waits for no more than its own group
    assert max(ahead) <= driver._TAKEN_HIGH + 2 * supply._GROUP


def test_while_replies_are_waited_for_the_next_works_are_taken(ledger: Ledger) -> None:
    taken: list[Work[Generation]] = []
    after_all = held_until(lambda: len(taken) == 600)
    replies = send(Server(), noted(works(600), taken), ledger, total=600, client=after_all, concurrency=4)
    assert states(replies) == ["ok"] * 600


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(numbers=st.lists(st.integers(0, 30), max_size=60), known=st.sets(st.integers(0, 30)), slow=st.booleans())
def test_however_works_are_taken_each_has_its_outcome_and_none_is_sent_twice(
    shared_ledger: Ledger, small_groups: None, numbers: list[int], known: set[int], slow: bool
) -> None:
    all_works = works(31)
    send(Server(), [all_works[number] for number in sorted(known)], shared_ledger)
    server = Server(usual=Act(seconds=0.002 if slow else 0.0))
    tallies: list[Tally] = []
    asked = (all_works[number] for number in numbers)
    replies = send(server, asked, shared_ledger, total=len(numbers), listener=tallies.append)
    assert [reply.text for reply in replies] == [f"text {number}" for number in numbers]
    assert Counter(number for _, number in server.starts) == dict.fromkeys(set(numbers) - known, 1)
    if numbers:
        assert (tallies[-1].done, tallies[-1].total) == (len(numbers), len(numbers))
        assert tallies[-1].from_ledger == sum(number in known for number in numbers)


def test_what_the_ledger_answers_needs_no_client(ledger: Ledger) -> None:
    asked = works(300)
    send(Server(), asked, ledger)
    server, tallies = Server(), list[Tally]()
    assert states(send(server, iter(asked), ledger, total=300, listener=tallies.append)) == ["ok"] * 300
    assert (server.sent(), server.closed) == (0, 0)
    assert (tallies[-1].done, tallies[-1].from_ledger) == (300, 300)


@pytest.mark.parametrize("how", ["deadline", "budget"])
def test_what_the_ledger_answers_is_answered_when_no_more_calls_are_made(
    ledger: Ledger, small_groups: None, how: str
) -> None:
    asked = works(60)
    send(Server(), asked[40:], ledger)
    server = Server(usual=Act(seconds=1.0 if how == "deadline" else 0.0))
    if how == "deadline":
        replies = send(server, iter(asked), ledger, total=60, concurrency=1, deadline_s=1.0)
    else:
        prices = PriceTable({"local/*": Price(input=Decimal(0), output=Decimal(10_000))})  # $1 a call at most
        replies = send(server, iter(asked), ledger, total=60, concurrency=1, prices=prices, budget=Decimal("1.05"))
    ended = "transport_error" if how == "deadline" else "budget_stopped"
    done = server.sent()
    assert 0 < done < 10
    assert states(replies) == ["ok"] * done + [ended] * (40 - done) + ["ok"] * 20


def test_works_that_cannot_be_made_end_the_run_and_what_was_in_flight_is_kept(ledger: Ledger) -> None:
    asked = works(supply._GROUP)
    given: list[bool] = []

    def some() -> Iterator[Work[Generation]]:
        yield from asked
        given.append(True)
        raise ValueError("no more words")

    server = Server(usual=Act(seconds=0.05))
    with pytest.raises(ValueError, match="no more words"):
        send(server, some(), ledger, total=1_000, client=held_until(lambda: bool(given)), concurrency=4)
    assert server.sent() == 4
    assert len(ledger.answers(work.key for work in asked)) == 4
    assert len(ledger.claim(work.key for work in asked)) == supply._GROUP


# Chains


OK, PARSE, CUT = Act(), Act("parse_error"), Act("truncated")
BUSY, ACCIDENT, DROPPED = (
    fails(trouble, retry_after=0.01) for trouble in (Trouble.BUSY, Trouble.TRANSIENT, Trouble.DROPPED)
)
REJECTED = fails(Trouble.REJECTED, status=400)


@pytest.mark.parametrize(
    ("acts", "rows", "ended"),
    [
        ([OK], "ok", "ok"),
        ([Act("refused")], "refused", "refused"),
        ([Act("filtered")], "filtered", "filtered"),
        ([PARSE, OK], "parse_error ok", "ok"),
        ([PARSE, PARSE], "parse_error parse_error", "parse_error"),
        ([CUT, OK], "truncated ok", "ok"),
        ([CUT, CUT], "truncated truncated", "truncated"),
        ([BUSY, BUSY, OK], "transport_error transport_error ok", "ok"),
        ([BUSY, ACCIDENT, BUSY], "transport_error transport_error transport_error", "transport_error"),
        ([DROPPED, DROPPED, DROPPED, OK], "transport_error transport_error transport_error ok", "ok"),
        ([REJECTED], "transport_error", "transport_error"),
        ([CUT, REJECTED], "truncated truncated", "truncated"),
        ([PARSE, REJECTED], "parse_error parse_error", "parse_error"),
    ],
)
def test_every_attempt_is_a_row_and_the_last_one_is_final(
    shared_ledger: Ledger, quick_retries: None, acts: list[Act], rows: str, ended: str
) -> None:
    asked = works(1)
    (reply,) = send(Server({0: list(acts)}), asked, shared_ledger, max_attempts=3)
    history = shared_ledger.history(asked[0].key)
    assert [row.state for row in history] == rows.split()
    assert [row.attempt for row in history] == list(range(1, len(history) + 1))
    assert [row.final for row in history] == [False] * (len(history) - 1) + [True]
    assert reply.state == ended
    assert reply.detail == (None if ended == "ok" else history[-1].detail)


def test_a_chain_that_was_cut_off_goes_on_at_its_repair(ledger: Ledger) -> None:
    asked = works(1)
    whole = send(Server({0: [PARSE, OK]}), asked, ledger)
    history = ledger.history(asked[0].key)
    again = [Work("again", work.role, work.exchange, work.read, work.failed) for work in asked]
    cut = {"key": "again", "session": "killed"}
    ledger.append([_replace(history[0], **cut)])
    server = Server()
    (reply,) = send(server, again, ledger)
    assert reply == whole[0]
    assert server.sent() == 1
    resumed = ledger.history("again")[-1]
    assert (resumed.attempt, resumed.request) == (2, history[1].request)


def _replace(entry: Any, **changes: Any) -> Any:
    return type(entry)(**{name: getattr(entry, name) for name in entry.__slots__} | changes)


def test_an_answer_that_came_meanwhile_is_used_unless_the_run_is_fresh(ledger: Ledger) -> None:
    asked = works(1)
    send(Server(), asked, ledger)
    server = Server()
    (reply,) = send(server, asked, ledger)
    assert (reply.text, server.sent()) == ("text 0", 0)
    send(server, asked, ledger, origin=Origin("another", "run", "local", "local/m", fresh=True))
    assert server.sent() == 1


# The schedule


def test_a_retry_that_waits_holds_no_place(ledger: Ledger) -> None:
    server = Server({0: [fails(Trouble.TRANSIENT, retry_after=0.6)]}, usual=Act(seconds=0.01))
    replies = send(server, works(10), ledger, concurrency=1)
    assert states(replies) == ["ok"] * 10
    assert [number for _, number in server.starts] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    assert server.most_in_flight == 1


def test_a_call_that_was_begun_is_brought_to_an_end_before_others_begin(ledger: Ledger) -> None:
    server = Server({0: [PARSE]}, usual=Act(seconds=0.05))
    send(server, works(6), ledger, concurrency=1)
    assert server.starts[2][1] == 0  # one call had its turn while the first row went to the disk


def test_the_call_that_a_reply_makes_room_for_goes_out_before_the_reply_is_read(ledger: Ledger) -> None:
    happened: list[str] = []

    class Told(PlayedClient):
        async def send(self, exchange: Exchange) -> Completion:
            happened.append(f"send {exchange.messages[-1].content[-1]}")
            return await super().send(exchange)

    def reading(completion: Completion) -> Generation:
        happened.append(f"read {completion.text[-1]}")
        return read(completion)

    asked = [replace(work, read=reading) for work in works(4)]
    send(Server(usual=Act(seconds=0.01)), asked, ledger, client=Told, concurrency=1)
    assert happened == ["send 0", "send 1", "read 0", "send 2", "read 1", "send 3", "read 2", "read 3"]


def test_a_call_that_is_prepared_goes_out_before_all_others_are(ledger: Ledger) -> None:
    """Each takes a moment to connect; if all were prepared first, the first would go out with the last."""
    prepared, most = 0, 0

    class Connecting(PlayedClient):
        async def send(self, exchange: Exchange) -> Completion:
            nonlocal prepared, most
            prepared += 1
            most = max(most, prepared)
            await asyncio.sleep(0)
            prepared -= 1
            return await super().send(exchange)

    server = Server(usual=Act(seconds=0.5))
    opened_at_once = Pace(64, clock=map(float, itertools.count()).__next__)  # a second from one look to the next
    send(server, works(64), ledger, client=Connecting, pace=opened_at_once)
    assert server.most_in_flight == 64
    assert most <= 2


def test_retry_after_is_honoured(ledger: Ledger) -> None:
    server = Server({0: [fails(Trouble.BUSY, retry_after=0.7)]})
    send(server, works(5), ledger, concurrency=1)
    assert server.starts[1][0] - server.starts[0][0] >= 0.7  # and nobody else was sent meanwhile
    assert server.starts[1][1] == 0


def test_calls_per_minute_are_kept_to(ledger: Ledger) -> None:
    server = Server()
    replies = send(server, works(20), ledger, requests_per_minute=5, deadline_s=0.5)
    assert server.sent() == 5
    assert sorted(states(replies)) == ["ok"] * 5 + ["transport_error"] * 15


def test_two_runs_on_one_model_keep_to_one_limit(tmp_path: Path) -> None:
    server = Server(usual=Act(seconds=0.01))
    pace = Pace(3)
    results: dict[int, list[str]] = {}

    def go(index: int) -> None:
        with Ledger(tmp_path / "ledger.sqlite") as ledger:
            results[index] = states(send(server, works(30), ledger, pace=pace))

    threads = [threading.Thread(target=go, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: ["ok"] * 30, 1: ["ok"] * 30}
    assert server.most_in_flight == 3


def test_a_client_that_hangs_is_given_up(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_GUARD_S", 0.1)
    server = Server({0: [Act(seconds=60)]})
    asked = works(2)
    began = time.monotonic()
    assert states(send(server, asked, ledger, timeout_s=0.2)) == ["ok", "ok"]
    assert time.monotonic() - began < 3
    first = ledger.history(asked[0].key)[0]
    assert (first.state, first.usd, first.detail) == ("transport_error", None, "local/m: no reply within 0.2 s")


def test_after_the_deadline_no_call_starts(ledger: Ledger) -> None:
    server = Server(usual=Act(seconds=0.2))
    began = time.monotonic()
    asked = works(20)
    replies = send(server, asked, ledger, concurrency=1, deadline_s=0.5)
    assert time.monotonic() - began < 2
    assert all(started - began < 0.6 for started, _ in server.starts)
    done = server.sent()
    assert states(replies) == ["ok"] * done + ["transport_error"] * (20 - done)
    assert ledger.history(asked[-1].key) == []
    assert replies[-1].detail == "the deadline of 0.5 s passed before this call"


def test_a_retry_that_would_come_after_the_deadline_is_not_waited_for(ledger: Ledger) -> None:
    server = Server({0: [fails(Trouble.BUSY, retry_after=60)]})
    began = time.monotonic()
    asked = works(1)
    (reply,) = send(server, asked, ledger, deadline_s=5)
    assert time.monotonic() - began < 2
    assert [row.final for row in ledger.history(asked[0].key)] == [True]
    assert reply.state is State.TRANSPORT_ERROR


# What ends a run


def test_a_fatal_error_stops_the_run_within_seconds_and_what_was_in_flight_is_kept(ledger: Ledger) -> None:
    # All eight go out before the first one fails, also on a machine that does other things.
    acts = {0: [fails(Trouble.FATAL, 0.3, status=401)], 1: [Act(seconds=0.8)], 2: [Act(seconds=60)]}
    server = Server(acts, usual=Act(seconds=0.6))
    asked = works(100)
    began = time.monotonic()
    with pytest.raises(OperationalError, match="local/m: fatal"):
        send(server, asked, ledger)
    assert time.monotonic() - began < 4
    assert server.sent() == 8  # those that started together with it
    rows = {index: ledger.history(asked[index].key) for index in range(8)}
    assert [(row.state, row.status, row.final) for row in rows[0]] == [("transport_error", 401, True)]
    assert [row.state for row in rows[1]] == ["ok"]
    assert [(row.state, row.final) for row in rows[2]] == [("transport_error", False)]
    assert ledger.claim([asked[2].key]) == {asked[2].key}


def test_an_endpoint_that_is_not_there_is_tried_twice(ledger: Ledger) -> None:
    server = Server(usual=fails(Trouble.UNREACHABLE, 0.3))  # by then all four are out
    began = time.monotonic()
    with pytest.raises(OperationalError, match="local/m: unreachable"):
        send(server, works(100), ledger, concurrency=4)
    assert 0.3 <= time.monotonic() - began < 3
    assert server.sent() == 5


def test_a_connection_that_is_lost_for_a_moment_costs_no_request(ledger: Ledger) -> None:
    server = Server({3: [fails(Trouble.UNREACHABLE)] * 2}, usual=Act(seconds=0.01))
    replies = send(server, works(8), ledger, concurrency=1, max_attempts=1)
    assert states(replies) == ["ok"] * 8


def test_a_provider_that_is_down_ends_the_run(ledger: Ledger) -> None:
    server = Server(usual=fails(Trouble.TRANSIENT, 0.02, status=500))
    with pytest.raises(OperationalError, match="local/m: given up.*20 requests.*local/m: transient"):
        send(server, works(1000), ledger, max_attempts=1)
    assert server.sent() < 100


def test_a_few_requests_that_fail_are_outcomes(ledger: Ledger) -> None:
    server = Server({number: [REJECTED] for number in range(0, 60, 2)})
    assert Counter(states(send(server, works(60), ledger))) == {"ok": 30, "transport_error": 30}


def test_a_ledger_that_cannot_be_written_ends_the_run_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    server = Server({5: [Act(seconds=60)]}, usual=Act(seconds=0.05))
    with Ledger(path) as ledger:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON calls BEGIN SELECT * FROM no_such_table; END")
        connection.commit()
        connection.close()
        began = time.monotonic()
        with pytest.raises(OperationalError, match="the call ledger"):
            send(server, works(100), ledger)
        assert time.monotonic() - began < 5
    assert server.sent() <= 16


@pytest.mark.parametrize("concurrency", [32, 300, 1024])
def test_a_ledger_that_was_held_up_holds_up_nothing_afterwards(tmp_path: Path, concurrency: int) -> None:
    path = tmp_path / "ledger.sqlite"
    server = Server(usual=Act(seconds=0.05))

    def hold_up() -> None:
        other = sqlite3.connect(path, isolation_level=None)
        while server.sent() < 500:
            time.sleep(0.001)
        other.execute("BEGIN IMMEDIATE")
        time.sleep(1.5)
        other.execute("ROLLBACK")
        other.close()

    with Ledger(path) as ledger:
        holding = threading.Thread(target=hold_up)
        holding.start()
        replies = send(server, works(3_000), ledger, concurrency=concurrency, deadline_s=20)
        holding.join()
    assert states(replies) == ["ok"] * 3_000


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("said", ["parse_error", "truncated", "dropped"])
def test_calls_that_go_on_while_the_ledger_is_behind_are_sent(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, most: int, said: str
) -> None:
    monkeypatch.setattr(driver, "_MOST_UNCOMMITTED", most)
    act = fails(Trouble.DROPPED) if said == "dropped" else Act(says=said)
    for last in (1, 2, 5, 6, 20):  # the row that goes on is among the last ones that wait, or is the only one
        server = Server({last - 1: [act]})
        assert states(send(server, works(last), ledger, concurrency=20, deadline_s=10)) == ["ok"] * last
        assert server.sent() == last + 1


@pytest.mark.parametrize("replaced", [False, True])
def test_a_ledger_that_is_deleted_or_replaced_ends_the_run_at_once(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "kept" / "ledger.sqlite"
    server = Server(usual=Act(seconds=0.1))

    def lose_it() -> None:
        for file in path.parent.iterdir():
            file.unlink()
        if replaced:
            Ledger(path).close()

    with Ledger(path) as ledger:
        threading.Timer(0.55, lose_it).start()
        began = time.monotonic()
        with pytest.raises(OperationalError, match=r"ledger\.sqlite: its file was deleted, moved or replaced"):
            send(server, works(1_000), ledger)
        assert time.monotonic() - began < 3


def test_a_bug_in_reading_comes_up_and_leaks_no_place(ledger: Ledger) -> None:
    pace = Pace(4)
    server = Server(usual=Act(seconds=0.01))
    asked = works(20)

    def broken(completion: Completion) -> Generation:
        raise ZeroDivisionError

    asked[3] = Work(asked[3].key, "generate", asked[3].exchange, broken, Generation.failed)
    with pytest.raises(ZeroDivisionError):
        send(server, asked, ledger, pace=pace)
    assert states(send(server, works(20), ledger, pace=pace)) == ["ok"] * 20


# Money


def test_a_budget_is_never_crossed_and_what_is_done_stays_done(ledger: Ledger) -> None:
    prices = PriceTable({"local/m": Price(input=Decimal(0), output=Decimal(10_000))})  # a cent per token
    server = Server(usual=Act(seconds=0.01, output_tokens=50))  # 50 cents a call, a dollar at most
    asked = works(20)
    replies = send(server, asked, ledger, prices=prices, budget=Decimal(3))
    done = states(replies).count("ok")
    assert done == server.sent() == 5  # after five calls, half a dollar is too little for another
    assert Counter(states(replies)) == {"ok": 5, "budget_stopped": 15}
    place = states(replies).index("budget_stopped")
    assert ledger.history(asked[place].key) == []
    assert replies[place].detail == "the budget of $3 leaves no room for this call"


@pytest.mark.parametrize("concurrency", [1, 4])
def test_one_call_that_is_too_dear_stops_no_other(ledger: Ledger, concurrency: int) -> None:
    prices = PriceTable({"local/m": Price(input=Decimal(0), output=Decimal(10_000))})  # a cent per token
    server = Server(usual=Act(output_tokens=1))
    asked = works(30)
    asked[3] = replace(asked[3], exchange=replace(asked[3].exchange, max_tokens=301))
    replies = send(server, asked, ledger, prices=prices, budget=Decimal(3), concurrency=concurrency)
    assert states(replies) == ["ok"] * 3 + ["budget_stopped"] + ["ok"] * 26
    assert server.sent(3) == 0
    assert ledger.claim([asked[3].key]) == {asked[3].key}  # it was given back


def test_a_larger_limit_that_the_budget_cannot_pay_leaves_the_reply_truncated(ledger: Ledger) -> None:
    prices = PriceTable({"local/m": Price(input=Decimal(0), output=Decimal(10_000))})
    server = Server({0: [Act("truncated", output_tokens=100)]}, usual=Act(output_tokens=1))
    asked = works(20)  # a dollar at most each, and 6.12 with the larger limit
    replies = send(server, asked, ledger, prices=prices, budget=Decimal(3), concurrency=1)
    assert states(replies) == ["truncated"] + ["ok"] * 19
    first = replies[0]
    words = "it was a truncated; a larger limit was not tried: the budget of $3 leaves no room for this call"
    assert (first.detail, first.usd, first.output_tokens) == (words, 1.0, 100)
    (row,) = ledger.history(asked[0].key)
    assert (row.state, row.final, row.usd) == ("truncated", False, 1.0)
    # Nothing is paid again, neither with as much money nor with more: the larger limit is all that remains to be tried.
    assert send(server, asked[:1], ledger, prices=prices, budget=Decimal(3))[0] == first
    assert server.sent(0) == 1
    assert states(send(server, asked[:1], ledger, prices=prices, budget=Decimal(9))) == ["ok"]
    assert server.sent(0) == 2


def test_many_calls_that_do_not_fit_end_in_no_time(ledger: Ledger) -> None:
    prices = PriceTable({"local/m": Price(input=Decimal(0), output=Decimal(10_000))})
    server = Server(usual=Act(seconds=0.3, output_tokens=100))
    asked = [replace(work, exchange=replace(work.exchange, max_tokens=101)) for work in works(2_000)]
    asked[0] = replace(asked[0], exchange=said("work 0"))
    began = time.process_time()
    replies = send(server, asked, ledger, prices=prices, budget=Decimal(1))
    assert Counter(states(replies)) == {"ok": 1, "budget_stopped": 1_999}
    assert time.process_time() - began < 5


def test_calls_wait_without_effort_for_money_that_may_come_back(ledger: Ledger) -> None:
    prices = PriceTable({"local/m": Price(input=Decimal(0), output=Decimal(10_000))})
    server = Server({0: [Act(seconds=1.5, output_tokens=1)]}, usual=Act(output_tokens=1))
    began = time.process_time()
    replies = send(server, works(30), ledger, prices=prices, budget=Decimal("1.50"))
    assert states(replies) == ["ok"] * 30
    assert server.starts[1][0] - server.starts[0][0] >= 1.5
    assert time.process_time() - began < 1


def test_a_provider_that_bills_more_than_it_can_ends_the_calls_with_words_that_say_so(ledger: Ledger) -> None:
    prices = PriceTable({"local/m": Price(input=Decimal(0), output=Decimal(10_000))})
    server = Server({0: [Act("truncated", output_tokens=500)]})
    replies = send(server, works(20), ledger, prices=prices, budget=Decimal(3), concurrency=1)
    assert states(replies) == ["truncated"] + ["budget_stopped"] * 19
    assert server.sent() == 1
    words = "$5 of a budget of $3 is spent, because a call cost more than it should have been able to"
    assert {reply.detail for reply in replies[1:]} == {words}
    assert replies[0].detail == f"it was a truncated; a larger limit was not tried: {words}"


def test_a_budget_without_a_price_makes_no_call(ledger: Ledger) -> None:
    server = Server()
    with pytest.raises(OperationalError, match="price of local/m is unknown"):
        send(server, works(3), ledger, prices=PriceTable(), budget=Decimal(1))
    assert server.sent() == 0


def test_unknown_prices_are_unknown(ledger: Ledger) -> None:
    tallies: list[Tally] = []
    asked = works(1)
    (reply,) = send(Server(), asked, ledger, prices=PriceTable(), listener=tallies.append)
    assert reply.usd is None
    assert [row.usd for row in ledger.history(asked[0].key)] == [None]
    assert (tallies[-1].unpriced, tallies[-1].usd) == (1, 0)


faults = st.sampled_from(["busy", "transient", "dropped", "billed"])
acts = st.builds(
    lambda says, fault, seconds, tokens: (
        Act(says, seconds, output_tokens=tokens)
        if fault is None
        else fails(
            Trouble.TRANSIENT if fault == "billed" else Trouble(fault),
            seconds,
            retry_after=0.0 if fault == "busy" else 0.001,
            may_be_billed=fault == "billed",
        )
    ),
    st.sampled_from(["ok", "ok", "ok", "parse_error", "truncated", "refused"]),
    st.one_of(st.none(), faults),
    st.sampled_from([0.0, 0.001, 0.004]),
    st.integers(0, 100),
)
scripts = st.lists(st.lists(acts, max_size=5), min_size=1, max_size=12)


class Bill:
    """What the provider bills at most: a cent a token of output, and all that a call may have where a reply is lost.

    With `hidden`, replies of an odd number of tokens don't tell it, and may have been as long as allowed.
    """

    def __init__(self, hidden: bool = False) -> None:
        self.usd = Decimal(0)
        self._hidden = hidden

    def run(
        self,
        server: Server,
        asked: Sequence[Work[Generation]],
        ledger: Ledger,
        budget: Budget,
        *,
        origin: Origin = ORIGIN,
        concurrency: int = 6,
        listener: Any = None,
    ) -> None:
        bill = self

        class Billing(PlayedClient):
            async def send(self, exchange: Exchange) -> Completion:
                most = exchange.max_tokens * Decimal("0.01")
                try:
                    completion = await super().send(exchange)
                except CallFailed as error:
                    bill.usd += most if error.may_be_billed else 0
                    raise
                tokens = completion.usage.output_tokens
                assert tokens is not None
                if bill._hidden and tokens % 2:
                    bill.usd += most
                    return replace(completion, usage=Usage())
                bill.usd += tokens * Decimal("0.01")
                return completion

        run(
            asked,
            lambda: Billing(server),
            total=len(asked),
            endpoint=Endpoint(base_url="http://127.0.0.1:9/v1", max_attempts=3),
            origin=origin,
            ledger=ledger,
            prices=PriceTable({"local/m": Price(input=Decimal(0), output=Decimal(10_000))}),
            budget=budget,
            from_entry=lambda entry: reply_of(entry, Generation),
            pace=Pace(concurrency),
            listener=listener,
        )


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(script=scripts, limit=st.decimals(0, 12, places=2), concurrency=st.integers(1, 12))
def test_whatever_happens_no_more_is_billed_than_the_budget_allows(
    shared_ledger: Ledger, quick_retries: None, script: list[list[Act]], limit: Decimal, concurrency: int
) -> None:
    budget = Budget(limit)
    server = Server({number: list(acts) for number, acts in enumerate(script)})
    bill = Bill()
    bill.run(server, works(len(script)), shared_ledger, budget, concurrency=concurrency)
    assert bill.usd <= limit
    assert budget.spent == bill.usd
    assert budget.reserved == 0


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(lives=st.lists(scripts, min_size=2, max_size=4), limit=st.decimals(0, 8, places=2), hidden=st.booleans())
def test_a_session_that_goes_on_in_new_processes_never_spends_more_than_its_budget(
    shared_ledger: Ledger, quick_retries: None, lives: list[list[list[Act]]], limit: Decimal, hidden: bool
) -> None:
    bill = Bill(hidden)
    asked = works(12)
    origin = replace(ORIGIN, session=asked[0].key)
    for script in lives:
        # All that a new process has is the ledger.
        budget = Budget(limit, sum((row.most_usd for row in shared_ledger.tally(session=origin.session)), Decimal(0)))
        assert float(budget.spent) == pytest.approx(float(bill.usd))
        server = Server({number: list(acts) for number, acts in enumerate(script)})
        bill.run(server, asked, shared_ledger, budget, origin=origin)
        assert bill.usd <= limit


def test_a_call_that_was_given_up_counts_with_the_most_it_can_have_cost(ledger: Ledger) -> None:
    server, bill, asked = Server({0: [Act(seconds=30)]}), Bill(), works(1)

    def impatient(tally: Tally) -> None:
        if tally.in_flight:
            raise KeyboardInterrupt

    for budget in (Budget(Decimal(5)), Budget(None)):
        with pytest.raises(KeyboardInterrupt):
            bill.run(server, asked, ledger, budget, listener=impatient)
        row = ledger.history(asked[0].key)[-1]
        assert (row.usd, row.usd_at_most, row.final) == (None, 1.0, False)
        server.acts[0] = [Act(seconds=30)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(script=scripts, concurrency=st.integers(1, 12))
def test_whatever_happens_each_work_ends_once_and_no_answer_is_paid_twice(
    shared_ledger: Ledger, quick_retries: None, script: list[list[Act]], concurrency: int
) -> None:
    server = Server({number: list(acts) for number, acts in enumerate(script)})
    asked = works(len(script))
    tallies: list[Tally] = []
    replies = send(server, asked, shared_ledger, pace=Pace(concurrency), max_attempts=3, listener=tallies.append)
    assert len(replies) == len(asked)
    assert max(server.answered.values(), default=0) <= 1
    assert server.most_in_flight <= concurrency
    rows = [shared_ledger.history(work.key) for work in asked]
    for history, reply in zip(rows, replies, strict=True):
        assert [row.final for row in history] == [False] * (len(history) - 1) + [True]
        assert reply == reply_of(history[-1], Generation)
    assert server.sent() == sum(map(len, rows)) == tallies[-1].attempts
    assert tallies[-1].done == len(asked)
    assert tallies[-1].states == Counter(states(replies))


# Several processes on one ledger


def test_of_two_who_want_the_same_calls_each_is_paid_once(tmp_path: Path) -> None:
    server = Server(usual=Act(seconds=0.01))
    path = tmp_path / "ledger.sqlite"
    Ledger(path).close()
    results: dict[int, list[Generation]] = {}

    def go(index: int) -> None:
        with Ledger(path) as ledger:
            asked = works(400, keys="common")
            results[index] = send(server, asked if index else asked[::-1], ledger)

    threads = [threading.Thread(target=go, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.sent() == 400
    texts = [f"text {number}" for number in range(400)]
    assert [reply.text for reply in results[1]] == texts
    assert [reply.text for reply in results[0]] == texts[::-1]


def test_a_key_that_was_let_go_without_an_answer_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    asked = works(3)
    other = Ledger(path)
    other.claim([asked[1].key])
    threading.Timer(0.5, other.close).start()
    server = Server()
    with Ledger(path) as ledger:
        assert states(send(server, asked, ledger)) == ["ok"] * 3
    assert server.sent() == 3


def test_keys_of_others_are_not_waited_for_beyond_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    asked = works(2)
    with Ledger(path) as other, Ledger(path) as ledger:
        other.claim([asked[1].key])
        began = time.monotonic()
        replies = send(Server(), asked, ledger, deadline_s=1.3)
        assert time.monotonic() - began < 3
    assert states(replies) == ["ok", "transport_error"]


# Progress


def test_listeners_hear_of_a_run_now_and_then_and_at_its_end(ledger: Ledger) -> None:
    server = Server({0: [BUSY]}, usual=Act(seconds=0.02))
    heard: list[Tally] = []
    watched: list[Tally] = []
    began = time.monotonic()
    with watching(watched.append):
        send(server, works(100), ledger, listener=heard.append, concurrency=4)
    elapsed = time.monotonic() - began
    assert len(heard) <= elapsed * 10 + 2
    assert [tally.done for tally in heard] == sorted(tally.done for tally in heard)
    last = heard[-1]
    assert last == watched[-1]
    assert last.finished
    assert (last.done, last.total, last.attempts, last.states) == (100, 100, 101, {"ok": 100})
    assert (last.input_tokens, last.output_tokens, last.usd, last.unpriced) == (2000, 1000, 0, 0)
    assert (last.in_flight, last.title) == (0, "local/m")


def test_an_exception_in_the_waiting_thread_waits_for_the_calls_in_flight(ledger: Ledger) -> None:
    class Enough(BaseException):
        pass

    def listener(tally: Tally) -> None:
        if tally.in_flight and not tally.stopping:
            raise Enough

    server = Server(usual=Act(seconds=0.5))
    asked = works(50)
    with pytest.raises(Enough):
        send(server, asked, ledger, listener=listener, concurrency=4)
    assert server.sent() == 4
    assert len(ledger.answers(work.key for work in asked)) == 4


# Interrupts, as they come in earnest: a signal to a process that waits for calls.

PROGRAM = """
import asyncio, sys
from decimal import Decimal
from radar_dagster.models.budget import Budget
from radar_dagster.models.driver import Origin, Work, run
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import Completion, Exchange, Message, Stop
from radar_dagster.models.ledger import Ledger
from radar_dagster.models.prices import PriceTable
from radar_dagster.models.records import reply_of
from radar_dagster.models.replies import Generation, State

class Client:
    async def send(self, exchange):
        print("sent", flush=True)
        await asyncio.sleep(float(sys.argv[2]))
        return Completion("text", Stop.END, {})

    async def close(self):
        print("closed", flush=True)

def read(completion):
    return Generation(state=State.OK, text=completion.text)

exchange = Exchange((Message("user", "Do it."),), 10)
works = [Work(f"k{number}", "generate", exchange, read, Generation.failed) for number in range(50)]
try:
    run(works, Client, total=50, endpoint=Endpoint(base_url="http://127.0.0.1:9", concurrency=4),
        origin=Origin("s", "r", "local", "local/m"), ledger=Ledger(sys.argv[1]), prices=PriceTable(),
        budget=Budget(None), from_entry=lambda entry: reply_of(entry, Generation))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def interrupted_run(path: Path, seconds: float, pauses: Sequence[float]) -> list[str]:
    """The lines of a program whose calls take `seconds`, interrupted after the first and again after each pause."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(path), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        lines = [program.stdout.readline().strip() for _ in range(4)]
        time.sleep(0.2)
        program.send_signal(signal.SIGINT)
        for pause in pauses:
            time.sleep(pause)
            program.send_signal(signal.SIGINT)
        return lines + program.stdout.read().split()


@pytest.mark.slow
def test_an_interrupt_lets_the_calls_in_flight_end_and_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    assert interrupted_run(path, 1.5, []) == ["sent"] * 4 + ["closed", "interrupted"]
    with Ledger(path) as ledger:
        assert len(ledger.answers(f"k{number}" for number in range(50))) == 4


@pytest.mark.slow
def test_a_second_interrupt_ends_the_wait(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    began = time.monotonic()
    assert interrupted_run(path, 60, [0.5]) == ["sent"] * 4 + ["closed", "interrupted"]
    assert time.monotonic() - began < 20
    with Ledger(path) as ledger:
        rows = [row for number in range(50) for row in ledger.history(f"k{number}")]
        assert [(row.state, row.final) for row in rows] == [("transport_error", False)] * 4
        assert len(ledger.claim(f"k{number}" for number in range(50))) == 50
