"""Stage 1: probes, the responses that a generator makes by intervening on one criterion.

Not here: what a generator is asked (`models/stages.py`), and whether the probes are fit for use (`checks/probes.py`).
"""

import dagster as dg
import pandas as pd

from radar_dagster.assets.calls import TEXTS, output_of_calls
from radar_dagster.assets.common import (
    IO_MANAGER,
    OWNERS,
    code_version,
    from_benchmark,
    state_metadata,
    table_columns,
)
from radar_dagster.config import Workspace
from radar_dagster.models.progress import log_lines
from radar_dagster.models.stages import make_probes
from radar_dagster.partitions import BENCHMARK, GENERATOR, Partitions, dimensions
from radar_dagster.resources.models import ModelsResource
from radar_dagster.rubric.rows import rubric_from_frame

#: Metadata of a probes partition: the version of the rubric that it was made from.
RUBRIC_VERSION = "rubric_version"


def probe_assets(workspace: Workspace, partitions: Partitions) -> list[dg.AssetsDefinition]:
    """`probes`."""

    @dg.asset(
        name="probes",
        partitions_def=partitions.generator,
        ins={"rubric": from_benchmark()},
        io_manager_key=IO_MANAGER,
        group_name="probes",
        kinds={"llm", "parquet"},
        owners=OWNERS,
        pool="generation",
        code_version=code_version(1, workspace.audit.probes),
        metadata=table_columns("probes"),
        description="N responses per (task, criterion, direction), written to satisfy (+) or to fail (−) that one "
        "criterion. One row per probe; a failed generation is a row with its state. RADAR, stage 1.",
    )
    def probes(
        context: dg.AssetExecutionContext, rubric: pd.DataFrame, models: ModelsResource
    ) -> dg.Output[pd.DataFrame]:
        dims = dimensions(context.partition_key, partitions.generator)
        loaded = rubric_from_frame(dims[BENCHMARK], rubric)
        with models.door(context) as door:
            frame = make_probes(loaded, door, dims[GENERATOR], workspace.audit.probes, log_lines(context.log.info))
            states = state_metadata(frame.rename(columns={"target": "criterion"}))
            told = {"probes": len(frame), RUBRIC_VERSION: loaded.version}
            return output_of_calls(frame, door, dims[GENERATOR], TEXTS, states, **told)

    return [probes]
