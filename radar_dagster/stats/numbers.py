"""Small numeric helpers that all of the statistics share: comparisons with thresholds, means that skip NaN.

Nothing here knows what is measured.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from radar_dagster.stats.cell import BoolArray, FloatArray

#: Scores are multiples of a scale's step, so means hit thresholds such as 0.40 exactly, and 0.7 − 0.3 is
#: 0.39999999999999997. Whether a value reaches a threshold must not depend on that.
TOLERANCE = 1e-9


def reaches(value: npt.ArrayLike, threshold: float) -> BoolArray:
    """`value >= threshold`, blind to rounding errors of floating point; False for NaN."""
    return np.asarray(np.greater_equal(value, threshold - TOLERANCE))


def at_most(value: npt.ArrayLike, threshold: float) -> BoolArray:
    """`value <= threshold`, blind to rounding errors of floating point; False for NaN."""
    return np.asarray(np.less_equal(value, threshold + TOLERANCE))


def nanmean(values: FloatArray, axis: int | tuple[int, ...]) -> FloatArray:
    """Mean over what is not NaN; NaN (without a warning) where nothing is left."""
    present = np.isfinite(values)
    return divide(np.where(present, values, 0.0).sum(axis=axis), present.sum(axis=axis))


def nanvar(values: FloatArray, axis: int, ddof: int) -> FloatArray:
    """Variance over what is not NaN; NaN (without a warning) where no more than `ddof` values are left."""
    present = np.isfinite(values)
    count = present.sum(axis=axis)
    # Subtracting one of the values first makes the variance of equal values exactly 0.
    shifted = np.where(present, values - _first_finite(values, present, axis), 0.0)
    centre = divide(shifted.sum(axis=axis), count)
    squares = np.where(present, (shifted - np.expand_dims(centre, axis)) ** 2, 0.0).sum(axis=axis)
    return divide(squares, np.maximum(count - ddof, 0))


def _first_finite(values: FloatArray, present: BoolArray, axis: int) -> FloatArray:
    where = np.expand_dims(present.argmax(axis=axis), axis)
    return np.nan_to_num(np.take_along_axis(values, where, axis))


def divide(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> FloatArray:
    """Quotient; NaN (without a warning) wherever the denominator is 0 or NaN."""
    top, bottom = np.broadcast_arrays(np.asarray(numerator, np.float64), np.asarray(denominator, np.float64))
    usable = np.isfinite(bottom) & (bottom != 0)
    quotient: FloatArray = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=usable)
    return quotient
