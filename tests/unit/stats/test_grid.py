"""Cells side by side: means and spreads against pandas, readings of the means, and what is unreliable somewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from radar_dagster.stats.audit import analyse_cube
from radar_dagster.stats.grid import QUANTITIES, average_over_cells
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.stats.settings import CouplingSettings, ReadingThresholds
from radar_dagster.tables import COUPLING_GRID

THRESHOLDS = ReadingThresholds()
LEAKAGE = np.array([[1.0, 0.7, 0.0], [0.6, 1.0, 0.1], [0.0, 0.6, 1.0]])


def cell(seed: int, leakage: np.ndarray = LEAKAGE) -> pd.DataFrame:
    means = latent_means(leakage, np.full(3, 0.7))
    cube = draw_cube(means, noise=0.2, tasks=3, probes=4, rng=np.random.default_rng(seed))
    return analyse_cube(cube, CouplingSettings()).criterion_pairs


def test_means_and_deviations_are_those_of_pandas() -> None:
    cells = [cell(seed) for seed in range(6)]
    grid = average_over_cells(cells, THRESHOLDS)
    stacked = pd.concat(cells).groupby(["criterion_a", "criterion_b"])
    assert list(grid.columns) == COUPLING_GRID.names
    for row in grid.itertuples():
        group = stacked.get_group((row.criterion_a, row.criterion_b))
        for name in QUANTITIES:
            assert getattr(row, name) == pytest.approx(group[name].mean())
            assert getattr(row, f"{name}_sd") == pytest.approx(group[name].std())
    assert grid["cells"].tolist() == grid["cells_reliable"].tolist() == [6, 6, 6]


def test_the_reading_is_that_of_the_means_and_agreeing_cells_are_counted() -> None:
    cells = [cell(seed) for seed in range(6)]
    grid = average_over_cells(cells, THRESHOLDS)
    assert grid["reading"].tolist() == ["cluster", "separable", "directional"]
    assert grid["upstream"].tolist() == [None, None, grid["criterion_b"].iloc[2]]
    for row in grid.itertuples():
        same = sum(
            c.set_index(["criterion_a", "criterion_b"]).loc[(row.criterion_a, row.criterion_b), "reading"]
            == row.reading
            for c in cells
        )
        assert row.same_reading == same


def test_a_cell_in_which_a_pair_is_unreliable_is_left_out_of_that_pair_alone() -> None:
    cells = [cell(seed) for seed in range(3)]
    broken = cells[1].copy()
    broken.loc[0, list(QUANTITIES)] = np.nan
    broken.loc[0, "leakage_ab"] = 0.7  # one direction passed the gate, the pair did not
    broken.loc[0, "reading"] = "unreliable"
    grid = average_over_cells([cells[0], broken, cells[2]], THRESHOLDS)
    assert grid["cells_reliable"].tolist() == [2, 3, 3]
    assert grid.loc[0, "leakage_ab"] == pytest.approx(
        (cells[0].loc[0, "leakage_ab"] + cells[2].loc[0, "leakage_ab"]) / 2
    )


def test_one_cell_has_no_deviation_and_none_at_all_reads_unreliable() -> None:
    alone = average_over_cells([cell(0)], THRESHOLDS)
    assert alone[[f"{name}_sd" for name in QUANTITIES]].isna().all(axis=None)
    nothing = cell(0)
    nothing[list(QUANTITIES)] = np.nan
    grid = average_over_cells([nothing, nothing], THRESHOLDS)
    assert set(grid["reading"]) == {"unreliable"}
    assert grid["cells_reliable"].tolist() == [0, 0, 0]
    assert grid[list(QUANTITIES)].isna().all(axis=None)


def test_the_order_of_rows_in_a_cell_does_not_matter_and_other_pairs_are_refused() -> None:
    cells = [cell(seed) for seed in range(3)]
    shuffled = [cells[0], cells[1][::-1], cells[2].sample(frac=1, random_state=0)]
    pd.testing.assert_frame_equal(average_over_cells(cells, THRESHOLDS), average_over_cells(shuffled, THRESHOLDS))
    with pytest.raises(ValueError, match="different rubrics"):
        average_over_cells([cells[0], cells[1].iloc[:2]], THRESHOLDS)
    with pytest.raises(ValueError, match="at least one cell"):
        average_over_cells([], THRESHOLDS)


def test_a_cell_in_which_the_other_criterion_leads_does_not_read_the_same() -> None:
    there = cell(0, np.array([[1.0, 0.9, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    back = cell(1, np.array([[1.0, 0.0, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    assert there.loc[0, "reading"] == back.loc[0, "reading"] == "directional"
    grid = average_over_cells([there, there, back], THRESHOLDS)
    row = grid.iloc[0]
    assert (row["reading"], row["upstream"], row["same_reading"]) == ("directional", there.loc[0, "criterion_a"], 2)


def test_cells_that_lean_opposite_ways_make_a_pair_that_leans_neither_way() -> None:
    """ℓ of .8/.2 and .2/.8 are .5/.5 on average, a cluster; the mean of |.6| would have called it directional."""
    there, back = cell(0), cell(0)
    there.loc[0, list(QUANTITIES)] = [0.8, 0.2, 0.5, 0.6]
    back.loc[0, list(QUANTITIES)] = [0.2, 0.8, 0.5, 0.6]
    row = average_over_cells([there, back], THRESHOLDS).iloc[0]
    assert (row["reading"], row["upstream"]) == ("cluster", None)
    assert row["asym"] == pytest.approx(0.6)
