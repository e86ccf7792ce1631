"""Checks on stage 1: the design is complete, nothing is there twice, and few generations were lost.

What holds for all texts of a generator is here too (`text_suites`).

Not here: whether a probe moved its criterion, which only scores can tell (`checks/coupling.py`).
"""

import math
from collections.abc import Mapping, Sequence

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
    allowed: dict[str, Sequence[str]] = {
        "task": [task.id for task in rubric.tasks],
        "target": [criterion.id for criterion in rubric.criteria],
        "direction": list(DIRECTIONS),
    }
    return text_suites(frame, KEY, allowed, each=probes, last_sample=probes, policy=policy)


def text_suites(
    frame: pd.DataFrame,
    key: Sequence[str],
    allowed: Mapping[str, Sequence[str]],
    *,
    each: int,
    last_sample: int,
    policy: Policy,
) -> list[Suite]:
    """What must hold for texts: `each` rows for every combination of `allowed` values, samples from 1 to the last one.

    `key` names the columns that tell two rows apart.
    """
    expected = each * math.prod(len(values) for values in allowed.values())
    design = [
        Expectation("ExpectTableRowCountToEqual", {"value": expected}),
        Expectation("ExpectCompoundColumnsToBeUnique", {"column_list": list(key)}),
        *(
            Expectation("ExpectColumnValuesToBeInSet", {"column": column, "value_set": list(values)})
            for column, values in allowed.items()
        ),
        Expectation("ExpectColumnValuesToBeBetween", {"column": "sample", "min_value": 1, "max_value": last_sample}),
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
    suites = [Suite(frame[[*key, "state"]], design)]
    return [*suites, Suite(made[["text"]], texts)] if len(made) else suites
