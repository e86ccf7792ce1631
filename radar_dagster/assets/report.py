"""The page that people read, one per benchmark and pair."""

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
from radar_dagster.config import Workspace
from radar_dagster.partitions import BENCHMARK, PAIR, Partitions, dimensions, parse_pair
from radar_dagster.report.data import ReportData
from radar_dagster.report.html import render
from radar_dagster.resources.lake import LakeIOManager
from radar_dagster.rubric.rows import rubric_from_frame
from radar_dagster.tables import AUDIT_REPORT, COUPLING_TABLES

PAGE = "report.html"


def report_assets(workspace: Workspace, partitions: Partitions) -> list[dg.AssetsDefinition]:
    """`audit_report`."""
    ins = {
        "rubric": from_benchmark(),
        "probes": from_probes(partitions),
        **{table: dg.AssetIn() for table in ("scores", *COUPLING_TABLES)},
    }

    @dg.asset(
        name="audit_report",
        partitions_def=partitions.pair,
        ins=ins,
        io_manager_key=IO_MANAGER,
        group_name="report",
        kinds={"html"},
        owners=OWNERS,
        code_version=code_version(1, workspace.audit.model_dump(mode="json")),
        automation_condition=FREE,
        metadata=table_columns("audit_report"),
        description="One self-contained HTML page: the verdict and why, the leakage matrix, self-effects against the "
        "gate, every pair in words, and the probes behind each number.",
    )
    def audit_report(
        context: dg.AssetExecutionContext, lake: dg.ResourceParam[LakeIOManager], **tables: pd.DataFrame
    ) -> dg.Output[pd.DataFrame]:
        dims = dimensions(context.partition_key, partitions.pair)
        html = render(report_data(workspace, dims, tables))
        path, size, digest = lake.lake.write_text("audit_report", PAGE, html, **dims)
        frame = pd.DataFrame([[path, size, digest]], columns=AUDIT_REPORT.names)
        return dg.Output(frame, metadata={"report": dg.MetadataValue.path(lake.lake.absolute(path)), "bytes": size})

    return [audit_report]


def report_data(workspace: Workspace, dims: Mapping[str, str], tables: Mapping[str, pd.DataFrame]) -> ReportData:
    """What the page is made of: the cell's tables with what the workspace says of its models and settings."""
    pair = parse_pair(dims[PAIR])
    return ReportData(
        rubric=rubric_from_frame(dims[BENCHMARK], tables["rubric"]),
        benchmark=dims[BENCHMARK],
        pair=dims[PAIR],
        generator=workspace.models[pair.generator],
        verifier=workspace.models[pair.verifier],
        settings=workspace.audit,
        tables={name: frame for name, frame in tables.items() if name != "rubric"},
    )
