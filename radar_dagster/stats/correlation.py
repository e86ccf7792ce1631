"""Correlations of two vectors: Pearson, Spearman with mid-ranks, Kendall's τ_b; unknown with a reason, never a guess.

Here: what is left out pairwise, when a vector counts as constant, and which values count as tied. Not here: what the
vectors mean, intervals (`human.py`), p-values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from radar_dagster.stats.cell import BoolArray, FloatArray, IntArray

#: Two points lie on a line whatever they are.
MIN_PAIRS = 3

#: Why there is no correlation.
TOO_FEW = "too_few"
CONSTANT = "constant"

#: Means of the same ratings differ in the last bits when they are summed in another order, and 0.7 − 0.3 is not 0.4.
#: Values closer than this are one value. It is relative to the largest of a vector, but not smaller than for values of
#: the order of one: in a vector of differences, 0 and 5e-17 are the same.
_ROUNDING = 1e-12


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


def pearson(x: npt.ArrayLike, y: npt.ArrayLike) -> float | None:
    """Pearson's r of the complete pairs; None where `correlate` gives a reason."""
    a, b = _complete_pairs(x, y)
    return None if _why_undefined(levels(a), levels(b)) else _product_moment(a, b)


def pearson_matrix(values: FloatArray) -> FloatArray:
    """Pearson's r of every two columns of `values` (items, k), over the items that have both: shape (k, k).

    Symmetric to the last bit, within [−1, 1], the diagonal 1. NaN where a correlation is undefined: fewer than three
    common items, or a column constant over them; on the diagonal, that of a column by itself.
    """
    k = values.shape[1]
    matrix = np.full((k, k), np.nan)
    for i in range(k):
        own = values[np.isfinite(values[:, i]), i]
        matrix[i, i] = np.nan if _why_undefined(levels(own)) else 1.0
        for j in range(i):
            r = pearson(values[:, i], values[:, j])
            matrix[i, j] = matrix[j, i] = np.nan if r is None else r
    return matrix


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
