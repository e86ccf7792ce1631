"""Great Expectations suites on real tables, in the process of their own; each fault planted by hand."""

from collections.abc import Iterator

import pandas as pd
import pytest

from radar_dagster.checks.common import check_result
from radar_dagster.checks.expectations import Expectation, Suite
from radar_dagster.checks.probes import probe_suites
from radar_dagster.checks.scores import score_suites
from radar_dagster.checks.worker import Worker
from radar_dagster.models.door import Door
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.settings import DoorSettings
from radar_dagster.models.stages import judge_probes, make_probes
from radar_dagster.rubric.loading import benchmark_path, load_rubric
from radar_dagster.stats.settings import Policy

pytestmark = pytest.mark.slow

RUBRIC = load_rubric(benchmark_path("helpsteer2"))
DOOR = Door(
    DoorSettings(models={"editor": ModelSpec(model="offline/editor"), "reader": ModelSpec(model="offline/reader")})
)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    worker.start()
    yield worker
    worker.stop()


@pytest.fixture(scope="module")
def probes() -> pd.DataFrame:
    return make_probes(RUBRIC, DOOR, "editor", 1)


@pytest.fixture(scope="module")
def scores(probes: pd.DataFrame) -> pd.DataFrame:
    return judge_probes(RUBRIC, probes, DOOR, "reader")


def failed(worker: Worker, suites: list[Suite]) -> set[str]:
    return {o.expectation for suite in suites for o in worker.validate(suite) if not o.success and o.blocking}


def test_real_probes_and_scores_meet_their_expectations(
    worker: Worker, probes: pd.DataFrame, scores: pd.DataFrame
) -> None:
    assert failed(worker, probe_suites(probes, RUBRIC, 1, Policy())) == set()
    assert failed(worker, score_suites(scores, probes, RUBRIC)) == set()


@pytest.mark.parametrize(
    ("fault", "expectation"),
    [
        (lambda f: f.iloc[1:], "ExpectTableRowCountToEqual: table"),
        (lambda f: pd.concat([f.iloc[1:], f.iloc[[1]]]), "ExpectCompoundColumnsToBeUnique"),
        (lambda f: f.assign(target=["nobody", *f["target"][1:]]), "ExpectColumnValuesToBeInSet: target"),
        (lambda f: f.assign(sample=[7, *f["sample"][1:]]), "ExpectColumnValuesToBeBetween: sample"),
        (lambda f: f.assign(state=["refused"] * 5 + list(f["state"][5:])), "ExpectColumnValuesToBeInSet: state"),
        (lambda f: f.assign(text=[None, *f["text"][1:]]), "ExpectColumnValuesToNotBeNull: text"),
    ],
    ids=["lost row", "row twice", "unknown criterion", "unknown sample", "many refusals", "ok without text"],
)
def test_a_fault_in_the_probes_is_found(worker: Worker, probes: pd.DataFrame, fault, expectation: str) -> None:
    found = failed(worker, probe_suites(fault(probes), RUBRIC, 1, Policy()))
    assert any(name.startswith(expectation) for name in found), found


@pytest.mark.parametrize(
    ("fault", "expectation"),
    [
        (lambda f: f.iloc[1:], "ExpectTableRowCountToEqual: table"),
        (lambda f: f.assign(probe=["stranger", *f["probe"][1:]]), "ExpectColumnValuesToBeInSet: probe"),
        (lambda f: f.assign(score=[9, *f["score"][1:]]), "ExpectColumnValuesToBeInSet: on_scale"),
        (lambda f: f.assign(p=[1.5, *f["p"][1:]]), "ExpectColumnValuesToBeBetween: p"),
        (lambda f: f.assign(state=["refused", *f["state"][1:]]), "ExpectColumnValuesToBeNull: score"),
    ],
    ids=["lost row", "unknown probe", "off the scale", "p above 1", "refused with a score"],
)
def test_a_fault_in_the_scores_is_found(
    worker: Worker, probes: pd.DataFrame, scores: pd.DataFrame, fault, expectation: str
) -> None:
    found = failed(worker, score_suites(fault(scores), probes, RUBRIC))
    assert any(name.startswith(expectation) for name in found), found


def test_identical_texts_are_a_warning_and_no_error(worker: Worker, probes: pd.DataFrame) -> None:
    suites = probe_suites(probes.assign(text="the same"), RUBRIC, 1, Policy())
    result = check_result([o for suite in suites for o in worker.validate(suite)])
    assert (result.passed, result.severity.value) == (False, "WARN")


def test_a_suite_that_cannot_be_evaluated_is_an_error_and_not_a_pass(worker: Worker) -> None:
    suite = Suite(pd.DataFrame({"a": [1]}), [Expectation("ExpectColumnValuesToNotBeNull", {"column": "b"})])
    with pytest.raises(RuntimeError, match='could not be evaluated: .*column "b"'):
        worker.validate(suite)


def test_a_process_that_died_is_reported_and_the_next_call_starts_another(worker: Worker) -> None:
    suite = Suite(pd.DataFrame({"a": [1]}), [Expectation("ExpectColumnValuesToNotBeNull", {"column": "a"})])
    assert [o.success for o in worker.validate(suite)] == [True]
    assert worker._process is not None
    worker._process.kill()
    worker._process.wait()
    assert [o.success for o in worker.validate(suite)] == [True]
