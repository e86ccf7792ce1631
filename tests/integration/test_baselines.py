"""Passive baselines end to end: the argument of the documentation, the jobs, and faults in the tables."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pandas as pd
import pytest

from radar_dagster import jobs
from radar_dagster.checks.expectations import Suite
from radar_dagster.checks.passive import passive_score_suites, response_suites
from radar_dagster.checks.worker import Worker
from radar_dagster.config import Workspace, load_workspace
from radar_dagster.definitions import build_definitions
from radar_dagster.lake import Lake
from radar_dagster.models.door import Door
from radar_dagster.models.stages import judge_passive, judge_probes, make_passive, make_probes
from radar_dagster.partitions import multi_key
from radar_dagster.stats.audit import analyse
from radar_dagster.stats.passive import baseline_tables
from radar_dagster.stats.settings import Policy
from radar_dagster.tables import BASELINE_TABLES

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "baselines.md"
A, B = "helpfulness", "correctness"


# The argument of the documentation


@dataclass(frozen=True)
class Seen:
    """Helpfulness and correctness as each method sees them."""

    correlation: float
    redundancy: float
    leakage: float
    back: float
    reading: str


def seen(workspace: Workspace, generator: str) -> Seen:
    rubric = workspace.rubric("helpsteer2")
    criteria = [criterion.id for criterion in rubric.criteria]
    with Door(workspace.door.model_copy(update={"ledger": None})) as door:
        probes = make_probes(rubric, door, generator, workspace.audit.probes)
        scores = judge_probes(rubric, probes, door, "judge")
        responses = make_passive(rubric, door, generator, workspace.audit.passive_responses)
        passive = judge_passive(rubric, responses, door, "judge")
    pairs = analyse(scores, settings=workspace.audit.coupling, criteria=criteria).criterion_pairs
    audited = pairs.set_index(["criterion_a", "criterion_b"]).loc[(A, B)]
    baselines = baseline_tables(passive, criteria)[0].set_index(["method", "criterion_a", "criterion_b"])["value"]
    return Seen(
        correlation=baselines["synthetic_correlation", A, B],
        redundancy=baselines["rrd", A, B],
        leakage=audited["leakage_ab"],
        back=audited["leakage_ba"],
        reading=audited["reading"],
    )


@pytest.fixture(scope="module")
def argument(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """The configuration on the page, run as it stands there."""
    folder = tmp_path_factory.mktemp("argument")
    configuration = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert configuration is not None
    (folder / "radar.yaml").write_text(configuration[1], encoding="utf-8")
    workspace = load_workspace(folder / "radar.yaml")
    return {generator: seen(workspace, generator) for generator in workspace.generators}


def shown(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no minus before a zero


def test_the_table_of_the_documentation_is_what_a_run_gives(argument: dict[str, Seen]) -> None:
    lines = [
        f"| generator | correlation | redundancy | leakage {A} → {B} | leakage {B} → {A} | reading by intervention |",
        "|---|---|---|---|---|---|",
        *(
            f"| `{name}` | {shown(s.correlation)} | {shown(s.redundancy)} | {shown(s.leakage)} | {shown(s.back)} | "
            f"{s.reading} |"
            for name, s in argument.items()
        ),
    ]
    table = re.search(
        r"<!-- argument: begin -->\n(.*?)\n?<!-- argument: end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert table is not None
    assert table[1].strip().splitlines() == lines, "\n".join(lines)


def test_a_common_cause_looks_like_coupling_to_who_watches_and_is_none_to_who_pushes(argument: dict[str, Seen]) -> None:
    found = argument["common_cause"]
    assert found.correlation > 0.5
    assert found.redundancy > 0.1
    assert abs(found.leakage) < 0.15
    assert abs(found.back) < 0.15
    assert found.reading == "separable"


def test_a_coupling_that_nothing_sets_off_is_hidden_from_who_watches_and_found_by_who_pushes(
    argument: dict[str, Seen],
) -> None:
    found = argument["hidden"]
    assert abs(found.correlation) < 0.14  # three standard errors of r = 0 in 500 responses
    assert abs(found.redundancy) < 0.14
    assert found.leakage > 0.6
    assert found.reading == "directional"


def test_watching_can_not_tell_a_coupling_from_a_common_cause(argument: dict[str, Seen]) -> None:
    cause, coupling = argument["common_cause"], argument["visible"]
    assert coupling.correlation == pytest.approx(cause.correlation, abs=0.15)
    assert (cause.reading, coupling.reading) == ("separable", "directional")


# The jobs


PLANTED = """
benchmarks: [rubrics/letters.yaml]
audit: {passive_responses: 4}
models:
  writer:
    model: offline/planted
    options: {criteria: [accuracy, brevity, courtesy], common_cause: 0.8}
  unable: python/judges:write
  judge: {model: offline/planted, options: {noise: 0.05}}
  lossy: {model: offline/planted, options: {noise: 0.05, failure_rates: {parse_error: 0.3}}}
