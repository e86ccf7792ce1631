"""The passive baselines: what scores of responses to the bare tasks say of pairs of criteria, without any intervention.

Two methods, each on a sample of its own: Pearson correlation of the scores, and the redundancy and the weights that a
whitening of them gives. Both see co-variation only, whatever caused it (docs/baselines.md).

Not here: the audit by intervention (`coupling.py`), and agreement with people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from radar_dagster.stats.aggregation import normalised_weights
from radar_dagster.stats.cell import BoolArray, FloatArray, IntArray
from radar_dagster.stats.correlation import CONSTANT, MIN_PAIRS, TOO_FEW, pearson
from radar_dagster.stats.numbers import TOLERANCE

#: What a passive response is for: each baseline reads a sample of its own.
CORRELATION, WHITENING = "correlation", "whitening"
PURPOSES = (CORRELATION, WHITENING)
#: How the methods are called in the tables.
SYNTHETIC_CORRELATION, RRD = "synthetic_correlation", "rrd"

#: One criterion alone has nothing to be redundant with.
MIN_CRITERIA = 2
#: Why there is no value, besides `constant` (a criterion whose scores are all the same varies with nothing) and
#: `too_few` (fewer than three responses with the scores needed, or one criterion left): `singular`, a criterion follows
#: exactly from the others and nothing was shrunk; `negative_weight`, see `Whitening`.
SINGULAR, NEGATIVE_WEIGHT = "singular", "negative_weight"

#: Below this an eigenvalue of a correlation matrix is 0 but for rounding.
_SMALLEST_EIGENVALUE = 1e-10

Reason = str | None


class PairValues(NamedTuple):
    """One value for each pair of criteria; all (n, n), symmetric.

    `values` is NaN on the diagonal and wherever `reasons` says why; `counts` is the number of responses behind a value.
    """

    values: FloatArray
    counts: IntArray
    reasons: tuple[tuple[Reason, ...], ...]


@dataclass(frozen=True)
class Whitening:
    """What the whitening says: redundancies of pairs, and weights (n,) that sum to 1 over those that have one.

    `matrix` is W (n, n) with NaN for criteria left out; `shrinkage` lies in [0, 1], NaN without a whitening. A weight
    is NaN where `weight_reasons` says why. The sum of W's entries is positive, as W is positive definite, but a single
    weight can be negative: that of a criterion that goes with several others, which hardly go with each other. Such a
    weight would reward failing the criterion, and dropping it alone would leave weights that the method did not give,
    so then no criterion has a weight (`negative_weight`); the redundancies stand.
    """

    redundancy: PairValues
    weights: FloatArray
    weight_reasons: tuple[Reason, ...]
    matrix: FloatArray
    shrinkage: float
    responses: int


def synthetic_correlation(p: FloatArray) -> PairValues:
    """Pearson r of every pair of columns of `p` (responses, n), in [−1, 1], over the responses with both scores.

    `p` holds the responses of all tasks together, NaN where a score is missing. `too_few`: fewer than three responses
    have both scores; `constant`: one of the two does not vary over those.

    >>> p = np.array([[0.0, 0.0], [0.5, 0.25], [1.0, 0.5], [0.5, np.nan]])
    >>> found = synthetic_correlation(p)
    >>> round(float(found.values[0, 1]), 6), int(found.counts[0, 1])
    (1.0, 3)
    """
    n = p.shape[1]
    present = np.isfinite(p)
    values = np.full((n, n), np.nan)
    counts: IntArray = (present.T.astype(np.int64) @ present.astype(np.int64)).astype(np.int64)
    reasons: list[list[Reason]] = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            r, reason = pearson(p[:, i], p[:, j])
            values[i, j] = values[j, i] = np.nan if r is None else r
            reasons[i][j] = reasons[j][i] = reason
    return PairValues(values, counts, tuple(map(tuple, reasons)))


def rrd(p: FloatArray) -> Whitening:
    """Redundancies and correlation-aware weights of the columns of `p` (responses, n), after Shen et al. (2026).

    R is the correlation matrix with Ledoit–Wolf shrinkage, W = R^(−1/2) its symmetric (ZCA) whitening; the redundancy
    of i and j is −W_ij / √(W_ii·W_jj), and the weights are W·1, scaled to sum 1. The weights are those of
    arXiv 2602.05125; it has no score for a pair, and neither does the RADAR paper give the one it compares with: the
    redundancy is a choice of this project. It is smaller than the correlation: two criteria with r = 0.8 have 0.5.

    Only responses with a score on every criterion count, as shrinkage is estimated from a complete table, and a matrix
    of correlations over different responses need not be one that any scores could have. So that a criterion
    that was never scored does not empty the table, criteria with fewer than three scores are left out first
    (`too_few`), and then those that do not vary over the complete responses (`constant`); the others are whitened
    without them.
    """
    n = p.shape[1]
    scored: BoolArray = np.isfinite(p).sum(axis=0) >= MIN_PAIRS
    complete = p[np.isfinite(p[:, scored]).all(axis=1)] if scored.any() else p[:0]
    reasons: list[Reason] = [None if known else TOO_FEW for known in scored]
    if len(complete) < MIN_PAIRS:
        return _no_whitening([TOO_FEW] * n, len(complete))
    varies: BoolArray = scored & _varies(complete)
    reasons = [reason or (None if moving else CONSTANT) for reason, moving in zip(reasons, varies, strict=True)]
    if varies.sum() < MIN_CRITERIA:
        return _no_whitening([reason or TOO_FEW for reason in reasons], len(complete))
    shrunk, shrinkage = shrunk_correlation(complete[:, varies])
    inner = whitening_matrix(shrunk)
    if inner is None:
        return _no_whitening([reason or SINGULAR for reason in reasons], len(complete))
    matrix = np.full((n, n), np.nan)
    matrix[np.ix_(varies, varies)] = inner
    weights, weight_reasons = _weights(inner, varies, reasons)
    return Whitening(_redundancies(matrix, reasons, len(complete)), weights, weight_reasons, matrix, shrinkage,
                     len(complete))  # fmt: skip


def shrunk_correlation(p: FloatArray) -> tuple[FloatArray, float]:
    """The correlation matrix of complete, varying columns (responses, k), shrunk towards the identity, and how far.

    Ledoit and Wolf (2004) on standardised columns: the target, the mean variance times the identity, is then the
    identity itself, and the diagonal stays 1.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage  # half a second of imports

    centred = p - p.mean(axis=0)
    standardised = centred / np.sqrt((centred**2).mean(axis=0))
    shrinkage = float(ledoit_wolf_shrinkage(standardised, assume_centered=True))
    plain = np.corrcoef(p, rowvar=False)
    return np.asarray((1 - shrinkage) * plain + shrinkage * np.eye(p.shape[1])), shrinkage


