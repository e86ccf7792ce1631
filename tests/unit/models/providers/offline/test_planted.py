"""The simulator plants what it is told, fails as often as it is told, and refuses contradictory options."""

import numpy as np
import pandas as pd
import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.models.door import Door
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.providers import Generator, Responder, Verifier, connect
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, ResponseRequest
from radar_dagster.models.settings import DoorSettings
from radar_dagster.models.stages import check_models, judge_probes, make_probes
from radar_dagster.rubric.model import Criterion, Rubric, Scale, Task
from radar_dagster.stats.planted import expected_leakage

IDS = ("helpful/ness", "合: 1", "tone")
LEAKAGE = {"helpful/ness": {"合: 1": 0.8}, "合: 1": {"tone": -0.4}, "tone": {}}
MATRIX = np.array([[1, 0.8, 0], [0, 1, -0.4], [0, 0, 1]])


def rubric(scale: Scale | None = None, tasks: int = 2) -> Rubric:
    return Rubric(
        name="planted",
        criteria=tuple(Criterion(id=i, label=i, definition=i, scale=scale or Scale()) for i in IDS),
        tasks=tuple(Task(id=f"t{k}", prompt="p") for k in range(tasks)),
    )


def run_cell(generator: dict, verifier: dict, probes: int, scale: Scale | None = None) -> pd.DataFrame:
    """A whole cell as the assets make it: one row per probe and criterion."""
    door = Door(
        DoorSettings(
            models={
                "g": ModelSpec(model="offline/planted", options=generator),
                "v": ModelSpec(model="offline/planted", options=verifier),
            }
        )
    )
    audited = rubric(scale)
    check_models(audited, door, ["g"], ["v"])
    return judge_probes(audited, make_probes(audited, door, "g", probes), door, "v")


