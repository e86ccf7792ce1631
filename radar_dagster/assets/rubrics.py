"""The rubric of each benchmark: the file that is watched, and the validated table that all else is made from.

Not here: noticing that a file changed (`sensors.py`), and reading it (`rubric/loading.py`).
"""

from typing import Any

import dagster as dg
import pandas as pd

from radar_dagster.assets.common import IO_MANAGER, OWNERS, code_version, table_columns, table_metadata
from radar_dagster.config import Workspace
from radar_dagster.errors import BadInputError
from radar_dagster.partitions import Partitions
from radar_dagster.rubric.rows import rubric_frame


def rubric_assets(workspace: Workspace, partitions: Partitions) -> list[dg.AssetsDefinition | dg.SourceAsset]:
    """`rubric_file` (observed, never made) and `rubric`."""

    @dg.observable_source_asset(
        name="rubric_file",
        partitions_def=partitions.benchmark,
        group_name="rubrics",
        tags={"dagster/kind/yaml": ""},
        description="The rubric's YAML file. Its data version is the hash of the criteria and tasks in it, so a "
        "changed comment or title makes nothing stale.",
    )
    def rubric_file(context: dg.AssetExecutionContext) -> dg.DataVersionsByPartition:
        # A broken file of one benchmark must not stand in the way of another's run.
        benchmarks = [context.partition_key] if context.has_partition_key else workspace.benchmarks
        return dg.DataVersionsByPartition(
            {name: version for name in benchmarks if (version := _version(name, context))}
        )

    @dg.asset(
        name="rubric",
        partitions_def=partitions.benchmark,
        deps=[rubric_file],
        io_manager_key=IO_MANAGER,
        group_name="rubrics",
        kinds={"yaml", "parquet"},
        owners=OWNERS,
        code_version=code_version(1, workspace.audit.tasks),
        metadata=table_columns("rubric"),
        description="Validated criteria and tasks, one row each. Data version: the hash of their content.",
    )
    def rubric(context: dg.AssetExecutionContext) -> dg.Output[pd.DataFrame]:
        loaded = workspace.rubric(context.partition_key)
        frame = rubric_frame(loaded)
        metadata: dict[str, Any] = {
            "file": dg.MetadataValue.path(str(workspace.rubric_path(context.partition_key))),
            "criteria": len(loaded.criteria),
            "tasks": len(loaded.tasks),
            "content_hash": loaded.content_hash,
            "items": table_metadata(frame[["item", "id", "kind", "weight", "text"]]),
        }
        return dg.Output(frame, metadata=metadata, data_version=dg.DataVersion(loaded.content_hash[:16]))

    def _version(benchmark: str, context: dg.AssetExecutionContext) -> str | None:
        try:
            return workspace.rubric(benchmark).content_hash[:16]
        except BadInputError as error:
            context.log.warning(str(error))
            return None

    return [rubric_file, rubric]
