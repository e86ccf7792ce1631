"""A backfill through a real `dagster dev`: parallel runs, the gate as data, and no probe made again."""

import shutil
from pathlib import Path

import dagster as dg
import pytest
from dagster_server import dagster_dev

from radar_dagster.config import load_workspace
from radar_dagster.partitions import Pair, multi_key
from radar_dagster.resources.lake import Lake
from radar_dagster.runs import Runner
from radar_dagster.tables import COUPLING_TABLES

pytestmark = pytest.mark.slow


def test_a_backfill_of_twelve_cells_in_parallel_loses_nothing_and_carries_the_gate(tmp_path: Path) -> None:
    """3 benchmarks × 4 verifiers, of which one sees nothing and one loses a criterion's scores."""
    shutil.copytree(Path(__file__).parent / "workspace", tmp_path, dirs_exist_ok=True)
    workspace = load_workspace(tmp_path / "radar.yaml")
    home = tmp_path / "dagster_home"
    lake = Lake(workspace.store_url)
    benchmarks = list(workspace.benchmarks)
    pairs = [Pair(*pair) for pair in workspace.pairs()]
    cells = [multi_key(benchmark=benchmark, pair=pair.key) for benchmark in benchmarks for pair in pairs]
    assert len(cells) == 12

    with dagster_dev(tmp_path, home) as server:
        assert server.backfill(["rubric"], benchmarks) == "COMPLETED_SUCCESS"
        probes = [multi_key(benchmark=benchmark, generator="writer") for benchmark in benchmarks]
        assert server.backfill(["probes"], probes) == "COMPLETED_SUCCESS"
        server.backfill(["scores", *COUPLING_TABLES], cells)
        server.backfill([*COUPLING_TABLES, "audit_report"], cells)

    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert len(instance.fetch_materializations(dg.AssetKey("probes"), limit=100).records) == len(benchmarks)

    scores_per_cell = 2 * 3 * 2 * 2 * 3  # tasks × criteria × directions × probes × criteria
    for table in ("scores", "self_effects", "leakage", "verdict"):
        assert len(lake.partitions(table)) == 12, table
    for benchmark in benchmarks:
        for pair in pairs:
            dims = {"benchmark": benchmark, "pair": pair.key}
            assert len(lake.read("scores", **dims)) == scores_per_cell
            numbers = lake.read("leakage", **dims)["leakage"].notna().sum()
            verdict = lake.read("verdict", **dims)["verdict"].item()
            if pair.verifier == "blind":
                assert (numbers, verdict) == (0, "inconclusive")
            elif pair.verifier == "lossy":
                assert verdict == "inconclusive"
            else:
                assert numbers == 9

    alone = workspace.model_copy(update={"store": str(tmp_path / "alone")})
    with dg.DagsterInstance.ephemeral() as instance:
        runner = Runner(alone, instance)
        runner.audit("memos", pairs)
    for pair in pairs:
        for table in ("scores", *COUPLING_TABLES):
            path = lake.path(table, {"benchmark": "memos", "pair": pair.key})
            other = runner.lake.path(table, {"benchmark": "memos", "pair": pair.key})
            assert Path(path).read_bytes() == Path(other).read_bytes(), (table, pair)
