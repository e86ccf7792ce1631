"""The grid's page: what is the rubric's doing and what is one model's, and names for cells without numbers."""

import numpy as np
import pytest
from made_cells import LEAKAGE, agreement_frame, make_cell, make_grid

from radar_dagster.report.grid import (
    GridData,
    agreement_rows,
    cell_facts,
    details,
    has_people,
    pair_rows,
    rule_based,
    takeaway,
)
from radar_dagster.report.words import figure

#: As LEAKAGE, but c2 does not pull against c0 and d does not ride on c.
OTHER = LEAKAGE.copy()
OTHER[0, 2] = OTHER[2, 0] = OTHER[2, 3] = 0.0
CELLS = [make_cell(seed=seed) for seed in range(2)] + [make_cell(OTHER, seed=2)]
AGREEMENT = agreement_frame(
    ("writer", "judge", 0.86, "5 criteria: no p-value can be below 1/120"),
    ("writer", "writer", None, "self_pair: a judge prefers its own text"),
    ("second", "judge", -0.3, None),
    ("second", "writer", None, "not_audited"),
)
GRID = make_grid(CELLS, AGREEMENT)


def test_couplings_of_all_cells_are_the_rubrics_doing() -> None:
    readings = {(pair.a, pair.b): (pair.reading.value, pair.same_reading) for pair in GRID.pairs}
    assert readings["c0", "c1"] == ("cluster", 3)
    assert readings["c0", "c2"][1] < 3
    assert takeaway(GRID) == (
        "In all 3 cells, Accuracy and Factuality are counted twice. This is the rubric’s doing, as far as these models "
        "can tell."
    )


def test_pairs_that_cells_read_differently_depend_on_the_model_or_on_noise() -> None:
    split = [pair for pair in GRID.pairs if pair.same_reading < pair.cells]
    assert {(pair.a, pair.b) for pair in split} >= {("c0", "c2"), ("c2", "c3")}
    first, *others = details(GRID)
    assert first.startswith(
        f"{len(split)} pairs read differently from cell to cell, so they depend on the model, or on "
    )
    assert "Brevity with Clarity" in first
    apart = sum(pair.reading == "separable" and pair.same_reading == 3 for pair in GRID.pairs)
    assert f"{apart} pairs are independent in every cell that could measure it." in others
    assert "4 pairs could not be measured in any cell." in others


def test_one_cell_can_not_tell_the_rubric_from_the_models() -> None:
    one = make_grid(CELLS[:1], AGREEMENT)
    assert takeaway(one).startswith("Only one cell was audited, so what the rubric does and what these models do can’t")
    assert list(details(one)) == []
    _, rows = pair_rows(one)
    assert all("±" not in value for row in rows for value, _ in row.numbers), "one cell has no spread"


def test_cells_that_agree_on_everything_and_cells_that_share_no_coupling_are_told_as_that() -> None:
    same = make_grid([CELLS[0], CELLS[0]], AGREEMENT)
    assert takeaway(same).startswith("In both cells, ")
    assert next(details(same)) == "Every pair has the same reading in all cells that could measure it."
    apart = [make_cell(np.eye(3), np.full(3, 0.9), "ABC", noise=0.02, seed=seed) for seed in range(2)]
    assert takeaway(make_grid(apart, AGREEMENT)) == "In both cells, all criteria are independent of each other."
    linked = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    split = [apart[0], make_cell(linked, np.full(3, 0.9), "ABC", noise=0.02)]
    assert takeaway(make_grid(split, AGREEMENT)) == (
        "No coupling has the same reading in both cells: what moves together here depends on the models."
    )


