"""The checks on coupling tables find what they say they find, each fault planted by hand."""

import numpy as np
import pandas as pd
import pytest
from dagster import AssetCheckSeverity

from radar_dagster.checks.coupling import coupling_faults, gate_result
from radar_dagster.stats.audit import analyse
from radar_dagster.stats.settings import CouplingSettings

ALL = ["a", "b", "c"]


def tables(weak: str | None = None) -> dict[str, pd.DataFrame]:
    """Each criterion moves itself by 0.8 (by 0.1 if weak) and the next one half as far, with some scatter."""
    rng = np.random.default_rng(1)
    rows = []
    for i, target in enumerate(ALL):
        effect = 0.1 if target == weak else 0.8
        for direction, sign in (("+", 0.5), ("-", -0.5)):
            for probe in range(5):
                for j, criterion in enumerate(ALL):
                    share = (1.0, 0.5, 0.0)[(j - i) % 3]
                    p = 0.5 + sign * effect * share + rng.uniform(-0.05, 0.05)
                    rows.append(["t", target, direction, f"{target}{direction}{probe}", criterion, p])
    frame = pd.DataFrame(rows, columns=["task", "target", "direction", "probe", "criterion", "p"])
    made = analyse(frame, settings=CouplingSettings(), criteria=ALL)
    return {name: getattr(made, name) for name in ("self_effects", "leakage", "criterion_pairs")}


@pytest.mark.parametrize("weak", [None, "b"])
def test_what_the_statistics_make_is_sound(weak: str | None) -> None:
    assert coupling_faults(**tables(weak)) == []


@pytest.mark.parametrize(
    ("table", "row", "column", "value", "fault"),
    [
        ("leakage", 0, "leakage", 0.99, "ℓ(a→a) is not 1"),
        ("leakage", 1, "leakage", 0.9, "of some pair does not follow from the leakage matrix"),
        ("leakage", 1, "reliable", False, "ℓ(a→b) contradicts its flag"),
        ("leakage", 2, "ci_high", -9.0, "an interval of leakage does not contain its estimate"),
        ("leakage", 2, "ci_low", None, "an interval of leakage has only one end"),
        ("criterion_pairs", 0, "asym", 0.9, "asym of some pair does not follow"),
        ("criterion_pairs", 0, "sym_low", np.inf, "sym is infinite"),
        ("self_effects", 0, "ci_low", 1.0, "an interval of self_effect does not contain its estimate"),
    ],
)
def test_each_contradiction_is_named(table: str, row: int, column: str, value: object, fault: str) -> None:
    broken = tables()
    broken[table].loc[row, column] = value
    assert any(fault in found for found in coupling_faults(**broken))


def test_a_number_out_of_an_unreliable_row_is_a_fault() -> None:
    broken = tables(weak="b")
    broken["leakage"].loc[broken["leakage"]["source"] == "b", "leakage"] = 0.3
    assert any("ℓ out of b is a number" in fault for fault in coupling_faults(**broken))


def test_an_unreliable_row_without_a_reason_is_a_fault() -> None:
    broken = tables(weak="b")
    broken["self_effects"]["reason"] = None
    assert "b is unreliable without a reason" in coupling_faults(**broken)


@pytest.mark.parametrize(
    ("reliable", "passed", "severity"),
    [
        ([True, True, True], True, None),
        ([True, True, False], False, AssetCheckSeverity.WARN),
        ([True, False, False], False, AssetCheckSeverity.ERROR),
        ([False, False, False], False, AssetCheckSeverity.ERROR),
    ],
)
def test_the_gate_warns_of_some_and_stops_for_want_of_two(
    reliable: list[bool], passed: bool, severity: AssetCheckSeverity | None
) -> None:
    frame = tables()["self_effects"].assign(reliable=reliable, reason=[None if r else "weak" for r in reliable])
    result = gate_result(frame, "b|g~v")
    assert result.passed is passed
    if severity is not None:
        assert result.severity is severity
        assert result.description is not None
        assert f"{reliable.count(False)} of 3 fail: " in result.description
