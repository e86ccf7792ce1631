"""What a pair of criteria does: its reading, the direction, and whether sampling error could change the reading.

Here: thresholds applied to numbers. Not here: where the numbers come from, and whether a reading is acceptable
(`verdict.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from radar_dagster.stats.cell import BoolArray, FloatArray
from radar_dagster.stats.intervals import Bounds
from radar_dagster.stats.numbers import TOLERANCE, at_most, reaches
from radar_dagster.stats.settings import Reading, ReadingThresholds

#: The quantities that decide a reading, in the order in which `settling` names them.
QUANTITIES = ("sym", "asym", "leakage_ab", "leakage_ba")

Names = npt.NDArray[np.object_]


class PairReadings(NamedTuple):
    """Reading of every pair, and for directional pairs which of the two is upstream ("a" or "b", else None)."""

    reading: Names
    upstream: Names


def read_pairs(
    sym: npt.ArrayLike,
    asym: npt.ArrayLike,
    leakage_ab: npt.ArrayLike,
    leakage_ba: npt.ArrayLike,
    thresholds: ReadingThresholds | None = None,
) -> PairReadings:
    """Read pairs (arrays of one shape). The first rule that applies decides:

    `unreliable` when a number is NaN; `tradeoff` when SymCoupling or either direction is negative enough; `cluster`
    when SymCoupling is high and the directions agree; `directional` when one direction is high and they do not agree,
    with the source of the larger leakage upstream; else `separable`.

    >>> read_pairs([0.92, 0.50], [0.21, 0.56], [1.02, 0.22], [0.82, 0.78])
    PairReadings(reading=array(['cluster', 'directional'], dtype=object), upstream=array([None, 'b'], dtype=object))
    """
    limits = thresholds or ReadingThresholds()
    s, d, ab, ba = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (sym, asym, leakage_ab, leakage_ba)))
    lopsided = reaches(d, limits.asymmetry)
    rules = [
        (Reading.UNRELIABLE, ~np.isfinite(s + d + ab + ba)),
        (
            Reading.TRADEOFF,
            at_most(s, limits.tradeoff_sym) | at_most(np.minimum(ab, ba), limits.tradeoff_leakage),
        ),
        (Reading.CLUSTER, reaches(s, limits.cluster_sym) & ~lopsided),
        (Reading.DIRECTIONAL, reaches(np.maximum(ab, ba), limits.directional_leakage) & lopsided),
    ]
    reading = np.full(s.shape, Reading.SEPARABLE.value, dtype=object)
    for name, applies in reversed(rules):
        reading[applies] = name.value
    upstream = np.full(s.shape, None, dtype=object)
    directional = reading == Reading.DIRECTIONAL.value
    upstream[directional & (ab > ba)] = "a"
    upstream[directional & (ab < ba)] = "b"
    return PairReadings(reading, upstream)


def task_sensitive(leakage: FloatArray, sigma: FloatArray, thresholds: ReadingThresholds) -> BoolArray:
    """Directions whose leakage is not negligible and differs a lot between tasks; False where it is undefined."""
    matters = reaches(np.abs(leakage), thresholds.task_sensitive_leakage)
    return reaches(sigma, thresholds.task_sensitive_sigma) & matters


class _Step(NamedTuple):
    """One quantity on one side of one threshold."""

    quantity: str
    threshold: float
    above: bool
    #: Whether a value that equals the threshold counts as above it.
    at_threshold_is_above: bool

    def holds(self, value: FloatArray) -> BoolArray:
        if self.at_threshold_is_above:
            return np.asarray(reaches(value, self.threshold) == self.above)
        return np.asarray(at_most(value, self.threshold) != self.above)

    @property
    def nearest(self) -> float:
        """The value closest to the threshold that is on the wanted side, as far as a comparison can tell."""
        if self.above == self.at_threshold_is_above:
            return self.threshold
        return self.threshold + (2 if self.above else -2) * TOLERANCE


def _moves(limits: ReadingThresholds) -> list[tuple[_Step, ...]]:
    """Ways to another reading: every threshold crossed by its quantity alone, and what must be crossed together.

    Together, because a rule may rest on two numbers: a tradeoff by SymCoupling and by a direction ends only when both
    recover, and a pair becomes a cluster when SymCoupling rises and Asymmetry falls.
    """
    thresholds = [
        ("sym", limits.tradeoff_sym, False),
        ("sym", limits.cluster_sym, True),
        ("asym", limits.asymmetry, True),
        ("leakage_ab", limits.tradeoff_leakage, False),
        ("leakage_ab", limits.directional_leakage, True),
        ("leakage_ba", limits.tradeoff_leakage, False),
        ("leakage_ba", limits.directional_leakage, True),
    ]
    up = [_Step(quantity, value, True, inclusive) for quantity, value, inclusive in thresholds]
    down = [step._replace(above=False) for step in up]
    sym_recovers, sym_high, uneven, ab_recovers, ab_high, ba_recovers, ba_high = up
    even, ab_low, ba_low = down[2], down[4], down[6]
    return [
        *((step,) for step in (*up, *down)),
        (sym_recovers, ab_recovers, ba_recovers),
        (ab_low, ba_low),
        (sym_high, even),
        (ab_high, uneven),
        (ba_high, uneven),
    ]


@dataclass(frozen=True)
class Crossings:
    """Every way in which sampling error could change the reading of a pair.

    All arrays have shape (ways, pairs). Where several thresholds must be crossed together, `quantity` and what follows
    belong to the one that is the first to be out of reach when intervals shrink.
    """

    possible: BoolArray  #: the intervals reach across the thresholds and the reading differs there
    other: Names  #: the reading on the far side
    quantity: Names
    threshold: FloatArray
    distance: FloatArray  #: from the estimate to the threshold
    reach: FloatArray  #: from the estimate to the interval's end on that side; NaN without an interval

    @property
    def uncertain(self) -> BoolArray:
        """Pairs whose reading sampling error could change, (pairs,)."""
        return np.asarray(self.possible.any(axis=0))


def find_crossings(
    values: Mapping[str, FloatArray], bounds: Mapping[str, Bounds], thresholds: ReadingThresholds
) -> Crossings:
    """Re-read every pair with quantities moved across their thresholds, the others held.

    `values` and `bounds` have the keys `QUANTITIES` and arrays (pairs,). A missing interval excludes nothing: every
    crossing is then possible. Unreliable pairs have none.
    """
    base = _read(values, thresholds)
    readable = base != Reading.UNRELIABLE.value
    ways = [_way(move, values, bounds, thresholds) for move in _moves(thresholds)]
    possible, other, quantity, threshold, distance, reach = (np.stack(column) for column in zip(*ways, strict=True))
    return Crossings(possible & readable & (other != base), other, quantity, threshold, distance, reach)


def _way(
    move: tuple[_Step, ...],
    values: Mapping[str, FloatArray],
    bounds: Mapping[str, Bounds],
    thresholds: ReadingThresholds,
) -> tuple[BoolArray, Names, Names, FloatArray, FloatArray, FloatArray]:
    """One move as a row of `Crossings`, whether or not it changes the reading."""
    needed = np.stack([~step.holds(values[step.quantity]) for step in move])
    moved = dict(values)
    for step, crosses in zip(move, needed, strict=True):
        moved[step.quantity] = np.where(crosses, step.nearest, moved[step.quantity])
    ends = [bounds[step.quantity].high if step.above else bounds[step.quantity].low for step in move]
    within = np.stack([np.isnan(end) | step.holds(end) for step, end in zip(move, ends, strict=True)])
    distance = np.stack([np.abs(values[step.quantity] - step.threshold) for step in move])
    reach = np.stack([np.abs(end - values[step.quantity]) for step, end in zip(move, ends, strict=True)])

    # How far beyond the threshold the interval reaches; without an interval, the nearest threshold counts as widest.
    width = np.where(np.isnan(reach), 1.0, reach) / np.maximum(distance, TOLERANCE)
    binding = np.where(needed, width, np.inf).argmin(axis=0)
    pairs = np.arange(len(binding))
    names = np.array([step.quantity for step in move], dtype=object)
    limits = np.array([step.threshold for step in move])
    reachable: BoolArray = np.asarray(needed.any(axis=0) & (within | ~needed).all(axis=0))
    return (
        reachable,
        _read(moved, thresholds),
        names[binding],
        limits[binding],
        distance[binding, pairs],
        reach[binding, pairs],
    )


def _read(values: Mapping[str, FloatArray], thresholds: ReadingThresholds) -> Names:
    return read_pairs(values["sym"], values["asym"], values["leakage_ab"], values["leakage_ba"], thresholds).reading
