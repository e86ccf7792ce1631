"""The passive baselines of a cell, from the scores of its passive responses. Formulas: `stats/passive.py`.

Not here: the numbers themselves, and the pictures in the metadata (`pictures.py`).
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pandas as pd

from radar_dagster.assets.common import (
    FREE,
    IO_MANAGER,
    OWNERS,
    code_version,
    from_benchmark,
    table_columns,
    table_metadata,
)
from radar_dagster.assets.pictures import baseline_pictures
from radar_dagster.models.stages import require_version
from radar_dagster.partitions import BENCHMARK, Partitions, dimensions
from radar_dagster.rubric.rows import rubric_from_frame
from radar_dagster.stats.passive import baseline_tables
from radar_dagster.tables import BASELINE_TABLES

_DESCRIPTIONS = {
    "baselines": "What two passive methods say of every pair: Pearson correlation of the scores, and redundancy by "
    "whitening. Co-variation without an intervention, to compare the leakage with.",
    "baseline_weights": "The weights that the whitening would give the criteria, beside the declared ones.",
}


def baseline_assets(partitions: Partitions) -> list[dg.AssetsDefinition]:
    """One multi-asset: `baselines` and `baseline_weights`."""

    @dg.multi_asset(
        name="passive_baselines",
        partitions_def=partitions.pair,
        ins={"rubric": from_benchmark(), "passive_scores": dg.AssetIn()},
        outs={
            table: dg.AssetOut(
                io_manager_key=IO_MANAGER,
                description=_DESCRIPTIONS[table],
                group_name="baselines",
                kinds={"numpy", "parquet"},
                owners=OWNERS,
                code_version=code_version(1),
                automation_condition=FREE,
                metadata=table_columns(table),
            )
            for table in BASELINE_TABLES
        },
    )
    def passive_baselines(
        context: dg.AssetExecutionContext, rubric: pd.DataFrame, passive_scores: pd.DataFrame
    ) -> Iterator[dg.Output[pd.DataFrame]]:
        benchmark = dimensions(context.partition_key, partitions.pair)[BENCHMARK]
        loaded = rubric_from_frame(benchmark, rubric)
        require_version(passive_scores, loaded, "passive scores")
        criteria = [criterion.id for criterion in loaded.criteria]
        weights = {criterion.id: criterion.weight for criterion in loaded.criteria}
        frames = dict(zip(BASELINE_TABLES, baseline_tables(passive_scores, criteria, weights), strict=True))
        pictures = baseline_pictures(loaded, frames["baselines"])
        for table, frame in frames.items():
            metadata: dict[str, Any] = {"table": table_metadata(frame), **pictures.get(table, {})}
            yield dg.Output(frame, output_name=table, metadata=metadata)

    return [passive_baselines]
