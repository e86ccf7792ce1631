"""The asset graph on a real instance, in process: gates in one run and across runs, staleness, reuse of probes."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from radar_dagster import jobs
from radar_dagster.config import Workspace, load_workspace
from radar_dagster.definitions import build_definitions
from radar_dagster.errors import OperationalError
from radar_dagster.lake import Lake
from radar_dagster.models.naming import ModelSpec
from radar_dagster.partitions import Pair, multi_key
from radar_dagster.runs import Runner
from radar_dagster.stats.settings import CouplingSettings, Reading
from radar_dagster.tables import COUPLING_TABLES, GRID_TABLES

pytestmark = pytest.mark.slow

CAREFUL, BLIND, LOSSY = Pair("writer", "careful"), Pair("writer", "blind"), Pair("writer", "lossy")

#: What follows from the scores of a cell.
ANALYSED = (*COUPLING_TABLES, "validation", "probe_budget")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    shutil.copytree(Path(__file__).parent / "workspace", tmp_path, dirs_exist_ok=True)
    return load_workspace(tmp_path / "radar.yaml")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def run(workspace: Workspace, instance: dg.DagsterInstance, job: str, partition: str) -> dg.ExecuteInProcessResult:
    definition = build_definitions(workspace).resolve_job_def(job)
    return definition.execute_in_process(partition_key=partition or None, instance=instance, raise_on_error=False)


def prepare(workspace: Workspace, instance: dg.DagsterInstance, benchmark: str = "letters") -> None:
    assert run(workspace, instance, jobs.LOAD_RUBRICS, benchmark).success
    assert run(workspace, instance, jobs.GENERATE_PROBES, multi_key(benchmark=benchmark, generator="writer")).success


@dataclass(frozen=True)
class Audited:
    """The benchmark `letters`, audited in one run per pair, whatever came of it."""

    workspace: Workspace
    instance: dg.DagsterInstance
    results: dict[Pair, dg.ExecuteInProcessResult]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    folder = tmp_path_factory.mktemp("audited")
    shutil.copytree(Path(__file__).parent / "workspace", folder, dirs_exist_ok=True)
    workspace = load_workspace(folder / "radar.yaml")
    with dg.DagsterInstance.ephemeral() as instance:
        prepare(workspace, instance)
        keys = {pair: multi_key(benchmark="letters", pair=pair.key) for pair in (CAREFUL, BLIND, LOSSY)}
        results = {pair: run(workspace, instance, jobs.FULL_AUDIT, key) for pair, key in keys.items()}
        yield Audited(workspace, instance, results)


def materialised(result: dg.ExecuteInProcessResult) -> set[str]:
    return {event.asset_key.to_user_string() for event in result.get_asset_materialization_events() if event.asset_key}


def materialise(workspace: Workspace, instance: dg.DagsterInstance, asset: str, partition: str) -> None:
    definitions = build_definitions(workspace)
    everything = [a for a in definitions.assets or [] if isinstance(a, dg.AssetsDefinition)]
    result = dg.materialize(
        everything, selection=[asset], partition_key=partition, instance=instance, resources=definitions.resources
    )
    assert result.success


def test_an_audit_in_one_run_makes_every_table_and_the_planted_numbers(audited: Audited) -> None:
    result = audited.results[CAREFUL]
    assert result.success
    assert materialised(result) == {"scores", *ANALYSED, "audit_report"}
    assert all(evaluation.passed for evaluation in result.get_asset_check_evaluations())
    leakage = Lake(audited.workspace.store_url).read("leakage", benchmark="letters", pair=CAREFUL.key)
    found = leakage.set_index(["source", "target"])["leakage"]
    assert found["accuracy", "brevity"] == found["brevity", "courtesy"] == found["courtesy", "accuracy"] == 0.5
    assert found["accuracy", "courtesy"] == found["brevity", "accuracy"] == found["courtesy", "brevity"] == 0.0


def test_every_record_of_a_check_names_its_partition(audited: Audited) -> None:
    evaluations = audited.results[CAREFUL].get_asset_check_evaluations()
    assert {e.check_name for e in evaluations} == {
        "ok_share_gate", "scores_expectations", "self_effect_gate", "coupling_is_sound", "enough_pairs_to_compare",
    }  # fmt: skip
    assert {e.metadata["partition"].value for e in evaluations} == {f"letters|{CAREFUL.key}"}


def test_in_one_run_lost_scores_stop_what_is_downstream(audited: Audited) -> None:
    result = audited.results[LOSSY]
    assert not result.success
    assert materialised(result) == {"scores"}


def test_in_one_run_a_judge_that_sees_nothing_stops_the_report(audited: Audited) -> None:
    result = audited.results[BLIND]
    assert not result.success
    assert materialised(result) == {"scores", *ANALYSED}  # what is compared with people says that there is too little


@pytest.mark.parametrize("pair", [BLIND, LOSSY])
def test_in_a_separate_run_what_is_downstream_carries_the_state_and_no_number(audited: Audited, pair: Pair) -> None:
    dims = {"benchmark": "letters", "pair": pair.key}
    assert run(audited.workspace, audited.instance, jobs.ANALYSE_UNGATED, multi_key(**dims)).success
    lake = Lake(audited.workspace.store_url)
    assert lake.read("verdict", **dims)["verdict"].tolist() == ["inconclusive"]
    effects = lake.read("self_effects", **dims).set_index("criterion")
    unreliable = set(effects.index[~effects["reliable"]])
    assert unreliable == ({"accuracy", "brevity", "courtesy"} if pair == BLIND else {"brevity"})
    assert effects.loc[sorted(unreliable), "reason"].isin(["weak", "missing_scores"]).all()
    leakage = lake.read("leakage", **dims)
    assert leakage.loc[leakage["source"].isin(unreliable), "leakage"].isna().all()
    pairs = lake.read("criterion_pairs", **dims)
    touched = pairs["criterion_a"].isin(unreliable) | pairs["criterion_b"].isin(unreliable)
    assert set(pairs.loc[touched, "reading"]) == {"unreliable"}
    page = lake.read_text("audit_report", "report.html", **dims)
    assert "inconclusive" in page.lower()


def test_the_command_lines_runs_end_with_a_report_even_where_a_gate_stops_them(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    runner = Runner(workspace, instance)
    careful, blind = runner.audit("memos", [CAREFUL, BLIND])
    assert careful.stopped_by == ()
    assert blind.stopped_by[0].startswith("self_effects: 3 of 3 fail: accuracy (weak)")
    assert runner.lake.exists("audit_report", **blind.dims)
    found = runner.check_data([careful, blind])
    # This writer says the same on every task: worth a warning, and no reason to distrust the data.
    assert [(check.asset, check.partition, check.blocking) for check in found] == [("probes", "memos|writer", False)]
    assert "ProportionOfUniqueValues" in found[0].description
    assert found[0].concerns(careful)


def test_probes_are_written_once_for_all_verifiers_and_again_only_when_asked(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    runner = Runner(workspace, instance)
    runner.audit("memos", [CAREFUL])
    before = probe_events(instance)
    runner.audit("memos", [Pair("writer", "careful-too")])
    assert probe_events(instance) == before == 1
    runner.audit("memos", [CAREFUL], fresh=True)
    assert probe_events(instance) == 2


def test_scores_are_used_again_for_another_policy_and_made_again_only_when_asked(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    def judged() -> int:
        return len(instance.fetch_materializations(dg.AssetKey("scores"), limit=100).records)

    Runner(workspace, instance).audit("memos", [CAREFUL, BLIND])
    policy = workspace.audit.policy.model_copy(update={"fail_on": (Reading.DIRECTIONAL,)})
    stricter = workspace.model_copy(update={"audit": workspace.audit.model_copy(update={"policy": policy})})
    careful, blind = Runner(stricter, instance).audit("memos", [CAREFUL, BLIND])
    assert judged() == 2
    settings = json.loads(Lake(workspace.store_url).read("verdict", **careful.dims)["settings"].item())
    assert settings["policy"]["fail_on"] == ["directional"]
    assert blind.stopped_by
    Runner(stricter, instance).audit("memos", [CAREFUL], fresh=True)
    assert judged() == 3


def test_a_gate_that_stopped_a_cell_is_still_shown_after_its_report_was_made(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    Runner(workspace, instance).audit("memos", [BLIND])
    key = dg.AssetCheckKey(dg.AssetKey("self_effects"), "self_effect_gate")
    record = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)[0]
    evaluation = record.event.dagster_event.asset_check_evaluation_data
    latest = instance.fetch_materializations(dg.AssetKey("self_effects"), limit=1).records[0]
    assert not evaluation.passed
    assert evaluation.target_materialization_data.storage_id == latest.storage_id


def test_a_broken_rubric_of_one_benchmark_does_not_stop_another(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.rubric_path("letters").unlink()
    prepare(workspace, instance, "memos")
    assert run(workspace, instance, jobs.OBSERVE_RUBRICS, "").success


def test_a_new_verifier_in_the_configuration_makes_no_probe_again(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    prepare(workspace, instance)
    old = workspace.model_copy(update={"verifiers": ("careful",)})
    assert run(old, instance, jobs.FULL_AUDIT, multi_key(benchmark="letters", pair=CAREFUL.key)).success
    before = Lake(workspace.store_url).read("probes", benchmark="letters", generator="writer")
    new = workspace.model_copy(update={"verifiers": ("careful", "careful-too")})
    assert run(new, instance, jobs.FULL_AUDIT, multi_key(benchmark="letters", pair="writer~careful-too")).success
    assert probe_events(instance) == 1
    assert before.equals(Lake(workspace.store_url).read("probes", benchmark="letters", generator="writer"))


def probe_events(instance: dg.DagsterInstance) -> int:
    return len(instance.fetch_materializations(dg.AssetKey("probes"), limit=100).records)


def test_a_changed_criterion_makes_exactly_its_benchmarks_partitions_stale(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    runner = Runner(workspace, instance)
    for benchmark in ("letters", "memos"):
        runner.audit(benchmark, [CAREFUL])
    observe(workspace, instance)
    assert stale(workspace, instance) == set()

    path = workspace.rubric_path("letters")
    path.write_text(path.read_text().replace("in few words", "in very few words"))
    observe(workspace, instance)
    assert stale(workspace, instance) == {("rubric", "letters")}, "Dagster shows the first stale step of a chain"
    run(workspace, instance, jobs.LOAD_RUBRICS, "letters")
    of_the_benchmark = {(table, "letters") for table in GRID_TABLES}
    assert stale(workspace, instance) == {("probes", "letters|writer")} | of_the_benchmark | {
        (table, f"letters|{CAREFUL.key}") for table in ("scores", *ANALYSED, "audit_report")
    }

    path.write_text(f"# only a comment\n{path.read_text().replace('in very few words', 'in few words')}")
    observe(workspace, instance)
    run(workspace, instance, jobs.LOAD_RUBRICS, "letters")
    assert stale(workspace, instance) == set(), "the content is what it was"


def observe(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    job = build_definitions(workspace).resolve_job_def(jobs.OBSERVE_RUBRICS)
    assert job.execute_in_process(instance=instance).success


def stale(workspace: Workspace, instance: dg.DagsterInstance) -> set[tuple[str, str]]:
    """Materialised partitions that Dagster's own resolver calls stale."""
    from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
    from dagster._core.loader import LoadingContextForTest

    graph = build_definitions(workspace).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    found = set()
    for key in graph.materializable_asset_keys:
        for partition in instance.get_materialized_partitions(key):
            if resolver.get_status(key, partition) == StaleStatus.STALE:
                found.add((key.to_user_string(), partition))
    return found


