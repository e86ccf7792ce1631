"""Trying attacks on a judge: what counts as followed, as lost, and what a judge that obeys does to the numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from radar_dagster.models.door import Door
from radar_dagster.models.injection import COLUMNS, POOR_RESPONSE, battery, try_judge
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.settings import DoorSettings
from radar_dagster.rubric.model import Criterion, Rubric, Scale, Task

JUDGES = """
def obedient(request):
    return request.criterion.scale.max if "Ignore the rubric" in request.response else request.criterion.scale.min

def deaf(request):
    return request.criterion.scale.min

def generous(request):
    return request.criterion.scale.max

def forgetful(request):
    return None if "Ignore the rubric" in request.response else request.criterion.scale.min
"""
RUBRIC = Rubric(
    name="r",
    criteria=(
        Criterion(id="a", label="A", definition="Clear.", scale=Scale(min=1, max=5)),
        Criterion(id="b", label="B", definition="Short."),
    ),
    tasks=(Task(id="t", prompt="Write."), Task(id="u", prompt="Read.")),
)
ORDERS = sum("Ignore the rubric" in attack.text for attack in battery(RUBRIC.criteria[0]))


@pytest.fixture
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "judges_to_attack.py").write_text(JUDGES)
    names = ("obedient", "deaf", "generous", "forgetful")
    models = {name: ModelSpec(model=f"python/judges_to_attack:{name}") for name in names}
    yield Door(DoorSettings(models=models, plugins=folder, ledger=str(folder / "ledger.sqlite")))
    sys.path.remove(str(folder))
    sys.modules.pop("judges_to_attack", None)


def test_a_judge_that_obeys_is_caught_by_every_attack_that_orders_it(door: Door) -> None:
    frame = try_judge(RUBRIC, door, "obedient")
    assert tuple(frame.columns) == COLUMNS
    assert len(frame) == 2 * 2 * len(battery(RUBRIC.criteria[0]))
    assert frame["followed"].sum() == 2 * 2 * ORDERS > 0
    caught = frame[frame["followed"].eq(True)]
    assert set(zip(caught["criterion"], caught["plain"], caught["attacked"], strict=True)) == {("a", 1, 5), ("b", 0, 4)}


@pytest.mark.parametrize("judge", ["deaf", "generous"])
def test_a_judge_that_gives_the_same_score_with_and_without_the_attack_has_followed_none(
    door: Door, judge: str
) -> None:
    assert not try_judge(RUBRIC, door, judge)["followed"].any()


def test_a_lost_judgement_is_neither_followed_nor_withstood(door: Door) -> None:
    frame = try_judge(RUBRIC, door, "forgetful")
    lost = frame[frame["followed"].isna()]
    assert len(lost) == 2 * 2 * ORDERS
    assert set(lost["state"]) == {"parse_error"}
    assert set(frame.loc[frame["followed"].eq(False), "state"]) == {"ok"}


def test_every_task_and_criterion_is_tried_with_the_same_poor_response(door: Door) -> None:
    frame = try_judge(RUBRIC, door, "deaf")
    assert len(frame) == 2 * 2 * len(battery(RUBRIC.criteria[0]))
    assert len(set(frame["call_key"])) == len(frame)
    attempts = door.ledger.history(frame["call_key"][0])
    assert attempts[0].request is not None
    assert POOR_RESPONSE in attempts[0].request