def estimated_leakage(scores: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Ratio of means, written down afresh."""
    means = scores.groupby(["target", "direction", "criterion"])["p"].mean()
    effect = np.array([[means[i, "+", j] - means[i, "-", j] for j in IDS] for i in IDS])
    return effect / np.diag(effect)[:, None], np.diag(effect)


@pytest.mark.parametrize("scale", [Scale(), Scale(min=1, max=7)])
def test_many_probes_recover_the_planted_matrix(scale: Scale) -> None:
    options = {"leakage": LEAKAGE, "self_effects": 0.7, "noise": 0.15}
    estimated, own = estimated_leakage(run_cell(options, {"noise": 0.15}, 150, scale))
    expected, expected_own = expected_leakage(MATRIX, np.full(3, 0.7), 0.15, len(scale.levels))
    assert np.abs(estimated - expected).max() < 0.07
    assert np.abs(own - expected_own).max() < 0.05


def test_without_noise_every_score_is_the_rounded_latent_mean() -> None:
    scores = run_cell({"leakage": LEAKAGE, "self_effects": 0.8, "noise": 0}, {"noise": 0}, 2)
    one = scores[(scores.target == IDS[0]) & (scores.direction == "+")].groupby("criterion")["p"].unique()
    # 0.5 + 0.8/2 = 0.9 and 0.5 + 0.64/2 = 0.82 on five levels; ties go up, so 0.5 stays 0.5.
    assert {k: list(v) for k, v in one.items()} == {IDS[0]: [1.0], IDS[1]: [0.75], IDS[2]: [0.5]}


def test_failures_come_at_the_planted_rates() -> None:
    rates = {"refused": 0.2, "parse_error": 0.1}
    scores = run_cell({"leakage": LEAKAGE, "failure_rates": {"truncated": 0.3}}, {"failure_rates": rates}, 60)
    shares = scores.groupby("state").size() / len(scores)
    assert shares["no_probe"] == pytest.approx(0.3, abs=0.06)
    judged = 1 - shares["no_probe"]
    assert shares["refused"] / judged == pytest.approx(0.2, abs=0.03)
    assert shares["parse_error"] / judged == pytest.approx(0.1, abs=0.025)


def test_draws_are_repeated_by_the_same_seed_only() -> None:
    def drawn(seed: int) -> list[float]:
        return run_cell({"leakage": LEAKAGE}, {"noise": 0.3, "seed": seed}, 3)["p"].tolist()

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_samples_differ_and_look_harmless() -> None:
    model = connect(ModelSpec(model="offline/planted", options={"leakage": LEAKAGE}))
    assert isinstance(model, Generator)
    request = GenerationRequest(task=rubric().tasks[0], criterion=rubric().criteria[0], direction="+", sample=1)
    texts = {model.generate(request.model_copy(update={"sample": s})).text or "" for s in range(1, 6)}
    assert len(texts) == 5
    assert not any(set(text) & set("<>|*`{}\\") for text in texts)


def test_rows_and_a_mapping_plant_the_same() -> None:
    rows = {"criteria": list(IDS), "leakage": MATRIX.tolist(), "noise": 0}
    assert (
        run_cell(rows, {"noise": 0}, 1)["p"].tolist()
        == run_cell({"leakage": LEAKAGE, "noise": 0}, {"noise": 0}, 1)["p"].tolist()
    )


def test_a_text_without_levels_is_a_parse_error() -> None:
    model = connect(ModelSpec(model="offline/planted"))
    assert isinstance(model, Verifier)
    request = JudgementRequest(task=rubric().tasks[0], criterion=rubric().criteria[0], response="Dear Petra, …")
    assert model.judge(request).state == "parse_error"


def test_without_a_matrix_it_can_only_verify() -> None:
    assert not isinstance(connect(ModelSpec(model="offline/planted", options={"noise": 0.2})), Generator)


def test_criteria_alone_plant_no_leakage() -> None:
    scores = run_cell({"criteria": list(IDS), "noise": 0}, {"noise": 0}, 1)
    assert np.array_equal(estimated_leakage(scores)[0], np.eye(3))


def test_a_criterion_that_was_not_planted_is_named() -> None:
    model = connect(ModelSpec(model="offline/planted", options={"criteria": ["tone"]}))
    with pytest.raises(BadInputError, match="'helpful/ness' is not planted"):
        model.check_rubric(rubric())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leakage": {"a": {"b": 0.5}}}, "'b' is no source"),
        ({"criteria": ["a"], "leakage": {"b": {}}}, "source 'b' is not among criteria"),
        ({"criteria": ["a", "b"], "leakage": [[1, 0]]}, "one row and column for each of its 2"),
        ({"criteria": ["a", "a"]}, "names one id twice"),
        ({"criteria": ["a", "b"], "leakage": [[1, 3], [0, 1]]}, r"leakage\[0, 1\].*0 is 'a', 1 is 'b'"),
        ({"criteria": ["a"], "leakage": {"a": {"a": 0.5}}}, "must be 1, but is 0.5"),
        ({"criteria": ["a"], "self_effects": {"b": 0.5}}, "self_effects must have a value for each of a"),
        ({"self_effects": "big"}, "self_effects"),
        ({"noise": -0.1}, "options.noise: .*greater than or equal to 0"),
        ({"noise": float("nan")}, "options.noise"),
        ({"failure_rates": {"refused": 1.2}}, "failure_rates.refused"),
        ({"failure_rates": {"refused": 0.7, "filtered": 0.7}}, "sum to 1.4"),
        ({"failure_rates": {"ok": 0.5}}, "'ok' is not how a call fails"),
        ({"failure_rates": {"tired": 0.5}}, "failure_rates"),
        ({"seed": 1.5}, "options.seed"),
        ({"nose": 0.1}, "unknown option 'nose'"),
    ],
)
def test_contradictory_options_are_named(options: dict, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        connect(ModelSpec(model="offline/planted", options=options))


def passive_levels(samples: int = 3000, **options: object) -> np.ndarray:
    """The levels that texts for a bare task state, (samples, n)."""
    model = connect(ModelSpec(model="offline/planted", options=options))
    assert isinstance(model, Responder)
    task = Task(id="t", prompt="p")
    texts = [model.respond(ResponseRequest(task=task, sample=k)).text or "" for k in range(1, samples + 1)]
    return np.array([[float(line.rpartition(": ")[2]) for line in text.split("\n")[1:]] for text in texts])


def test_levels_of_bare_tasks_correlate_by_the_common_cause_where_nothing_leaks() -> None:
    levels = passive_levels(criteria=["a", "b", "c"], common_cause=0.6, spread=0.1)
    correlations = np.corrcoef(levels, rowvar=False)[np.triu_indices(3, 1)]
    # The standard error of a correlation of 0.6 in 3,000 samples is 0.64/√3000 = 0.012.
    assert correlations == pytest.approx(0.6, abs=0.05)
    assert levels.std(axis=0) == pytest.approx(0.1, abs=0.005)
    assert levels.mean(axis=0) == pytest.approx(0.5, abs=0.01)


def test_what_varies_by_itself_leaks_as_under_an_intervention() -> None:
    levels = passive_levels(leakage={"a": {"b": 0.8}, "b": {}}, spread={"a": 0.1, "b": 0.06})
    # b = 0.8·a + own: the slope is the leakage, and b's variance is 0.08² + 0.06² = 0.1².
    assert np.polyfit(levels[:, 0], levels[:, 1], 1)[0] == pytest.approx(0.8, abs=0.05)
    assert levels.std(axis=0) == pytest.approx([0.1, 0.1], abs=0.005)


def test_levels_of_bare_tasks_stay_on_the_scale() -> None:
    levels = passive_levels(200, criteria=["a", "b"], spread=3)
    assert levels.min() == 0
    assert levels.max() == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criteria": ["a", "b"], "spread": {"a": 0.1}}, "spread must have a value for each of a, b"),
        ({"criteria": ["a", "b"], "spread": -1}, "spread"),
        ({"criteria": ["a", "b"], "common_cause": 1.5}, "common_cause"),
    ],
)
def test_contradictory_options_of_bare_tasks_are_named(options: dict, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        connect(ModelSpec(model="offline/planted", options=options))
