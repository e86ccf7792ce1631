"""Intervene and judge: the design is complete, rows match requests, losses are rows with a state."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.models.door import Door
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.progress import Tally
from radar_dagster.models.requests import request_key
from radar_dagster.models.settings import DoorSettings
from radar_dagster.models.stages import (
    check_models,
    judge_passive,
    judge_probes,
    make_passive,
    make_probes,
    passive_requests,
    probe_requests,
    purpose_of,
)
from radar_dagster.rubric.model import Criterion, Rubric, Scale, Task
from radar_dagster.tables import PASSIVE_RESPONSES, PASSIVE_SCORES

RUBRIC = Rubric(
    name="r",
    criteria=(
        Criterion(id="a/b", label="A", definition="One.", scale=Scale(min=1, max=5)),
        Criterion(id="c", label="C", definition="Two."),
    ),
    tasks=(Task(id="t1", prompt="Write."), Task(id="t2", prompt="Write more.")),
)


#: A generator that refuses one request, and a verifier that can't read one criterion.
SCRIPTED = """
from radar_dagster.models.replies import Generation, State
from radar_dagster.models.settings import DoorSettings

class Model:
    def generate(self, request):
        if (request.task.id, request.criterion.id, request.direction, request.sample) == ("t2", "c", "-", 2):
            return Generation.failed(State.REFUSED, "I would rather not.")
        return f"{request.task.id} {request.criterion.id} {request.direction} {request.sample}"

    def respond(self, request):
        if (request.task.id, request.sample) == ("t1", 3):
            return Generation.failed(State.REFUSED, "Not this one.")
        return "the same text" if request.sample == 2 else f"{request.task.id} {request.sample}"

    def judge(self, request):
        return "4/5" if request.criterion.id == "c" else 3
