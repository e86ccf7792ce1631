"""Request keys: everything that can change an answer changes the key, and nothing else does."""

import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.models.naming import ModelSpec, parse_model_name
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, ResponseRequest, request_key
from radar_dagster.rubric.model import Criterion, Kind, Scale, Task

TASK = Task(id="t", prompt="Write.", source="Source.", reference="Reference.")
CRITERION = Criterion(id="c", label="C", definition="Clear.")
MODEL = ModelSpec(model="offline/editor")
GENERATION = GenerationRequest(task=TASK, criterion=CRITERION, direction="+", sample=1)
JUDGEMENT = JudgementRequest(task=TASK, criterion=CRITERION, response="An answer.")
RESPONSE = ResponseRequest(task=TASK, sample=1)


def changed(request: GenerationRequest | ResponseRequest | JudgementRequest, **update: object) -> str:
    return request_key(MODEL, request.model_copy(update=update))


def test_all_that_can_change_an_answer_changes_the_key() -> None:
    keys = [
        request_key(MODEL, GENERATION),
        request_key(ModelSpec(model="offline/other"), GENERATION),
        request_key(ModelSpec(model="offline/editor", options={"seed": 1}), GENERATION),
        changed(GENERATION, direction="-"),
        changed(GENERATION, sample=2),
        *(
            changed(GENERATION, task=TASK.model_copy(update={field: "x"}))
            for field in ("prompt", "source", "reference")
        ),
        *(
            changed(GENERATION, criterion=CRITERION.model_copy(update={field: "x"}))
            for field in ("label", "definition")
        ),
        changed(GENERATION, criterion=CRITERION.model_copy(update={"kind": Kind.DESCRIPTIVE})),
        changed(GENERATION, criterion=CRITERION.model_copy(update={"scale": Scale(max=5)})),
        request_key(MODEL, JUDGEMENT),
        changed(JUDGEMENT, response="Another answer."),
        changed(JUDGEMENT, repeat=2),
        request_key(MODEL, RESPONSE),
        changed(RESPONSE, sample=2),
        changed(RESPONSE, task=TASK.model_copy(update={"prompt": "x"})),
    ]
    assert len(set(keys)) == len(keys)


def test_keys_of_calls_that_were_paid_for_stay_as_they_are() -> None:
    # Computed before there were requests without a criterion: a changed key would have every stored call made again.
    assert request_key(MODEL, GENERATION) == "d69693d08cd12007f74367fb6d841986092bfbcb32542a24d3e6d7dc60ee3bb3"
    assert request_key(MODEL, JUDGEMENT, "7") == "4c4c66465ddfa7c803c3acb111c1075ca3ee998ef14b925266e02e8486afe3f5"


def test_a_bare_response_is_asked_for_without_criterion_and_direction() -> None:
    assert set(ResponseRequest.model_fields) == {"task", "sample"}


def test_a_weight_is_never_shown_to_a_model_and_changes_no_key() -> None:
    heavier = CRITERION.model_copy(update={"weight": 3.0})
    assert changed(GENERATION, criterion=heavier) == request_key(MODEL, GENERATION)


def test_a_verifier_is_told_nothing_of_how_the_probe_was_made() -> None:
    assert set(JudgementRequest.model_fields) == {"task", "criterion", "response", "repeat"}


@pytest.mark.parametrize(
    "name", ["offline/editor", "python/package.module:object", "endpoint-1/org/model", "openai/m@low"]
)
def test_a_model_name_reads_back(name: str) -> None:
    assert str(parse_model_name(name)) == name


@pytest.mark.parametrize("name", ["", "editor", "/editor", "offline/", "Offline/editor", "offline/a b", "offline/a@"])
def test_what_is_no_model_name_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match="expected provider/model"):
        parse_model_name(name)