generators: [writer, unable]
verifiers: [judge, lossy]
"""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("passive")
    shutil.copytree(Path(__file__).parent / "workspace", folder, dirs_exist_ok=True)
    (folder / "radar.yaml").write_text(PLANTED, encoding="utf-8")
    return load_workspace(folder / "radar.yaml")


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def run(workspace: Workspace, instance: dg.DagsterInstance, job: str, **dims: str) -> dg.ExecuteInProcessResult:
    definition = build_definitions(workspace).resolve_job_def(job)
    key = multi_key(benchmark="letters", **dims) if dims else "letters"
    return definition.execute_in_process(partition_key=key, instance=instance, raise_on_error=False)


@pytest.fixture(scope="module")
def made(workspace: Workspace, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    """The rubric, and the passive responses of `writer`."""
    assert run(workspace, instance, jobs.LOAD_RUBRICS).success
    return run(workspace, instance, jobs.GENERATE_PASSIVE, generator="writer")


def materialised(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetMaterialization]:
    events = [event.materialization for event in result.get_asset_materialization_events()]
    return {found.asset_key.to_user_string(): found for found in events}


def passed(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {evaluation.check_name: evaluation.passed for evaluation in result.get_asset_check_evaluations()}


def test_two_jobs_make_every_table_of_the_baselines_and_check_what_cost_calls(
    workspace: Workspace, instance: dg.DagsterInstance, made: dg.ExecuteInProcessResult
) -> None:
    assert made.success
    assert passed(made) == {"passive_responses_expectations": True}
    judged = run(workspace, instance, jobs.JUDGE_PASSIVE, pair="writer~judge")
    assert judged.success
    assert passed(judged) == {"passive_scores_expectations": True}
    found = materialised(judged)
    assert set(found) == {"passive_scores", *BASELINE_TABLES}
    assert {"synthetic_correlation", "rrd", "table"} <= set(found["baselines"].metadata)

    lake = Lake(workspace.store_url)
    tasks = len(workspace.rubric("letters").tasks)
    responses = lake.read("passive_responses", benchmark="letters", generator="writer")
    assert len(responses) == tasks * 2 * 4
    dims = {"benchmark": "letters", "pair": "writer~judge"}
    assert len(lake.read("passive_scores", **dims)) == len(responses) * 3
    baselines = lake.read("baselines", **dims)
    assert baselines.groupby("method").size().to_dict() == {"rrd": 3, "synthetic_correlation": 3}
    weights = lake.read("baseline_weights", **dims)
    assert weights["declared"].sum() == pytest.approx(1)


def test_what_was_paid_for_is_not_asked_for_again(
    workspace: Workspace, instance: dg.DagsterInstance, made: dg.ExecuteInProcessResult
) -> None:
    first = materialised(made)["passive_responses"].metadata
    more = workspace.model_copy(update={"audit": workspace.audit.model_copy(update={"passive_responses": 5})})
    try:
        again = materialised(run(more, instance, jobs.GENERATE_PASSIVE, generator="writer"))["passive_responses"]
        tasks = len(workspace.rubric("letters").tasks)
        assert first["calls_made"].value == tasks * 2 * 4
        assert again.metadata["calls_made"].value == tasks * 2
    finally:
        assert run(workspace, instance, jobs.GENERATE_PASSIVE, generator="writer").success


def test_too_many_lost_scores_stop_the_baselines(
    workspace: Workspace, instance: dg.DagsterInstance, made: dg.ExecuteInProcessResult
) -> None:
    assert made.success
    judged = run(workspace, instance, jobs.JUDGE_PASSIVE, pair="writer~lossy")
    assert not judged.success
    assert passed(judged) == {"passive_scores_expectations": False}
    assert set(materialised(judged)) == {"passive_scores"}


def test_a_generator_that_needs_a_criterion_fails_with_the_reason_and_makes_nothing(
    workspace: Workspace, instance: dg.DagsterInstance, made: dg.ExecuteInProcessResult
) -> None:
    assert made.success
    result = run(workspace, instance, jobs.GENERATE_PASSIVE, generator="unable")
    assert not result.success
    assert materialised(result) == {}
    (failure,) = [e for e in result.all_events if e.is_step_failure]
    told = str(failure.step_failure_data.error.cause or failure.step_failure_data.error)
    assert "unable (python/judges:write) can't answer a task without a criterion" in told


# Faults in the tables


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    worker.start()
    yield worker
    worker.stop()


@pytest.fixture(scope="module")
def tables(workspace: Workspace) -> tuple[pd.DataFrame, pd.DataFrame]:
    rubric = workspace.rubric("letters")
    with Door(workspace.door.model_copy(update={"ledger": None})) as door:
        responses = make_passive(rubric, door, "writer", 2)
        return responses, judge_passive(rubric, responses, door, "judge")


def failed(worker: Worker, suites: list[Suite]) -> set[str]:
    return {o.expectation for suite in suites for o in worker.validate(suite) if not o.success and o.blocking}


@pytest.mark.parametrize(
    ("fault", "expectation"),
    [
        (lambda f: f, None),
        (lambda f: f.iloc[1:], "ExpectTableRowCountToEqual: table"),
        (lambda f: pd.concat([f.iloc[1:], f.iloc[[1]]]), "ExpectCompoundColumnsToBeUnique"),
        (lambda f: f.assign(purpose=["other", *f["purpose"][1:]]), "ExpectColumnValuesToBeInSet: purpose"),
        (lambda f: f.assign(sample=[9, *f["sample"][1:]]), "ExpectColumnValuesToBeBetween: sample"),
        (lambda f: f.assign(state=["refused"] * 2 + list(f["state"][2:])), "ExpectColumnValuesToBeInSet: state"),
    ],
    ids=["none", "lost row", "row twice", "unknown purpose", "unknown sample", "refusals"],
)
def test_a_fault_in_the_responses_is_found(worker: Worker, workspace: Workspace, tables, fault, expectation) -> None:
    found = failed(worker, response_suites(fault(tables[0]), workspace.rubric("letters"), 2, Policy()))
    assert (not found) if expectation is None else any(name.startswith(expectation) for name in found), found


@pytest.mark.parametrize(
    ("fault", "expectation"),
    [
        (lambda f: f, None),
        (lambda f: f.iloc[1:], "ExpectTableRowCountToEqual: table"),
        (lambda f: f.assign(response=["stranger", *f["response"][1:]]), "ExpectColumnValuesToBeInSet: response"),
        (
            lambda f: f.assign(state=["refused"] * 2 + list(f["state"][2:])).astype({"score": "Int64"}),
            "ExpectColumnValuesToBeInSet: state",
        ),
    ],
    ids=["none", "lost row", "unknown response", "many losses"],
)
def test_a_fault_in_the_scores_is_found(worker: Worker, workspace: Workspace, tables, fault, expectation) -> None:
    responses, scores = tables
    suites = passive_score_suites(fault(scores), responses, workspace.rubric("letters"), Policy())
    found = failed(worker, suites)
    assert (not found) if expectation is None else any(name.startswith(expectation) for name in found), found
