"""Checks on the comparison with people: pairs are matched by name, and there are enough of them to compare.

None of them blocks: an audit without people to compare with is still an audit.

Not here: the numbers (`stats/validation.py`), and files of ratings (`inputs/`).
"""

import dagster as dg
import pandas as pd

from radar_dagster.assets.common import table_metadata
from radar_dagster.config import Workspace
from radar_dagster.partitions import BENCHMARK, Pair, Partitions, dimensions
from radar_dagster.resources.lake import LakeIOManager
from radar_dagster.rubric.rows import rubric_from_frame
from radar_dagster.stats.correlation import MIN_PAIRS
from radar_dagster.stats.validation import RADAR


def validation_checks(workspace: Workspace, partitions: Partitions) -> list[dg.AssetChecksDefinition]:
    """`human_pairs_match`, `enough_pairs_to_compare`, `every_cell_is_in_the_grid`."""

    @dg.asset_check(
        asset="human_correlations",
        name="human_pairs_match",
        description="Every pair of criteria has a human correlation; a WARN names the criteria that have none.",
        partitions_def=partitions.benchmark,
    )
    def human_pairs_match(
        context: dg.AssetCheckExecutionContext, lake: dg.ResourceParam[LakeIOManager]
    ) -> dg.AssetCheckResult:
        benchmark = context.partition_key
        human = lake.lake.read("human_correlations", **{BENCHMARK: benchmark})
        rubric = rubric_from_frame(benchmark, lake.lake.read("rubric", **{BENCHMARK: benchmark}))
        return match_result(human, [criterion.id for criterion in rubric.criteria], benchmark)

    @dg.asset_check(
        asset="validation",
        name="enough_pairs_to_compare",
        description=f"At least {MIN_PAIRS} reliable pairs have a human correlation, where there are any at all.",
        partitions_def=partitions.pair,
    )
    def enough_pairs_to_compare(
        context: dg.AssetCheckExecutionContext, lake: dg.ResourceParam[LakeIOManager]
    ) -> dg.AssetCheckResult:
        dims = dimensions(context.partition_key, partitions.pair)
        human = lake.lake.read("human_correlations", **{BENCHMARK: dims[BENCHMARK]})
        return enough_result(lake.lake.read("validation", **dims), human, context.partition_key)

    @dg.asset_check(
        asset="coupling_grid",
        name="every_cell_is_in_the_grid",
        description="Every configured cell was audited with the present rubric; a WARN names those that were not.",
        additional_deps=["grid_agreement"],
        partitions_def=partitions.benchmark,
    )
    def every_cell_is_in_the_grid(
        context: dg.AssetCheckExecutionContext, lake: dg.ResourceParam[LakeIOManager]
    ) -> dg.AssetCheckResult:
        cells = lake.lake.read("grid_agreement", **{BENCHMARK: context.partition_key})
        return grid_result(cells, workspace.pairs(), context.partition_key)

    return [human_pairs_match, enough_pairs_to_compare, every_cell_is_in_the_grid]


def match_result(human: pd.DataFrame, criteria: list[str], partition: str) -> dg.AssetCheckResult:
    """Which criteria people say nothing of; passed where there is no source at all, as nothing was asked for."""
    there = {*human["criterion_a"], *human["criterion_b"]}
    without = [criterion for criterion in criteria if criterion not in there]
    told = f"no human correlations for {', '.join(without)}" if without else f"{len(human)} pairs"
    unknown = human[human["pearson_r"].isna()]
    if len(unknown):
        told += f"; {len(unknown)} without a number"
    return dg.AssetCheckResult(
        passed=human.empty or (not without and unknown.empty),
        severity=dg.AssetCheckSeverity.WARN,
        description="no source is configured" if human.empty else told,
        metadata={"partition": partition, "human_correlations": table_metadata(human)},
    )


def enough_result(validation: pd.DataFrame, human: pd.DataFrame, partition: str) -> dg.AssetCheckResult:
    """Whether RADAR's pairs are enough to be compared with people's."""
    row = validation[validation["method"] == RADAR].iloc[0]
    pairs = int(row["pairs_used"])
    return dg.AssetCheckResult(
        passed=human.empty or pairs >= MIN_PAIRS,
        severity=dg.AssetCheckSeverity.WARN,
        description="there is nobody to compare with" if human.empty else f"{pairs} of {len(human)} pairs are compared",
        metadata={"partition": partition, "pairs_used": pairs, "validation": table_metadata(validation)},
    )


def grid_result(cells: pd.DataFrame, pairs: list[tuple[str, str]], partition: str) -> dg.AssetCheckResult:
    """Which configured cells are not in the grid."""
    absent = cells[cells["detail"].fillna("").str.startswith("not_audited")]
    missing = [Pair(*pair).key for pair in zip(absent["generator"], absent["verifier"], strict=True)]
    return dg.AssetCheckResult(
        passed=not missing,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"not audited: {', '.join(missing)}" if missing else f"all {len(pairs)} cells",
        metadata={"partition": partition, "cells": len(pairs) - len(missing)},
    )
