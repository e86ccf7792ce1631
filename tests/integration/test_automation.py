"""Schedules and sensors, evaluated as the daemon does, on an instance with real materialisations."""

import datetime as dt
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from radar_dagster import jobs
from radar_dagster.config import ScheduleSection, SensorSection, Workspace, load_workspace
from radar_dagster.definitions import build_definitions
from radar_dagster.partitions import Pair
from radar_dagster.runs import Runner

pytestmark = pytest.mark.slow

NOW = dt.datetime(2026, 11, 30, 6, 0, tzinfo=dt.UTC)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    shutil.copytree(Path(__file__).parent / "workspace", tmp_path, dirs_exist_ok=True)
    workspace = load_workspace(tmp_path / "radar.yaml")
    return workspace.model_copy(update={"benchmarks": {"letters": workspace.benchmarks["letters"]}})


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def tick(
    workspace: Workspace, instance: dg.DagsterInstance, sensor: str, cursor: str | None = None
) -> "tuple[list[tuple[str | None, str | None]], str | None, str | None]":
    """The requested (job, partition) pairs, the skip message and the cursor of one evaluation."""
    repository = build_definitions(workspace).get_repository_def()
    context = dg.build_sensor_context(instance=instance, cursor=cursor, repository_def=repository)
    data = repository.get_sensor_def(sensor).evaluate_tick(context)
    return [(r.job_name, r.partition_key) for r in data.run_requests or []], data.skip_message, data.cursor


def edit(workspace: Workspace) -> None:
    path = workspace.rubric_path("letters")
    path.write_text(path.read_text().replace("in few words", "in very few words"))


def test_a_changed_rubric_is_loaded_first_and_its_probes_are_requested_next(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    runner = Runner(workspace, instance)
    runner.write_probes("letters", ["writer"])
    assert tick(workspace, instance, "rubric_changed")[0] == []
    edit(workspace)
    assert tick(workspace, instance, "rubric_changed")[0] == [(jobs.LOAD_RUBRICS, "letters")]
    runner.run_job(jobs.LOAD_RUBRICS, "letters")
    assert tick(workspace, instance, "rubric_changed")[0] == [(jobs.GENERATE_PROBES, "letters|writer")]
    runner.write_probes("letters", ["writer"])
    assert tick(workspace, instance, "rubric_changed")[0] == []


def test_going_back_to_an_earlier_rubric_is_a_request_of_its_own(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    def run_keys() -> list[str | None]:
        repository = build_definitions(workspace).get_repository_def()
        context = dg.build_sensor_context(instance=instance, repository_def=repository)
        return [
            r.run_key for r in repository.get_sensor_def("rubric_changed").evaluate_tick(context).run_requests or []
        ]

    path = workspace.rubric_path("letters")
    first = path.read_text()
    runner = Runner(workspace, instance)
    seen: list[str | None] = []
    for text in (first, first.replace("few words", "no words"), first, first.replace("few words", "no words")):
        path.write_text(text)
        seen += run_keys()
        runner.run_job(jobs.LOAD_RUBRICS, "letters")
    assert len(seen) == len(set(seen)) == 4


def test_a_rubric_that_was_never_loaded_is_loaded_and_no_probe_is_requested_that_nobody_made(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    assert tick(workspace, instance, "rubric_changed")[0] == [(jobs.LOAD_RUBRICS, "letters")]
    Runner(workspace, instance).run_job(jobs.LOAD_RUBRICS, "letters")
    assert tick(workspace, instance, "rubric_changed")[0] == []


def test_probes_above_the_cap_are_not_requested_and_the_message_says_why(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    capped = workspace.model_copy(update={"sensors": SensorSection(max_probe_calls=23)})
    runner = Runner(capped, instance)
    runner.write_probes("letters", ["writer"])
    edit(capped)
    runner.run_job(jobs.LOAD_RUBRICS, "letters")
    requests, message, _ = tick(capped, instance, "rubric_changed")
    assert requests == []
    assert message == "letters: 24 generation calls are above sensors.max_probe_calls (23)"


def test_a_broken_rubric_file_is_named_and_requests_nothing(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.rubric_path("letters").write_text("criteria: 3\n")
    requests, message, _ = tick(workspace, instance, "rubric_changed")
    assert requests == []
    assert message is not None
    assert "letters.yaml:1: criteria" in message


def test_one_benchmark_that_is_skipped_does_not_hold_back_another(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    both = workspace.model_copy(update={"benchmarks": {**workspace.benchmarks, "memos": "rubrics/memos.yaml"}})
    both.rubric_path("memos").write_text("criteria: 3\n")
    requests, message, _ = tick(both, instance, "rubric_changed")
    assert requests == [(jobs.LOAD_RUBRICS, "letters")]
    assert message is None


def test_finished_probes_are_judged_once_by_every_verifier(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    runner = Runner(workspace, instance)
    runner.write_probes("letters", ["writer"])
    requests, _, cursor = tick(workspace, instance, "probes_finished")
    assert requests == [], "what was finished before the sensor was switched on is history"
    runner.write_probes("letters", ["writer"], fresh=True)
    runner.write_probes("letters", ["writer"], fresh=True)
    requests, _, cursor = tick(workspace, instance, "probes_finished", cursor)
    wanted = [f"letters|{Pair(*pair).key}" for pair in workspace.pairs()]
    assert [partition for _, partition in requests] == wanted
    assert tick(workspace, instance, "probes_finished", cursor)[0] == []
    runner.write_probes("letters", ["writer"], fresh=True)
    assert len(tick(workspace, instance, "probes_finished", cursor)[0]) == len(wanted)


def test_the_schedule_requests_the_production_pairs_of_every_benchmark(workspace: Workspace) -> None:
    production = workspace.model_copy(update={"schedule": ScheduleSection(production_pairs=("writer~careful",))})
    for configured, expected in ((production, ["letters|writer~careful"]), (workspace, None)):
        repository = build_definitions(configured).get_repository_def()
        schedule = repository.get_schedule_def("rejudge_production_pairs")
        data = schedule.evaluate_tick(
            dg.build_schedule_context(scheduled_execution_time=NOW, repository_def=repository)
        )
        partitions = [request.partition_key for request in data.run_requests or []]
        assert partitions == (expected or [f"letters|{Pair(*pair).key}" for pair in workspace.pairs()])