def test_rows_hold_mean_and_deviation_over_cells_and_count_the_cells_that_read_alike() -> None:
    axis, rows = pair_rows(GRID)
    shown = {row.phrase: row for row in rows}
    row = shown["Accuracy and Factuality are counted twice"]
    of_cells = [cell.tables["criterion_pairs"].iloc[0] for cell in CELLS]
    for place, name in enumerate(("leakage_ab", "leakage_ba", "sym", "asym")):
        values = [float(one[name]) for one in of_cells]
        assert row.numbers[place][0] == f"{figure(np.mean(values))} ± {figure(np.std(values, ddof=1))}"
    assert row.same == "same reading in 3 of 3 cells"
    assert row.shared
    mean = np.mean([one["sym"] for one in of_cells])
    assert float(row.mark.at) == pytest.approx(100 * (mean - axis.low) / (axis.high - axis.low), abs=0.006)
    lost = shown["Accuracy with Humour could not be measured"]
    assert lost.same == "not measured in any cell"
    assert lost.numbers[2] == ("–", "mean of both")
    assert lost.mark.at is None


def test_a_ride_begins_with_the_direction_that_carries() -> None:
    leakage = np.array([[1.0, 0.1], [0.9, 1.0]])
    grid = make_grid([make_cell(leakage, np.full(2, 0.8), ("A", "B"), seed=seed) for seed in range(2)], AGREEMENT)
    (row,) = pair_rows(grid)[1]
    assert row.phrase == "A rides on B"
    assert [caption for _, caption in row.numbers] == ["B → A", "A → B", "mean of both", "difference"]
    assert row.numbers[0][0].startswith(figure(grid.pairs[0].leakage_ba[0]))


def test_the_table_of_cells_has_three_numbers_or_the_reason_why_not() -> None:
    verifiers, rows = agreement_rows(GRID)
    assert verifiers == ["judge", "writer"]
    assert [generator for generator, _ in rows] == ["writer", "second"]
    (first, own), (second, missing) = (cells for _, cells in rows)
    assert (first.heat.kind, first.heat.shown, first.heat.strength) == ("together", "0.86", 86)
    assert first.lines == ("ranks 0.76", "0.14 apart")
    assert first.heat.title == "writer → judge: Pearson 0.86, p = 0.025, 6 pairs"
    assert (own.heat.kind, own.heat.shown) == ("own", "self-pair")
    assert (second.heat.kind, second.heat.shown, second.heat.strength) == ("against", "−0.30", 30)
    assert (missing.heat.kind, missing.heat.shown, missing.lines) == ("lost", "not audited", ())


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("too_few_pairs: 2 with a number on both sides", "too few pairs"),
        ("constant_values: 0.5 for all 6 pairs", "all pairs alike"),
        ("no_human_correlations: there are none", "no people"),
        (None, "unknown"),
    ],
)
def test_every_state_of_a_cell_has_words(detail: str | None, shown: str) -> None:
    _, rows = agreement_rows(make_grid(CELLS, agreement_frame(("writer", "judge", None, detail))))
    assert rows[0][1][0].heat.shown == shown


def test_without_people_the_cells_are_listed_by_what_is_known_of_them() -> None:
    grid = make_grid(
        CELLS,
        agreement_frame(
            ("writer", "judge", None, "no_human_correlations: there are none"),
            ("writer", "writer", None, "self_pair: a judge prefers its own text"),
            ("second", "judge", None, "not_audited"),
        ),
    )
    assert not has_people(grid)
    assert has_people(GRID)
    assert cell_facts(grid) == [
        ("Audited", "writer → judge"),
        ("Not audited", "second → judge"),
        ("Self-pairs, left out", "writer → writer"),
    ]


def test_only_models_that_a_cell_was_audited_with_are_named_as_rule_based() -> None:
    grid = make_grid(CELLS, AGREEMENT, rule_based=("judge", "second", "elsewhere"))
    assert rule_based(grid) == ["judge", "second"]
    one = agreement_frame(("writer", "judge", 0.5, None), ("second", "judge", None, "not_audited"))
    assert rule_based(make_grid(CELLS, one, rule_based=("judge", "second"))) == ["judge"]


def test_a_grid_without_a_table_or_a_column_is_refused_with_its_name() -> None:
    with pytest.raises(ValueError, match="'grid_agreement'"):
        GridData(GRID.rubric, "x", {"coupling_grid": GRID.tables["coupling_grid"]})
    short = {**GRID.tables, "coupling_grid": GRID.tables["coupling_grid"].drop(columns="same_reading")}
    with pytest.raises(ValueError, match="no column 'same_reading'"):
        GridData(GRID.rubric, "x", short)
