"""Checks on stage 3: the self-effect gate, and what must be true of any coupling table.

Not here: the gate's own rule, which is in `stats/coupling.py`; these read what it left in the tables.
"""

import dagster as dg
import numpy as np
import pandas as pd

from radar_dagster.assets.common import table_metadata
from radar_dagster.config import Workspace
from radar_dagster.partitions import Partitions, dimensions
from radar_dagster.resources.lake import LakeIOManager


def coupling_checks(workspace: Workspace, partitions: Partitions) -> list[dg.AssetChecksDefinition]:
    """`self_effect_gate` and `coupling_is_sound`."""
    gate = workspace.audit.coupling.gate

    @dg.asset_check(
        asset="self_effects",
        name="self_effect_gate",
        description=f"SelfEffect ≥ {gate:g} per criterion: an ERROR when fewer than two criteria pass, as then there "
        "is no pair to read, and a WARN that names the criteria when some fail.",
        blocking=True,
        partitions_def=partitions.pair,
    )
    def self_effect_gate(
        context: dg.AssetCheckExecutionContext, lake: dg.ResourceParam[LakeIOManager]
    ) -> dg.AssetCheckResult:
        frame = lake.lake.read("self_effects", **dimensions(context.partition_key, partitions.pair))
        return gate_result(frame, context.partition_key)

    @dg.asset_check(
        asset="leakage",
        name="coupling_is_sound",
        description="The diagonal is exactly 1 on reliable rows; pairs are symmetric; every number is finite, or null "
        "with a reason; every interval contains its estimate.",
        blocking=True,
        additional_deps=["self_effects", "criterion_pairs"],
        partitions_def=partitions.pair,
    )
    def coupling_is_sound(
        context: dg.AssetCheckExecutionContext, lake: dg.ResourceParam[LakeIOManager]
    ) -> dg.AssetCheckResult:
        dims = dimensions(context.partition_key, partitions.pair)
        tables = {name: lake.lake.read(name, **dims) for name in ("self_effects", "leakage", "criterion_pairs")}
        faults = coupling_faults(**tables)
        return dg.AssetCheckResult(
            passed=not faults,
            description="; ".join(faults[:5]) or "sound",
            metadata={"partition": context.partition_key, "faults": len(faults)},
        )

    return [self_effect_gate, coupling_is_sound]


def gate_result(self_effects: pd.DataFrame, partition: str) -> dg.AssetCheckResult:
    """The gate's answer for one cell."""
    failed = self_effects[~self_effects["reliable"]]
    reliable = len(self_effects) - len(failed)
    named = ", ".join(f"{row.criterion} ({row.reason})" for row in failed.itertuples())
    enough = reliable >= 2
    return dg.AssetCheckResult(
        passed=failed.empty,
        severity=dg.AssetCheckSeverity.WARN if enough else dg.AssetCheckSeverity.ERROR,
        description="every criterion passes" if failed.empty else f"{len(failed)} of {len(self_effects)} fail: {named}",
        metadata={"partition": partition, "reliable": reliable, "self_effects": table_metadata(self_effects)},
    )


def coupling_faults(self_effects: pd.DataFrame, leakage: pd.DataFrame, criterion_pairs: pd.DataFrame) -> list[str]:
    """Every way in which the tables contradict themselves, in words; empty when they are sound."""
    return [
        *_row_faults(self_effects, leakage),
        *_pair_faults(leakage, criterion_pairs),
        *_interval_faults(self_effects, "self_effect", "ci_low", "ci_high"),
        *_interval_faults(leakage, "leakage", "ci_low", "ci_high"),
        *_interval_faults(criterion_pairs, "sym", "sym_low", "sym_high"),
        *_interval_faults(criterion_pairs, "asym", "asym_low", "asym_high"),
    ]


def _row_faults(self_effects: pd.DataFrame, leakage: pd.DataFrame) -> list[str]:
    reliable = self_effects.set_index("criterion")["reliable"]
    row_reliable = leakage["source"].map(reliable).astype(bool)
    diagonal = leakage[(leakage["source"] == leakage["target"]) & row_reliable]
    faults = [f"ℓ({i}→{i}) is not 1" for i in diagonal.loc[diagonal["leakage"] != 1.0, "source"]]
    number = leakage["leakage"].notna()
    faults += [
        f"ℓ out of {i} is a number, but the row is unreliable" for i in leakage.loc[number & ~row_reliable, "source"]
    ]
    faults += [
        f"ℓ({r.source}→{r.target}) contradicts its flag" for r in leakage[number != leakage["reliable"]].itertuples()
    ]
    no_reason = self_effects[~self_effects["reliable"] & self_effects["reason"].isna()]
    return faults + [f"{i} is unreliable without a reason" for i in no_reason["criterion"]]


def _pair_faults(leakage: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    matrix = leakage.set_index(["source", "target"])["leakage"]
    ab = matrix.reindex(pd.MultiIndex.from_frame(pairs[["criterion_a", "criterion_b"]])).to_numpy(float)
    ba = matrix.reindex(pd.MultiIndex.from_frame(pairs[["criterion_b", "criterion_a"]])).to_numpy(float)
    expected = {"leakage_ab": ab, "leakage_ba": ba, "sym": (ab + ba) / 2, "asym": np.abs(ab - ba)}
    return [
        f"{column} of some pair does not follow from the leakage matrix"
        for column, values in expected.items()
        if not np.allclose(pairs[column].to_numpy(float), values, rtol=0, atol=1e-12, equal_nan=True)
    ]


def _interval_faults(frame: pd.DataFrame, value: str, low: str, high: str) -> list[str]:
    numbers = frame[[low, value, high]].to_numpy(float)
    known = ~np.isnan(numbers).any(axis=1)
    outside = known & ((numbers[:, 0] > numbers[:, 1] + 1e-12) | (numbers[:, 1] > numbers[:, 2] + 1e-12))
    half = np.isnan(numbers[:, 0]) != np.isnan(numbers[:, 2])
    faults = ["an interval of {} does not contain its estimate"] * bool(outside.any())
    faults += ["an interval of {} has only one end"] * bool(half.any())
    faults += ["{} is infinite"] * bool(np.isinf(numbers).any())
    return [fault.format(value) for fault in faults]
