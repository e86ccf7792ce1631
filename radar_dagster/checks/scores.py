"""Checks on stage 2: one row per probe and criterion, levels on the scale, and few verdicts lost.

Not here: whether the scores carry a conclusion (`checks/coupling.py`, `stats/verdict.py`).
"""

import dagster as dg
import pandas as pd

from radar_dagster.assets.common import table_metadata
from radar_dagster.checks.common import ExpectationRunner
from radar_dagster.checks.expectations import Expectation, Suite
from radar_dagster.config import Workspace
from radar_dagster.models.replies import State
from radar_dagster.partitions import BENCHMARK, GENERATOR, PAIR, Partitions, dimensions, parse_pair
from radar_dagster.resources.lake import LakeIOManager
from radar_dagster.rubric.model import Rubric
from radar_dagster.rubric.rows import rubric_from_frame
from radar_dagster.stats.states import state_rates
from radar_dagster.stats.verdict import ok_shortfalls


def score_checks(workspace: Workspace, partitions: Partitions) -> list[dg.AssetChecksDefinition]:
    """`ok_share_gate` and `scores_expectations`."""

    @dg.asset_check(
        asset="scores",
        name="ok_share_gate",
        description="The policy's shares of `ok` scores, overall and per (criterion, direction): losses are biased, "
        "so an audit that lost more is inconclusive.",
        blocking=True,
        partitions_def=partitions.pair,
    )
    def ok_share_gate(
        context: dg.AssetCheckExecutionContext, lake: dg.ResourceParam[LakeIOManager]
    ) -> dg.AssetCheckResult:
        frame = lake.lake.read("scores", **dimensions(context.partition_key, partitions.pair))
        shortfalls = ok_shortfalls(frame, workspace.audit.policy)
        return dg.AssetCheckResult(
            passed=not shortfalls,
            severity=dg.AssetCheckSeverity.ERROR,
            description=" ".join(shortfalls) or "enough scores are ok",
            metadata={"partition": context.partition_key, "states": table_metadata(state_rates(frame))},
        )

    @dg.asset_check(
        asset="scores",
        name="scores_expectations",
        description="One row per probe × criterion, none twice; scores are levels of the criterion's scale; 0 ≤ p ≤ 1.",
        blocking=True,
        partitions_def=partitions.pair,
    )
    def scores_expectations(
        context: dg.AssetCheckExecutionContext,
        lake: dg.ResourceParam[LakeIOManager],
        expectations: ExpectationRunner,
    ) -> dg.AssetCheckResult:
        dims = dimensions(context.partition_key, partitions.pair)
        benchmark, generator = dims[BENCHMARK], parse_pair(dims[PAIR]).generator
        rows = lake.lake.read("rubric", **{BENCHMARK: benchmark})
        probes = lake.lake.read("probes", **{BENCHMARK: benchmark, GENERATOR: generator})
        suites = score_suites(lake.lake.read("scores", **dims), probes, rubric_from_frame(benchmark, rows))
        return expectations.check(suites, partition=context.partition_key)

    return [ok_share_gate, scores_expectations]


def score_suites(frame: pd.DataFrame, texts: pd.DataFrame, rubric: Rubric, text: str = "probe") -> list[Suite]:
    """What must hold for the scores of one cell; `text` is the column that names a probe, or another text."""
    criteria = {criterion.id: criterion.scale for criterion in rubric.criteria}
    scored = frame[frame["state"] == State.OK]
    scales = scored["criterion"].map(criteria)
    on_scale = [
        scale is not None and scale.min <= score <= scale.max
        for scale, score in zip(scales, scored["score"], strict=True)
    ]
    design = [
        Expectation("ExpectTableRowCountToEqual", {"value": len(texts) * len(criteria)}),
        Expectation("ExpectCompoundColumnsToBeUnique", {"column_list": [text, "criterion"]}),
        Expectation("ExpectColumnValuesToBeInSet", {"column": "criterion", "value_set": list(criteria)}),
        Expectation("ExpectColumnValuesToBeInSet", {"column": text, "value_set": texts[text].tolist()}),
        Expectation("ExpectColumnValuesToBeInSet", {"column": "state", "value_set": [s.value for s in State]}),
    ]
    levels = [
        Expectation("ExpectColumnValuesToNotBeNull", {"column": "score"}),
        Expectation("ExpectColumnValuesToBeInSet", {"column": "on_scale", "value_set": [True]}),
        Expectation("ExpectColumnValuesToBeBetween", {"column": "p", "min_value": 0.0, "max_value": 1.0}),
    ]
    lost = frame.loc[frame["state"] != State.OK, ["score", "p"]].astype(float)
    unscored = [Expectation("ExpectColumnValuesToBeNull", {"column": column}) for column in ("score", "p")]
    suites = [Suite(frame[[text, "criterion", "state"]], design)]
    if len(scored):
        suites.append(Suite(scored[["score", "p"]].assign(on_scale=on_scale), levels))
    if len(lost):
        suites.append(Suite(lost, unscored))
    return suites
