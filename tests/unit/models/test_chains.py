"""What follows from an attempt, step by step, without a network and a clock."""

import json
from decimal import Decimal
from typing import Any

import pytest

from radar_dagster.models import templates
from radar_dagster.models.chains import Chain, Origin, Step, Work, cut_off_chain
from radar_dagster.models.exchange import CallFailed, Completion, Exchange, Message, Stop, Trouble, Usage
from radar_dagster.models.records import reply_of
from radar_dagster.models.replies import Generation, State

ASKED = Exchange((Message("system", "Do it."), Message("user", "Now é \U0001f600.")), max_tokens=100)
ORIGIN = Origin("session", "run", "local", "local/m")
SENT = {"model": "m", "max_tokens": 100}


def read(completion: Completion) -> Generation:
    """`ok: text` is a text; any other state's name is that state."""
    state, _, text = completion.text.partition(": ")
    if state == "ok":
        return Generation(state=State.OK, text=text)
    return Generation.failed(State(state), f"it was a {state}")


def chain(max_attempts: int = 3) -> Chain[Generation]:
    return Chain(Work("key", "generate", ASKED, read, Generation.failed), ORIGIN, max_attempts)


def completion(text: str) -> Completion:
    return Completion(text, Stop.END, SENT, Usage(10, 5, 1, 2, 3), served_model="m-1", provider_id="id-1")


def failure(trouble: Trouble = Trouble.TRANSIENT, **facts: Any) -> CallFailed:
    return CallFailed(trouble, "it went wrong", **facts)


def step(chain: Chain[Generation], what: str | Trouble | CallFailed) -> Step[Generation]:
    if isinstance(what, str) and not isinstance(what, Trouble):
        return chain.completed(completion(what), 0.5, Decimal("0.25"))
    error = what if isinstance(what, CallFailed) else failure(what)
    return chain.failed(error, 0.5, float("inf"))


OK, PARSE, CUT, REFUSED, FILTERED = "ok: yes", "parse_error", "truncated", "refused", "filtered"
BUSY, ACCIDENT, DROPPED = Trouble.BUSY, Trouble.TRANSIENT, Trouble.DROPPED
REJECTED, FATAL, GONE = Trouble.REJECTED, Trouble.FATAL, Trouble.UNREACHABLE
LOST = State.TRANSPORT_ERROR.value


@pytest.mark.parametrize(
    ("attempts", "states"),
    [
        ([OK], ["ok"]),
        ([REFUSED], ["refused"]),
        ([FILTERED], ["filtered"]),
        ([PARSE, OK], ["parse_error", "ok"]),
        ([PARSE, PARSE], ["parse_error", "parse_error"]),
        ([PARSE, REFUSED], ["parse_error", "refused"]),
        ([CUT, OK], ["truncated", "ok"]),
        ([CUT, CUT], ["truncated", "truncated"]),
        ([PARSE, CUT, OK], ["parse_error", "truncated", "ok"]),
        ([PARSE, CUT, PARSE], ["parse_error", "truncated", "parse_error"]),
        ([CUT, PARSE, CUT], ["truncated", "parse_error", "truncated"]),
        ([BUSY, BUSY, OK], [LOST, LOST, "ok"]),
        ([BUSY, ACCIDENT, BUSY], [LOST, LOST, LOST]),
        ([ACCIDENT, PARSE, ACCIDENT, OK], [LOST, "parse_error", LOST, "ok"]),
        ([DROPPED, OK], [LOST, "ok"]),
        ([DROPPED, DROPPED, ACCIDENT, DROPPED, ACCIDENT, OK], [LOST] * 5 + ["ok"]),
        ([DROPPED] * 9, [LOST] * 9),
        ([GONE, GONE, GONE, GONE, OK], [LOST] * 4 + ["ok"]),
        ([REJECTED], [LOST]),
        ([CUT, REJECTED], ["truncated", "truncated"]),
        ([CUT, BUSY, REJECTED], ["truncated", LOST, "truncated"]),
        ([PARSE, REJECTED], ["parse_error", "parse_error"]),
        ([PARSE, CUT, REJECTED], ["parse_error", "truncated", "truncated"]),
        ([CUT, BUSY, BUSY, BUSY], ["truncated", LOST, LOST, LOST]),
        ([CUT, FATAL], ["truncated", LOST]),
        ([FATAL], [LOST]),
    ],
)
def test_each_sequence_of_attempts_ends_when_it_must_and_not_before(attempts: list[Any], states: list[str]) -> None:
    tried = chain()
    steps = [step(tried, what) for what in attempts]
    rows = [taken.entry for taken in steps]
    assert [row.state for row in rows] == states
    assert [row.attempt for row in rows] == list(range(1, len(rows) + 1))
    assert [row.final for row in rows] == [False] * (len(rows) - 1) + [True]
    assert [taken.reply is not None for taken in steps] == [row.final for row in rows]


