"""When an endpoint is given up."""

from radar_dagster.models.health import Health
from radar_dagster.models.replies import State


def test_an_endpoint_that_was_never_reached_gets_a_second_try_and_no_third() -> None:
    health = Health()
    assert health.unreachable(10.0, 9.9, "refused") is None
    assert health.hold_until == 10.3
    assert health.unreachable(10.31, 10.3, "refused") == "refused"


def test_calls_that_set_out_together_are_one_try() -> None:
    health = Health()
    answers = [health.unreachable(10.0 + index / 1000, 9.9, "refused") for index in range(32)]
    assert answers == [None] * 32


def test_a_first_try_that_took_seconds_is_the_last() -> None:
    assert Health().unreachable(12.5, 10.0, "no route") == "no route"


def test_once_reached_a_lost_connection_is_waited_for_up_to_a_minute() -> None:
    health = Health()
    health.reached()
    now, tries = 0.0, 0
    while (reason := health.unreachable(now, now, "refused")) is None:
        assert health.hold_until > now
        now, tries = health.hold_until, tries + 1
    assert 60 <= now <= 66
    assert 10 <= tries <= 20
    assert reason == f"refused; the connection has been gone for {now:.0f} s"


def test_a_single_call_tries_while_the_connection_is_lost() -> None:
    health = Health()
    health.reached()
    health.unreachable(0.0, 0.0, "refused")
    health.started(health.hold_until)
    assert health.hold_until > 2.0  # nobody else starts until it is known how that one fares
    health.reached()
    assert health.hold_until < 0.5


def test_a_connection_that_came_back_may_be_lost_again() -> None:
    health = Health()
    health.reached()
    health.unreachable(0.0, 0.0, "refused")
    health.reached()
    assert health.unreachable(59.0, 59.0, "refused") is None
    assert health.unreachable(61.0, 61.0, "refused") is None


def test_twenty_requests_that_all_fail_are_the_end() -> None:
    health = Health()
    answers = [health.ended(State.TRANSPORT_ERROR, f"error {index}") for index in range(20)]
    assert answers[:19] == [None] * 19
    assert answers[19] == "given up, for the last 20 requests all failed; the last one: error 19"


def test_after_any_answer_it_takes_fifty_in_a_row() -> None:
    health = Health()
    for state in (State.OK, State.REFUSED, State.PARSE_ERROR):
        assert health.ended(state, None) is None
        assert [health.ended(State.TRANSPORT_ERROR, "x") for _ in range(49)] == [None] * 49
    assert health.ended(State.TRANSPORT_ERROR, "x") is not None


def test_requests_that_are_refused_one_by_one_do_not_count_once_others_were_answered() -> None:
    health = Health()
    assert [health.ended(State.TRANSPORT_ERROR, "too long", refused=True) for _ in range(19)] == [None] * 19
    health.ended(State.OK, None)
    assert [health.ended(State.TRANSPORT_ERROR, "too long", refused=True) for _ in range(99)] == [None] * 99
    assert Health().ended(State.TRANSPORT_ERROR, "x") is None
