"""Batches against the stub of the providers, through the real SDKs: what comes back, what is paid, what goes on."""

import asyncio
import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub_server import BatchPlan, DefaultBrain, Rule, Script, StubServer

from radar_dagster.errors import BadInputError, OperationalError
from radar_dagster.models import batch_desk, batch_items
from radar_dagster.models.batch import require_batch, run_batches
from radar_dagster.models.batch_items import Kept, custom_id, portions, size_of
from radar_dagster.models.budget import Budget
from radar_dagster.models.capabilities import Capabilities, Overrides
from radar_dagster.models.driver import Origin, Work, run
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import Exchange, Message
from radar_dagster.models.hosted import HostedModel
from radar_dagster.models.ledger import Ledger
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.prices import Price, PriceTable
from radar_dagster.models.progress import Tally
from radar_dagster.models.records import reply_of
from radar_dagster.models.replies import Judgement
from radar_dagster.models.requests import JudgementRequest
from radar_dagster.rubric.model import Criterion, Task

#: Servers and clocks: the whole module takes many seconds.
pytestmark = pytest.mark.slow

PRICES = PriceTable({"stub/*": Price(input=Decimal(2), output=Decimal(8))})
ORIGIN = Origin("session", "run", "stub", "stub/judge")
CRITERION = Criterion(id="clarity", label="Clarity", definition="How clear the response is.")


class Desk:
    """One workspace's way to the stub: a judge of one protocol and a ledger."""

    def __init__(self, stub: StubServer, protocol: str, path: Path) -> None:
        self.stub = stub
        self.ledger = Ledger(path)
        url = stub.openai_url if protocol == "openai" else stub.anthropic_url
        self.protocol = protocol
        self.settings: dict[str, Any] = {
            "protocol": protocol,
            "base_url": url,
            "batch_poll_s": 0.02,
            "timeout_s": 10,
            "capabilities": {"*": Overrides(batch=True)},
        }

    @property
    def model(self) -> HostedModel:
        return HostedModel(ModelSpec(model="stub/judge", mode="batch"), "stub", Endpoint(**self.settings))

    def works(self, numbers: Sequence[int]) -> list[Work[Judgement]]:
        return [self.work(f"Response {number}: {'word ' * number}") for number in numbers]

    def work(self, response: str) -> Work[Judgement]:
        task = Task(id="t", prompt="Explain tides.", reference="The moon pulls.")
        request = JudgementRequest(task=task, criterion=CRITERION, response=response)
        exchange = self.model.exchange(request)
        return self.model.work(request, exchange, self.model.key(request, exchange), "text")

    def ask(
        self,
        works: Sequence[Work[Judgement]],
        how: Callable[..., list[Judgement]] = run_batches,
        *,
        origin: Origin = ORIGIN,
        budget: Budget | None = None,
        ledger: Ledger | None = None,
        **more: Any,
    ) -> list[Judgement]:
        return how(
            works,
            self.model.client,
            endpoint=Endpoint(**self.settings),
            origin=origin,
            ledger=ledger or self.ledger,
            prices=PRICES,
            budget=budget or Budget(None),
            from_entry=lambda entry: reply_of(entry, Judgement),
            **more,
        )

    def rows(self, works: Sequence[Work[Judgement]]) -> list[Any]:
        return [row for work in works for row in self.ledger.history(work.key)]

    @property
    def submitted(self) -> int:
        """Batches that the provider has taken."""
        path = "POST /v1/batches" if self.protocol == "openai" else "POST /v1/messages/batches"
        return sum(f"{each.method} {each.path}" == path and each.status == 200 for each in self.stub.log.records)

    @property
    def results_path(self) -> str:
        return "GET /v1/files/*/content" if self.protocol == "openai" else "GET /v1/messages/batches/*/results"

    @property
    def submission_path(self) -> str:
        return "POST /v1/batches" if self.protocol == "openai" else "POST /v1/messages/batches"

    def poll_path(self) -> str:
        return "GET /v1/batches/*" if self.protocol == "openai" else "GET /v1/messages/batches/*"


@pytest.fixture
def desk(request: pytest.FixtureRequest, stub: StubServer, tmp_path: Path) -> Iterator[Desk]:
    made = Desk(stub, getattr(request, "param", "openai"), tmp_path / "ledger.sqlite")
    yield made
    made.ledger.close()


both_protocols = pytest.mark.parametrize("desk", ["openai", "anthropic"], indirect=True)


def states(replies: Sequence[Judgement]) -> Counter[str]:
    return Counter(reply.state.value for reply in replies)


def scores(replies: Sequence[Judgement]) -> list[int | None]:
    return [reply.score for reply in replies]


# Outcomes.


@both_protocols
def test_a_batch_gives_the_replies_of_live_calls_at_half_the_price(desk: Desk, tmp_path: Path) -> None:
    desk.stub.settings.brain = lambda ask: DefaultBrain()(replace(ask, sample=None, content=""))
    works = desk.works(range(30))
    batched = desk.ask(works)
    with Ledger(tmp_path / "live.sqlite") as ledger:
        live = desk.ask(works, run, ledger=ledger, total=len(works))
    without_money = [[each.model_copy(update={"usd": None}) for each in each_of] for each_of in (batched, live)]
    assert without_money[0] == without_money[1]
    assert [2 * Decimal(str(each.usd)) for each in batched] == [Decimal(str(each.usd)) for each in live]
    assert desk.submitted == 1


