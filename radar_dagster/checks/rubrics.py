"""Checks on the rubric table: it still makes a valid rubric, and it is what the file says.

Not here: what makes a rubric valid (`rubric/model.py`).
"""

import dagster as dg

from radar_dagster.config import Workspace
from radar_dagster.errors import BadInputError
from radar_dagster.partitions import BENCHMARK, Partitions
from radar_dagster.resources.lake import LakeIOManager
from radar_dagster.rubric.rows import rubric_from_frame


def rubric_checks(workspace: Workspace, partitions: Partitions) -> list[dg.AssetChecksDefinition]:
    """`rubric_is_valid`."""

    @dg.asset_check(
        asset="rubric",
        name="rubric_is_valid",
        description="Unique ids, known kinds, ordered scales, at least two criteria and one task, in the rows as "
        "stored; and the same content as the file has now.",
        blocking=True,
        partitions_def=partitions.benchmark,
    )
    def rubric_is_valid(
        context: dg.AssetCheckExecutionContext, lake: dg.ResourceParam[LakeIOManager]
    ) -> dg.AssetCheckResult:
        benchmark = context.partition_key
        try:
            stored = rubric_from_frame(benchmark, lake.lake.read("rubric", **{BENCHMARK: benchmark}))
        except ValueError as error:
            return dg.AssetCheckResult(passed=False, description=f"the stored rows are no rubric: {error}")
        try:
            current = workspace.rubric(benchmark)
        except BadInputError as error:
            return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, description=str(error))
        same = stored.content_hash == current.content_hash
        return dg.AssetCheckResult(
            passed=same,
            severity=dg.AssetCheckSeverity.WARN,  # an audit of what is stored stays right; it is only not of the file
            description="stored rows and file agree" if same else "the file has changed since it was materialised",
            metadata={"stored": stored.content_hash, "file": current.content_hash, "partition": benchmark},
        )

    return [rubric_is_valid]
