"""What people say of a benchmark's criteria, and how a cell agrees with them. Formulas: docs/validation.md, `stats/`.

Not here: files of ratings (`inputs/`), the numbers themselves, and cells side by side (`grid.py`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import dagster as dg
import numpy as np
import pandas as pd

from radar_dagster.assets.common import (
    FREE,
    IO_MANAGER,
    OWNERS,
    code_version,
    from_benchmark,
    table_columns,
    table_metadata,
    table_version,
)
from radar_dagster.assets.pictures import budget_picture, scatter_picture
from radar_dagster.config import Workspace
from radar_dagster.errors import BadInputError
from radar_dagster.inputs.human import configured_source, human_table
from radar_dagster.lake import Lake
from radar_dagster.models.stages import require_version
from radar_dagster.partitions import BENCHMARK, Partitions, dimensions
from radar_dagster.resources.lake import LakeIOManager
from radar_dagster.rubric.model import Rubric
from radar_dagster.rubric.rows import rubric_from_frame
from radar_dagster.stats.cell import cube_from_scores
from radar_dagster.stats.passive import baseline_tables
from radar_dagster.stats.probe_budget import probe_budget
from radar_dagster.stats.validation import RADAR, matrix_of, validation_table
from radar_dagster.tables import BASELINE_TABLES, HUMAN_CORRELATIONS

#: Validation does not wait for the baselines, which cost money and may never be made.
_WITHOUT_BASELINES = FREE.replace(
    "any_deps_missing",
    dg.AutomationCondition.any_deps_missing().ignore(dg.AssetSelection.assets(*BASELINE_TABLES)),
)


def validation_assets(workspace: Workspace, partitions: Partitions) -> list[dg.AssetsDefinition]:
    """`human_correlations`, `validation`, `probe_budget`."""
    return [_human(workspace, partitions), _validation(workspace, partitions), _budget(workspace, partitions)]


def _human(workspace: Workspace, partitions: Partitions) -> dg.AssetsDefinition:
    settings = workspace.audit.coupling
    sources = [_determinants(workspace, benchmark) for benchmark in workspace.benchmarks]

    @dg.asset(
        name="human_correlations",
        partitions_def=partitions.benchmark,
        ins={"rubric": dg.AssetIn()},
        io_manager_key=IO_MANAGER,
        group_name="validation",
        kinds={"csv", "parquet"},
        owners=OWNERS,
        code_version=code_version(1, sources, settings.confidence, settings.seed),
        automation_condition=FREE,
        metadata=table_columns("human_correlations"),
        description="Pearson r between criteria over people's per-item mean ratings, published or computed from a file "
        "with a bootstrap interval over items. Empty where radar.yaml names no source.",
    )
    def human_correlations(context: dg.AssetExecutionContext, rubric: pd.DataFrame) -> dg.Output[pd.DataFrame]:
        source = configured_source(workspace, context.partition_key)
        criteria = [criterion.id for criterion in rubric_from_frame(context.partition_key, rubric).criteria]
        frame = pd.DataFrame(columns=HUMAN_CORRELATIONS.names)
        notes: tuple[str, ...] = ("radar.yaml names no source",)
        if source is not None:
            frame, notes = human_table(source, criteria, rng_seed=settings.seed, confidence=settings.confidence)
        metadata: dict[str, Any] = {
            "pairs": len(frame),
            "source": ", ".join(dict.fromkeys(frame["source"])) or "none",
            "raters": ", ".join(dict.fromkeys(frame["raters"])) or "none",
            "notes": dg.MetadataValue.json(list(notes)),
            "table": table_metadata(frame),
        }
        version = table_version(frame, HUMAN_CORRELATIONS.names)
        return dg.Output(frame, metadata=metadata, data_version=version)

    return human_correlations


def _determinants(workspace: Workspace, benchmark: str) -> tuple[Any, ...]:
    """What radar.yaml says of a benchmark's source, and the hash of its file, so that changed ratings show as stale."""
    section, source = workspace.human_section(benchmark), configured_source(workspace, benchmark)
    digest = None
    if source is not None and source.file is not None:
        with suppress(OSError):  # a file that can't be read stops its own asset, not all definitions
            digest = hashlib.sha256(source.file.read_bytes()).hexdigest()
    return benchmark, section and section.model_dump(mode="json"), digest