def whitening_matrix(correlation: FloatArray) -> FloatArray | None:
    """R^(−1/2), symmetric and positive definite; None when R (k, k) is singular.

    >>> whitening_matrix(np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """
    eigenvalues, vectors = np.linalg.eigh(correlation)
    if eigenvalues.min() < _SMALLEST_EIGENVALUE:
        return None
    whitening: FloatArray = (vectors / np.sqrt(eigenvalues)) @ vectors.T
    return (whitening + whitening.T) / 2


def baseline_tables(
    scores: pd.DataFrame, criteria: Sequence[str], weights: Mapping[str, float] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables `baselines` and `baseline_weights` from scores of passive responses.

    `scores` has the columns response, purpose, criterion and p (null when missing); others are ignored. Pairs and
    criteria come in the order of `criteria`. The correlation reads the responses with the purpose `correlation`, the
    whitening those with `whitening`. ValueError: an unknown purpose or criterion, or two rows for one response and
    criterion.
    """
    _check(scores, criteria)
    declared = normalised_weights(criteria, weights)
    correlation = synthetic_correlation(_responses(scores, CORRELATION, criteria))
    whitening = rrd(_responses(scores, WHITENING, criteria))
    rows = [
        *_pair_rows(SYNTHETIC_CORRELATION, correlation, criteria),
        *_pair_rows(RRD, whitening.redundancy, criteria),
    ]
    weight_rows = [
        {"criterion": criterion, "declared": float(share), "whitened": _known(value), "reason": reason}
        for criterion, share, value, reason in zip(
            criteria, declared, whitening.weights, whitening.weight_reasons, strict=True
        )
    ]
    pair_columns = ["method", "criterion_a", "criterion_b", "value", "responses", "reason"]
    return _frame(rows, pair_columns, "value"), _frame(weight_rows, [*weight_rows[0]], "whitened")


def _varies(columns: FloatArray) -> BoolArray:
    """Which columns hold different values, blind to rounding errors; False for a column with a value missing."""
    spread = columns.max(axis=0) - columns.min(axis=0)
    return np.asarray(spread > TOLERANCE)


def _weights(
    whitening: FloatArray, used: BoolArray, reasons: Sequence[Reason]
) -> tuple[FloatArray, tuple[Reason, ...]]:
    raw = np.asarray(whitening.sum(axis=1), dtype=np.float64)
    weights = np.full(len(used), np.nan)
    if raw.min() < 0:
        return weights, tuple(reason or NEGATIVE_WEIGHT for reason in reasons)
    weights[used] = raw / float(raw.sum())
    return weights, tuple(reasons)


def _redundancies(whitening: FloatArray, reasons: Sequence[Reason], responses: int) -> PairValues:
    diagonal = np.diagonal(whitening)
    values = 0.0 - whitening / np.sqrt(np.outer(diagonal, diagonal))  # not -0.0 where there is none
    np.fill_diagonal(values, np.nan)
    return _pairs(values, reasons, responses)


def _pairs(values: FloatArray, reasons: Sequence[Reason], responses: int) -> PairValues:
    """A pair lacks its value for the reason of its first criterion that has one."""
    n = len(reasons)
    of_pairs = tuple(tuple(None if i == j else reasons[i] or reasons[j] for j in range(n)) for i in range(n))
    return PairValues(values, np.full((n, n), responses, dtype=np.int64), of_pairs)


def _no_whitening(reasons: Sequence[Reason], responses: int) -> Whitening:
    n = len(reasons)
    nothing = np.full((n, n), np.nan)
    pairs = _pairs(nothing, reasons, responses)
    return Whitening(pairs, np.full(n, np.nan), tuple(reasons), nothing, np.nan, responses)


def _check(scores: pd.DataFrame, criteria: Sequence[str]) -> None:
    for column, known in (("purpose", PURPOSES), ("criterion", criteria)):
        strangers = sorted(set(scores[column]) - set(known))
        if strangers:
            raise ValueError(f"unknown {column} {strangers[0]!r}; known are {', '.join(known)}")
    twice = scores[scores.duplicated(["response", "criterion"])]
    if len(twice):
        row = twice.iloc[0]
        raise ValueError(f"two scores of response {row['response']!r} on criterion {row['criterion']!r}")


def _responses(scores: pd.DataFrame, purpose: str, criteria: Sequence[str]) -> FloatArray:
    """The scores of one purpose as (responses, n), NaN where one is missing."""
    own = scores.loc[scores["purpose"] == purpose, ["response", "criterion", "p"]]
    table = own.astype({"p": float}).pivot(index="response", columns="criterion", values="p")
    return table.reindex(columns=list(criteria)).to_numpy(dtype=np.float64)


def _pair_rows(method: str, pairs: PairValues, criteria: Sequence[str]) -> list[dict[str, object]]:
    return [
        {
            "method": method,
            "criterion_a": criteria[i],
            "criterion_b": criteria[j],
            "value": _known(pairs.values[i, j]),
            "responses": int(pairs.counts[i, j]),
            "reason": pairs.reasons[i][j],
        }
        for i in range(len(criteria))
        for j in range(i + 1, len(criteria))
    ]


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _frame(rows: Sequence[Mapping[str, object]], columns: Sequence[str], number: str) -> pd.DataFrame:
    """Rows as a frame. An unknown number is missing, also where no row has one; a reason is a text or None."""
    frame = pd.DataFrame(list(rows), columns=list(columns)).astype({number: float, "reason": object})
    return frame.assign(reason=frame["reason"].where(frame["reason"].notna(), None))
