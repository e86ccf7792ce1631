"""Aggregation sensitivity: what one criterion really weighs in a weighted sum when criteria are coupled.

Not here: how the leakages are estimated, and how many criteria the matrix amounts to (`summaries.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from radar_dagster.stats.cell import FloatArray


def normalised_weights(criteria: Sequence[str], weights: Mapping[str, float] | None = None) -> FloatArray:
    """Weights in the order of `criteria`, scaled to sum to 1; equal ones if none are declared.

    ValueError: a criterion without a weight, a weight for something else, or one that is not a positive number.
    """
    if weights is None:
        return np.full(len(criteria), 1 / len(criteria))
    lacking = [c for c in criteria if c not in weights]
    strangers = [name for name in weights if name not in set(criteria)]
    if lacking or strangers:
        what = f"no weight for {lacking[0]!r}" if lacking else f"a weight for {strangers[0]!r}, which is no criterion"
        raise ValueError(f"weights must name exactly the criteria {', '.join(criteria)}; found {what}")
    values = np.array([float(weights[c]) for c in criteria])
    for name, value in zip(criteria, values, strict=True):
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"the weight of {name!r} must be a positive number, but is {value:g}")
    shares: FloatArray = values / values.sum()
    return shares


def aggregate_effect(coupling: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ_j w_j·GenCoupling(i→j): how far the weighted aggregate moves under the intervention on i, (n,).

    NaN where a coupling is missing. Compare with w_i·SelfEffect(i), what a rubric of independent criteria would show.
    """
    return coupling @ weights


def amplification(leakage: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ_j w_j·ℓ_ij / w_i: how often criterion i counts in the aggregate, (n,).

    1 is once, as declared; 2 is twice; below 1, other criteria take part of it back. NaN where a leakage is undefined.

    >>> amplification(np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([0.5, 0.5]))
    array([2., 1.])
    """
    return leakage @ weights / weights
