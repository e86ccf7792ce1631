"""The Dagster definitions of a workspace: `build_definitions` and the module-level `defs`; nothing else.

Tests, the command line and special deployments go through the builder and swap resources with `resource_overrides`.

Not here: any asset, check, job or sensor of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import dagster as dg

from radar_dagster.assets.baselines import baseline_assets
from radar_dagster.assets.coupling import coupling_assets
from radar_dagster.assets.grid import grid_assets
from radar_dagster.assets.passive import passive_assets
from radar_dagster.assets.probes import probe_assets
from radar_dagster.assets.report import report_assets
from radar_dagster.assets.rubrics import rubric_assets
from radar_dagster.assets.scores import score_assets
from radar_dagster.assets.validation import validation_assets
from radar_dagster.checks.common import ExpectationRunner
from radar_dagster.checks.coupling import coupling_checks
from radar_dagster.checks.passive import passive_checks
from radar_dagster.checks.probes import probe_checks
from radar_dagster.checks.rubrics import rubric_checks
from radar_dagster.checks.scores import score_checks
from radar_dagster.checks.validation import validation_checks
from radar_dagster.config import Workspace, current_workspace
from radar_dagster.jobs import build_jobs
from radar_dagster.partitions import build_partitions
from radar_dagster.resources.lake import LakeIOManager
from radar_dagster.resources.models import ModelsResource
from radar_dagster.schedules import build_schedules
from radar_dagster.sensors import build_sensors


def build_definitions(workspace: Workspace, resource_overrides: Mapping[str, Any] | None = None) -> dg.Definitions:
    """Fresh definitions for a workspace; `resource_overrides` replaces resources by key."""
    partitions = build_partitions(workspace)
    jobs = build_jobs()
    resources = {
        "lake": LakeIOManager(url=workspace.store_url),
        "models": ModelsResource.of(workspace),
        "expectations": ExpectationRunner(),
    }
    return dg.Definitions(
        assets=[
            *rubric_assets(workspace, partitions),
            *probe_assets(workspace, partitions),
            *score_assets(workspace, partitions),
            *coupling_assets(workspace, partitions),
            *validation_assets(workspace, partitions),
            *grid_assets(workspace, partitions),
            *report_assets(workspace, partitions),
            *passive_assets(workspace, partitions),
            *baseline_assets(partitions),
        ],
        asset_checks=[
            *rubric_checks(workspace, partitions),
            *probe_checks(workspace, partitions),
            *score_checks(workspace, partitions),
            *coupling_checks(workspace, partitions),
            *validation_checks(workspace, partitions),
            *passive_checks(workspace, partitions),
        ],
        jobs=jobs,
        schedules=build_schedules(workspace),
        sensors=build_sensors(workspace, partitions, jobs),
        resources={**resources, **(resource_overrides or {})},
        # A process per step costs 12 to 22 s of imports a run; what takes long is calls, made side by side.
        executor=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The workspace of this process, built when Dagster loads the module and not when somebody imports it."""
    # Which of Dagster's parts are in beta is this project's concern, not that of whoever opens the UI.
    warnings.filterwarnings("ignore", message=r".* is currently in (beta|preview)")
    return build_definitions(current_workspace())
