"""Models that run in this process: every call is a row, an answer is used again, code that was edited is asked anew."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from radar_dagster.models.chains import Origin
from radar_dagster.models.door import Call, Door
from radar_dagster.models.ledger import Ledger
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.programmatic import call_each
from radar_dagster.models.progress import Tally
from radar_dagster.models.replies import Judgement, State
from radar_dagster.models.requests import JudgementRequest
from radar_dagster.models.settings import DoorSettings
from radar_dagster.rubric.model import Criterion, Task

CRITERION = Criterion(id="clarity", label="Clarity", definition="How clear it is.")
TASK = Task(id="t", prompt="Write a letter.")
REQUESTS = [JudgementRequest(task=TASK, criterion=CRITERION, response=f"Letter {number}.") for number in range(4)]
KEYS = [f"key {number}" for number in range(4)]
ORIGIN = Origin("session", "run", "python", "python/judges_for_programmatic:judge")

MODULE = "judges_for_programmatic"
JUDGE = """
from pathlib import Path

def judge(request):
    with Path(__file__).with_suffix(".asked").open("a") as file:
        file.write(request.response + chr(10))
    return {score}
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


class Plugin:
    """A judge in a file beside radar.yaml."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / f"{MODULE}.py"

    def edit(self, source: str) -> None:
        self._file.write_text(source)

    def asked(self) -> int:
        """How often it was asked since the last time that this was called."""
        asked = self._file.with_suffix(".asked")
        count = len(asked.read_text().splitlines()) if asked.exists() else 0
        asked.unlink(missing_ok=True)
        return count

    def judge(self, *, restart: bool = True, **door: Any) -> list[Call[Judgement]]:
        """What the judge says, in a process that has just started or in one that runs on."""
        if restart:
            sys.modules.pop(MODULE, None)
        settings = DoorSettings(
            models={"mine": ModelSpec(model=f"python/{MODULE}:judge")},
            plugins=self._folder,
            ledger=str(self._folder / "ledger.sqlite"),
        )
        with Door(settings, **door) as opened:
            return opened.judge("mine", REQUESTS)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    monkeypatch.delenv("RADAR_LEDGER", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Plugin(tmp_path)
    sys.modules.pop(MODULE, None)


def scores(calls: list[Call[Judgement]]) -> list[int | None]:
    return [call.reply.score for call in calls]


def test_a_judge_that_was_not_edited_is_not_asked_again(plugin: Plugin) -> None:
    plugin.edit(JUDGE.format(score=3))
    before = plugin.judge()
    assert plugin.asked() == 4
    plugin.edit(JUDGE.format(score=3))  # saved, but not changed
    assert plugin.judge() == before
    assert plugin.asked() == 0


def test_an_edited_judge_is_asked_anew_and_its_earlier_self_is_remembered(plugin: Plugin) -> None:
    plugin.edit(JUDGE.format(score=3))
    before = plugin.judge()
    plugin.edit(JUDGE.format(score="1 + 1"))
    after = plugin.judge()
    assert plugin.asked() == 8
    assert (scores(before), scores(after)) == ([3] * 4, [2] * 4)
    assert not {call.key for call in before} & {call.key for call in after}
    plugin.edit(JUDGE.format(score=3))
    assert plugin.judge() == before
    assert plugin.asked() == 0


def test_an_edit_while_the_process_runs_does_not_pass_off_old_code_as_new(plugin: Plugin) -> None:
    plugin.edit(JUDGE.format(score=3))
    before = plugin.judge()
    plugin.edit(JUDGE.format(score="1 + 1"))
    assert plugin.judge(restart=False) == before  # what runs is still what was imported
    assert scores(plugin.judge()) == [2] * 4


def test_fresh_asks_again(plugin: Plugin) -> None:
    plugin.edit(JUDGE.format(score=3))
    plugin.judge()
    plugin.judge(fresh=True, session="f")
    assert plugin.asked() == 8
    plugin.judge(fresh=True, session="f")
    assert plugin.asked() == 0


def test_a_judge_that_failed_is_asked_again_and_tells_why(plugin: Plugin) -> None:
    plugin.edit("def judge(request):\n    raise OSError('no such model file')\n")
    for call in plugin.judge():
        assert (call.reply.state, call.reply.score) == (State.TRANSPORT_ERROR, None)
        assert call.reply.detail == "OSError: no such model file"
    plugin.edit("version = '1'\n" + JUDGE.format(score=3))
    assert scores(plugin.judge()) == [3] * 4


def test_what_a_function_of_ones_own_costs_is_unknown_unless_it_says_so(plugin: Plugin) -> None:
    plugin.edit(JUDGE.format(score=3))
    assert {call.record()["usd"] for call in plugin.judge()} == {None}
    said = "from radar_dagster.models.replies import Judgement, State\n"
    said += "def judge(request):\n    return Judgement(state=State.OK, score=1, usd=0.25, input_tokens=7)\n"
    plugin.edit(said)
    for call in (*plugin.judge(), *plugin.judge()):
        assert (call.record()["usd"], call.record()["input_tokens"]) == (0.25, 7)


def test_parameters_that_are_no_json_are_told_in_words(plugin: Plugin) -> None:
    said = "from pathlib import Path\nfrom radar_dagster.models.replies import Judgement, State\n"
    said += (
        "def judge(request):\n    return Judgement(state=State.OK, score=1, parameters={'weights': Path('w.bin')})\n"
    )
    plugin.edit(said)
    first, again = plugin.judge(), plugin.judge()
    assert json.loads(first[0].record()["parameters"]) == {"weights": "w.bin"}
    assert [call.record() for call in again] == [call.record() for call in first]


# Row by row


def rate(request: JudgementRequest) -> Judgement:
    return Judgement(state=State.OK, score=int(request.response[-2]), rationale="so", output_tokens=5)


def test_every_call_is_a_row(ledger: Ledger) -> None:
    replies = call_each(list(zip(KEYS, REQUESTS, strict=True)), rate, ledger=ledger, origin=ORIGIN)
    assert [reply.score for reply in replies] == [0, 1, 2, 3]
    for key, request, reply in zip(KEYS, REQUESTS, replies, strict=True):
        (row,) = ledger.history(key)
        assert (row.role, row.state, row.attempt, row.final, row.mode) == ("judge", "ok", 1, True, "live")
        assert (row.session, row.run_id, row.endpoint, row.model) == ("session", "run", "python", ORIGIN.model)
        assert JudgementRequest.model_validate_json(row.request or "") == request
        assert json.loads(row.parsed or "")["score"] == reply.score
        assert row.output_tokens == 5
        assert row.usd is None
        assert row.latency_s is not None
        assert row.latency_s >= 0


@pytest.mark.parametrize("ended", [KeyboardInterrupt, MemoryError])
def test_an_exception_loses_no_call_that_was_made(ledger: Ledger, ended: type[BaseException]) -> None:
    def judge(request: JudgementRequest) -> Judgement:
        if request is REQUESTS[2]:
            raise ended
        return rate(request)

    with pytest.raises(ended):
        call_each(list(zip(KEYS, REQUESTS, strict=True)), judge, ledger=ledger, origin=ORIGIN)
    assert ledger.answers(KEYS).keys() == {KEYS[0], KEYS[1]}


def test_a_listener_hears_the_end_and_what_the_ledger_answered() -> None:
    heard: list[Tally] = []
    works = list(zip(KEYS, REQUESTS, strict=True))
    call_each(works, rate, ledger=None, origin=ORIGIN, from_ledger=6, listener=heard.append)
    assert (heard[-1].done, heard[-1].total, heard[-1].from_ledger, heard[-1].finished) == (10, 10, 6, True)
    assert heard[-1].states == {"ok": 10}


def test_a_model_that_does_not_answer_at_once_is_written_down_call_by_call(ledger: Ledger) -> None:
    seen: list[int] = []

    def slow(deed: Callable[[JudgementRequest], Judgement]) -> Callable[[JudgementRequest], Judgement]:
        def judge(request: JudgementRequest) -> Judgement:
            import time

            seen.append(len(ledger.answers(KEYS)))
            time.sleep(0.06)
            return deed(request)

        return judge

    call_each(list(zip(KEYS, REQUESTS, strict=True)), slow(rate), ledger=ledger, origin=ORIGIN)
    assert seen == [0, 1, 2, 3]
