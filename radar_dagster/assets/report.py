"""The page that people read, one per benchmark and pair.

Here: gathering what the page is made of, as it was stored. Not here: its content and looks (`report/`).
"""

import json
from collections.abc import Mapping

import dagster as dg
import pandas as pd

from radar_dagster.assets.common import (
    FREE,
    IO_MANAGER,
    OWNERS,
    code_version,
    from_benchmark,
    from_probes,
    table_columns,
)
from radar_dagster.assets.validation import current_baselines
from radar_dagster.config import AuditSection, Workspace
from radar_dagster.lake import Lake
from radar_dagster.models.naming import PROGRAMMATIC, ModelSpec
from radar_dagster.models.stages import require_version
from radar_dagster.partitions import BENCHMARK, PAIR, Partitions, dimensions
from radar_dagster.report.data import ReportData
from radar_dagster.report.html import render
from radar_dagster.resources.lake import LakeIOManager
from radar_dagster.rubric.rows import rubric_from_frame
from radar_dagster.tables import AUDIT_REPORT, BASELINE_TABLES, COUPLING_TABLES

PAGE = "report.html"


def report_assets(workspace: Workspace, partitions: Partitions) -> list[dg.AssetsDefinition]:
    """`audit_report`."""
    ins = {
        "rubric": from_benchmark(),
        "human_correlations": from_benchmark(),
        "probes": from_probes(partitions),
        **{table: dg.AssetIn() for table in ("scores", *COUPLING_TABLES, "validation", "probe_budget")},
    }

    @dg.asset(
        name="audit_report",
        partitions_def=partitions.pair,
        ins=ins,
        io_manager_key=IO_MANAGER,
        group_name="report",
        kinds={"html"},
        owners=OWNERS,
        code_version=code_version(2, workspace.audit.model_dump(mode="json", exclude={"passive_responses"})),
        automation_condition=FREE,
        metadata=table_columns("audit_report"),
        description="One self-contained HTML page: the verdict and why, the leakage matrix, self-effects against the "
        "gate, every pair in words, agreement with people, and the probes behind each number.",
    )
    def audit_report(
        context: dg.AssetExecutionContext, lake: dg.ResourceParam[LakeIOManager], **tables: pd.DataFrame
    ) -> dg.Output[pd.DataFrame]:
        dims = dimensions(context.partition_key, partitions.pair)
        html = render(report_data(dims, {**tables, **baselines_of(lake.lake, tables["rubric"], dims)}))
        path, size, digest = lake.lake.write_text("audit_report", PAGE, html, **dims)
        frame = pd.DataFrame([[path, size, digest]], columns=AUDIT_REPORT.names)
        return dg.Output(frame, metadata={"report": dg.MetadataValue.path(lake.lake.absolute(path)), "bytes": size})

    return [audit_report]


def baselines_of(lake: Lake, rubric: pd.DataFrame, dims: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """The baselines' tables where they were made; the report reaches them through validation, which compares them."""
    if current_baselines(lake, rubric_from_frame(dims[BENCHMARK], rubric), dims) is None:
        return {}
    return {name: lake.read(name, **dims) for name in BASELINE_TABLES}


def report_data(dims: Mapping[str, str], tables: Mapping[str, pd.DataFrame]) -> ReportData:
    """What the page is made of. Models and settings are those that made the tables, whatever radar.yaml says by now."""
    rubric = rubric_from_frame(dims[BENCHMARK], tables["rubric"])
    require_version(tables["scores"], rubric, "scores")
    return ReportData(
        rubric=rubric,
        benchmark=dims[BENCHMARK],
        pair=dims[PAIR],
        generator=_model_of(tables["probes"]),
        verifier=_model_of(tables["scores"]),
        settings=_settings_of(tables),
        tables={name: frame for name, frame in tables.items() if name != "rubric"},
    )


def _model_of(calls: pd.DataFrame) -> ModelSpec:
    first = calls.iloc[0]
    named = ModelSpec(model=first["model"])
    # What was sent to a hosted model is told call by call; to a programmatic one, its options are all there is.
    programmatic = named.name.provider in PROGRAMMATIC
    return named.model_copy(update={"options": json.loads(first["parameters"]) if programmatic else {}})


def _settings_of(tables: Mapping[str, pd.DataFrame]) -> AuditSection:
    used = json.loads(tables["verdict"]["settings"].item())
    used.pop("rubric_version", None)
    return AuditSection.model_validate({**used, "probes": int(tables["probes"]["sample"].max())})
