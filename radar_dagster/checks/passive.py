"""Checks on passive responses and their scores: the designs are complete and few rows were lost.

Not here: what is the same for probes and their scores (`probes.py`, `scores.py`), and what the baselines say.
"""

import dagster as dg
import pandas as pd

from radar_dagster.checks.common import ExpectationRunner
from radar_dagster.checks.expectations import Expectation, Suite
from radar_dagster.checks.probes import text_suites
from radar_dagster.checks.scores import score_suites
from radar_dagster.config import Workspace
from radar_dagster.models.replies import State
from radar_dagster.partitions import BENCHMARK, GENERATOR, PAIR, Partitions, dimensions, parse_pair
from radar_dagster.resources.lake import LakeIOManager
from radar_dagster.rubric.model import Rubric
from radar_dagster.rubric.rows import rubric_from_frame
from radar_dagster.stats.passive import PURPOSES
from radar_dagster.stats.settings import Policy

KEY = ["task", "purpose", "sample"]


def passive_checks(workspace: Workspace, partitions: Partitions) -> list[dg.AssetChecksDefinition]:
    """`passive_responses_expectations` and `passive_scores_expectations`."""

    @dg.asset_check(
        asset="passive_responses",
        name="passive_responses_expectations",
        description="M responses for every task and baseline, none twice; enough of them `ok`; texts differ.",
        blocking=True,
        partitions_def=partitions.generator,
    )
    def passive_responses_expectations(
        context: dg.AssetCheckExecutionContext,
        lake: dg.ResourceParam[LakeIOManager],
        expectations: ExpectationRunner,
    ) -> dg.AssetCheckResult:
        dims = dimensions(context.partition_key, partitions.generator)
        rubric = _rubric(lake, dims[BENCHMARK])
        frame = lake.lake.read("passive_responses", **dims)
        suites = response_suites(frame, rubric, workspace.audit.passive_responses, workspace.audit.policy)
        return expectations.check(suites, partition=context.partition_key)

    @dg.asset_check(
        asset="passive_scores",
        name="passive_scores_expectations",
        description="One row per passive response × criterion, none twice; scores are levels of the criterion's scale; "
        "enough of them `ok`.",
        blocking=True,
        partitions_def=partitions.pair,
    )
    def passive_scores_expectations(
        context: dg.AssetCheckExecutionContext,
        lake: dg.ResourceParam[LakeIOManager],
        expectations: ExpectationRunner,
    ) -> dg.AssetCheckResult:
        dims = dimensions(context.partition_key, partitions.pair)
        benchmark, generator = dims[BENCHMARK], parse_pair(dims[PAIR]).generator
        responses = lake.lake.read("passive_responses", **{BENCHMARK: benchmark, GENERATOR: generator})
        frame = lake.lake.read("passive_scores", **dims)
        suites = passive_score_suites(frame, responses, _rubric(lake, benchmark), workspace.audit.policy)
        return expectations.check(suites, partition=context.partition_key)

    return [passive_responses_expectations, passive_scores_expectations]


def response_suites(frame: pd.DataFrame, rubric: Rubric, responses: int, policy: Policy) -> list[Suite]:
    """What must hold for the passive responses of one cell, with so many per task and baseline."""
    allowed = {"task": [task.id for task in rubric.tasks], "purpose": list(PURPOSES)}
    last = len(PURPOSES) * responses
    return text_suites(frame, KEY, allowed, each=responses, last_sample=last, policy=policy)


def passive_score_suites(frame: pd.DataFrame, responses: pd.DataFrame, rubric: Rubric, policy: Policy) -> list[Suite]:
    """What must hold for the scores of passive responses of one cell."""
    enough = Expectation(
        "ExpectColumnValuesToBeInSet",
        {"column": "state", "value_set": [State.OK.value], "mostly": policy.min_ok_share},
    )
    return [*score_suites(frame, responses, rubric, "response"), Suite(frame[["state"]], [enough])]


def _rubric(lake: LakeIOManager, benchmark: str) -> Rubric:
    return rubric_from_frame(benchmark, lake.lake.read("rubric", **{BENCHMARK: benchmark}))