"""


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "scripted_for_stages.py").write_text(SCRIPTED)
    yield Door(DoorSettings(models={"m": ModelSpec(model="python/scripted_for_stages:Model")}, plugins=folder))
    sys.path.remove(str(folder))
    sys.modules.pop("scripted_for_stages", None)


def test_every_task_criterion_direction_and_sample_is_asked_once() -> None:
    requests = probe_requests(RUBRIC, 3)
    keys = {(r.task.id, r.criterion.id, r.direction, r.sample) for r in requests}
    assert len(requests) == len(keys) == 2 * 2 * 2 * 3
    assert len({request_key(ModelSpec(model="a/b"), r) for r in requests}) == len(requests)


def test_a_probe_that_failed_is_a_row_with_its_state_and_reason(door: Door) -> None:
    probes = make_probes(RUBRIC, door, "m", 2)
    assert len(probes) == 16
    assert probes["probe"].is_unique
    failed = probes[probes["state"] != "ok"]
    assert failed[["probe", "state", "detail"]].values.tolist() == [["t2/-2/c", "refused", "I would rather not."]]
    assert failed["text"].isna().all()


def test_every_probe_has_a_row_per_criterion_and_every_loss_its_own_state(door: Door) -> None:
    scores = judge_probes(RUBRIC, make_probes(RUBRIC, door, "m", 2), door, "m")
    assert len(scores) == 16 * 2
    assert not scores.duplicated(["probe", "criterion"]).any()
    states = scores.groupby("criterion")["state"].value_counts().to_dict()
    assert states == {("a/b", "ok"): 15, ("a/b", "no_probe"): 1, ("c", "parse_error"): 15, ("c", "no_probe"): 1}
    assert (scores["score"].isna() == (scores["state"] != "ok")).all()
    assert (scores["p"].isna() == (scores["state"] != "ok")).all()


def test_p_is_the_score_on_the_criterions_own_scale(door: Door) -> None:
    scores = judge_probes(RUBRIC, make_probes(RUBRIC, door, "m", 1), door, "m")
    assert set(scores.loc[scores["state"] == "ok", "p"]) == {(3 - 1) / (5 - 1)}


def test_a_row_that_took_no_call_has_no_call_key(door: Door) -> None:
    scores = judge_probes(RUBRIC, make_probes(RUBRIC, door, "m", 2), door, "m")
    assert (scores["call_key"].isna() == (scores["state"] == "no_probe")).all()
    assert {json.loads(p).__len__() for p in scores["parameters"]} == {0}


def test_progress_counts_every_call_once(door: Door) -> None:
    heard: list[Tally] = []
    make_probes(RUBRIC, door, "m", 1, heard.append)
    assert (heard[-1].done, heard[-1].total, heard[-1].finished) == (8, 8, True)
    assert sum(heard[-1].states.values()) == 8


def test_a_model_that_cannot_play_its_role_is_refused_before_any_call() -> None:
    door = Door(
        DoorSettings(models={"reader": ModelSpec(model="offline/reader"), "gone": ModelSpec(model="nowhere/model")})
    )
    with pytest.raises(BadInputError, match=r"reader \(offline/reader\) is no generator"):
        check_models(RUBRIC, door, ["reader"], [])
    with pytest.raises(BadInputError, match="no endpoint 'nowhere'"):
        check_models(RUBRIC, door, [], ["gone"])
    with pytest.raises(BadInputError, match="no model 'absent'; models has reader, gone"):
        check_models(RUBRIC, door, ["absent"], [])


def test_no_probe_at_all_still_gives_every_row(door: Door) -> None:
    probes = make_probes(RUBRIC, door, "m", 1).assign(state="refused", text=None)
    scores = judge_probes(RUBRIC, probes, door, "m")
    assert len(scores) == 16
    assert set(scores["state"]) == {"no_probe"}
    assert isinstance(scores, pd.DataFrame)


def test_every_task_has_as_many_bare_responses_for_each_baseline() -> None:
    asked = [(r.task.id, purpose_of(r.sample), r.sample) for r in passive_requests(RUBRIC, 3)]
    assert len(asked) == len(set(asked)) == 2 * 2 * 3
    counts = pd.DataFrame(asked, columns=["task", "purpose", "sample"]).groupby(["task", "purpose"]).size()
    assert set(counts) == {3}


def test_more_responses_ask_again_for_none_that_exist_and_leave_their_purposes() -> None:
    few, many = passive_requests(RUBRIC, 2), passive_requests(RUBRIC, 5)
    assert all(request in many for request in few)


def test_a_bare_response_that_failed_is_a_row_and_so_are_its_scores(door: Door) -> None:
    responses = make_passive(RUBRIC, door, "m", 2)
    assert list(responses.columns) == PASSIVE_RESPONSES.names
    assert responses["response"].is_unique
    failed = responses[responses["state"] != "ok"]
    assert failed[["response", "purpose", "detail"]].values.tolist() == [
        ["t1/correlation/3", "correlation", "Not this one."]
    ]
    scores = judge_passive(RUBRIC, responses, door, "m")
    assert list(scores.columns) == PASSIVE_SCORES.names
    assert len(scores) == 8 * 2
    assert not scores.duplicated(["response", "criterion"]).any()
    lost = scores[scores["state"] == "no_probe"]
    assert set(lost["response"]) == {"t1/correlation/3"}
    assert set(lost["detail"]) == {"the response's generation ended as refused"}
    assert lost["call_key"].isna().all()


def test_a_text_that_was_judged_before_costs_no_second_judgement(tmp_path: Path) -> None:
    models = {"e": ModelSpec(model="offline/editor"), "r": ModelSpec(model="offline/reader")}
    rubric = Rubric(
        name="r",
        criteria=(
            Criterion(id="length", label="Length", definition="How long it is."),
            Criterion(id="order", label="Coherence", definition="In a logical order."),
        ),
        tasks=(Task(id="t", prompt="Write.", reference="The sea rises. The moon pulls it. So there are tides."),),
    )
    with Door(DoorSettings(models=models, ledger=str(tmp_path / "ledger.sqlite"))) as door:
        probes = make_probes(rubric, door, "e", 1)
        judge_probes(rubric, probes, door, "r")
        made = sum(row.calls for row in door.tally())
        as_if_passive = probes.assign(response=probes["probe"], purpose="correlation")
        scores = judge_passive(rubric, as_if_passive, door, "r")
        assert sum(row.calls for row in door.tally()) == made
    assert set(scores["state"]) == {"ok"}


def test_a_generator_that_needs_a_criterion_is_refused_before_any_call() -> None:
    door = Door(DoorSettings(models={"reader": ModelSpec(model="offline/reader")}))
    with pytest.raises(BadInputError, match=r"reader \(offline/reader\) can't answer a task without a criterion"):
        make_passive(RUBRIC, door, "reader", 2)


def test_bare_responses_to_an_older_rubric_are_not_judged(door: Door) -> None:
    responses = make_passive(RUBRIC, door, "m", 2).assign(rubric_version="old")
    with pytest.raises(BadInputError, match="passive responses of r were made from another version"):
        judge_passive(RUBRIC, responses, door, "m")
