"""All cells of a benchmark side by side: every pair of criteria over cells, and every cell's agreement with people.

Here: gathering the cells with SQL over the lake, and comparing all of them with the same people. Not here: means and
spreads (`stats/grid.py`), what is said of one cell (`validation.py`).
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Any

import dagster as dg
import duckdb
import numpy as np
import pandas as pd

from radar_dagster.assets.common import IO_MANAGER, OWNERS, code_version, table_columns, table_metadata
from radar_dagster.assets.pictures import grid_pictures
from radar_dagster.assets.validation import version_in
from radar_dagster.config import Workspace
from radar_dagster.errors import BadInputError
from radar_dagster.lake import Lake
from radar_dagster.models.naming import is_rule_based
from radar_dagster.partitions import BENCHMARK, Pair, Partitions
from radar_dagster.report.grid import GridData
from radar_dagster.report.html import render_grid
from radar_dagster.resources.lake import LakeIOManager
from radar_dagster.rubric.model import Rubric
from radar_dagster.rubric.rows import rubric_from_frame
from radar_dagster.stats.grid import average_over_cells
from radar_dagster.stats.validation import NUMBERS, RADAR, matrix_of, validation_table
from radar_dagster.tables import GRID_AGREEMENT, GRID_TABLES

GRID_PAGE = "grid.html"

#: Whenever a cell changes. One that a gate stopped is a finding too, and one that was never audited must not hold the
#: others back; but without any there is no grid, so a new rubric alone asks for nothing.
_WHEN_A_CELL_CHANGES = (
    dg.AutomationCondition.any_deps_updated().allow(dg.AssetSelection.assets("criterion_pairs")).since_last_handled()
    & ~dg.AutomationCondition.any_deps_in_progress()
    & ~dg.AutomationCondition.in_progress()
)

_DESCRIPTIONS = {
    "coupling_grid": "Every pair of criteria over all audited cells of the benchmark: mean ± sd of leakage, "
    "SymCoupling and Asymmetry, and the reading of the means. What all cells share is the rubric's doing; the rest is "
    "one model's.",
    "grid_agreement": "Generator × verifier: every cell's agreement with people. Self-pairs and cells that were not "
    "audited are null, with the reason.",
}


def grid_assets(workspace: Workspace, partitions: Partitions) -> list[dg.AssetsDefinition]:
    """One multi-asset: `coupling_grid` and `grid_agreement`."""
    settings = workspace.audit.coupling
    # Which cells there are, and what the page says of their models, is not in the tables that the grid reads.
    roles = (workspace.generators, workspace.verifiers, workspace.pairs(), _rule_based(workspace))
    version = code_version(3, settings.thresholds.model_dump(mode="json"), settings.seed, *roles)
    of_the_benchmark = dg.MultiToSingleDimensionPartitionMapping(BENCHMARK)

    @dg.multi_asset(
        name="grid",
        partitions_def=partitions.benchmark,
        ins={"rubric": dg.AssetIn(), "human_correlations": dg.AssetIn()},
        deps=[dg.AssetDep(name, partition_mapping=of_the_benchmark) for name in ("criterion_pairs", "verdict")],
        outs={
            table: dg.AssetOut(
                io_manager_key=IO_MANAGER,
                description=_DESCRIPTIONS[table],
                group_name="validation",
                kinds={"duckdb", "parquet"},
                owners=OWNERS,
                code_version=version,
                automation_condition=_WHEN_A_CELL_CHANGES,
                metadata=table_columns(table),
            )
            for table in GRID_TABLES
        },
    )
    def grid(
        context: dg.AssetExecutionContext,
        lake: dg.ResourceParam[LakeIOManager],
        rubric: pd.DataFrame,
        human_correlations: pd.DataFrame,
    ) -> Iterator[dg.Output[pd.DataFrame]]:
        benchmark = context.partition_key
        loaded = rubric_from_frame(benchmark, rubric)
        cells = read_cells(lake.lake, benchmark, loaded, {Pair(*pair).key for pair in workspace.pairs()})
        human = matrix_of(human_correlations, "pearson_r", [criterion.id for criterion in loaded.criteria])
        frames = {
            "coupling_grid": average_over_cells(list(cells.values()), settings.thresholds),
            "grid_agreement": agreement_of_cells(workspace, cells, loaded, human),
        }
        pictures = grid_pictures(loaded, frames)
        page = write_page(lake.lake, GridData(loaded, benchmark, frames, _rule_based(workspace)))
        pictures["coupling_grid"]["page"] = dg.MetadataValue.path(page)
        for table, frame in frames.items():
            metadata: dict[str, Any] = {"table": table_metadata(frame), **pictures[table]}
            yield dg.Output(frame, output_name=table, metadata=metadata)

    return [grid]


def write_page(lake: Lake, data: GridData) -> str:
    """Write the grid's page beside its table; returns its full path."""
    path, _, _ = lake.write_text("coupling_grid", GRID_PAGE, render_grid(data), **{BENCHMARK: data.benchmark})
    return lake.absolute(path)