def test_a_call_that_a_content_filter_refuses_is_filtered() -> None:
    ended = step(chain(), failure(Trouble.REJECTED, status=400, state=State.FILTERED))
    assert ended.reply is not None
    assert (ended.reply.state, ended.entry.state, ended.entry.status) == (State.FILTERED, "filtered", 400)


@pytest.mark.parametrize(("paid", "following"), [(CUT, "a larger limit"), (PARSE, "a repair")])
def test_what_was_paid_counts_when_what_was_to_follow_is_refused(paid: str, following: str) -> None:
    tried = chain()
    first = step(tried, paid)
    ended = step(tried, failure(REJECTED, status=400, sent={"max_tokens": 10**6}))
    assert first.reply is None
    assert ended.reply is not None
    detail = f"it was a {paid}; {following} was refused: it went wrong"
    assert (ended.reply.state, ended.reply.detail) == (State(paid), detail)
    assert (ended.reply.usd, ended.reply.input_tokens, ended.reply.output_tokens) == (0.25, 10, 5)
    assert ended.reply.parameters == SENT
    # Its row tells of the refused attempt, so that nothing is added up twice.
    row = ended.entry
    assert (row.state, row.detail, row.status, row.final) == (paid, detail, 400, True)
    assert (row.usd, row.input_tokens, row.reply, json.loads(row.parameters)) == (0, None, None, {"max_tokens": 10**6})


def test_a_larger_limit_that_a_content_filter_refuses_is_filtered() -> None:
    tried = chain()
    step(tried, CUT)
    ended = step(tried, failure(Trouble.REJECTED, status=400, state=State.FILTERED))
    assert ended.reply is not None
    assert ended.reply.state is State.FILTERED


def test_a_request_whose_next_attempt_cannot_be_paid_ends_as_its_last_paid_reply() -> None:
    tried = chain()
    stopped = Generation.failed(State.BUDGET_STOPPED, "no money")
    assert tried.unpaid("no money") == stopped
    step(tried, BUSY)
    assert tried.unpaid("no money") == stopped
    assert not step(tried, CUT).entry.final
    step(tried, BUSY)
    reply = tried.unpaid("no money")
    assert (reply.state, reply.usd, reply.output_tokens) == (State.TRUNCATED, 0.25, 5)
    assert reply.detail == "it was a truncated; a larger limit was not tried: no money"


def test_a_repair_states_the_problem_and_a_larger_limit_comes_on_top() -> None:
    tried = chain()
    step(tried, PARSE)
    repaired = templates.repair(ASKED, PARSE, "it was a parse_error")
    assert tried.exchange == repaired
    step(tried, CUT)
    assert tried.exchange == templates.enlarged(repaired)


def test_a_row_tells_what_that_attempt_said_and_what_came_back() -> None:
    tried = chain()
    first = step(tried, PARSE).entry
    second = step(tried, OK).entry
    assert json.loads(first.request) == [
        {"role": "system", "content": "Do it."},
        {"role": "user", "content": "Now é 😀."},
    ]
    assert len(json.loads(second.request)[-1]["content"]) > 100
    assert json.loads(second.parameters) == SENT
    assert (second.reply, json.loads(second.parsed or "")) == ("ok: yes", {"text": "yes"})
    assert (second.input_tokens, second.output_tokens, second.usd, second.latency_s) == (10, 5, 0.25, 0.5)
    assert (second.cached_input_tokens, second.cache_write_tokens, second.reasoning_tokens) == (1, 2, 3)
    assert (second.served_model, second.provider_id, second.status) == ("m-1", "id-1", None)
    assert (second.key, second.session, second.run_id, second.role) == ("key", "session", "run", "generate")
    assert (second.endpoint, second.model, second.mode) == ("local", "local/m", "live")
    assert first.parsed is None


@pytest.mark.parametrize("last", [OK, REFUSED, failure(REJECTED, sent=SENT), failure(REJECTED, may_be_billed=True)])
def test_a_reply_is_the_one_that_its_row_tells(last: Any) -> None:
    ended = step(chain(), last)
    assert ended.reply == reply_of(ended.entry, Generation)


