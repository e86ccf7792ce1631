"""One number for a whole leakage matrix: global positive coupling, global tension, the maximum, effective criteria.

The functions take a bare matrix (…, n, n), sources as rows, so that a published matrix can be summarised as well as a
measured one. An unreliable row is NaN, its diagonal included; such rows are left out. The paper defines the first
three; the fourth is the participation ratio of the eigenvalues.

Not here: their intervals (`global_intervals.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from radar_dagster.stats.cell import BoolArray, FloatArray, IntArray
from radar_dagster.stats.numbers import nanmean

#: Fewer reliable criteria than this, and there is no coupling to summarise.
MIN_RELIABLE = 2


class MaxCoupling(NamedTuple):
    """The largest leakage and the positions of its source and target; NaN and −1 when there is none."""

    value: FloatArray
    source: IntArray
    target: IntArray


def reliable_rows(leakage: FloatArray) -> BoolArray:
    """Which criteria (…, n) are reliable sources: those with a diagonal."""
    return np.isfinite(np.diagonal(leakage, axis1=-2, axis2=-1))


def global_positive(leakage: FloatArray) -> FloatArray:
    """Mean of max(0, ℓ_ij) over i ≠ j: how much of an intervention spills over, on average; 0 or above.

    NaN when fewer than two rows are reliable.

    >>> float(global_positive(np.array([[1.0, 0.6], [-0.2, 1.0]])))
    0.3
    """
    return nanmean(np.maximum(_off_diagonal(leakage), 0.0), axis=(-2, -1))


def global_tension(leakage: FloatArray) -> FloatArray:
    """Mean of max(0, −ℓ_ij) over i ≠ j: how much criteria pull against each other; 0 or above.

    >>> float(global_tension(np.array([[1.0, 0.6], [-0.2, 1.0]])))
    0.1
    """
    return nanmean(np.maximum(-_off_diagonal(leakage), 0.0), axis=(-2, -1))


def max_coupling(leakage: FloatArray) -> MaxCoupling:
    """The largest ℓ_ij with i ≠ j and where it is. As the largest of noisy values it overstates the true maximum."""
    off = _off_diagonal(leakage)
    n = off.shape[-1]
    flat = np.where(np.isfinite(off), off, -np.inf).reshape(*off.shape[:-2], n * n)
    where = flat.argmax(axis=-1)
    value = np.take_along_axis(flat, where[..., None], axis=-1)[..., 0]
    found = np.isfinite(value)
    return MaxCoupling(np.where(found, value, np.nan), np.where(found, where // n, -1), np.where(found, where % n, -1))


def effective_criteria(leakage: FloatArray) -> FloatArray:
    """How many independent criteria a matrix of complete rows amounts to: (Σλ)²/Σλ², between 1 and n.

    λ are the eigenvalues of the symmetrised matrix (unit diagonal), negative ones set to 0. n uncoupled criteria give
    n, n criteria that all move together give 1. NaN when a value is missing or n < 2: restrict the matrix to its
    reliable criteria first.

    >>> float(effective_criteria(np.eye(3))), round(float(effective_criteria(np.ones((3, 3)))), 6)
    (3.0, 1.0)
    """
    symmetric = (leakage + np.swapaxes(leakage, -1, -2)) / 2
    complete: BoolArray = np.asarray(np.isfinite(symmetric).all(axis=(-2, -1)))
    n = leakage.shape[-1]
    if n < MIN_RELIABLE:
        return np.full(leakage.shape[:-2], np.nan)
    eigenvalues = np.linalg.eigvalsh(np.where(complete[..., None, None], symmetric, np.eye(n))).clip(min=0.0)
    ratio = eigenvalues.sum(axis=-1) ** 2 / (eigenvalues**2).sum(axis=-1)
    return np.where(complete, ratio, np.nan)


def _off_diagonal(leakage: FloatArray) -> FloatArray:
    """The matrix with NaN on the diagonal, and all NaN where fewer than two rows are reliable."""
    n = leakage.shape[-1]
    enough = reliable_rows(leakage).sum(axis=-1) >= MIN_RELIABLE
    return np.where(~np.eye(n, dtype=bool) & enough[..., None, None], leakage, np.nan)