def _rule_based(workspace: Workspace) -> tuple[str, ...]:
    aliases = dict.fromkeys((*workspace.generators, *workspace.verifiers))
    return tuple(alias for alias in aliases if is_rule_based(workspace.models[alias]))


def read_cells(lake: Lake, benchmark: str, rubric: Rubric, pairs: Collection[str]) -> dict[str, pd.DataFrame]:
    """Pair -> criterion_pairs of those `pairs` whose statistics are of this version of the rubric, sorted by pair.

    The rows of a cell come in the rubric's order. BadInputError when there is no cell.
    """
    with duckdb.connect() as connection:
        if not {"verdict", "criterion_pairs"} <= set(lake.create_views(connection)):
            raise BadInputError(f"no cell of {benchmark} was audited yet: run the audit first")
        verdicts = connection.execute("SELECT pair, settings FROM verdict WHERE benchmark = ?", [benchmark]).fetchall()
        current = [pair for pair, settings in verdicts if pair in pairs and version_in(settings) == rubric.version]
        found = connection.execute(
            "SELECT * FROM criterion_pairs WHERE benchmark = ? AND list_contains(?, pair)", [benchmark, current]
        ).df()
    if found.empty:
        raise BadInputError(f"no cell of {benchmark} was audited with this version of the rubric ({rubric.version})")
    # A query's rows come in any order; equal cells must make equal tables.
    place = {criterion.id: position for position, criterion in enumerate(rubric.criteria)}
    ordered = found.sort_values(["criterion_a", "criterion_b"], key=lambda column: column.map(place))
    return {str(pair): cell for pair, cell in ordered.groupby("pair")}


def agreement_of_cells(
    workspace: Workspace, cells: Mapping[str, pd.DataFrame], rubric: Rubric, human: np.ndarray
) -> pd.DataFrame:
    """Every generator × verifier of the workspace as a row of GRID_AGREEMENT; what is no cell says so.

    All cells are compared with the same `human` matrix (n, n) in the rubric's order, whatever theirs was compared with
    when it was audited.
    """
    criteria = [criterion.id for criterion in rubric.criteria]
    configured = {Pair(*pair).key for pair in workspace.pairs()}
    rows: list[dict[str, Any]] = []
    for generator, verifier in product(workspace.generators, workspace.verifiers):
        key = Pair(generator, verifier).key
        row: dict[str, Any] = {"generator": generator, "verifier": verifier}
        if key not in configured:
            row["detail"] = "self_pair: a judge prefers its own text"
        elif key not in cells:
            row["detail"] = "not_audited"
        else:
            rng = np.random.default_rng(workspace.audit.coupling.seed)
            table = validation_table({RADAR: matrix_of(cells[key], "sym", criteria)}, human, rng)
            row |= {str(name): value for name, value in table.iloc[0].drop("method").items()}
        rows.append(row)
    frame = pd.DataFrame(rows, columns=GRID_AGREEMENT.names)
    detail = frame["detail"].astype(object).where(frame["detail"].notna(), None)
    return frame.astype(dict.fromkeys(NUMBERS, float)).astype({"pairs_used": "Int64"}).assign(detail=detail)
