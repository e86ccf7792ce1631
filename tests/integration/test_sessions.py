"""What holds for all runs of an audit together: what is fresh, and what an audit that was stopped has paid for."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from radar_dagster import jobs
from radar_dagster.config import Workspace, load_workspace
from radar_dagster.definitions import build_definitions
from radar_dagster.errors import OperationalError
from radar_dagster.partitions import multi_key
from radar_dagster.runs import Runner

WRITER = """
from pathlib import Path

CALLS = Path(__file__).with_name("calls")

def write(request):
    done = len(CALLS.read_text()) if CALLS.exists() else 0
    stop_at = CALLS.with_name("stop_at")
    if stop_at.exists() and done == int(stop_at.read_text()):
        raise KeyboardInterrupt
    CALLS.write_text("x" * (done + 1))
    return f"Text {request.criterion.id}{request.direction}{request.sample} after {done} calls."
"""
RUBRIC = """\
criteria:
  - {id: a, label: A, definition: It is clear.}
  - {id: b, label: B, definition: It is short.}
tasks:
  - {id: t, prompt: Write.}
"""
PROBES = 2 * 2 * 3


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    module = f"writer_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(WRITER)
    (tmp_path / "memo.yaml").write_text(RUBRIC)
    models = f"generators: {{writer: python/{module}:write}}\nverifiers: {{reader: offline/reader}}\n"
    (tmp_path / "radar.yaml").write_text("benchmarks: [memo.yaml]\n" + models)
    yield load_workspace(tmp_path / "radar.yaml")
    if str(tmp_path) in sys.path:
        sys.path.remove(str(tmp_path))
    sys.modules.pop(module, None)


@pytest.fixture
def runner(workspace: Workspace) -> Iterator[Runner]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Runner(workspace, instance)


def calls(workspace: Workspace) -> int:
    return len((workspace.root / "calls").read_text())


def stop_after(workspace: Workspace, number: int | None) -> None:
    file = workspace.root / "stop_at"
    file.unlink(missing_ok=True) if number is None else file.write_text(str(number))


def test_probes_that_the_ledger_has_are_not_written_again_and_fresh_ones_are(
    workspace: Workspace, runner: Runner
) -> None:
    runner.write_probes("memo", ["writer"])
    Path(runner.lake.path("probes", {"benchmark": "memo", "generator": "writer"})).unlink()
    runner.write_probes("memo", ["writer"])
    assert calls(workspace) == PROBES
    runner.write_probes("memo", ["writer"], fresh=True)
    assert calls(workspace) == 2 * PROBES


def test_a_fresh_audit_that_was_stopped_goes_on_and_the_next_one_begins_anew(
    workspace: Workspace, runner: Runner
) -> None:
    runner.write_probes("memo", ["writer"])
    stop_after(workspace, PROBES + 5)
    with pytest.raises(OperationalError):
        runner.write_probes("memo", ["writer"], fresh=True)
    stop_after(workspace, None)
    runner.write_probes("memo", ["writer"], fresh=True)
    assert calls(workspace) == 2 * PROBES
    runner.write_probes("memo", ["writer"], fresh=True)
    assert calls(workspace) == 3 * PROBES


def test_what_was_fresh_two_days_ago_is_not_taken_up(workspace: Workspace, runner: Runner) -> None:
    stop_after(workspace, 5)
    with pytest.raises(OperationalError):
        runner.write_probes("memo", ["writer"], fresh=True)
    stop_after(workspace, None)
    (unfinished,) = workspace.dagster_home.glob("*.fresh")
    before = time.time() - 2 * 24 * 3600
    os.utime(unfinished, (before, before))
    runner.write_probes("memo", ["writer"], fresh=True)
    assert calls(workspace) == 5 + PROBES


def test_an_edited_function_is_another_model_to_the_ledger(workspace: Workspace, runner: Runner) -> None:
    runner.write_probes("memo", ["writer"])
    (file,) = workspace.root.glob("writer_*.py")
    file.write_text(WRITER + "\n# edited\n")
    sys.modules.pop(file.stem)
    runner.write_probes("memo", ["writer"])
    assert calls(workspace) == 2 * PROBES


@pytest.mark.parametrize(
    ("tag", "value"), [("radar/fresh", "maybe"), ("radar/budget_usd", "all of it"), ("radar/budget_usd", "-1")]
)
def test_a_tag_of_a_run_that_means_nothing_ends_it_with_words(workspace: Workspace, tag: str, value: str) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        Runner(workspace, instance).run_job(jobs.LOAD_RUBRICS, "memo")
        result = run_probes(workspace, instance, {tag: value})
    assert not result.success
    error = result.failure_data_for_node("probes").error
    assert f"the run's tag {tag} is {value!r}" in error.to_string()


def test_a_run_that_is_tagged_fresh_makes_every_call_again_and_says_what_it_came_to(workspace: Workspace) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        Runner(workspace, instance).run_job(jobs.LOAD_RUBRICS, "memo")
        made = [metadata(run_probes(workspace, instance, tags)) for tags in ({}, {}, {"radar/fresh": "true"})]
    assert [each["calls_made"].value for each in made] == [PROBES, 0, PROBES]
    assert calls(workspace) == 2 * PROBES
    # Nobody knows what a function of somebody's own costs, and no sum pretends to.
    assert made[0]["calls_of_unknown_price"].value == PROBES
    assert "usd_spent" not in made[0]


def run_probes(workspace: Workspace, instance: dg.DagsterInstance, tags: dict[str, str]) -> dg.ExecuteInProcessResult:
    job = build_definitions(workspace).resolve_job_def(jobs.GENERATE_PROBES)
    tags = {"dagster/partition": multi_key(benchmark="memo", generator="writer"), **tags}
    return job.execute_in_process(instance=instance, tags=tags, raise_on_error=False)


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, dg.MetadataValue]:
    (event,) = result.asset_materializations_for_node("probes")
    return dict(event.metadata)
