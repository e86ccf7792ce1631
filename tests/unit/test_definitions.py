"""The definitions of a workspace: what is there, what runs by itself and what waits for a person."""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest

from radar_dagster.config import ScheduleSection, Workspace
from radar_dagster.definitions import build_definitions
from radar_dagster.errors import BadInputError
from radar_dagster.tables import BASELINE_TABLES, COUPLING_TABLES, GRID_TABLES, SCHEMAS, VALIDATION_TABLES

#: Checks that tell and block nothing: an audit without people to compare with is an audit.
TOLD = {"human_pairs_match", "enough_pairs_to_compare", "every_cell_is_in_the_grid"}

#: What follows by itself, since it costs nothing.
ANALYSIS = {*COUPLING_TABLES, "audit_report"}
FREE = {*ANALYSIS, *BASELINE_TABLES, *VALIDATION_TABLES, *GRID_TABLES}


@pytest.fixture(scope="module")
def repository() -> dg.RepositoryDefinition:
    return build_definitions(Workspace()).get_repository_def()


def test_every_table_is_an_asset_and_the_rubric_file_is_watched(repository: dg.RepositoryDefinition) -> None:
    keys = {key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()}
    assert keys == {*SCHEMAS, "rubric_file"}


def test_assets_that_cost_calls_are_never_automated(repository: dg.RepositoryDefinition) -> None:
    graph = repository.asset_graph
    automated = {key.to_user_string() for key in graph.get_all_asset_keys() if graph.get(key).automation_condition}
    assert automated == FREE


def test_every_asset_says_what_it_is_who_owns_it_and_which_columns_it_has(
    repository: dg.RepositoryDefinition,
) -> None:
    for key in repository.asset_graph.materializable_asset_keys:
        node = repository.asset_graph.get(key)
        name = key.to_user_string()
        assert node.description, name
        assert node.group_name != "default", name
        assert list(node.owners) == ["team:evaluation"], name
        assert node.code_version, name
        assert node.kinds, name
        columns = [column.name for column in node.metadata["dagster/column_schema"].columns]
        assert columns == SCHEMAS[name].names, name


def test_every_check_knows_its_partitions_and_gates_are_blocking(repository: dg.RepositoryDefinition) -> None:
    checks = {key.name: repository.asset_graph.get(key) for key in repository.asset_graph.asset_check_keys}
    assert set(checks) == {
        "rubric_is_valid", "probes_expectations", "ok_share_gate", "scores_expectations", "self_effect_gate",
        "coupling_is_sound", "passive_responses_expectations", "passive_scores_expectations", *TOLD,
    }  # fmt: skip
    assert all(check.partitions_def is not None for check in checks.values())
    assert {name for name, check in checks.items() if not check.blocking} == TOLD


def test_schedules_and_sensors_are_off_until_somebody_switches_them_on(repository: dg.RepositoryDefinition) -> None:
    assert [s.name for s in repository.schedule_defs] == ["rejudge_production_pairs"]
    own = [s for s in repository.sensor_defs if s.name in {"rubric_changed", "probes_finished"}]
    assert len(own) == 2
    assert all(s.default_status is dg.DefaultSensorStatus.STOPPED for s in own)
    assert all(s.default_status is dg.DefaultScheduleStatus.STOPPED for s in repository.schedule_defs)


POOLS = {
    "probes": {"generation"}, "passive_responses": {"generation"}, "scores": {"judgement"},
    "passive_scores": {"judgement"}, "leakage": set(), "baselines": set(),
}  # fmt: skip


def test_steps_that_call_models_have_pools(repository: dg.RepositoryDefinition) -> None:
    graph = repository.asset_graph
    pools = {asset: graph.get(dg.AssetKey(asset)).pools for asset in POOLS}
    assert pools == POOLS


def test_scores_go_stale_only_where_production_pairs_are_named() -> None:
    def policy(schedule: ScheduleSection) -> object:
        graph = build_definitions(Workspace(schedule=schedule)).resolve_asset_graph()
        return graph.get(dg.AssetKey("scores")).freshness_policy

    assert policy(ScheduleSection()) is None
    named = policy(ScheduleSection(production_pairs=("editor~reader",), max_age_days=3))
    assert named == dg.FreshnessPolicy.time_window(fail_window=timedelta(days=3))


def test_a_cron_that_can_not_be_is_named() -> None:
    with pytest.raises(BadInputError, match="no such cron schedule: '99 6"):
        build_definitions(Workspace(schedule=ScheduleSection(cron="99 6 * * 1")))


def code_versions(workspace: Workspace) -> dict[str, str | None]:
    graph = build_definitions(workspace).resolve_asset_graph()
    return {key.to_user_string(): graph.get(key).code_version for key in graph.materializable_asset_keys}


def test_changed_settings_change_the_code_version_of_what_uses_them_alone() -> None:
    def versions(**audit: object) -> dict[str, str | None]:
        return code_versions(Workspace.model_validate({"audit": audit}))

    base = versions()
    gate = versions(coupling={"gate": 0.3})
    assert {asset for asset in base if base[asset] != gate[asset]} == {*ANALYSIS, "probe_budget"}
    seed = versions(coupling={"seed": 1})
    assert {asset for asset in base if base[asset] != seed[asset]} == {*ANALYSIS, *VALIDATION_TABLES, *GRID_TABLES}
    probes = versions(probes=5)
    assert {asset for asset in base if base[asset] != probes[asset]} == {"probes", "audit_report"}
    passive = versions(passive_responses=5)
    assert {asset for asset in base if base[asset] != passive[asset]} == {"passive_responses"}


def test_another_verifier_makes_the_grid_stale_and_no_cell() -> None:
    base, more = code_versions(Workspace()), code_versions(Workspace(verifiers=("reader", "editor")))
    assert {asset for asset in base if base[asset] != more[asset]} == set(GRID_TABLES)


def test_changed_ratings_make_the_human_correlations_stale_and_an_absent_file_stops_no_definitions(
    tmp_path: Path,
) -> None:
    workspace = Workspace.model_validate({"root": tmp_path, "human": {"helpsteer2": "ratings.csv"}})
    seen = [code_versions(workspace)]
    for rating in (1, 2):
        (tmp_path / "ratings.csv").write_text(f"helpfulness\n{rating}\n", encoding="utf-8")
        seen.append(code_versions(workspace))
    for before, after in pairwise(seen):
        assert {asset for asset in before if before[asset] != after[asset]} == {"human_correlations"}


def test_a_resource_can_be_swapped() -> None:
    swapped = object()
    definitions = build_definitions(Workspace(), {"expectations": swapped})
    assert definitions.resources is not None
    assert definitions.resources["expectations"] is swapped
