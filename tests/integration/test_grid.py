"""Cells side by side: 2 generators × 3 verifiers offline, in process and as a backfill through a real `dagster dev`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pandas as pd
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
from dagster_server import Server, dagster_dev

from radar_dagster import jobs
from radar_dagster.assets.grid import read_cells
from radar_dagster.config import Workspace, load_workspace
from radar_dagster.definitions import build_definitions
from radar_dagster.errors import OperationalError
from radar_dagster.lake import Lake
from radar_dagster.partitions import Pair, multi_key
from radar_dagster.runs import Runner
from radar_dagster.tables import COUPLING_TABLES, GRID_TABLES

pytestmark = pytest.mark.slow

RADAR_YAML = """\
benchmarks: [summeval]
audit: {probes: 2, tasks: 2}
generators:
  editor: offline/editor
  second: {model: offline/editor, options: {seed: 1}}
verifiers:
  reader: offline/reader
  strict: {model: offline/reader, options: {strictness: 2}}
  lenient: {model: offline/reader, options: {strictness: 0.6}}
"""
CELL_TABLES = (*COUPLING_TABLES, "validation", "probe_budget")
_PARENTS = """
query($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) { ... on AssetNode { dependencyKeys { path } } }
}"""


def workspace_in(folder: Path) -> Workspace:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "radar.yaml").write_text(RADAR_YAML)
    return load_workspace(folder / "radar.yaml")


def pairs_of(workspace: Workspace) -> list[Pair]:
    return [Pair(*pair) for pair in workspace.pairs()]


def rows_in_ledger(workspace: Workspace) -> int:
    with sqlite3.connect(workspace.door.ledger) as ledger:
        return int(ledger.execute("SELECT count(*) FROM calls").fetchone()[0])


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    workspace = workspace_in(tmp_path_factory.mktemp("grid"))
    with dg.DagsterInstance.ephemeral() as instance:
        runner = Runner(workspace, instance)
        cells = runner.audit("summeval", pairs_of(workspace))
        assert [cell.stopped_by for cell in cells] == [()] * 6
        yield runner


def test_the_grid_holds_every_cell_and_the_means_of_their_tables(audited: Runner) -> None:
    agreement = audited.lake.read("grid_agreement", benchmark="summeval").set_index(["generator", "verifier"])
    assert len(agreement) == 6
    cells = []
    for pair in pairs_of(audited.workspace):
        dims = {"benchmark": "summeval", "pair": pair.key}
        row = audited.lake.read("validation", **dims).set_index("method").loc["radar"]
        assert agreement.loc[tuple(pair), "pearson"] == row["pearson"]
        assert agreement.loc[tuple(pair), "pairs_used"] == row["pairs_used"] == 6
        cells.append(audited.lake.read("criterion_pairs", **dims))
    grid = audited.lake.read("coupling_grid", benchmark="summeval")
    by_pair = pd.concat(cells).groupby(["criterion_a", "criterion_b"], sort=False)
    for name in ("leakage_ab", "leakage_ba", "sym", "asym"):
        assert grid[name].tolist() == pytest.approx(by_pair[name].mean().tolist())
        assert grid[f"{name}_sd"].tolist() == pytest.approx(by_pair[name].std().tolist())
    assert set(grid["cells"]) == set(grid["cells_reliable"]) == {6}


def test_statistics_probe_budget_and_grid_make_no_model_call(audited: Runner) -> None:
    before = rows_in_ledger(audited.workspace)
    assert before == 2 * 4 * 2 * 2 * 2 + 6 * 2 * 4 * 2 * 2 * 4  # 2 generators and 6 cells: T·n·2·N, and n times that
    for pair in pairs_of(audited.workspace):
        audited.run_job(jobs.ANALYSE, multi_key(benchmark="summeval", pair=pair.key))
    audited.run_job(jobs.COMPARE_CELLS, "summeval")
    assert rows_in_ledger(audited.workspace) == before
    curve = audited.lake.read("probe_budget", benchmark="summeval", pair="editor~reader")
    assert curve["probes"].tolist() == [1, 2]
    assert set(curve["reference"]) == {"human"}


def test_a_cell_of_another_rubric_and_one_that_is_missing_are_told_and_left_out(
    audited: Runner, tmp_path: Path
) -> None:
    """The lake as it is after a rubric was edited and only some pairs were audited again."""
    workspace = workspace_in(tmp_path)
    rubric = workspace.rubric("summeval")
    lake = Lake(workspace.store_url)
    for pair in pairs_of(workspace)[:3]:
        dims = {"benchmark": "summeval", "pair": pair.key}
        verdict = audited.lake.read("verdict", **dims)
        if pair.verifier == "strict":
            verdict["settings"] = verdict["settings"].str.replace(rubric.version, "0" * len(rubric.version))
        lake.write("verdict", verdict, **dims)
        lake.write("criterion_pairs", audited.lake.read("criterion_pairs", **dims), **dims)
    configured = {pair.key for pair in pairs_of(workspace)}
    assert set(read_cells(lake, "summeval", rubric, configured)) == {"editor~reader", "editor~lenient"}
    assert set(read_cells(lake, "summeval", rubric, {"editor~reader"})) == {"editor~reader"}
    for table in ("rubric", "human_correlations"):
        lake.write(table, audited.lake.read(table, benchmark="summeval"), benchmark="summeval")
    with dg.DagsterInstance.ephemeral() as instance:
        failed = Runner(workspace, instance).run_job(jobs.COMPARE_CELLS, "summeval")
    assert [check.description for check in failed] == [
        "not audited: editor~strict, second~reader, second~strict, second~lenient"
    ]
    table = lake.read("grid_agreement", benchmark="summeval").set_index(["generator", "verifier"])
    assert table.loc[("editor", "strict"), "detail"] == "not_audited"
    assert pd.isna(table.loc[("second", "reader"), "pearson"])
    assert set(lake.read("coupling_grid", benchmark="summeval")["cells"]) == {2}


def test_a_backfill_in_dagster_makes_the_same_grid_whose_lineage_leads_to_the_rubric(
    audited: Runner, tmp_path: Path
) -> None:
    workspace = workspace_in(tmp_path / "workspace")
    home = tmp_path / "home"
    home.mkdir()
    cells = [multi_key(benchmark="summeval", pair=pair.key) for pair in pairs_of(workspace)]
    with dg.DagsterInstance.from_config(str(home)) as instance:
        Runner(workspace, instance).write_probes("summeval", workspace.generators)
    with dagster_dev(workspace.root, home) as server:
        assert server.backfill(["scores", *CELL_TABLES], cells) == "COMPLETED_SUCCESS"
        assert server.backfill(list(GRID_TABLES), ["summeval"]) == "COMPLETED_SUCCESS"
        above = ancestors(server, "coupling_grid")
    assert {"criterion_pairs", "scores", "probes", "rubric", "rubric_file"} <= above
    lake = Lake(workspace.store_url)
    for table in GRID_TABLES:
        path = Path(lake.path(table, {"benchmark": "summeval"}))
        assert path.read_bytes() == Path(audited.lake.path(table, {"benchmark": "summeval"})).read_bytes(), table
    for pair in pairs_of(workspace):
        dims = {"benchmark": "summeval", "pair": pair.key}
        for table in ("scores", *CELL_TABLES):
            assert Path(lake.path(table, dims)).read_bytes() == Path(audited.lake.path(table, dims)).read_bytes(), table


def ancestors(server: Server, asset: str) -> set[str]:
    """Every asset that the lineage view shows upstream of this one."""
    found: set[str] = set()
    waiting = [asset]
    while waiting:
        node = server.query(_PARENTS, key={"path": [waiting.pop()]})["assetNodeOrError"]
        new = {key["path"][0] for key in node["dependencyKeys"]} - found
        found |= new
        waiting += new
    return found


def test_baselines_are_compared_once_they_are_there_and_not_with_an_old_rubric(audited: Runner, tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    dims = {"benchmark": "summeval", "pair": "editor~reader"}
    with dg.DagsterInstance.ephemeral() as instance:
        runner = Runner(workspace, instance)
        pair = Pair("editor", "reader")
        runner.audit("summeval", [pair])
        assert runner.lake.read("validation", **dims)["method"].tolist() == ["radar"]
        runner.audit("summeval", [pair], baselines=True)
        assert runner.lake.read("validation", **dims)["method"].tolist() == ["radar", "synthetic_correlation", "rrd"]
        made = runner.lake.read("passive_scores", **dims)
        for changed in ({"rubric_version": "0" * 16}, {"model": "offline/another"}):
            runner.lake.write("passive_scores", made.assign(**changed), **dims)
            runner.audit("summeval", [pair])
            assert runner.lake.read("validation", **dims)["method"].tolist() == ["radar"], changed


def test_all_cells_are_compared_with_the_same_people_whenever_they_were_audited(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    ratings = pd.DataFrame({"coherence": [1, 2, 3, 4, 5], "consistency": [2, 1, 4, 3, 5], "fluency": [5, 1, 4, 2, 3]})
    ratings.assign(relevance=[3, 1, 2, 5, 4]).to_csv(tmp_path / "people.csv", index=False)
    theirs = {"summeval": {"file": "people.csv"}}
    changed = load_workspace(tmp_path / "radar.yaml").model_validate({**workspace.model_dump(), "human": theirs})
    changed = changed.model_copy(update={"root": tmp_path})
    with dg.DagsterInstance.ephemeral() as instance:
        Runner(workspace, instance).audit("summeval", [Pair("editor", "reader")])
        runner = Runner(changed, instance)
        runner.audit("summeval", [Pair("editor", "strict")])
        table = runner.lake.read("grid_agreement", benchmark="summeval").set_index(["generator", "verifier"])
        runner.run_job(jobs.ANALYSE, multi_key(benchmark="summeval", pair="editor~reader"))
        again = runner.lake.read("validation", benchmark="summeval", pair="editor~reader").iloc[0]
    assert table.loc[("editor", "reader"), "mae"] == again["mae"]


def test_statistics_of_an_edited_rubric_are_not_compared_as_if_they_were_the_new_ones(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    cell = multi_key(benchmark="summeval", pair="editor~reader")
    with dg.DagsterInstance.ephemeral() as instance:
        runner = Runner(workspace, instance)
        runner.audit("summeval", [Pair("editor", "reader")])
        edited = workspace.model_copy(update={"audit": workspace.audit.model_copy(update={"tasks": 1})})
        runner = Runner(edited, instance)
        runner.run_job(jobs.LOAD_RUBRICS, "summeval")
        with pytest.raises(OperationalError, match="audited with this version of the rubric"):
            runner.run_job(jobs.COMPARE_CELLS, "summeval")
        definitions = build_definitions(edited)
        assets = [a for a in definitions.assets or [] if isinstance(a, dg.AssetsDefinition)]
        result = dg.materialize(
            assets, selection=["validation"], partition_key=cell, instance=instance, resources=definitions.resources,
            raise_on_error=False,
        )  # fmt: skip
        assert not result.success


def test_baselines_that_a_gate_stops_are_told_and_their_responses_not_judged(tmp_path: Path) -> None:
    (tmp_path / "mute.py").write_text(
        "class Mute:\n"
        "    def generate(self, request): return f'Text {request.criterion.id}{request.direction}{request.sample}.'\n"
        "    def respond(self, request): return ''\n"
    )
    workspace = workspace_in(tmp_path)
    (tmp_path / "radar.yaml").write_text(RADAR_YAML.replace("offline/editor\n", "python/mute:Mute\n", 1))
    workspace = load_workspace(tmp_path / "radar.yaml")
    told: list[str] = []
    with dg.DagsterInstance.ephemeral() as instance:
        runner = Runner(workspace, instance, told.append)
        runner.audit("summeval", [Pair("editor", "reader")], baselines=True)
    assert any("no baselines of editor, stopped by a gate: passive_responses" in line for line in told)
    assert not runner.lake.exists("passive_scores", benchmark="summeval", pair="editor~reader")


def test_what_is_free_follows_by_itself_where_there_is_a_cell_and_does_not_wait_for_baselines(tmp_path: Path) -> None:
    workspace = workspace_in(tmp_path)
    definitions = build_definitions(workspace)
    cell = multi_key(benchmark="summeval", pair="editor~reader")
    with dg.DagsterInstance.ephemeral() as instance:

        def requested(cursor: AssetDaemonCursor | None) -> tuple[dict[str, set[str]], AssetDaemonCursor]:
            tick = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
            wanted = {
                asset: tick.get_requested_partitions(dg.AssetKey(asset)) for asset in ("validation", *GRID_TABLES)
            }
            return {asset: set(map(str, keys)) for asset, keys in wanted.items() if keys}, tick.cursor

        runner = Runner(workspace, instance)
        _, cursor = requested(None)
        runner.run_job(jobs.LOAD_RUBRICS, "summeval")
        wanted, cursor = requested(cursor)
        assert wanted == {}  # without a cell there is nothing to compare and no grid
        runner.audit("summeval", [Pair("editor", "reader")])
        _, cursor = requested(cursor)
        runner.run_job(jobs.LOAD_HUMAN, "summeval")
        wanted, cursor = requested(cursor)
        assert wanted == {"validation": {str(cell)}}  # five pairs were never audited, and nobody made baselines
        runner.run_job(jobs.ANALYSE, cell)
        wanted, cursor = requested(cursor)
        assert wanted == {"coupling_grid": {"summeval"}, "grid_agreement": {"summeval"}}
