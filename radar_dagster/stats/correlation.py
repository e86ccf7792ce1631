"""Correlations of two vectors, or of many rows with one: Pearson, Spearman with mid-ranks, Kendall's τ_b.

Here: what is left out pairwise, when a vector counts as constant, and which values count as tied. What is unknown has a
reason; among many rows it is NaN. Not here: what the vectors mean, intervals (`human.py`), p-values (`validation.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from radar_dagster.stats.cell import BoolArray, FloatArray, IntArray
from radar_dagster.stats.numbers import TOLERANCE, divide, nanmean

#: Two points lie on a line whatever they are.
MIN_PAIRS = 3

#: Why there is no correlation.
TOO_FEW = "too_few"
CONSTANT = "constant"

#: Means of the same ratings differ in the last bits when they are summed in another order, and 0.7 − 0.3 is not 0.4.
#: Values closer than this are one value. It is relative to the largest of a vector, but not smaller than for values of
#: the order of one: in a vector of differences, 0 and 5e-17 are the same.
_ROUNDING = 1e-12

#: The same for many rows at once: digits after which their values are ties.
_DIGITS = 9


@dataclass(frozen=True)
class Correlation:
    """Three correlations of the complete pairs, each in [−1, 1]; all None, with `reason`, where they are undefined.

    `reason` is `too_few` (fewer than three complete pairs) or `constant` (one of the vectors does not vary), or None.
    """

    pearson: float | None
    spearman: float | None
    kendall: float | None
    reason: str | None


def correlate(x: npt.ArrayLike, y: npt.ArrayLike) -> Correlation:
    """Correlate two vectors of one length; a pair with a NaN or an infinity in it is left out.

    Values that differ by less than 1e-12 of the vector's largest (or of 1, whichever is more) are tied, and a vector
    all of whose values are tied is constant. ValueError: the lengths differ.

    >>> found = correlate([1, 2, 3, 4], [1, 2, 4, 3])
    >>> round(found.pearson, 3), round(found.spearman, 3), round(found.kendall, 3), found.reason
    (0.8, 0.8, 0.667, None)
    >>> correlate([1 / 3, 1 - 2 / 3, 1 / 3], [1, 2, 3]).reason
    'constant'
    """
    from scipy.stats import kendalltau, spearmanr

    a, b = _complete_pairs(x, y)
    levels_a, levels_b = levels(a), levels(b)
    reason = _why_undefined(levels_a, levels_b)
    if reason:
        return Correlation(None, None, None, reason)
    spearman = float(spearmanr(levels_a, levels_b).statistic)
    # The method concerns the p-value only, which nobody reads here; the exact one is slow.
    kendall = float(kendalltau(levels_a, levels_b, method="asymptotic").statistic)
    return Correlation(_product_moment(a, b), _within_one(spearman), _within_one(kendall), None)


def pearson(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[float | None, str | None]:
    """Pearson's r of the complete pairs alone, and None; or None and the reason, both as in `correlate`."""
    a, b = _complete_pairs(x, y)
    reason = _why_undefined(levels(a), levels(b))
    return (None, reason) if reason else (_product_moment(a, b), None)


def row_pearson(rows: FloatArray, reference: FloatArray) -> FloatArray:
    """Pearson's r of every row of `rows` (m, pairs) with `reference` over the pairs that both have, (m,).

    `reference` is (pairs,), or (m, pairs) with a row of its own for each. NaN where fewer than `MIN_PAIRS` are left or
    one side is constant.
    """
    both = np.isfinite(rows) & np.isfinite(reference)
    x, y = np.where(both, rows, np.nan), np.where(both, reference, np.nan)
    x, y = x - nanmean(x, axis=1)[:, None], y - nanmean(y, axis=1)[:, None]
    x, y = np.where(both, x, 0.0), np.where(both, y, 0.0)
    xx, yy, xy = (x * x).sum(axis=1), (y * y).sum(axis=1), (x * y).sum(axis=1)
    varies = (np.abs(x).max(axis=1, initial=0) > TOLERANCE) & (np.abs(y).max(axis=1, initial=0) > TOLERANCE)
    usable = (both.sum(axis=1) >= MIN_PAIRS) & varies
    return np.clip(divide(xy, np.where(usable, np.sqrt(xx * yy), np.nan)), -1, 1)


def row_spearman(rows: FloatArray, reference: FloatArray) -> FloatArray:
    """Spearman's ρ, by mid-ranks, of every row with `reference`, as `row_pearson`."""
    both = np.isfinite(rows) & np.isfinite(reference)
    return row_pearson(_mid_ranks(np.where(both, rows, np.nan)), _mid_ranks(np.where(both, reference, np.nan)))


def _mid_ranks(rows: FloatArray) -> FloatArray:
    from scipy.stats import rankdata

    return np.asarray(rankdata(np.round(rows, _DIGITS), axis=1, nan_policy="omit"), dtype=np.float64)


def levels(values: FloatArray) -> IntArray:
    """The position of every value among the distinct ones, from 0; values that differ only by rounding share one.

    >>> levels(np.array([0.4, 0.1, 0.7 - 0.3, 2.0])).tolist()
    [1, 0, 1, 2]
    """
    scaled = values / _magnitude(values)
    order = np.argsort(scaled, kind="stable")
    steps = np.diff(scaled[order], prepend=scaled[order[:1]]) > _ROUNDING
    codes = np.empty(len(values), dtype=np.int64)
    codes[order] = np.cumsum(steps)
    return codes


def both_known(x: FloatArray, y: FloatArray) -> BoolArray:
    """Which pairs are complete: both values finite."""
    return np.asarray(np.isfinite(x) & np.isfinite(y))


def _complete_pairs(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"expected two vectors of one length, found the shapes {a.shape} and {b.shape}")
    complete = both_known(a, b)
    return a[complete], b[complete]


def _why_undefined(*coded: IntArray) -> str | None:
    if len(coded[0]) < MIN_PAIRS:
        return TOO_FEW
    return CONSTANT if any(codes.max() == 0 for codes in coded) else None


def _product_moment(a: FloatArray, b: FloatArray) -> float:
    u, v = _centred(a), _centred(b)
    return _within_one(float(u @ v / np.sqrt((u @ u) * (v @ v))))


def _centred(values: FloatArray) -> FloatArray:
    """Deviations from the mean, scaled so that the largest is 1 and no square overflows or vanishes."""
    scaled = values / _magnitude(values)
    deviations = scaled - scaled.mean()
    return np.asarray(deviations / np.abs(deviations).max())


def _magnitude(values: FloatArray) -> float:
    return max(1.0, float(np.abs(values).max(initial=0.0)))


def _within_one(value: float) -> float:
    return min(1.0, max(-1.0, value))
