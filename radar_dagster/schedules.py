"""Schedules: production pairs are judged again on the cron of radar.yaml.

https://docs.dagster.io/guides/automate/schedules

Here: which runs a tick asks for. Not here: what they run (`jobs.py`), and what follows an event (`sensors.py`).
"""

from collections.abc import Iterator

import dagster as dg

from radar_dagster.config import Workspace
from radar_dagster.errors import BadInputError
from radar_dagster.jobs import FULL_AUDIT
from radar_dagster.partitions import BENCHMARK, PAIR, Pair, multi_key
from radar_dagster.resources.models import FRESH_TAG


def production_pairs(workspace: Workspace) -> list[str]:
    """The pair keys that count as production: the configured ones, or every pair."""
    return list(workspace.schedule.production_pairs) or [Pair(*pair).key for pair in workspace.pairs()]


def build_schedules(workspace: Workspace) -> list[dg.ScheduleDefinition]:
    """`rejudge_production_pairs`, off until somebody switches it on in the UI; BadInputError for an impossible cron."""
    try:
        return [_rejudge(workspace)]
    except dg.DagsterInvalidDefinitionError:
        raise BadInputError(f"radar.yaml: schedule.cron: no such cron schedule: {workspace.schedule.cron!r}") from None


def _rejudge(workspace: Workspace) -> dg.ScheduleDefinition:

    @dg.schedule(
        name="rejudge_production_pairs",
        job_name=FULL_AUDIT,
        cron_schedule=workspace.schedule.cron,
        execution_timezone=workspace.schedule.timezone,
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description="Judge the existing probes of production pairs again: a judge that changed under its name shows.",
    )
    def rejudge_production_pairs(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest]:
        tick = context.scheduled_execution_time.isoformat()
        for benchmark in workspace.benchmarks:
            for pair in production_pairs(workspace):
                key = multi_key(**{BENCHMARK: benchmark, PAIR: pair})
                tags = {"radar/benchmark": benchmark, "radar/pair": pair, "radar/reason": "schedule"}
                tags |= {FRESH_TAG: "true"}  # the ledger's answers are those of the judge as it was
                yield dg.RunRequest(run_key=f"{tick}:{key}", partition_key=key, tags=tags)

    return rejudge_production_pairs
