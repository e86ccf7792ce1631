"""Checks on stage 1: the design is complete, nothing is there twice, and few generations were lost.

Not here: whether a probe moved its criterion, which only scores can tell (`checks/coupling.py`).
"""

import dagster as dg
import pandas as pd

from radar_dagster.checks.common import ExpectationRunner
from radar_dagster.checks.expectations import Expectation, Suite
from radar_dagster.config import Workspace
from radar_dagster.models.replies import State
from radar_dagster.models.requests import DIRECTIONS
from radar_dagster.partitions import BENCHMARK, Partitions, dimensions
from radar_dagster.resources.lake import LakeIOManager
from radar_dagster.rubric.model import Rubric
from radar_dagster.rubric.rows import rubric_from_frame
from radar_dagster.stats.settings import Policy

#: Identical texts are no independent draws; a generator that repeats itself this much makes intervals too narrow.
MIN_UNIQUE_SHARE = 0.80
KEY = ["task", "target", "direction", "sample"]


def probe_checks(workspace: Workspace, partitions: Partitions) -> list[dg.AssetChecksDefinition]:
    """`probes_expectations`."""

    @dg.asset_check(
        asset="probes",
        name="probes_expectations",
        description="N probes for every (task, criterion, direction), none twice; enough of them `ok`; texts differ.",
        blocking=True,
        partitions_def=partitions.generator,
    )
    def probes_expectations(
        context: dg.AssetCheckExecutionContext,
        lake: dg.ResourceParam[LakeIOManager],
        expectations: ExpectationRunner,
    ) -> dg.AssetCheckResult:
        dims = dimensions(context.partition_key, partitions.generator)
        rows = lake.lake.read("rubric", **{BENCHMARK: dims[BENCHMARK]})
        rubric = rubric_from_frame(dims[BENCHMARK], rows)
        frame = lake.lake.read("probes", **dims)
        suites = probe_suites(frame, rubric, workspace.audit.probes, workspace.audit.policy)
        return expectations.check(suites, partition=context.partition_key)

    return [probes_expectations]


def probe_suites(frame: pd.DataFrame, rubric: Rubric, probes: int, policy: Policy) -> list[Suite]:
    """What must hold for the probes of one cell. Complete = right count, no key twice, every key from the design."""
    criteria = [criterion.id for criterion in rubric.criteria]
    tasks = [task.id for task in rubric.tasks]
    expected = len(tasks) * len(criteria) * len(DIRECTIONS) * probes
    design = [
        Expectation("ExpectTableRowCountToEqual", {"value": expected}),
        Expectation("ExpectCompoundColumnsToBeUnique", {"column_list": KEY}),
        Expectation("ExpectColumnValuesToBeInSet", {"column": "task", "value_set": tasks}),
        Expectation("ExpectColumnValuesToBeInSet", {"column": "target", "value_set": criteria}),
        Expectation("ExpectColumnValuesToBeInSet", {"column": "direction", "value_set": list(DIRECTIONS)}),
        Expectation("ExpectColumnValuesToBeBetween", {"column": "sample", "min_value": 1, "max_value": probes}),
        Expectation("ExpectColumnValuesToBeInSet", {"column": "state", "value_set": [s.value for s in State]}),
        Expectation(
            "ExpectColumnValuesToBeInSet",
            {"column": "state", "value_set": [State.OK.value], "mostly": policy.min_ok_share},
        ),
    ]
    made = frame[frame["state"] == State.OK]
    texts = [
        Expectation("ExpectColumnValuesToNotBeNull", {"column": "text"}),
        Expectation("ExpectColumnValueLengthsToBeBetween", {"column": "text", "min_value": 1}),
        Expectation(
            "ExpectColumnProportionOfUniqueValuesToBeBetween",
            {"column": "text", "min_value": MIN_UNIQUE_SHARE},
            blocking=False,
        ),
    ]
    suites = [Suite(frame[[*KEY, "state"]], design)]
    return [*suites, Suite(made[["text"]], texts)] if len(made) else suites
