"""Stage 2: scores, the verdict of a verifier on every criterion of every probe.

Not here: what a verifier is asked (`models/stages.py`), and which losses are too many (`checks/scores.py`).
"""

from datetime import timedelta

import dagster as dg
import pandas as pd

from radar_dagster.assets.calls import SCORES, output_of_calls
from radar_dagster.assets.common import (
    IO_MANAGER,
    OWNERS,
    code_version,
    from_benchmark,
    from_probes,
    state_metadata,
    table_columns,
)
from radar_dagster.config import Workspace
from radar_dagster.models.progress import log_lines
from radar_dagster.models.stages import judge_probes
from radar_dagster.partitions import BENCHMARK, PAIR, Partitions, dimensions, parse_pair
from radar_dagster.resources.models import ModelsResource
from radar_dagster.rubric.rows import rubric_from_frame


def score_assets(workspace: Workspace, partitions: Partitions) -> list[dg.AssetsDefinition]:
    """`scores`."""

    @dg.asset(
        name="scores",
        partitions_def=partitions.pair,
        ins={"rubric": from_benchmark(), "probes": from_probes(partitions)},
        io_manager_key=IO_MANAGER,
        group_name="scores",
        kinds={"llm", "parquet"},
        owners=OWNERS,
        pool="judgement",
        code_version=code_version(1),
        freshness_policy=_freshness(workspace),
        metadata=table_columns("scores"),
        description="The verifier's level for each probe on each criterion, one fresh call apiece that says nothing of "
        "the probe's target, direction or generator; p = (score − min) / (max − min). One row per probe × criterion; a "
        "lost score is a row with its state. RADAR, stage 2.",
    )
    def scores(
        context: dg.AssetExecutionContext, rubric: pd.DataFrame, probes: pd.DataFrame, models: ModelsResource
    ) -> dg.Output[pd.DataFrame]:
        dims = dimensions(context.partition_key, partitions.pair)
        verifier = parse_pair(dims[PAIR]).verifier
        loaded = rubric_from_frame(dims[BENCHMARK], rubric)
        with models.door(context) as door:
            frame = judge_probes(loaded, probes, door, verifier, log_lines(context.log.info))
            return output_of_calls(frame, door, verifier, SCORES, state_metadata(frame), scores=len(frame))

    return [scores]


def _freshness(workspace: Workspace) -> dg.FreshnessPolicy | None:
    """Dagster keeps freshness by asset, not by partition: scores are overdue when no pair was judged for too long."""
    if not workspace.schedule.production_pairs:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=timedelta(days=workspace.schedule.max_age_days))
