"""What people hear of a run."""

import io
from decimal import Decimal

import pytest
from rich.console import Console

from radar_dagster.models import progress
from radar_dagster.models.exchange import Usage
from radar_dagster.models.progress import Counts, Tally, line, log_lines, tell, terminal_progress, watching
from radar_dagster.models.replies import State


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def tally(**facts: object) -> Tally:
    known: dict[str, object] = {"title": "judge local/m", "run": 1, "done": 10, "total": 40, "states": {"ok": 10}}
    return Tally(**{**known, **facts})  # type: ignore[arg-type]


def test_counts_add_up() -> None:
    counts = Counts("local/m", total=5, from_ledger=2)
    counts.attempt(None, Decimal(0))
    counts.attempt(Usage(10, 3), Decimal("0.25"))
    counts.attempt(Usage(20, None), None)
    counts.ended(State.OK)
    counts.ended(State.PARSE_ERROR, 2)
    counts.ended(State.OK, from_ledger=True)
    told = counts.tally(limit=8, paused_s=1.5)
    assert (told.done, told.total, told.from_ledger, told.failed) == (6, 7, 3, 2)
    assert told.states == {"ok": 4, "parse_error": 2}
    assert sum(told.states.values()) == told.done
    assert (told.attempts, told.input_tokens, told.output_tokens) == (3, 30, 3)
    assert (told.usd, told.unpriced) == (Decimal("0.25"), 1)
    assert (told.limit, told.paused_s) == (8, 1.5)


def test_the_speed_is_that_of_the_last_seconds_and_at_the_end_that_of_the_whole() -> None:
    clock = Clock()
    counts = Counts("local/m", total=1000, from_ledger=100, clock=clock)
    assert counts.tally().rate is None
    for _ in range(100):  # ten seconds at ten a second
        clock.now += 0.1
        counts.ended(State.OK)
        counts.tally()
    assert counts.tally().rate == pytest.approx(10)
    for _ in range(300):  # thirty at five
        clock.now += 0.2
        counts.ended(State.OK)
        counts.tally()
    told = counts.tally()
    assert told.rate == pytest.approx(5, rel=0.02)
    assert told.eta_s == pytest.approx(600 / 5, rel=0.02)
    counts.finished = True
    assert counts.tally().rate == pytest.approx(400 / 70)


def test_what_the_ledger_answers_makes_the_calls_no_faster() -> None:
    clock = Clock()
    counts = Counts("local/m", total=1000, clock=clock)
    counts.ended(State.OK, 900, from_ledger=True)
    for _ in range(10):  # a call a second
        clock.now += 1.0
        counts.ended(State.OK)
        counts.tally()
    told = counts.tally()
    assert told.rate == pytest.approx(1)
    assert told.eta_s == pytest.approx(90)


def test_a_line_tells_what_matters_and_nothing_that_is_not_known() -> None:
    assert line(tally()) == "judge local/m: 10/40"
    assert line(tally(from_ledger=4)) == "judge local/m: 10/40, 4 from the ledger"
    assert line(tally(attempts=10, usd=Decimal("1234.5"))) == "judge local/m: 10/40, 0 + 0 tokens, $1,234.50"
    assert line(tally(attempts=10, unpriced=10)).endswith("10 calls of unknown price")
    assert line(tally(attempts=10, usd=Decimal("0.5"), unpriced=2)).endswith("$0.5000 and 2 calls of unknown price")
    assert line(tally(eta_s=3723.4)).endswith("1:02:03 left")
    assert line(tally(paused_s=12.3)).endswith("the endpoint wants a pause of 12 s")
    assert line(tally(stopping=True, in_flight=3, eta_s=5)).endswith("stopping, waiting for 3 calls")
    assert line(tally(finished=True, elapsed_s=61)).endswith("took 1:01")


def test_unknown_cost_is_never_told_as_nothing() -> None:
    assert "$" not in line(tally(attempts=5, unpriced=5))


def test_log_lines_come_every_ten_seconds_of_each_run_and_at_its_end() -> None:
    said: list[str] = []
    listen = log_lines(said.append)
    for tenth in range(305):
        for run in (1, 2):
            listen(tally(run=run, title=f"run {run}", elapsed_s=tenth / 10))
    assert [text.split(":")[0] for text in said] == ["run 1", "run 2"] * 3
    listen(tally(run=1, title="run 1", elapsed_s=30.6, finished=True))
    assert len(said) == 7
    assert said[-1].endswith("took 0:31")


def test_watchers_hear_every_run_while_they_watch() -> None:
    first: list[Tally] = []
    second: list[Tally] = []
    own: list[Tally] = []
    tell(tally(), None)
    with watching(first.append):
        tell(tally(done=11), own.append)
        with watching(second.append):
            tell(tally(done=12), None)
    tell(tally(done=13), None)
    assert [heard.done for heard in first] == [11, 12]
    assert [heard.done for heard in second] == [12]
    assert [heard.done for heard in own] == [11]
    assert not progress.anybody_listens(None)


def test_without_a_terminal_there_are_plain_lines() -> None:
    out = io.StringIO()
    with terminal_progress(Console(file=out, width=40)):
        tell(tally(elapsed_s=3.0), None)
        tell(tally(elapsed_s=11.0, attempts=3), None)
        tell(tally(elapsed_s=12.0), None)
        tell(tally(elapsed_s=13.0, done=40, states={"ok": 40}, finished=True), None)
    assert out.getvalue().splitlines() == [
        "judge local/m: 10/40, 0 + 0 tokens, $0.00",
        "judge local/m: 40/40, took 0:13",
    ]


def test_on_a_terminal_a_line_lives_and_the_last_one_stays() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with terminal_progress(console):
        tell(tally(done=10), None)
        tell(tally(done=20, run=2, title="judge [bold]other[/]"), None)
        tell(tally(done=30, states={"ok": 30}), None)
        tell(tally(done=40, states={"ok": 40}, finished=True, elapsed_s=5), None)
    text = out.getvalue()
    assert "judge local/m: 30/40" in text
    assert "judge [bold]other[/]: 20/40" in text  # a name is no markup
    assert text.count("took 0:05") == 1
    assert "\x1b[" in text  # what is drawn again is erased first


@pytest.mark.parametrize("terminal", [False, True])
def test_an_interrupt_is_told_once_with_the_calls_that_are_waited_for(terminal: bool) -> None:
    out = io.StringIO()
    with terminal_progress(Console(file=out, force_terminal=terminal, width=300, color_system=None)):
        tell(tally(in_flight=4), None)
        for in_flight in (3, 2, 0):
            tell(tally(in_flight=in_flight, stopping=True, waits_s=30.0), None)
        tell(tally(stopping=True, in_flight=5, run=2), None)  # it ends because of an error
    assert out.getvalue().count("interrupted") == 1
    assert "judge local/m: interrupted; no more calls start. Waiting up to 30 s for 3 calls that are" in out.getvalue()


def test_what_is_piped_goes_where_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal_progress(Console(file=io.StringIO(), force_terminal=True)):
        print("a result")
    assert capsys.readouterr().out == "a result\n"
