"""What would settle the pairs whose reading is uncertain: which threshold, and how many probes.

Not here: which crossings are possible (`readings.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from radar_dagster.stats.cell import BoolArray, FloatArray, IntArray, ScoreCube
from radar_dagster.stats.numbers import TOLERANCE, divide
from radar_dagster.stats.readings import Crossings

#: More probes than this per stratum are no plan: the value is too close to its threshold to settle by sampling.
MAX_PROBES = 200

#: Fewer probes per stratum show too little of the scatter within strata for a forecast. With one they show none: the
#: interval then comes from the spread over tasks, or there is none, and more probes would make one of another kind.
MIN_PROBES = 3


class Settling(NamedTuple):
    """For one uncertain pair: the crossing that takes the most probes to rule out.

    `needed` is None beyond a plan and where nothing can be forecast.
    """

    pair: int
    quantity: str
    threshold: float
    other_reading: str
    now: int
    needed: int | None


def probes_per_stratum(cube: ScoreCube) -> FloatArray:
    """Mean number of probes per stratum of every criterion, (n,)."""
    return np.asarray(cube.probes.mean(axis=(0, 2)))


def probes_needed(now: FloatArray, reach: FloatArray, distance: FloatArray) -> FloatArray:
    """N·(half-width/distance)², rounded up: the interval narrows with 1/√N until it ends at the threshold.

    NaN beyond `MAX_PROBES`, at distance 0, or without an interval.

    >>> probes_needed(np.array([3.0]), np.array([0.2]), np.array([0.1]))
    array([12.])
    """
    needed = np.ceil(now * divide(reach, distance) ** 2 - TOLERANCE)
    return np.where(needed <= MAX_PROBES, needed, np.nan)


def settle(crossings: Crossings, now: FloatArray, over_tasks: BoolArray) -> list[Settling]:
    """One entry per uncertain pair, in order; `now` (pairs,) is the number of probes per stratum.

    `over_tasks` (pairs,) marks intervals from the spread over tasks, which say nothing about the scatter of probes.

    Each possible crossing would need a number of probes of its own; the largest of them settles the pair, so that one
    is named. Without an interval the nearest threshold is named. Nothing is forecast without one, from the spread over
    tasks, or from fewer than `MIN_PROBES` probes.
    """
    with_interval = np.where(np.isfinite(crossings.reach), crossings.reach, 1.0)
    # A distance of 0 is the hardest crossing of all.
    difficulty = with_interval / np.maximum(crossings.distance, TOLERANCE)
    hardest: IntArray = np.where(crossings.possible, difficulty, -np.inf).argmax(axis=0)
    result = []
    for pair in np.flatnonzero(crossings.uncertain):
        row = int(hardest[pair])
        needed = probes_needed(now[pair], crossings.reach[row, pair], crossings.distance[row, pair])
        forecast = np.isfinite(needed) and round(float(now[pair])) >= MIN_PROBES and not over_tasks[pair]
        result.append(
            Settling(
                pair=int(pair),
                quantity=str(crossings.quantity[row, pair]),
                threshold=float(crossings.threshold[row, pair]),
                other_reading=str(crossings.other[row, pair]),
                now=round(float(now[pair])),
                needed=int(needed) if forecast else None,
            )
        )
    return result
