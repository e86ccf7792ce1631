"""The cells of a benchmark side by side: what every pair of criteria does on average, and how far the cells differ.

What holds in all cells is the rubric's doing; what holds in one is that judge's or that generator's.

Here: means and standard deviations over cells. Not here: a cell's own numbers (`audit.py`), and agreement with people
(`validation.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from radar_dagster.stats.cell import IntArray
from radar_dagster.stats.numbers import nanmean, nanvar
from radar_dagster.stats.readings import read_pairs
from radar_dagster.stats.settings import ReadingThresholds

QUANTITIES = ("leakage_ab", "leakage_ba", "sym", "asym")


def average_over_cells(cells: Sequence[pd.DataFrame], thresholds: ReadingThresholds) -> pd.DataFrame:
    """Mean ± sd over cells of ℓ_ij, ℓ_ji, SymCoupling and Asymmetry, with the reading of the mean leakages.

    `cells` are criterion_pairs tables of one rubric, in any order of rows; the first one's order is kept. A cell in
    which a pair is unreliable is left out of that pair's numbers. The standard deviation (ddof = 1) is null for one
    cell. `cells` counts the tables, `cells_reliable` those that enter; `same_reading` counts the cells that read the
    pair as the means do, its direction included. Columns as in COUPLING_GRID.

    ValueError when there is no cell, or when two of them have different pairs.
    """
    if not cells:
        raise ValueError("a grid needs at least one cell")
    pairs = list(cells[0][["criterion_a", "criterion_b"]].itertuples(index=False, name=None))
    aligned = [_aligned(cell, pairs) for cell in cells]
    stacks = {
        name: np.stack([cell[name].to_numpy(np.float64, na_value=np.nan) for cell in aligned]) for name in QUANTITIES
    }
    reliable = np.isfinite(stacks["sym"])
    columns: dict[str, object] = {
        "criterion_a": [pair[0] for pair in pairs],
        "criterion_b": [pair[1] for pair in pairs],
        "cells": np.full(len(pairs), len(cells), dtype=np.int64),
        "cells_reliable": reliable.sum(axis=0),
    }
    means = {}
    for name, stack in stacks.items():
        known = np.where(reliable, stack, np.nan)
        means[name] = columns[name] = nanmean(known, axis=0)
        columns[f"{name}_sd"] = np.sqrt(nanvar(known, axis=0, ddof=1))
    # Not the mean of Asymmetry, an absolute value: cells that lean opposite ways would make a pair lean that does not.
    leaning = np.abs(means["leakage_ab"] - means["leakage_ba"])
    read = read_pairs(means["sym"], leaning, means["leakage_ab"], means["leakage_ba"], thresholds)
    upstream = [{"a": one, "b": other}.get(side) for side, (one, other) in zip(read.upstream, pairs, strict=True)]
    columns["reading"] = read.reading
    columns["upstream"] = pd.Series(upstream, dtype=object)
    columns["same_reading"] = _same_reading(aligned, read.reading, np.array(upstream, dtype=object))
    return pd.DataFrame(columns)


def _same_reading(cells: Sequence[pd.DataFrame], reading: npt.NDArray[Any], upstream: npt.NDArray[Any]) -> IntArray:
    """In how many cells every pair has this reading and this upstream criterion (None without one), (pairs,)."""
    theirs = np.stack([cell["reading"].to_numpy(dtype=object) for cell in cells])
    led_by = np.stack([cell["upstream"].astype(object).where(cell["upstream"].notna(), None) for cell in cells])
    return np.asarray(((theirs == reading) & (led_by == upstream)).sum(axis=0))


def _aligned(cell: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    indexed = cell.set_index(["criterion_a", "criterion_b"])
    if set(indexed.index) != set(pairs) or len(indexed) != len(pairs):
        raise ValueError("the cells are of different rubrics: their pairs of criteria differ")
    return indexed.loc[pairs]
