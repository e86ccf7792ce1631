"""Request keys: everything that can change an answer changes the key, and nothing else does."""

import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.models.naming import ModelSpec, parse_model_name
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, request_key
from radar_dagster.rubric.model import Criterion, Kind, Scale, Task

TASK = Task(id="t", prompt="Write.", source="Source.", reference="Reference.")
CRITERION = Criterion(id="c", label="C", definition="Clear.")
MODEL = ModelSpec(model="offline/editor")
GENERATION = GenerationRequest(task=TASK, criterion=CRITERION, direction="+", sample=1)
JUDGEMENT = JudgementRequest(task=TASK, criterion=CRITERION, response="An answer.")


def changed(request: GenerationRequest | JudgementRequest, **update: object) -> str:
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
    ]
    assert len(set(keys)) == len(keys)


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