@both_protocols
def test_rows_tell_the_mode_and_what_was_sent(desk: Desk) -> None:
    (reply,) = desk.ask(desk.works([1]))
    (row,) = desk.rows(desk.works([1]))
    assert reply_of(row, Judgement) == reply
    assert (row.mode, row.state, row.final, row.attempt) == ("batch", "ok", True, 1)
    assert (row.session, row.run_id, row.endpoint, row.model) == ("session", "run", "stub", "stub/judge")
    sent = json.loads(row.parameters)
    assert sent["temperature"] == 0
    assert sent["max_tokens"] == 1000
    assert [message["role"] for message in json.loads(row.request)] == ["system", "user"]
    (item,) = desk.stub.log.items
    assert row.input_tokens == item.prompt_tokens
    assert row.usd == float((2 * Decimal(item.prompt_tokens) + 8 * Decimal(item.completion_tokens)) / 2_000_000)
    assert desk.ledger.open_batches("stub", "stub/judge") == []


def test_works_of_one_key_are_sent_once_and_share_the_outcome(desk: Desk) -> None:
    first, second = desk.works([1, 2])
    replies = desk.ask([first, second, first])
    assert replies[0] is replies[2]
    assert len(desk.stub.log.items) == 2


def test_nothing_to_ask_needs_no_client(desk: Desk) -> None:
    assert desk.ask([]) == []
    assert desk.stub.log.records == []


def test_it_works_inside_a_running_event_loop(desk: Desk) -> None:
    async def within() -> list[Judgement]:
        return desk.ask(desk.works(range(3)))

    assert states(asyncio.run(within())) == {"ok": 3}


def test_a_second_run_reads_the_ledger_and_asks_nobody(desk: Desk) -> None:
    works = desk.works(range(5))
    first = desk.ask(works)
    again = desk.ask(works)
    assert scores(again) == scores(first)
    assert desk.submitted == 1


def test_a_fresh_run_asks_anew(desk: Desk) -> None:
    works = desk.works(range(5))
    desk.ask(works)
    desk.ask(works, origin=replace(ORIGIN, session="another", fresh=True))
    assert desk.submitted == 2
    assert len(desk.rows(works)) == 10


@both_protocols
def test_a_parse_error_is_repaired_in_a_second_batch(desk: Desk) -> None:
    desk.stub.settings.script = Script([Rule("wrong_schema", times=1, contains="Response 3"),
                                        Rule("wrong_schema", attempts=None, contains="Response 5")])  # fmt: skip
    works = desk.works(range(8))
    replies = desk.ask(works)
    assert states(replies) == {"ok": 7, "parse_error": 1}
    assert replies[5].score is None
    assert [(row.attempt, row.state, row.final) for row in desk.rows([works[3]])] == [
        (1, "parse_error", False), (2, "ok", True),
    ]  # fmt: skip
    assert [(row.attempt, row.state, row.final) for row in desk.rows([works[5]])] == [
        (1, "parse_error", False), (2, "parse_error", True),
    ]  # fmt: skip
    assert desk.submitted == 2
    assert len(desk.stub.log.items) == 10


@both_protocols
def test_a_truncated_reply_is_asked_for_again_with_a_larger_limit(desk: Desk) -> None:
    desk.stub.settings.script = Script([Rule("truncated", times=1, contains="Response 3")])
    works = desk.works(range(5))
    assert states(desk.ask(works)) == {"ok": 5}
    first, second = desk.rows([works[3]])
    assert json.loads(second.parameters)["max_tokens"] > json.loads(first.parameters)["max_tokens"]


@both_protocols
def test_what_expires_fails_or_is_cancelled_is_handed_in_again(desk: Desk) -> None:
    desk.stub.settings.script = Script(
        [
            Rule("expired", attempts=1, contains="Response 1"),
            Rule("errored", attempts=2, contains="Response 2"),
            Rule("canceled", attempts=3, contains="Response 3"),
        ]
    )
    works = desk.works(range(5))
    assert states(desk.ask(works)) == {"ok": 5}
    assert desk.submitted == 4
    assert [row.state for row in desk.rows([works[3]])] == ["transport_error"] * 3 + ["ok"]
    assert [row.usd for row in desk.rows([works[3]])][:3] == [0.0] * 3
    assert desk.stub.log.repeated == {}


def test_after_three_more_tries_it_is_a_transport_error(desk: Desk) -> None:
    desk.stub.settings.script = Script([Rule("expired", attempts=None, contains="Response 1")])
    replies = desk.ask(desk.works(range(3)))
    assert states(replies) == {"ok": 2, "transport_error": 1}
    assert desk.submitted == 4
    assert "expired" in (replies[1].detail or "")


@both_protocols
def test_refusals_and_filtered_replies_are_ends(desk: Desk) -> None:
    desk.stub.settings.script = Script(
        [Rule("refusal", contains="Response 1"), Rule("content_filter", contains="Response 2")]
    )
    assert states(desk.ask(desk.works(range(4)))) == {"ok": 2, "refused": 1, "filtered": 1}
    assert desk.submitted == 1


