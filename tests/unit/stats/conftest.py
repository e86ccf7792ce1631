"""Fixtures of the statistics' tests: small cells that are written down by hand, and the published tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from radar_dagster.stats.cell import ScoreCube

REFERENCE = Path(__file__).parents[2] / "data" / "reference"

MakeCell = Callable[..., ScoreCube]


@pytest.fixture
def reference() -> Callable[[str], pd.DataFrame]:
    """Read a published table by name."""
    return lambda name: pd.read_csv(REFERENCE / f"{name}.csv")


@pytest.fixture
def exact_cell() -> MakeCell:
    """Build a cell whose stratum means are known exactly: means (T, n, 2, n), probes spread ± around them."""

    def build(means: Sequence[object], spread: Sequence[float] = (0.0,)) -> ScoreCube:
        centre = np.asarray(means, dtype=np.float64)
        T, n = centre.shape[:2]
        offsets = np.asarray(spread, dtype=np.float64)
        assert abs(offsets.sum()) < 1e-12
        p = np.repeat(centre[:, :, :, None, :], len(offsets), axis=3) + offsets[None, None, None, :, None]
        assert np.nanmin(p) >= 0
        assert np.nanmax(p) <= 1
        return ScoreCube(
            tasks=tuple(f"t{t}" for t in range(T)),
            criteria=tuple("abcdefgh"[:n]),
            p=p,
            probes=np.full((T, n, 2), len(offsets), dtype=np.int64),
        )

    return build


def pair_means(*, own: float, other: float) -> list[list[float]]:
    """+ and − means of (target, other criterion) around 0.5 for a slice with these differences."""
    return [[0.5 + own / 2, 0.5 + other / 2], [0.5 - own / 2, 0.5 - other / 2]]


@pytest.fixture
def two_criteria(exact_cell: MakeCell) -> Callable[..., ScoreCube]:
    """Cells of two criteria; per task the pairs (self-effect, coupling) out of a and out of b."""

    def build(
        a: Sequence[tuple[float, float]], b: Sequence[tuple[float, float]], spread: Sequence[float] = (0.0,)
    ) -> ScoreCube:
        slices = []
        for (own_a, on_b), (own_b, on_a) in zip(a, b, strict=True):
            from_b = [list(reversed(side)) for side in pair_means(own=own_b, other=on_a)]
            slices.append([pair_means(own=own_a, other=on_b), from_b])
        return exact_cell(slices, spread)

    return build
