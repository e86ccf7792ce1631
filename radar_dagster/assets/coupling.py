"""Stage 3: the coupling statistics of a cell, from its scores. Formulas: docs/statistics.md and `stats/`.

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
from radar_dagster.assets.pictures import coupling_pictures
from radar_dagster.config import Workspace
from radar_dagster.models.stages import require_version
from radar_dagster.partitions import BENCHMARK, Partitions, dimensions
from radar_dagster.rubric.rows import rubric_from_frame
from radar_dagster.stats.audit import analyse
from radar_dagster.stats.verdict import decide, verdict_frame
from radar_dagster.tables import COUPLING_TABLES

_DESCRIPTIONS = {
    "self_effects": "SelfEffect(i): how far probes of criterion i move the score on i itself, mean over tasks of "
    "p̄_i(+) − p̄_i(−). Below the gate τ nothing is said of what i moves.",
    "leakage": "ℓ(i→j) = GenCoupling(i→j) / SelfEffect(i): how much j follows when i is pushed by one unit. Null where "
    "the gate was failed.",
    "criterion_pairs": "SymCoupling, Asymmetry and the reading of every pair of criteria.",
    "coupling_summary": "Global positive coupling, tension, the largest leakage, and the effective number of criteria.",
    "task_slices": "The same quantities task by task: what the means over tasks are made of.",
    "aggregation_sensitivity": "How often a weighted aggregate counts one unit of each criterion.",
    "settling": "Pairs whose reading more probes could change, and how many it takes.",
    "verdict": "The policy's answer: passed, violated or inconclusive, and why.",
}


def coupling_assets(workspace: Workspace, partitions: Partitions) -> list[dg.AssetsDefinition]:
    """One multi-asset: all tables of stage 3."""
    settings, policy = workspace.audit.coupling, workspace.audit.policy
    version = code_version(2, settings.model_dump(mode="json"), policy.model_dump(mode="json"))

    @dg.multi_asset(
        name="coupling",
        partitions_def=partitions.pair,
        ins={"rubric": from_benchmark(), "scores": dg.AssetIn()},
        outs={
            table: dg.AssetOut(
                io_manager_key=IO_MANAGER,
                description=_DESCRIPTIONS[table],
                group_name="coupling",
                kinds={"numpy", "parquet"},
                owners=OWNERS,
                code_version=version,
                automation_condition=FREE,
                metadata=table_columns(table),
            )
            for table in COUPLING_TABLES
        },
    )
    def coupling(
        context: dg.AssetExecutionContext, rubric: pd.DataFrame, scores: pd.DataFrame
    ) -> Iterator[dg.Output[pd.DataFrame]]:
        benchmark = dimensions(context.partition_key, partitions.pair)[BENCHMARK]
        loaded = rubric_from_frame(benchmark, rubric)
        require_version(scores, loaded, "scores")
        tables = analyse(
            scores,
            settings=settings,
            criteria=[criterion.id for criterion in loaded.criteria],
            tasks=[task.id for task in loaded.tasks],
            weights={criterion.id: criterion.weight for criterion in loaded.criteria},
        )
        verdict = decide(tables, scores, policy, settings.thresholds)
        pictures = coupling_pictures(loaded, tables, settings)
        frames = {name: getattr(tables, name) for name in COUPLING_TABLES if name != "verdict"}
        frames["verdict"] = verdict_frame(verdict, settings, policy, loaded.version)
        for table, frame in frames.items():
            metadata: dict[str, Any] = {"table": table_metadata(frame), **pictures.get(table, {})}
            yield dg.Output(frame, output_name=table, metadata=metadata)

    return [coupling]
