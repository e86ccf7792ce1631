"""What all assets share: how a table is handed to the lake, data versions, owners, conditions, mappings, metadata.

Not here: an asset, or anything that one of them alone needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import dagster as dg
import pandas as pd

from radar_dagster.partitions import BENCHMARK, Partitions
from radar_dagster.rubric.model import content_hash
from radar_dagster.stats.states import state_rates
from radar_dagster.tables import SCHEMAS

OWNERS = ("team:evaluation",)
IO_MANAGER = "lake"

#: For assets that cost nothing. What costs money is requested by schedules, backfills and people, never by a condition.
FREE = dg.AutomationCondition.eager() & dg.AutomationCondition.all_deps_blocking_checks_passed()


def version_of(*determinants: Any) -> dg.DataVersion:
    """A data version: the hash of what determines an asset's content."""
    return dg.DataVersion(content_hash(determinants)[:16])


def table_version(frame: pd.DataFrame, columns: Iterable[str]) -> dg.DataVersion:
    """The data version of a table whose content is determined by these columns."""
    return version_of(frame[list(columns)].astype(object).where(frame[list(columns)].notna(), None).values.tolist())


def code_version(version: int, *settings: Any) -> str:
    """The version of an asset's code with the settings it was built with: changing either makes it stale."""
    return f"{version}-{content_hash(settings)[:8]}"


def from_probes(partitions: Partitions) -> dg.AssetIn:
    """An input of a pair-partitioned asset that is partitioned by generator: what the pair's generator wrote."""
    return dg.AssetIn(partition_mapping=partitions.pair_to_generator)


def from_benchmark() -> dg.AssetIn:
    """An input that is partitioned by benchmark alone."""
    return dg.AssetIn(partition_mapping=dg.MultiToSingleDimensionPartitionMapping(BENCHMARK))


def state_metadata(frame: pd.DataFrame, by: Sequence[str] = ("criterion", "direction")) -> dict[str, Any]:
    """The share of `ok` rows, counts of every state, and tokens (absent when the models count none).

    `frame` has the columns state, rule_based, input_tokens, output_tokens, and those `by` which losses are counted.
    """
    counts = frame["state"].value_counts()
    metadata: dict[str, Any] = {
        "rule_based": bool(frame["rule_based"].any()),
        "ok_share": float((frame["state"] == "ok").mean()),
    }
    metadata |= {f"state/{state}": int(count) for state, count in counts.items()}
    for column in ("input_tokens", "output_tokens"):
        known = frame[column].dropna()
        if len(known):
            metadata[column] = int(known.sum())
    rates = state_rates(frame, by)
    lost = rates[rates["state"] != "ok"]
    if len(lost):
        metadata["losses"] = table_metadata(lost)
    return metadata


def table_metadata(frame: pd.DataFrame, limit: int = 60) -> dg.TableMetadataValue:
    """A short table for the UI: floats rounded to three digits, null as an empty cell."""
    records = [
        {str(key): _cell(value) for key, value in row.items()} for row in frame.head(limit).to_dict(orient="records")
    ]
    return (
        dg.MetadataValue.table([dg.TableRecord(record) for record in records])
        if records
        else dg.MetadataValue.table([], schema=dg.TableSchema([dg.TableColumn(str(name)) for name in frame.columns]))
    )


def _cell(value: Any) -> str | int | float | bool:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float):
        return round(value, 3)
    return value if isinstance(value, (str, int, bool)) else str(value)


def table_columns(asset: str) -> dict[str, Any]:
    """The declared columns of a table, as definition metadata for the UI."""
    columns = [
        dg.TableColumn(field.name, str(field.type), constraints=dg.TableColumnConstraints(nullable=field.nullable))
        for field in SCHEMAS[asset]
    ]
    return {"dagster/column_schema": dg.TableSchema(columns)}
