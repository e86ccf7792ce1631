"""A backfill through a real `dagster dev`: parallel runs, the gate as data, and no probe made again."""

import shutil
from pathlib import Path

import dagster as dg
import pytest
from dagster_server import dagster_dev

from radar_dagster.config import load_workspace
from radar_dagster.lake import Lake
from radar_dagster.partitions import Pair, multi_key
from radar_dagster.runs import Runner
from radar_dagster.tables import COUPLING_TABLES

pytestmark = pytest.mark.slow

#: What follows from scores and costs nothing.
ANALYSED = (*COUPLING_TABLES, "validation", "probe_budget")


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

    stopped = [multi_key(benchmark="notes", pair=f"writer~{verifier}") for verifier in ("blind", "lossy")]

    home.mkdir()
    with dg.DagsterInstance.from_config(str(home)) as instance:
        runner = Runner(workspace, instance)
        for benchmark in benchmarks:
            runner.write_probes(benchmark, ["writer"])
    with dagster_dev(tmp_path, home) as server:
        # Two of four judges fail a gate, and their runs end there.
        assert server.backfill(["scores", *ANALYSED, "audit_report"], cells) == "COMPLETED_FAILED"
        assert not lake.exists("audit_report", benchmark="notes", pair="writer~blind")
        assert not lake.exists("verdict", benchmark="notes", pair="writer~lossy")
        # Apart from the run that the gate stopped, nothing holds what is downstream back, and it carries the state.
        for assets in (ANALYSED, ["audit_report"]):
            server.backfill(assets, stopped)
        # A new judge is a line in radar.yaml, a reload and a backfill of its pairs.
        with (tmp_path / "radar.yaml").open("a") as configuration:
            configuration.write("  newcomer: {model: 'python/judges:judge@third'}\n")
        server.reload()
        assert server.backfill(["scores", *COUPLING_TABLES], ["letters|writer~newcomer"]) == "COMPLETED_SUCCESS"
        assert lake.exists("verdict", benchmark="letters", pair="writer~newcomer")

    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert len(instance.fetch_materializations(dg.AssetKey("probes"), limit=100).records) == len(benchmarks)

    scores_per_cell = 2 * 3 * 2 * 2 * 3  # tasks × criteria × directions × probes × criteria
    assert len(lake.partitions("scores")) == 12 + 1
    for benchmark in benchmarks:
        for pair in pairs:
            dims = {"benchmark": benchmark, "pair": pair.key}
            assert len(lake.read("scores", **dims)) == scores_per_cell
            if pair.verifier.startswith("careful"):
                assert lake.read("leakage", **dims)["leakage"].notna().all()
    for pair, unreliable in (("writer~blind", {"accuracy", "brevity", "courtesy"}), ("writer~lossy", {"brevity"})):
        dims = {"benchmark": "notes", "pair": pair}
        leakage = lake.read("leakage", **dims)
        assert leakage.loc[leakage["source"].isin(unreliable), "leakage"].isna().all()
        assert lake.read("verdict", **dims)["verdict"].item() == "inconclusive"
        assert "Inconclusive" in lake.read_text("audit_report", "report.html", **dims)

    alone = workspace.model_copy(update={"store": str(tmp_path / "alone")})
    with dg.DagsterInstance.ephemeral() as instance:
        runner = Runner(alone, instance)
        runner.audit("memos", pairs)
    for pair in pairs:
        dims = {"benchmark": "memos", "pair": pair.key}
        tables = ["scores"] if pair.verifier == "lossy" else ["scores", *COUPLING_TABLES]
        for table in tables:
            assert Path(lake.path(table, dims)).read_bytes() == Path(runner.lake.path(table, dims)).read_bytes(), table
