"""The section on fewer probes: the smallest number that does, told with care, and nothing where nothing was tried."""

from dataclasses import replace

import pytest
from made_cells import compared, make_cell

from radar_dagster.report.budget import budget, budget_takeaway
from radar_dagster.report.data import Record
from radar_dagster.report.words import figure

CELL = compared(make_cell())


def row(probes: int, pearson: float | None, sd: float | None, detail: str | None = None) -> Record:
    return {"probes": probes, "pearson": pearson, "pearson_sd": sd, "subsets": 30, "detail": detail}


def test_the_smallest_number_that_is_near_and_steady_is_named() -> None:
    fewer = [row(1, 0.80, 0.04), row(2, 0.85, 0.06), row(3, 0.85, 0.05), row(4, 0.86, 0.01)]
    assert budget_takeaway(fewer, 0.86, 5, "people") == (
        "For the agreement with people alone, 3 probes per task, criterion and direction would have told much the "
        "same: Pearson with people is 0.85 ± 0.05 over 30 random subsets, and 0.86 with all 5."
    )


def test_higher_agreement_than_the_whole_is_no_more_near_than_lower() -> None:
    assert budget_takeaway([row(1, 0.89, 0.01)], 0.86, 3, "people").startswith("Not by this measure")
    assert budget_takeaway([row(1, 0.83, 0.01)], 0.86, 3, "people").startswith("Not by this measure")


def test_numbers_undefined_in_some_subsets_or_without_a_spread_do_not_do() -> None:
    fewer = [row(1, 0.86, 0.0, "undefined in 20 of 30 subsets"), row(2, 0.86, None), row(3, None, None)]
    assert budget_takeaway(fewer, 0.86, 4, "people").startswith("Not by this measure: with fewer than 4 probes")
    assert "undefined with all 4 probes" in budget_takeaway(fewer, None, 4, "people")


def test_against_the_whole_cell_perfect_agreement_is_what_to_come_near() -> None:
    cell = compared(make_cell(), {})
    table = cell.tables["probe_budget"]
    assert set(table["reference"]) == {"full"}
    section = budget(cell)
    enough = table[(table["pearson"] >= 0.98) & (table["pearson_sd"] <= 0.05)]
    first = enough.iloc[0]
    assert first["probes"] == 1
    assert section.takeaway == (
        "1 probe per task, criterion and direction would have told much the same: Pearson with the whole cell is "
        f"{figure(first['pearson'])} ± {figure(first['pearson_sd'])} over 30 random subsets of the 4."
    )
    assert section.whole_pearson == "100.00"
    assert section.whole_mae == "0.00"


def test_rows_hold_means_and_deviations_with_their_places_and_the_whole_cell_comes_last() -> None:
    section, table = budget(CELL), CELL.tables["probe_budget"]
    assert section.reference == "people"
    assert [one.probes for one in section.rows] == ["1", "2", "3", "all 4"]
    for shown, (_, kept) in zip(section.rows[:-1], table.iterrows(), strict=False):
        assert shown.pearson.shown == f"{figure(kept['pearson'])} ± {figure(kept['pearson_sd'])}"
        assert shown.mae.shown == f"{figure(kept['mae'])} ± {figure(kept['mae_sd'])}"
        assert shown.spearman == f"{figure(kept['spearman'])} ± {figure(kept['spearman_sd'])}"
        span = section.pearson_axis.high - section.pearson_axis.low
        expected = 100 * (kept["pearson"] - kept["pearson_sd"] - section.pearson_axis.low) / span
        assert float(shown.pearson.low) == pytest.approx(expected, abs=0.006)
        assert shown.subsets == "30"
    whole = section.rows[-1]
    assert (whole.pearson.shown, whole.pearson.low, whole.subsets) == (figure(table["pearson"].iloc[-1]), None, "–")
    assert whole.pearson.at == section.whole_pearson
    assert whole.mae.at == section.whole_mae


def test_undefined_numbers_are_called_so_and_lost_subsets_are_told() -> None:
    table = CELL.tables["probe_budget"].copy()
    table.loc[0, ["pearson", "pearson_sd", "spearman", "spearman_sd", "mae", "mae_sd"]] = None
    table.loc[0, "detail"] = "undefined in 30 of 30 subsets"
    section = budget(replace(CELL, tables={**CELL.tables, "probe_budget": table}))
    first = section.rows[0]
    assert (first.pearson.shown, first.pearson.at, first.spearman, first.mae.shown) == (
        "undefined", None, "undefined", "undefined",
    )  # fmt: skip
    assert first.note == "1 probe: undefined in 30 of 30 subsets"


@pytest.mark.parametrize("said", [{}, None])
def test_an_audit_with_one_probe_has_no_fewer_to_try(said: dict | None) -> None:
    cell = make_cell(tasks=4, probes=1)
    section = budget(compared(cell, said) if said is not None else compared(cell))
    assert section.takeaway == ("This audit drew 1 probe per task, criterion and direction: there are no fewer to try.")
    assert section.rows == ()


def test_without_the_table_there_is_no_section() -> None:
    assert budget(make_cell()) is None