def test_a_report_describes_what_made_its_tables_and_not_the_configuration_of_today(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    Runner(workspace, instance).audit("memos", [CAREFUL])
    audit = workspace.audit.model_copy(update={"probes": 9, "coupling": CouplingSettings(gate=0.9)})
    models = {**workspace.models, "careful": ModelSpec(model="python/judges:constant")}
    later = workspace.model_copy(update={"audit": audit, "models": models})
    materialise(later, instance, "audit_report", multi_key(benchmark="memos", pair=CAREFUL.key))
    page = Lake(workspace.store_url).read_text("audit_report", "report.html", benchmark="memos", pair=CAREFUL.key)
    assert "python/judges:judge" in page
    assert "python/judges:constant" not in page
    assert "0.40" in page
    assert "0.90" not in page


def test_scores_of_another_version_of_the_rubric_are_never_read_with_this_one(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    runner = Runner(workspace, instance)
    runner.audit("memos", [CAREFUL])
    path = workspace.rubric_path("memos")
    path.write_text(path.read_text().replace("in few words", "in very few words"))
    run(workspace, instance, jobs.LOAD_RUBRICS, "memos")
    for call in (lambda: runner.report("memos", CAREFUL), lambda: runner.run_job(jobs.JUDGE, "memos|writer~careful")):
        with pytest.raises(OperationalError, match="made from another version of the rubric"):
            call()
    runner.audit("memos", [CAREFUL])
    assert probe_events(instance) == 2


def test_a_run_that_fails_names_the_step_and_the_cause_and_keeps_what_was_there(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    runner = Runner(workspace, instance)
    runner.audit("memos", [CAREFUL])
    before = runner.lake.read("scores", benchmark="memos", pair=CAREFUL.key)
    path = Path(runner.lake.path("probes", {"benchmark": "memos", "generator": "writer"}))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(OperationalError, match="scores"):
        runner.run_job(jobs.AUDIT_PAIR, multi_key(benchmark="memos", pair=CAREFUL.key))
    assert before.equals(runner.lake.read("scores", benchmark="memos", pair=CAREFUL.key))
