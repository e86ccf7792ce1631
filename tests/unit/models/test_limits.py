"""When calls may start: the limits against a clock that the tests hold in their hand."""

import itertools
import math
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import Exchange, Message
from radar_dagster.models.limits import LONGEST_PAUSE_S, MINUTE_S, Member, Pace, Ticket, estimated_tokens, pace_of


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def nothing() -> None:
    """What a member that never sleeps wants to hear."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


def started(pace: Pace, member: Member, most: int = 10_000, tokens: int = 0) -> list[Ticket]:
    """Start as many calls as may start now."""
    tickets: list[Ticket] = []
    while len(tickets) < most and isinstance(ticket := pace.start(member, tokens), Ticket):
        tickets.append(ticket)
    return tickets


def answered(clock: Clock, ceiling: int = 1024) -> tuple[Pace, Member]:
    """A pace that knows nothing but that calls end: its limit is the opening one."""
    pace = Pace(ceiling, clock=clock)
    member = pace.join(nothing)
    tickets = started(pace, member)
    for ticket in tickets:
        pace.finished(ticket, "failed")
    return pace, member


def round_trip(clock: Clock, pace: Pace, member: Member, seconds: float = 1.0) -> int:
    """All calls that may be in flight succeed, and each place is taken again at once; the limit after that."""
    tickets = started(pace, member)
    clock.now += seconds
    later: list[Ticket] = []
    for ticket in tickets:
        pace.finished(ticket, "ok")
        later += started(pace, member)
    for ticket in later:
        pace.finished(ticket, "failed")
    return pace.limit


def test_a_run_opens_with_eight_calls_or_as_many_as_are_allowed(clock: Clock) -> None:
    for ceiling, expected in ((1, 1), (5, 5), (8, 8), (100, 8)):
        pace = Pace(ceiling, clock=clock)
        assert len(started(pace, pace.join(nothing))) == expected


def test_until_the_first_reply_the_limit_doubles_every_20_ms_up_to_the_ceiling(clock: Clock) -> None:
    pace = Pace(100, clock=clock)
    member = pace.join(nothing)
    seen = []
    for _ in range(6):
        started(pace, member)
        seen.append(pace.limit)
        clock.now += 0.02
    assert seen == [8, 16, 32, 64, 100, 100]


def test_who_finds_no_place_in_the_opening_is_told_when_there_will_be_one(clock: Clock) -> None:
    pace = Pace(16, clock=clock)
    member = pace.join(nothing)
    started(pace, member)
    clock.now += 0.005
    wait = pace.start(member, 0)
    assert wait == pytest.approx(0.015)
    clock.now += 0.015
    assert len(started(pace, member)) == 8
    assert pace.start(member, 0) == math.inf  # nothing but a reply makes more places


def test_the_first_reply_ends_the_opening(clock: Clock) -> None:
    pace, member = answered(clock)
    clock.now += 10
    assert len(started(pace, member)) == 8


def test_the_limit_grows_by_one_per_success_while_latencies_hold(clock: Clock) -> None:
    pace, member = answered(clock)
    assert [round_trip(clock, pace, member) for _ in range(3)] == [16, 32, 64]


def test_the_limit_never_passes_the_ceiling(clock: Clock) -> None:
    pace, member = answered(clock, ceiling=11)
    assert [round_trip(clock, pace, member) for _ in range(3)] == [11, 11, 11]


def test_a_limit_that_is_not_used_up_does_not_grow(clock: Clock) -> None:
    pace, member = answered(clock)
    for _ in range(50):
        (ticket,) = started(pace, member, most=1)
        clock.now += 1.0
        pace.finished(ticket, "ok")
    assert pace.limit == 8


def test_the_limit_holds_when_latencies_rise(clock: Clock) -> None:
    pace, member = answered(clock)
    assert [round_trip(clock, pace, member) for _ in range(3)] == [16, 32, 64]  # enough replies to tell
    risen = round_trip(clock, pace, member, seconds=10.0)  # the average needs a few of them to follow
    assert 64 < risen < 128
    assert round_trip(clock, pace, member, seconds=10.0) == risen


def test_the_first_replies_which_are_the_quickest_do_not_make_the_others_look_slow(clock: Clock) -> None:
    pace, member = answered(clock)
    round_trip(clock, pace, member, seconds=0.1)
    assert round_trip(clock, pace, member, seconds=1.0) == 32


def test_calls_turned_away_together_halve_the_limit_once(clock: Clock) -> None:
    pace, member = answered(clock)
    tickets = started(pace, member)
    clock.now += 0.1
    for ticket in tickets:
        pace.finished(ticket, "busy")
        clock.now += 0.001
    assert pace.limit == 4


def test_the_limit_halves_once_in_the_time_of_a_call_and_never_below_one(clock: Clock) -> None:
    pace, member = answered(clock)
    (ticket,) = started(pace, member, most=1)
    clock.now += 1.0  # a call takes a second
    pace.finished(ticket, "ok")
    limits = []
    for step in range(60):  # one of every two calls is turned away, ten in a second
        (ticket,) = started(pace, member, most=1)
        clock.now += 0.1
        pace.finished(ticket, "busy" if step % 2 else "failed")
        limits.append(pace.limit)
        clock.now = max(clock.now, clock.now + pace.paused_s)
    assert limits[-1] == 1
    assert 3 <= len({*limits}) <= 4


def halved(clock: Clock) -> tuple[Pace, Member]:
    """A pace whose endpoint has held 64 calls and then turned one away."""
    pace, member = answered(clock, ceiling=64)
    assert [round_trip(clock, pace, member) for _ in range(4)] == [16, 32, 64, 64]
    (ticket,) = started(pace, member, most=1)
    pace.finished(ticket, "busy")
    assert pace.limit == 32
    return pace, member


def test_after_a_halving_the_limit_comes_back_fast_to_what_was_held_and_carefully_beyond(clock: Clock) -> None:
    pace, member = halved(clock)
    pace.configure(1024, None, None)
    limits = [round_trip(clock, pace, member) for _ in range(8)]
    assert 60 <= limits[0] <= 64
    grown = [later - earlier for earlier, later in itertools.pairwise(limits)]
    assert grown[0] <= 2
    assert grown == sorted(grown)  # the longer nothing is turned away, the faster
    assert grown[-1] >= 16


def test_before_anything_succeeded_retry_after_holds_all_calls_of_the_model(clock: Clock) -> None:
    pace, member = answered(clock)
    (ticket,) = started(pace, member, most=1)
    pace.finished(ticket, "busy", retry_after=7.0)
    assert pace.start(member, 0) == pytest.approx(7.0)
    assert pace.paused_s == pytest.approx(7.0)
    clock.now += 6.9
    assert pace.start(member, 0) == pytest.approx(0.1)
    clock.now += 0.1
    assert isinstance(pace.start(member, 0), Ticket)


def test_a_single_call_that_is_turned_away_between_others_holds_nobody_but_a_second_one_does(clock: Clock) -> None:
    pace, member = answered(clock)
    first, second, third = started(pace, member, most=3)
    pace.finished(first, "ok")
    pace.finished(second, "busy", retry_after=7.0)
    assert pace.paused_s == 0
    pace.finished(third, "busy", retry_after=7.0)
    assert pace.paused_s == pytest.approx(7.0)


def test_a_pause_of_hours_is_cut_to_minutes(clock: Clock) -> None:
    pace, member = answered(clock)
    (ticket,) = started(pace, member, most=1)
    pace.finished(ticket, "busy", retry_after=86_400)
    assert pace.start(member, 0) == pytest.approx(LONGEST_PAUSE_S)


def test_an_endpoint_that_turns_everything_away_is_left_alone_longer_and_longer(clock: Clock) -> None:
    pace, member = answered(clock)
    pauses = []
    for _ in range(9):
        for ticket in started(pace, member):
            pace.finished(ticket, "busy")
        pauses.append(pace.paused_s)
        clock.now += pace.paused_s
    assert pauses == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 30, 30])
    (ticket,) = started(pace, member, most=1)
    pace.finished(ticket, "ok")
    assert pace.paused_s == 0


# The property that matters to a provider: no window of a minute sees more than allowed. Brute force over all windows.


@given(
    limit=st.integers(1, 6),
    steps=st.lists(st.tuples(st.floats(0, 40), st.booleans()), max_size=60),
)
def test_never_more_calls_than_allowed_start_in_any_minute(limit: int, steps: list[tuple[float, bool]]) -> None:
    clock = Clock()
    pace = Pace(1024, requests_per_minute=limit, clock=clock)
    member = pace.join(nothing)
    starts: list[float] = []
    for pause, obedient in steps:
        clock.now += pause
        result = pace.start(member, 0)
        if not isinstance(result, Ticket) and obedient:
            clock.now += result
            result = pace.start(member, 0)
            assert isinstance(result, Ticket)  # the time that it told was long enough
        if isinstance(result, Ticket):
            starts.append(clock.now)
            pace.finished(result, "ok")
    assert all(sum(first <= start < first + 60 for start in starts) <= limit for first in starts)


@given(
    limit=st.integers(10, 100),
    calls=st.lists(st.tuples(st.integers(1, 120), st.floats(0, 1), st.floats(0, 30)), max_size=40),
)
def test_never_more_tokens_than_allowed_are_used_in_any_minute_but_by_one_large_call(
    limit: int, calls: list[tuple[int, float, float]]
) -> None:
    clock = Clock()
    pace = Pace(1024, tokens_per_minute=limit, clock=clock)
    member = pace.join(nothing)
    used: list[tuple[float, int]] = []
    for estimate, share, pause in calls:
        for _ in range(100):
            result = pace.start(member, estimate)
            if isinstance(result, Ticket):
                break
            clock.now += result
        assert isinstance(result, Ticket)
        tokens = int(estimate * share)
        used.append((clock.now, tokens))
        clock.now += pause / 10
        pace.finished(result, "ok", tokens=tokens)
        clock.now += pause
    for first, _ in used:
        amounts = [tokens for at, tokens in used if first <= at < first + 60]
        assert sum(amounts) <= limit or len(amounts) == 1 or amounts[0] <= limit < max(amounts)


def test_tokens_that_were_not_used_after_all_are_free_again(clock: Clock) -> None:
    pace = Pace(10, tokens_per_minute=100, clock=clock)
    member = pace.join(nothing)
    (ticket,) = started(pace, member, tokens=90)
    assert pace.start(member, 90) == pytest.approx(MINUTE_S)
    pace.finished(ticket, "ok", tokens=10)
    assert isinstance(pace.start(member, 90), Ticket)


def test_a_call_that_was_not_made_counts_nowhere(clock: Clock) -> None:
    pace = Pace(1, requests_per_minute=1, tokens_per_minute=10, clock=clock)
    member = pace.join(nothing)
    for _ in range(3):
        ticket = pace.start(member, 10)
        assert isinstance(ticket, Ticket)
        pace.take_back(ticket)


def test_two_runs_share_the_places_evenly(clock: Clock) -> None:
    pace, first = answered(clock)
    held = started(pace, first)
    woken: list[str] = []
    second = pace.join(lambda: woken.append("second"))
    assert pace.start(second, 0) == math.inf
    taken: list[Ticket] = []
    for ticket in list(held):
        pace.finished(ticket, "failed")
        taken += started(pace, second, most=1)
        held += started(pace, first)
    assert (first.in_flight, second.in_flight) == (4, 4)
    assert woken


def test_a_run_that_wants_nothing_more_leaves_its_places_to_others(clock: Clock) -> None:
    pace, first = answered(clock)
    second = pace.join(nothing)
    held = started(pace, first)
    assert pace.start(second, 0) == math.inf
    pace.finished(held[0], "failed")
    assert pace.start(first, 0) == math.inf  # the place belongs to the second
    pace.content(second)
    assert isinstance(pace.start(first, 0), Ticket)


def test_nobody_is_woken_who_has_left(clock: Clock) -> None:
    pace, first = answered(clock)
    woken: list[None] = []
    second = pace.join(lambda: woken.append(None))
    held = started(pace, first)
    pace.start(second, 0)
    pace.leave(second)
    pace.finished(held[0], "failed")
    assert woken == []


def test_all_runs_on_one_model_share_its_pace_and_the_newest_settings_hold() -> None:
    address = "http://127.0.0.1:9/v1"
    one = pace_of("shared", Endpoint(base_url=address, concurrency=4), "m")
    two = pace_of("shared", Endpoint(base_url=address + "/", concurrency=2), "m")
    assert one is two
    assert len(started(one, one.join(nothing))) == 2
    others: list[Callable[[], Pace]] = [
        lambda: pace_of("shared", Endpoint(base_url=address), "other"),
        lambda: pace_of("another", Endpoint(base_url=address), "m"),
        lambda: pace_of("shared", Endpoint(base_url="http://127.0.0.1:10/v1"), "m"),
    ]
    assert all(other() is not one for other in others)


def test_threads_never_start_more_calls_than_allowed_together() -> None:
    pace = Pace(3)
    most, now, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal most, now
        member = pace.join(nothing)
        for _ in range(300):
            ticket = pace.start(member, 0)
            if isinstance(ticket, Ticket):
                with lock:
                    now += 1
                    most = max(most, now)
                with lock:
                    now -= 1
                pace.finished(ticket, "ok")
        pace.leave(member)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= most <= 3


def test_a_guess_of_tokens_holds_the_prompt_and_the_longest_reply() -> None:
    exchange = Exchange((Message("system", "a" * 300), Message("user", "b" * 600)), max_tokens=50)
    assert estimated_tokens(exchange) == 350