def test_a_reply_after_a_repair_does_not_tell_of_it() -> None:
    repaired = chain()
    step(repaired, PARSE)
    assert step(repaired, OK).reply == step(chain(), OK).reply


def test_hostile_text_in_a_reply_is_kept_visibly() -> None:
    row = step(chain(), "ok: \x1b[31m\ud800").entry
    assert row.reply == "ok: \\x1b[31m\\ud800"


def test_a_request_that_is_no_utf8_is_kept_all_the_same() -> None:
    odd = Exchange((Message("user", "\ud800"),), 10)
    row = (
        Chain(Work("key", "generate", odd, read, Generation.failed), ORIGIN, 1).completed(completion(OK), 1, None).entry
    )
    assert json.loads(row.request) == [{"role": "user", "content": "\ud800"}]


def test_only_what_was_surely_not_billed_cost_nothing() -> None:
    assert step(chain(), failure()).entry.usd == 0
    assert step(chain(), failure(may_be_billed=True)).entry.usd is None
    assert chain().completed(completion(OK), 1, None).entry.usd is None


def test_backoff_doubles_at_random_below_its_bound() -> None:
    bounds = [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    longest = [0.0] * len(bounds)
    for _ in range(200):
        tried = chain(max_attempts=20)
        for index in range(len(bounds)):
            longest[index] = max(longest[index], step(tried, BUSY).delay)
    assert all(bound / 2 < found <= bound for bound, found in zip(bounds, longest, strict=True))


@pytest.mark.parametrize(("asked", "expected"), [(7.5, 7.5), (86_400.0, 300.0)])
def test_a_call_waits_as_long_as_the_endpoint_asked_but_not_for_hours(asked: float, expected: float) -> None:
    assert step(chain(), failure(BUSY, retry_after=asked)).delay == expected


def test_a_wish_for_no_time_at_all_does_not_use_up_the_attempts_at_once() -> None:
    waits = [step(chain(), failure(BUSY, retry_after=0.0)).delay for _ in range(50)]
    assert max(waits) > 0.1


def test_an_attempt_that_would_come_too_late_is_none() -> None:
    ended = chain().failed(failure(BUSY, retry_after=10.0), 0.5, time_left=9.0)
    assert ended.entry.final
    assert ended.reply is not None
    assert ended.reply.detail == "it went wrong; there was no time for another try"


def test_a_call_that_was_given_up_leaves_a_row_that_ends_nothing() -> None:
    row = chain().cut_off(3.0)
    assert (row.state, row.final, row.usd) == (LOST, False, None)


# A run may be killed after any row. Whatever it had paid for, the next run goes on from there, and says the same.


@pytest.mark.parametrize(
    "attempts",
    [
        [PARSE, OK],
        [CUT, OK],
        [PARSE, CUT, OK],
        [CUT, PARSE, OK],
        [BUSY, PARSE, BUSY, CUT, OK],
        [PARSE, PARSE],
        [CUT, CUT],
        [CUT, REJECTED],
        [PARSE, CUT, BUSY, REJECTED],
    ],
)
def test_a_chain_that_was_cut_off_goes_on_as_if_it_had_not_been(attempts: list[Any]) -> None:
    whole = chain(max_attempts=9)
    expected = [step(whole, what) for what in attempts]
    for killed_after in range(len(attempts)):
        before = chain(max_attempts=9)
        rows = [step(before, what).entry for what in attempts[:killed_after]]
        resumed = chain(max_attempts=9)
        resumed.resume(cut_off_chain(rows, None))
        paid = [index for index, row in enumerate(rows) if row.reply is not None]
        rest = attempts[paid[-1] + 1 :] if paid else attempts
        assert resumed.exchange == before.exchange
        if paid:
            assert resumed.unpaid("no money") == before.unpaid("no money")
        steps = [step(resumed, what) for what in rest]
        assert steps[-1].reply == expected[-1].reply
        assert [taken.entry.attempt for taken in steps] == list(
            range((paid[-1] + 1 if paid else 0) + 1, len(attempts) + 1)
        )


def test_only_rows_after_the_last_end_are_gone_on_from() -> None:
    ended = chain()
    first = [step(ended, PARSE).entry, step(ended, PARSE).entry]
    again = step(chain(), CUT).entry
    assert cut_off_chain(first, None) == []
    assert cut_off_chain([*first, again], None) == [again]


def test_a_fresh_run_goes_on_from_rows_of_its_own_session_only() -> None:
    row = step(chain(), PARSE).entry
    assert cut_off_chain([row], "session") == [row]
    assert cut_off_chain([row], "another") == []