@both_protocols
def test_a_parameter_that_the_model_refuses_is_left_out_of_the_next_batch(desk: Desk) -> None:
    desk.stub.settings.rejects = {"*": ["temperature"]}
    works = desk.works(range(3))
    assert states(desk.ask(works)) == {"ok": 3}
    assert ["temperature" in json.loads(row.parameters) for row in desk.rows(works[:1])] == [True, False]
    assert desk.submitted == 2


@both_protocols
def test_an_item_that_is_refused_for_good_is_a_failure_of_its_own(desk: Desk) -> None:
    desk.stub.settings.script = Script([Rule("errored", value="too_long", attempts=None, contains="Response 1")])
    assert states(desk.ask(desk.works(range(3)))) == {"ok": 2, "transport_error": 1}
    assert desk.submitted == 1


@both_protocols
def test_an_unknown_model_ends_the_run_with_its_name(desk: Desk) -> None:
    desk.stub.settings.models = {}
    works = desk.works(range(3))
    with pytest.raises(OperationalError, match="judge"):
        desk.ask(works)
    assert [row.state for row in desk.rows(works)] == ["transport_error"] * 3
    assert desk.ledger.open_batches("stub", "stub/judge") == []


def tamper(stub: StubServer, change: Callable[[list[Any]], list[Any]]) -> None:
    """Let the provider give other results than it has."""
    plain = stub.app.batches._end

    def end(batch: Any, protocol: Any) -> None:
        plain(batch, protocol)
        batch.results = change(list(batch.results))

    stub.app.batches._end = end  # type: ignore[method-assign]


@both_protocols
def test_of_several_results_for_one_call_the_first_counts_and_strange_ones_are_ignored(desk: Desk) -> None:
    def repeat(results: list[Any]) -> list[Any]:
        strange = results[0]._replace(custom_id="0123456789ab-nobody")
        return [strange, *results, *(each._replace(end="errored", status=500, body={}) for each in results), *results]

    tamper(desk.stub, repeat)
    works = desk.works(range(5))
    assert states(desk.ask(works)) == {"ok": 5}
    assert len(desk.rows(works)) == 5


