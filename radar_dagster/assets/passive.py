"""Passive responses and their scores: what the baselines are made of, on the same cell as the audit.

Not here: what generators and verifiers are asked (`models/stages.py`), whether the rows are fit for use
(`checks/passive.py`), and the baselines (`baselines.py`).
"""

import dagster as dg
import pandas as pd

from radar_dagster.assets.calls import SCORES, TEXTS, output_of_calls
from radar_dagster.assets.common import (
    IO_MANAGER,
    OWNERS,
    code_version,
    from_benchmark,
    from_probes,
    state_metadata,
    table_columns,
)
from radar_dagster.assets.probes import RUBRIC_VERSION
from radar_dagster.config import Workspace
from radar_dagster.models.progress import log_lines
from radar_dagster.models.stages import judge_passive, make_passive
from radar_dagster.partitions import BENCHMARK, GENERATOR, PAIR, Partitions, dimensions, parse_pair
from radar_dagster.resources.models import ModelsResource
from radar_dagster.rubric.rows import rubric_from_frame


def passive_assets(workspace: Workspace, partitions: Partitions) -> list[dg.AssetsDefinition]:
    """`passive_responses` and `passive_scores`."""
    return [_responses(workspace, partitions), _scores(partitions)]


def _responses(workspace: Workspace, partitions: Partitions) -> dg.AssetsDefinition:
    @dg.asset(
        name="passive_responses",
        partitions_def=partitions.generator,
        ins={"rubric": from_benchmark()},
        io_manager_key=IO_MANAGER,
        group_name="baselines",
        kinds={"llm", "parquet"},
        owners=OWNERS,
        pool="generation",
        code_version=code_version(1, workspace.audit.passive_responses),
        metadata=table_columns("passive_responses"),
        description="M responses per task and passive baseline, written to the bare task: no criterion, no direction. "
        "One row per response; a failed generation is a row with its state.",
    )
    def passive_responses(
        context: dg.AssetExecutionContext, rubric: pd.DataFrame, models: ModelsResource
    ) -> dg.Output[pd.DataFrame]:
        dims = dimensions(context.partition_key, partitions.generator)
        loaded = rubric_from_frame(dims[BENCHMARK], rubric)
        wanted = workspace.audit.passive_responses
        with models.door(context) as door:
            frame = make_passive(loaded, door, dims[GENERATOR], wanted, log_lines(context.log.info))
            told = {"responses": len(frame), RUBRIC_VERSION: loaded.version}
            return output_of_calls(
                frame, door, dims[GENERATOR], TEXTS, state_metadata(frame, ("task", "purpose")), **told
            )

    return passive_responses


def _scores(partitions: Partitions) -> dg.AssetsDefinition:
    @dg.asset(
        name="passive_scores",
        partitions_def=partitions.pair,
        ins={"rubric": from_benchmark(), "passive_responses": from_probes(partitions)},
        io_manager_key=IO_MANAGER,
        group_name="baselines",
        kinds={"llm", "parquet"},
        owners=OWNERS,
        pool="judgement",
        code_version=code_version(1),
        metadata=table_columns("passive_scores"),
        description="The verifier's level for each passive response on each criterion, asked exactly as for a probe. "
        "One row per response × criterion; a lost score is a row with its state.",
    )
    def passive_scores(
        context: dg.AssetExecutionContext,
        rubric: pd.DataFrame,
        passive_responses: pd.DataFrame,
        models: ModelsResource,
    ) -> dg.Output[pd.DataFrame]:
        dims = dimensions(context.partition_key, partitions.pair)
        verifier = parse_pair(dims[PAIR]).verifier
        loaded = rubric_from_frame(dims[BENCHMARK], rubric)
        with models.door(context) as door:
            frame = judge_passive(loaded, passive_responses, door, verifier, log_lines(context.log.info))
            states = state_metadata(frame, ("criterion", "purpose"))
            return output_of_calls(frame, door, verifier, SCORES, states, scores=len(frame))

    return passive_scores