def _validation(workspace: Workspace, partitions: Partitions) -> dg.AssetsDefinition:
    settings = workspace.audit.coupling

    @dg.asset(
        name="validation",
        partitions_def=partitions.pair,
        ins={
            "rubric": from_benchmark(),
            "human_correlations": from_benchmark(),
            "criterion_pairs": dg.AssetIn(),
            "verdict": dg.AssetIn(),
        },
        deps=["baselines"],
        io_manager_key=IO_MANAGER,
        group_name="validation",
        kinds={"numpy", "parquet"},
        owners=OWNERS,
        code_version=code_version(2, settings.seed),
        automation_condition=_WITHOUT_BASELINES,
        metadata=table_columns("validation"),
        description="Agreement with people of SymCoupling, and of the passive baselines where they were made, over the "
        "pairs with a number on both sides: Pearson, Spearman, Kendall's τ_b, MAE, and the exact p-value over all "
        "relabellings of the criteria.",
    )
    def validation(
        context: dg.AssetExecutionContext,
        lake: dg.ResourceParam[LakeIOManager],
        **tables: pd.DataFrame,
    ) -> dg.Output[pd.DataFrame]:
        dims = dimensions(context.partition_key, partitions.pair)
        loaded = rubric_from_frame(dims[BENCHMARK], tables["rubric"])
        criterion_pairs, people = tables["criterion_pairs"], tables["human_correlations"]
        if version_in(tables["verdict"]["settings"].item()) != loaded.version:
            raise BadInputError(
                f"the statistics of {dims[BENCHMARK]} were made from another version of the rubric: make them again"
            )
        criteria = [criterion.id for criterion in loaded.criteria]
        baselines = current_baselines(lake.lake, loaded, dims)
        human = matrix_of(people, "pearson_r", criteria)
        table = validation_table(
            method_matrices(criterion_pairs, baselines, criteria), human, np.random.default_rng(settings.seed)
        )
        picture = scatter_picture(loaded, criterion_pairs, people, baselines)
        return dg.Output(table, metadata={"table": table_metadata(table), **picture})

    return validation


def _budget(workspace: Workspace, partitions: Partitions) -> dg.AssetsDefinition:
    settings = workspace.audit.coupling

    @dg.asset(
        name="probe_budget",
        partitions_def=partitions.pair,
        ins={"rubric": from_benchmark(), "human_correlations": from_benchmark(), "scores": dg.AssetIn()},
        io_manager_key=IO_MANAGER,
        group_name="validation",
        kinds={"numpy", "parquet"},
        owners=OWNERS,
        code_version=code_version(1, settings.model_dump(mode="json")),
        automation_condition=FREE,
        metadata=table_columns("probe_budget"),
        description="The same cell from fewer of its probes: agreement, mean ± sd over 30 random subsets of N' probes "
        "per task, criterion and direction, with people or, where there is no such reference, with the whole cell. "
        "Makes no model call.",
    )
    def budget(
        context: dg.AssetExecutionContext,
        rubric: pd.DataFrame,
        human_correlations: pd.DataFrame,
        scores: pd.DataFrame,
    ) -> dg.Output[pd.DataFrame]:
        loaded = rubric_from_frame(dimensions(context.partition_key, partitions.pair)[BENCHMARK], rubric)
        require_version(scores, loaded, "scores")
        criteria = [criterion.id for criterion in loaded.criteria]
        cube = cube_from_scores(scores, criteria, [task.id for task in loaded.tasks])
        table = probe_budget(cube, settings, matrix_of(human_correlations, "pearson_r", criteria))
        return dg.Output(table, metadata={"table": table_metadata(table), **budget_picture(table)})

    return budget


def version_in(settings: str) -> str | None:
    """The version of the rubric that the statistics of a cell are about, from the settings beside their verdict."""
    version: str | None = json.loads(settings).get("rubric_version")
    return version


def current_baselines(lake: Lake, rubric: Rubric, dims: Mapping[str, str]) -> pd.DataFrame | None:
    """The cell's baselines; None where none were made, or none of its present passive scores, rubric and judge.

    A run that was killed, or stopped by the gate of the passive scores, leaves baselines of other scores behind.
    """
    if not (lake.exists("baselines", **dims) and lake.exists("passive_scores", **dims)):
        return None
    passive, scores = lake.read("passive_scores", **dims), lake.read("scores", **dims)
    same_judge = set(passive["model"]) == set(scores["model"])
    same_rubric = set(passive["rubric_version"]) == {rubric.version}
    if not (same_judge and same_rubric):
        return None
    stored = lake.read("baselines", **dims)
    criteria = [criterion.id for criterion in rubric.criteria]
    expected, _ = baseline_tables(passive, criteria, {criterion.id: criterion.weight for criterion in rubric.criteria})
    same = len(stored) == len(expected) and np.allclose(stored["value"], expected["value"], rtol=1e-9, equal_nan=True)
    return stored if same else None


def method_matrices(
    criterion_pairs: pd.DataFrame, baselines: pd.DataFrame | None, criteria: Sequence[str]
) -> dict[str, np.ndarray]:
    """Method -> its symmetric matrix of pair values, RADAR first."""
    matrices = {RADAR: matrix_of(criterion_pairs, "sym", criteria)}
    if baselines is not None:
        for method, rows in baselines.groupby("method", sort=False):
            matrices[str(method)] = matrix_of(rows, "value", criteria)
    return matrices
