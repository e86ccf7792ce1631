"""Checks on the comparison with people: they warn with names and never block."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pandas as pd
import pytest

from radar_dagster.checks.validation import enough_result, grid_result, match_result
from radar_dagster.tables import GRID_AGREEMENT, HUMAN_CORRELATIONS, VALIDATION


def human(*pairs: tuple[str, str, float | None]) -> pd.DataFrame:
    rows = [[a, b, r, None, None, None, None, "all", "published", None] for a, b, r in pairs]
    return pd.DataFrame(rows, columns=HUMAN_CORRELATIONS.names)


def validation(pairs_used: int) -> pd.DataFrame:
    return pd.DataFrame([["radar", 0.5, 0.5, 0.5, 0.1, 0.2, pairs_used, None]], columns=VALIDATION.names)


@pytest.mark.parametrize(
    ("table", "criteria", "passed", "told"),
    [
        (human(("a", "b", 0.5)), ["a", "b"], True, "1 pairs"),
        (human(("a", "b", 0.5)), ["a", "b", "coverage"], False, "no human correlations for coverage"),
        (human(("a", "b", None)), ["a", "b"], False, "1 without a number"),
        (human(), ["a", "b"], True, "no source is configured"),
    ],
)
def test_criteria_of_which_people_say_nothing_are_named(
    table: pd.DataFrame, criteria: list[str], passed: bool, told: str
) -> None:
    result = match_result(table, criteria, "mine")
    assert (result.passed, result.severity) == (passed, dg.AssetCheckSeverity.WARN)
    assert told in (result.description or "")


@pytest.mark.parametrize(("used", "passed"), [(3, True), (2, False), (0, False)])
def test_three_pairs_are_needed_where_people_say_something(used: int, passed: bool) -> None:
    result = enough_result(validation(used), human(("a", "b", 0.5), ("a", "c", 0.1), ("b", "c", 0.2)), "mine|g~v")
    assert (result.passed, result.severity) == (passed, dg.AssetCheckSeverity.WARN)
    assert f"{used} of 3 pairs" in (result.description or "")
    assert enough_result(validation(used), human(), "mine|g~v").passed


def test_cells_that_were_not_audited_are_named_and_self_pairs_are_none() -> None:
    def row(generator: str, verifier: str, detail: str | None) -> list[Any]:
        return [generator, verifier, None, None, None, None, None, None, detail]

    cells = pd.DataFrame(
        [row("g", "v", None), row("g", "w", "not_audited"), row("g", "g", "self_pair: a judge prefers its own text")],
        columns=GRID_AGREEMENT.names,
    )
    result = grid_result(cells, [("g", "v"), ("g", "w")], "mine")
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert result.description == "not audited: g~w"
    assert grid_result(cells.iloc[[0, 2]], [("g", "v")], "mine").passed
