"""Sensors: a changed rubric file, and finished probes. https://docs.dagster.io/guides/automate/sensors

Both are off until somebody switches them on in the UI: what they request can cost money.

Here: noticing, and which runs that asks for. Not here: the clock (`schedules.py`), and what runs (`jobs.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg
from dagster import AssetKey, AssetRecordsFilter, DagsterInstance

from radar_dagster.assets.probes import RUBRIC_VERSION
from radar_dagster.config import Workspace
from radar_dagster.errors import BadInputError
from radar_dagster.jobs import FULL_AUDIT, GENERATE_PROBES, LOAD_RUBRICS
from radar_dagster.partitions import BENCHMARK, GENERATOR, PAIR, Pair, Partitions, dimensions, multi_key
from radar_dagster.rubric.model import Rubric
from radar_dagster.stats.cost import audit_cost

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

_INTERVAL_S = 60
_EVENTS_PER_TICK = 500
_DATA_VERSION = "dagster/data_version"


def build_sensors(
    workspace: Workspace, partitions: Partitions, jobs: Sequence[UnresolvedAssetJobDefinition]
) -> list[dg.SensorDefinition]:
    """`rubric_changed` and `probes_finished`."""
    by_name = {job.name: job for job in jobs}
    return [
        _rubric_changed(workspace, [by_name[LOAD_RUBRICS], by_name[GENERATE_PROBES]]),
        _probes_finished(workspace, partitions, by_name[FULL_AUDIT]),
    ]


def _rubric_changed(workspace: Workspace, jobs: Sequence[UnresolvedAssetJobDefinition]) -> dg.SensorDefinition:
    cap = workspace.sensors.max_probe_calls

    @dg.sensor(
        name="rubric_changed",
        jobs=jobs,
        minimum_interval_seconds=_INTERVAL_S,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Loads a rubric file whose content differs from the materialised rubric, then requests the probes "
        f"that were made from the old one, unless a benchmark takes more than {cap} generation calls.",
    )
    def rubric_changed(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        wanted: list[dg.RunRequest] = []
        skipped: list[str] = []
        for benchmark in workspace.benchmarks:
            try:
                rubric = workspace.rubric(benchmark)
            except BadInputError as error:
                skipped.append(str(error))
                continue
            requests = list(_stale(context.instance, workspace, benchmark, rubric))
            generation, _ = audit_cost(len(rubric.tasks), len(rubric.criteria), workspace.audit.probes)
            calls = generation.calls * len(requests)
            if any(request.job_name == GENERATE_PROBES for request in requests) and calls > cap:
                skipped.append(f"{benchmark}: {calls} generation calls are above sensors.max_probe_calls ({cap})")
                continue
            wanted += requests
        for reason in skipped:
            context.log.warning(reason)
        # Dagster takes requests or a reason to skip, not both.
        return dg.SensorResult(run_requests=wanted, skip_reason="; ".join(skipped) if skipped and not wanted else None)

    return rubric_changed


def _stale(instance: DagsterInstance, workspace: Workspace, benchmark: str, rubric: Rubric) -> Iterator[dg.RunRequest]:
    """The rubric itself when its file changed; else every probes partition that was made from another rubric."""
    version = rubric.content_hash[:16]
    loaded = _latest(instance, "rubric", benchmark)
    if loaded is None or _tags(loaded).get(_DATA_VERSION) != version:
        # The key names what is to be replaced, so that going back to an earlier rubric is a request of its own.
        replaced = loaded.storage_id if loaded else 0
        yield dg.RunRequest(f"{benchmark}:{version}:{replaced}", job_name=LOAD_RUBRICS, partition_key=benchmark)
        return
    for generator in workspace.generators:
        key = multi_key(**{BENCHMARK: benchmark, GENERATOR: generator})
        made = _latest(instance, "probes", key)
        if made is not None and _made_from(made) != rubric.version:
            run_key = f"{key}:{rubric.version}:{made.storage_id}"
            yield dg.RunRequest(run_key, job_name=GENERATE_PROBES, partition_key=key)


def _tags(record: dg.EventLogRecord) -> Mapping[str, str]:
    return (record.asset_materialization.tags or {}) if record.asset_materialization else {}


def _made_from(probes: dg.EventLogRecord) -> object:
    """The rubric's version as the probes recorded it; None for one that was reported by hand."""
    recorded = probes.asset_materialization.metadata.get(RUBRIC_VERSION) if probes.asset_materialization else None
    return recorded.value if recorded else None


def _latest(instance: DagsterInstance, asset: str, partition: str) -> dg.EventLogRecord | None:
    records_filter = AssetRecordsFilter(asset_key=AssetKey(asset), asset_partitions=[partition])
    records = instance.fetch_materializations(records_filter, limit=1).records
    return records[0] if records else None


def _probes_finished(
    workspace: Workspace, partitions: Partitions, job: UnresolvedAssetJobDefinition
) -> dg.SensorDefinition:
    @dg.sensor(
        name="probes_finished",
        job=job,
        minimum_interval_seconds=_INTERVAL_S,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Finished probes are judged by every verifier that is paired with their generator.",
    )
    def probes_finished(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        if context.cursor is None:
            # Switched on for the first time: what was finished before is history, not a request.
            newest = context.instance.fetch_materializations(AssetKey("probes"), limit=1).records
            return dg.SensorResult(cursor=str(newest[0].storage_id if newest else 0))
        seen = int(context.cursor)
        records_filter = AssetRecordsFilter(asset_key=AssetKey("probes"), after_storage_id=seen)
        found = context.instance.fetch_materializations(records_filter, limit=_EVENTS_PER_TICK, ascending=True)
        latest = {record.partition_key: record for record in found.records}
        requests = [
            request
            for partition, record in latest.items()
            if partition is not None
            for request in _audits_of(workspace, partitions, partition, record.storage_id)
        ]
        cursor = str(found.records[-1].storage_id) if found.records else context.cursor
        return dg.SensorResult(run_requests=requests, cursor=cursor)

    return probes_finished


def _audits_of(
    workspace: Workspace, partitions: Partitions, probes_key: str, storage_id: int
) -> Iterator[dg.RunRequest]:
    if probes_key not in partitions.generator.get_partition_keys():
        return  # a generator that was taken out of radar.yaml since
    dims = dimensions(probes_key, partitions.generator)
    for pair in map(Pair._make, workspace.pairs()):
        if pair.generator == dims[GENERATOR]:
            key = multi_key(**{BENCHMARK: dims[BENCHMARK], PAIR: pair.key})
            yield dg.RunRequest(f"{storage_id}:{key}", partition_key=key, tags={"radar/reason": "probes finished"})