@both_protocols
def test_calls_without_a_result_are_handed_in_again(desk: Desk) -> None:
    tamper(desk.stub, lambda results: results[: (len(results) + 1) // 2])
    works = desk.works(range(6))
    assert states(desk.ask(works)) == {"ok": 6}
    details = [row.detail for row in desk.rows(works) if row.state != "ok"]
    assert len(details) == 3 + 1  # of six calls three have a result; of the other three, two; then the last one
    assert all("without a result" in detail for detail in details)


# Results that can't be read.


def spoil(desk: Desk, change: Callable[[list[bytes]], list[bytes]], times: int = 1_000) -> list[int]:
    """Change the lines of results, the first so many times that they are read; how many lines each reading had."""
    readings: list[int] = []

    def spoilt(lines: list[bytes]) -> list[bytes]:
        readings.append(len(lines))
        return change(lines) if len(readings) <= times else lines

    desk.stub.settings.batch = BatchPlan(spoil=spoilt)
    return readings


def renamed(lines: list[bytes]) -> list[bytes]:
    """The same results under ids of nobody's."""
    told = [json.loads(line) for line in lines]
    return [json.dumps({**line, "custom_id": f"../{number}"}).encode() for number, line in enumerate(told)]


SPOILT = {
    "cut lines": lambda lines: [line[: len(line) // 2] for line in lines],
    "foreign ids": renamed,
    "a cut body": lambda lines: lines[:1],
    "nothing": lambda lines: [],
}
each_way = pytest.mark.parametrize("change", SPOILT.values(), ids=SPOILT)


@both_protocols
@each_way
def test_results_that_can_be_read_only_later_are_waited_for(desk: Desk, change: Any) -> None:
    readings = spoil(desk, change, times=2)
    works = desk.works(range(4))
    assert states(desk.ask(works)) == {"ok": 4}
    assert readings == [4] * 3
    assert len(desk.stub.log.items) == 4
    assert [row.attempt for row in desk.rows(works)] == [1] * 4


def test_files_of_results_that_are_named_late_are_waited_for(desk: Desk) -> None:
    desk.stub.settings.batch = BatchPlan(polls=1, late=4)
    assert states(desk.ask(desk.works(range(4)))) == {"ok": 4}
    assert len(desk.stub.log.items) == 4


@both_protocols
@each_way
def test_calls_that_are_done_but_never_readable_may_be_billed_and_are_not_bought_again(desk: Desk, change: Any) -> None:
    readings = spoil(desk, change)
    works = desk.works(range(4))
    budget = Budget(Decimal(1))
    replies = desk.ask(works, budget=budget)
    lost = [reply for reply in replies if reply.state.value != "ok"]
    assert len(lost) == (3 if change is SPOILT["a cut body"] else 4)
    for reply in lost:
        assert reply.state.value == "transport_error"
        assert "result that can be read" in (reply.detail or "")
        assert reply.usd is None
    rows = [row for row in desk.rows(works) if row.state != "ok"]
    assert [(row.attempt, row.final, row.usd) for row in rows] == [(1, True, None)] * len(lost)
    assert 2 <= len(readings) <= 6
    assert desk.submitted == 1
    assert len(desk.stub.log.items) == 4
    known = sum(Decimal(str(row.usd)) for row in desk.rows(works) if row.usd is not None)
    worst = [PRICES.worst_case("stub/judge", Endpoint(**desk.settings), work.exchange, batch=True)
             for work, reply in zip(works, replies, strict=True) if reply in lost]  # fmt: skip
    assert budget.spent == known + sum(each for each in worst if each is not None)
    assert budget.reserved == 0
    assert desk.ledger.open_batches("stub", "stub/judge") == []


def test_the_next_run_asks_anew_for_what_could_not_be_read(desk: Desk) -> None:
    works = desk.works(range(3))
    spoil(desk, SPOILT["cut lines"])
    desk.ask(works)
    desk.stub.settings.batch = BatchPlan()
    assert states(desk.ask(works)) == {"ok": 3}
    assert desk.submitted == 2


def test_a_batch_without_counts_that_has_completed_is_taken_to_be_done(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = desk.stub.app.batches.poll
    route = next(each for each in desk.stub.app._routes if each.answer == poll)

    def without_counts(*args: Any) -> Any:
        sent = poll(*args)
        return sent._replace(body=json.dumps({**json.loads(sent.body), "request_counts": None}).encode())

    routes = [each._replace(answer=without_counts) if each is route else each for each in desk.stub.app._routes]
    monkeypatch.setattr(desk.stub.app, "_routes", routes)
    spoil(desk, SPOILT["a cut body"])
    assert states(desk.ask(desk.works(range(3)))) == {"ok": 1, "transport_error": 2}
    assert len(desk.stub.log.items) == 3


@both_protocols
def test_a_line_of_a_call_that_was_not_done_makes_up_for_none_that_was(desk: Desk) -> None:
    """The count of what is done is compared with calls that were made, not with lines."""
    desk.stub.settings.script = Script([Rule("expired", times=2, contains="Response 1")])
    readings = spoil(desk, lambda lines: [line for line in lines if b"expired" in line], times=1)
    works = desk.works(range(4))
    assert states(desk.ask(works)) == {"ok": 4}
    assert len(readings) >= 2
    assert [(row.attempt, row.state, row.usd == 0) for row in desk.rows(works[1:2])] == [
        (1, "transport_error", True), (2, "transport_error", True), (3, "ok", False),
    ]  # fmt: skip
    assert all(len(desk.rows([work])) == 1 for work in (works[0], *works[2:]))


def test_a_batch_that_is_taken_up_and_has_foreign_results_alone_is_not_bought_again_if_it_bears_our_mark(
    desk: Desk,
) -> None:
    works = desk.works(range(3))
    interrupted_while_polling(desk, works)
    spoil(desk, renamed)
    assert states(desk.ask(works)) == {"transport_error": 3}
    assert desk.submitted == 1


# Results without an end.


@both_protocols
@pytest.mark.parametrize(("line", "pause"), [("garbage", 0.0), ('{"custom_id": "x"}', 0.0), (None, 0.02)])
def test_results_that_never_end_are_given_up_with_what_was_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, line: str | None, pause: float
) -> None:
    monkeypatch.setattr(batch_desk, "READING_S", 0.1)
    monkeypatch.setattr(batch_desk, "_READ_AGAIN", (1, 1))
    desk.settings["timeout_s"] = 0.5
    spoil(desk, SPOILT["a cut body"])
    desk.stub.settings.script = Script([Rule("endless", path=desk.results_path, value=line, seconds=pause)])
    began = time.monotonic()
    assert states(desk.ask(desk.works(range(3)))) == {"ok": 1, "transport_error": 2}
    assert time.monotonic() - began < 10
    assert len(desk.stub.log.items) == 3


@both_protocols
def test_results_that_never_end_but_hold_all_of_ours_are_enough(desk: Desk) -> None:
    desk.stub.settings.script = Script([Rule("endless", path=desk.results_path, seconds=0.01)])
    began = time.monotonic()
    assert states(desk.ask(desk.works(range(3)))) == {"ok": 3}
    assert time.monotonic() - began < 5


@both_protocols
def test_a_flood_of_foreign_results_is_left_before_it_ends(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_desk, "_READ_AGAIN", (1,))

    def flood(lines: list[bytes]) -> list[bytes]:
        return [b'{"custom_id": "%d"}' % number for number in range(1_000 + 10 * 3 + 1)] + lines

    spoil(desk, flood)
    assert states(desk.ask(desk.works(range(3)))) == {"transport_error": 3}
    spoil(desk, lambda lines: flood(lines)[1:])  # one less
    assert states(desk.ask(desk.works(range(3)))) == {"ok": 3}


# Many calls.


def test_calls_are_handed_in_in_portions_of_limited_number_and_size(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_items, "MOST_CALLS", 4)
    assert states(desk.ask(desk.works(range(10)))) == {"ok": 10}
    assert desk.submitted == 3
    monkeypatch.setattr(batch_items, "MOST_CALLS", 100)
    monkeypatch.setattr(batch_items, "MOST_BYTES", 3 * size_of(desk.works([20])[0].exchange))
    assert states(desk.ask(desk.works(range(10, 20)))) == {"ok": 10}
    assert desk.submitted == 3 + 4


@given(sizes=st.lists(st.integers(1, 60_000_000), max_size=40), most=st.integers(1, 7))
def test_portions_hold_all_calls_in_order_and_keep_to_the_limits(sizes: list[int], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_items, "MOST_CALLS", most)
        made = list(portions(enumerate(sizes)))
    assert [number for portion in made for number in portion] == list(range(len(sizes)))
    for portion in made:
        assert 1 <= len(portion) <= most
        assert len(portion) == 1 or sum(sizes[number] for number in portion) <= batch_items.MOST_BYTES


@given(text=st.text(max_size=300))
def test_the_size_of_a_call_is_no_less_than_what_goes_out(text: str) -> None:
    exchange = Exchange((Message("system", text), Message("user", text)), 10, 0.0, schema={"type": text})
    body = {"messages": [{"role": role, "content": content} for role, content in exchange.messages],
            "model": "m" * 64, "max_tokens": 10, "temperature": 0.0,
            "response_format": {"type": "json_schema", "json_schema": exchange.schema}}  # fmt: skip
    line = {"custom_id": "c" * 64, "method": "POST", "url": "/v1/chat/completions", "body": body}
    assert size_of(exchange) >= len(json.dumps(line))


@given(
    attempt=st.integers(1, 9),
    said=st.lists(st.tuples(st.sampled_from(["system", "user"]), st.text()), max_size=3),
    recipe=st.none() | st.text(),
)
def test_what_is_kept_of_a_call_is_read_back_as_it_was(
    attempt: int, said: list[tuple[Any, str]], recipe: str | None
) -> None:
    kept = Kept(attempt, tuple(Message(*each) for each in said), 100, {"temperature": 0.5, "n": None}, recipe)
    assert Kept.from_json(kept.to_json()) == kept


def test_ids_are_what_providers_take() -> None:
    name = custom_id("0123456789ab", "0123456789abcdef" * 4)
    assert len(name) <= 64
    assert set(name) <= set("0123456789abcdef-")
    assert custom_id("a", "k" * 64).partition("-")[2] == custom_id("b", "k" * 64).partition("-")[2]


# Money.


def worst_case(desk: Desk) -> Decimal:
    worst = PRICES.worst_case("stub/judge", Endpoint(**desk.settings), desk.works([9])[0].exchange, batch=True)
    assert worst is not None
    return worst


def test_a_budget_is_kept_to_and_what_it_allows_is_done(desk: Desk) -> None:
    works = desk.works(range(10))
    budget = Budget(worst_case(desk) * Decimal("4.5"))
    replies = desk.ask(works, budget=budget)
    counted = states(replies)
    assert counted["budget_stopped"] == 10 - counted["ok"]
    assert counted["ok"] >= 5
    assert budget.reserved == 0
    assert budget.limit is not None
    assert budget.spent <= budget.limit
    assert float(budget.spent) == pytest.approx(sum(row.usd for row in desk.rows(works)))
    stopped = [reply for reply in replies if reply.state.value == "budget_stopped"]
    assert all("budget" in (reply.detail or "") for reply in stopped)
    assert len(desk.rows(works)) == counted["ok"]


def test_without_room_for_one_call_nothing_is_handed_in(desk: Desk) -> None:
    assert states(desk.ask(desk.works(range(3)), budget=Budget(Decimal("0.0000001")))) == {"budget_stopped": 3}
    assert desk.submitted == 0


def test_a_budget_without_a_price_hands_in_nothing(desk: Desk) -> None:
    with pytest.raises(OperationalError, match="price"):
        desk.ask(desk.works([1]), budget=Budget(Decimal(5)), origin=replace(ORIGIN, model="other/judge"))
    assert desk.submitted == 0


# A provider in trouble.


@both_protocols
@pytest.mark.parametrize("fault", ["server_error", "dropped", "bad_gateway", "rate_limited_bare", "garbage_json_body"])
def test_a_provider_that_stumbles_while_polled_is_asked_again(desk: Desk, fault: str) -> None:
    desk.stub.settings.script = Script([Rule(fault, path=desk.poll_path(), times=3)])
    assert states(desk.ask(desk.works(range(3)))) == {"ok": 3}
    assert desk.submitted == 1


@both_protocols
@pytest.mark.parametrize("fault", ["server_error", "dropped", "dropped_midway"])
def test_results_that_break_off_are_read_again_and_stored_once(desk: Desk, fault: str) -> None:
    desk.stub.settings.script = Script([Rule(fault, path=desk.results_path, times=2)])
    works = desk.works(range(20))
    assert states(desk.ask(works)) == {"ok": 20}
    assert len(desk.rows(works)) == 20
    assert len(desk.stub.log.items) == 20


@both_protocols
@pytest.mark.parametrize("fault", ["reply_lost", "dropped_midway", "garbage_json_body"])
def test_a_submission_whose_answer_was_lost_is_found_again(desk: Desk, fault: str) -> None:
    desk.stub.settings.script = Script([Rule(fault, path=desk.submission_path, times=1)])
    assert states(desk.ask(desk.works(range(5)))) == {"ok": 5}
    assert len(desk.stub.log.items) == 5


@both_protocols
@pytest.mark.parametrize("fault", ["dropped", "server_error", "rate_limited_ms", "overloaded"])
def test_a_submission_that_never_arrived_is_made_again(desk: Desk, fault: str) -> None:
    desk.stub.settings.script = Script([Rule(fault, path=desk.submission_path, times=2)])
    assert states(desk.ask(desk.works(range(5)))) == {"ok": 5}
    assert desk.submitted == 1


@both_protocols
def test_a_wrong_key_ends_the_run_and_leaves_no_open_batch(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_KEY", "sk-wrong-0123456789")
    desk.settings["api_key_env"] = "STUB_KEY"
    desk.stub.settings.keys = {"sk-right"}
    with pytest.raises(OperationalError, match="STUB_KEY") as raised:
        desk.ask(desk.works(range(3)))
    assert "0123456789" not in str(raised.value)
    assert desk.ledger.open_batches("stub", "stub/judge") == []


def test_an_endpoint_that_is_not_there_ends_the_run_at_once(desk: Desk) -> None:
    desk.settings["base_url"] = "http://127.0.0.1:9/v1"
    began = time.monotonic()
    with pytest.raises(OperationalError, match="no connection"):
        desk.ask(desk.works(range(3)))
    assert time.monotonic() - began < 5
    assert desk.ledger.open_batches("stub", "stub/judge") == []


def test_a_provider_that_stays_away_ends_the_run_and_keeps_the_batch(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_desk, "PATIENCE_S", 0.3)
    desk.stub.settings.script = Script([Rule("server_error", path=desk.poll_path())])
    works = desk.works(range(3))
    with pytest.raises(OperationalError, match="minutes"):
        desk.ask(works)
    assert len(desk.ledger.open_batches("stub", "stub/judge")) == 1
    desk.stub.settings.script = Script()
    assert states(desk.ask(works)) == {"ok": 3}
    assert desk.submitted == 1


@both_protocols
def test_a_batch_that_is_refused_as_a_whole_ends_the_run_with_the_providers_words(desk: Desk) -> None:
    desk.stub.settings.batch = BatchPlan(fail="The organisation has no batches.")
    works = desk.works(range(3))
    with pytest.raises(OperationalError, match="The organisation has no batches"):
        desk.ask(works)
    assert desk.rows(works) == []
    assert desk.ledger.open_batches("stub", "stub/judge") == []
    assert len(desk.ledger.claim([work.key for work in works])) == 3


def test_a_batch_that_fails_beside_others_is_handed_in_again_when_they_have_ended(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_items, "MOST_CALLS", 3)
    desk.stub.settings.batch = BatchPlan(polls=20, limit=3)

    def crowd(tally: Tally) -> None:
        """The provider takes no second batch while the first one runs."""
        desk.stub.settings.batch.limit = 0 if desk.submitted == 1 and tally.done == 0 else 3

    assert states(desk.ask(desk.works(range(6)), listener=crowd)) == {"ok": 6}
    assert len(desk.stub.log.items) == 6


@both_protocols
def test_a_batch_that_is_gone_is_told_with_a_way_out(desk: Desk) -> None:
    works = desk.works(range(2))
    interrupted_while_polling(desk, works)
    desk.stub.app.batches._openai.clear()
    desk.stub.app.batches._anthropic.clear()
    with pytest.raises(OperationalError, match="mode: live"):
        desk.ask(works)


def test_after_the_deadline_nothing_more_is_handed_in(desk: Desk) -> None:
    desk.settings["deadline_s"] = 0.5
    desk.stub.settings.batch = BatchPlan(seconds=0.8)
    desk.stub.settings.script = Script([Rule("wrong_schema", times=1, contains="Response 1")])
    replies = desk.ask(desk.works(range(3)))
    assert states(replies) == {"ok": 2, "transport_error": 1}
    assert "deadline" in (replies[1].detail or "")
    assert desk.submitted == 1


def test_a_model_without_batches_is_told_how_to_be_called(desk: Desk) -> None:
    desk.settings["capabilities"] = {}
    with pytest.raises(BadInputError, match=r"stub/judge.*mode: live"):
        desk.ask(desk.works([1]))
    require_batch("ours", Capabilities())
    with pytest.raises(BadInputError, match=r"ours.*mode: live"):
        require_batch("ours", Capabilities(batch=False))


def test_a_ledger_that_cannot_be_written_ends_the_run(desk: Desk, tmp_path: Path) -> None:
    desk.stub.settings.batch = BatchPlan(seconds=0.3)

    spoilt: list[bool] = []

    def spoil(tally: Tally) -> None:
        if tally.in_flight and noted(desk) and not spoilt:
            spoilt.append(True)
            with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
                connection.execute("ALTER TABLE calls RENAME TO calls_no_more")

    with pytest.raises(OperationalError, match="the call ledger"):
        desk.ask(desk.works(range(3)), listener=spoil)


# Runs that end early, and those after them.


class _EnoughError(Exception):
    pass


def interrupted_while_polling(desk: Desk, works: Sequence[Work[Judgement]], **more: Any) -> list[Tally]:
    """A run that is interrupted when its batches are under way; what its listener heard."""
    heard: list[Tally] = []
    expected = desk.submitted + 1

    def stop(tally: Tally) -> None:
        heard.append(tally)
        if desk.submitted >= expected and not tally.finished and "in batches" in tally.title and noted(desk):
            raise _EnoughError

    plan, desk.stub.settings.batch = desk.stub.settings.batch, BatchPlan(seconds=3600)
    with pytest.raises(_EnoughError):
        desk.ask(works, listener=stop, **more)
    desk.stub.settings.batch = plan
    return heard


def noted(desk: Desk) -> bool:
    return all(batch.provider_id for batch in desk.ledger.open_batches("stub", "stub/judge"))


@both_protocols
def test_an_interrupt_leaves_the_batch_to_the_next_run(desk: Desk) -> None:
    works = desk.works(range(5))
    budget = Budget(Decimal(5))
    began = time.monotonic()
    heard = interrupted_while_polling(desk, works, budget=budget)
    assert time.monotonic() - began < 5
    assert heard[-1].finished
    assert "1 batch goes on at the provider" in heard[-1].title
    assert budget.reserved == 0
    assert states(desk.ask(works)) == {"ok": 5}
    assert desk.submitted == 1
    assert [(row.attempt, row.final) for row in desk.rows(works)] == [(1, True)] * 5


def test_an_interrupt_while_a_batch_is_handed_in_waits_for_its_id(desk: Desk) -> None:
    desk.stub.settings.script = Script([Rule("slow", path=desk.submission_path, seconds=0.5)])

    def stop(tally: Tally) -> None:
        if desk.stub.log.paths["POST /v1/files"] and not tally.stopping:
            raise _EnoughError

    with pytest.raises(_EnoughError):
        desk.ask(desk.works(range(3)), listener=stop)
    (batch,) = desk.ledger.open_batches("stub", "stub/judge")
    assert batch.provider_id is not None
    assert desk.submitted == 1


def test_a_taken_up_batch_counts_in_the_budget_even_if_it_leaves_no_room(desk: Desk) -> None:
    works = desk.works(range(5))
    interrupted_while_polling(desk, works)
    budget = Budget(Decimal("0.0001"))
    assert states(desk.ask(works, budget=budget)) == {"ok": 5}
    assert float(budget.spent) == pytest.approx(sum(row.usd for row in desk.rows(works)))


def test_new_calls_are_handed_in_beside_a_batch_that_is_taken_up(desk: Desk) -> None:
    interrupted_while_polling(desk, desk.works(range(5)))
    works = desk.works(range(3, 9))
    assert states(desk.ask(works)) == {"ok": 6}
    assert desk.submitted == 2
    assert desk.stub.log.repeated == {}


def test_results_for_requests_of_other_runs_are_paid_and_kept(desk: Desk) -> None:
    interrupted_while_polling(desk, desk.works(range(5)))
    desk.ask(desk.works([0]))
    rows = desk.rows(desk.works(range(5)))
    assert [row.state for row in rows] == ["ok"] + ["transport_error"] * 4
    assert all(row.usd > 0 and row.reply and row.final for row in rows)


def test_results_for_requests_of_other_runs_answer_them_if_they_can_be_read(desk: Desk) -> None:
    works = desk.works(range(5))
    recipes = {work.key: f"Response {number}: {'word ' * number}" for number, work in enumerate(works)}
    desk.stub.settings.script = Script([Rule("wrong_schema", times=1, contains="Response 3")])
    interrupted_while_polling(desk, works, recipes=recipes)

    def revive(key: str, recipe: str) -> Work[Judgement]:
        made = desk.work(recipe)
        assert made.key == key
        return made

    desk.ask(works[:1], recipes=recipes, revive=revive)
    assert Counter(row.state for row in desk.rows(works)) == {"ok": 4, "parse_error": 1}
    assert states(desk.ask(works)) == {"ok": 5}
    assert [row.attempt for row in desk.rows([works[3]])] == [1, 2]
    assert desk.submitted == 2  # the second one is the repair
    assert desk.stub.log.repeated == {}


def test_a_repair_under_way_is_taken_up_as_a_repair(desk: Desk) -> None:
    desk.stub.settings.script = Script([Rule("wrong_schema", times=1, contains="Response 3")])
    works = desk.works(range(5))

    def stop(tally: Tally) -> None:
        if tally.done == 4:
            desk.stub.settings.batch.seconds = 3600
        if desk.submitted == 2 and noted(desk):
            raise _EnoughError

    with pytest.raises(_EnoughError):
        desk.ask(works, listener=stop)
    desk.stub.settings.batch.seconds = 0
    assert states(desk.ask(works)) == {"ok": 5}
    assert [(row.attempt, row.state) for row in desk.rows([works[3]])] == [(1, "parse_error"), (2, "ok")]
    assert desk.submitted == 2


def test_a_fresh_run_leaves_batches_of_other_sessions_alone(desk: Desk) -> None:
    works = desk.works(range(3))
    interrupted_while_polling(desk, works)
    assert states(desk.ask(works, origin=replace(ORIGIN, session="another", fresh=True))) == {"ok": 3}
    assert desk.submitted == 2
    assert len(desk.ledger.open_batches("stub", "stub/judge")) == 1
    assert states(desk.ask(works, origin=replace(ORIGIN, session="another", fresh=True))) == {"ok": 3}
    assert desk.submitted == 2


def test_a_fresh_run_that_was_interrupted_goes_on_in_its_session(desk: Desk) -> None:
    works = desk.works(range(3))
    origin = replace(ORIGIN, fresh=True)
    interrupted_while_polling(desk, works, origin=origin)
    assert states(desk.ask(works, origin=origin)) == {"ok": 3}
    assert desk.submitted == 1


def test_a_reply_to_a_request_that_was_answered_meanwhile_changes_no_answer(desk: Desk) -> None:
    works = desk.works(range(3))
    interrupted_while_polling(desk, works)
    (live,) = desk.ask(works[:1], run, total=1)
    assert desk.ask(works)[0] == live
    assert [(row.mode, row.state) for row in desk.rows(works[:1])] == [("live", "ok"), ("batch", "transport_error")]
    assert sum(row.state == "ok" for row in desk.rows(works)) == 3
    assert desk.submitted == 1


def left_behind(desk: Desk, works: Sequence[Work[Judgement]], *, handed_in: bool) -> None:
    """What a run leaves that ended before it knew whether its batch had arrived."""
    fault = "reply_lost" if handed_in else "dropped"
    desk.stub.settings.script = Script([Rule(fault, path=desk.submission_path)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_desk, "PATIENCE_S", 0.0)
        with pytest.raises(OperationalError):
            desk.ask(works)
    desk.stub.settings.script = Script()
    (batch,) = desk.ledger.open_batches("stub", "stub/judge")
    assert (batch.provider_id, batch.state) == (None, "submitting")


@both_protocols
@pytest.mark.parametrize("handed_in", [True, False])
def test_a_batch_whose_id_was_never_noted_is_found_or_handed_in_anew(desk: Desk, handed_in: bool) -> None:
    works = desk.works(range(5))
    left_behind(desk, works, handed_in=handed_in)
    assert states(desk.ask(works)) == {"ok": 5}
    assert len(desk.stub.log.items) == 5
    assert desk.ledger.open_batches("stub", "stub/judge") == []


# Two at once.


@both_protocols
def test_of_two_runs_at_once_one_hands_in_and_both_have_the_results(desk: Desk, tmp_path: Path) -> None:
    desk.stub.settings.batch = BatchPlan(seconds=0.3)
    desk.stub.settings.script = Script([Rule("wrong_schema", times=1, contains="Response 3")])
    works = desk.works(range(6))
    found: list[list[Judgement]] = []

    def other() -> None:
        with Ledger(tmp_path / "ledger.sqlite") as ledger:
            found.append(desk.ask(works, ledger=ledger))

    threads = [threading.Thread(target=other) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [states(replies) for replies in found] == [{"ok": 6}] * 3
    assert scores(found[0]) == scores(found[1]) == scores(found[2])
    assert desk.submitted == 2
    assert len(desk.rows(works)) == 7


def test_of_two_runs_that_find_an_open_batch_one_reads_it(desk: Desk, tmp_path: Path) -> None:
    desk.stub.settings.script = Script([Rule("wrong_schema", times=1, contains="Response 3")])
    works = desk.works(range(6))
    interrupted_while_polling(desk, works)
    found: list[list[Judgement]] = []

    def other() -> None:
        with Ledger(tmp_path / "ledger.sqlite") as ledger:
            found.append(desk.ask(works, ledger=ledger))

    threads = [threading.Thread(target=other) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [states(replies) for replies in found] == [{"ok": 6}] * 3
    assert desk.submitted == 2
    assert len(desk.rows(works)) == 7


def test_who_was_taken_for_dead_reads_what_the_other_has_stored(desk: Desk, tmp_path: Path) -> None:
    works = desk.works(range(4))
    with Ledger(tmp_path / "elsewhere.sqlite") as elsewhere:
        desk.ask(works, run, ledger=elsewhere, total=len(works))
        rows = [replace(row, run_id="thief") for work in works for row in elsewhere.history(work.key)]
    desk.stub.settings.batch = BatchPlan(seconds=3600)

    def steal(tally: Tally) -> None:
        """Another process closes the batch."""
        batches = desk.ledger.open_batches("stub", "stub/judge")
        if batches and noted(desk) and desk.ledger.append(rows, closes=batches[0].token):
            desk.stub.settings.batch = BatchPlan()

    replies = desk.ask(works, listener=steal)
    assert states(replies) == {"ok": 4}
    assert [row.run_id for row in desk.rows(works)] == ["thief"] * 4


# Anthropic's batches bear no mark.


def test_a_batch_of_somebody_else_that_looks_like_ours_is_told_by_its_results(stub: StubServer, tmp_path: Path) -> None:
    desk = Desk(stub, "anthropic", tmp_path / "ledger.sqlite")
    works = desk.works(range(4))
    left_behind(desk, works, handed_in=False)
    stub.settings.batch = BatchPlan(seconds=0.5)
    stranger = threading.Thread(target=lambda: _elsewhere(desk, tmp_path))
    stranger.start()
    stub.wait_until(lambda log: any(each.path == "/v1/messages/batches" and each.ok for each in log.records))
    assert states(desk.ask(works)) == {"ok": 4}
    stranger.join()
    assert desk.submitted == 2
    assert len(stub.log.items) == 8


def _elsewhere(desk: Desk, tmp_path: Path) -> None:
    with Ledger(tmp_path / "elsewhere.sqlite") as ledger:
        desk.ask(desk.works(range(10, 14)), ledger=ledger)


# Progress.


def test_progress_tells_what_the_provider_has_done(desk: Desk) -> None:
    desk.stub.settings.batch = BatchPlan(seconds=0.3)
    heard: list[Tally] = []
    desk.ask(desk.works(range(4)), listener=heard.append, title="judge stub/judge", from_ledger=6)
    assert "judge stub/judge (in batches: 0/4)" in [tally.title for tally in heard]
    last = heard[-1]
    assert (last.title, last.finished, last.done, last.total, last.from_ledger) == (
        "judge stub/judge", True, 10, 10, 6,
    )  # fmt: skip
    assert max(tally.in_flight for tally in heard) == 4
    assert last.in_flight == 0
    assert last.attempts == 4
    assert last.usd > 0
