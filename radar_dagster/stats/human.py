"""Correlations between criteria in people's ratings, with intervals from resampled items.

Here: Pearson and Spearman of every pair of criteria over items, and the percentile bootstrap. Not here: where ratings
come from (`inputs/ratings.py`), and how an audit agrees with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from radar_dagster.stats.bootstrap import percentile_interval
from radar_dagster.stats.cell import BoolArray, FloatArray, IntArray
from radar_dagster.stats.correlation import CONSTANT, MIN_PAIRS, TOO_FEW, both_known, correlate, levels
from radar_dagster.stats.intervals import Bounds, include
from radar_dagster.stats.numbers import divide

#: With fewer items a percentile interval is far too narrow to be called by its confidence; docs/human-reference.md
#: shows the coverage.
MIN_ITEMS = 10

#: An interval over the remaining resamples would speak for these only.
_UNDEFINED_ALLOWED = 0.05

#: A criterion's variance in a resample, relative to its variance in all items, below which it is rounding.
_NO_VARIANCE = 1e-10

#: Counts of a chunk of resamples, and the moments of a block of pairs, stay below about this many bytes each.
_BLOCK_BYTES = 64_000_000
_MOMENTS = 6


class _Pair(NamedTuple):
    a: int
    b: int
    both: BoolArray


def human_correlations(
    ratings: FloatArray,
    criteria: Sequence[str],
    *,
    rng_seed: int = 0,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """How people's ratings (items, criteria) of every two criteria go together; NaN is a rating that nobody gave.

    Columns criterion_a, criterion_b, pearson_r, ci_low, ci_high, spearman, items (rated on both), reason; one row per
    pair in the order of `criteria`. Whole items are resampled, so that all pairs share the resamples; neither the order
    of the items nor the unit of a criterion changes an interval. The interval is widened to contain the estimate.

    `reason` says why numbers are null: `too_few` items rated on both, a criterion `constant` over them, or
    `no_interval` alone (fewer than 10 items, or too many resamples in which a criterion is constant).
    ValueError: `criteria` does not fit the width of `ratings`.
    """
    if ratings.ndim != 2 or ratings.shape[1] != len(criteria):
        raise ValueError(f"ratings have the shape {ratings.shape}; expected (items, {len(criteria)})")
    values = np.where(np.isfinite(ratings), ratings, np.nan)
    pairs = [_Pair(a, b, both_known(values[:, a], values[:, b])) for a, b in combinations(range(len(criteria)), 2)]
    found = [correlate(values[:, pair.a], values[:, pair.b]) for pair in pairs]
    estimate = np.array([np.nan if one.pearson is None else one.pearson for one in found])
    items = np.array([int(pair.both.sum()) for pair in pairs], dtype=np.int64)
    eligible = np.flatnonzero(np.isfinite(estimate) & (items >= MIN_ITEMS))
    draws = np.full((resamples, len(pairs)), np.nan)
    if len(eligible):
        chosen = [(pairs[k].a, pairs[k].b) for k in eligible]
        draws[:, eligible] = _resampled(values, chosen, np.random.default_rng(rng_seed), resamples)
    undefined = (~np.isfinite(draws)).sum(axis=0)
    bounds = _bounds(draws, estimate, undefined, confidence)
    reasons = [
        _reason(pair, one.reason, values, criteria) if one.reason else _no_interval(int(n), int(lost), resamples)
        for pair, one, n, lost in zip(pairs, found, items, undefined, strict=True)
    ]
    return pd.DataFrame(
        {
            "criterion_a": pd.Series([criteria[pair.a] for pair in pairs], dtype=object),
            "criterion_b": pd.Series([criteria[pair.b] for pair in pairs], dtype=object),
            "pearson_r": estimate,
            "ci_low": bounds.low,
            "ci_high": bounds.high,
            "spearman": np.array([np.nan if one.spearman is None else one.spearman for one in found]),
            "items": items,
            "reason": pd.Series(reasons, dtype=object),
        }
    )


def _bounds(draws: FloatArray, estimate: FloatArray, undefined: IntArray, confidence: float) -> Bounds:
    bounds = include(percentile_interval(draws, confidence), estimate)
    kept = undefined <= _UNDEFINED_ALLOWED * len(draws)
    return Bounds(np.where(kept, bounds.low, np.nan), np.where(kept, bounds.high, np.nan))


def _reason(pair: _Pair, code: str, values: FloatArray, criteria: Sequence[str]) -> str:
    rated = int(pair.both.sum())
    if code == TOO_FEW:
        return f"{code}: {rated} items rated on both; at least {MIN_PAIRS} are needed"
    same = [criteria[k] for k in (pair.a, pair.b) if levels(values[pair.both, k]).max() == 0]
    return f"{CONSTANT}: all {rated:,} items have the same rating on {' and on '.join(same)}"


def _no_interval(items: int, undefined: int, resamples: int) -> str | None:
    if items < MIN_ITEMS:
        return f"no_interval: {items} items rated on both; at least {MIN_ITEMS} are needed"
    if undefined > _UNDEFINED_ALLOWED * resamples:
        lost = f"{undefined:,} of {resamples:,} resamples"
        return f"no_interval: in {lost} a criterion does not vary, or not beside its largest rating"
    return None


def _resampled(
    values: FloatArray, pairs: Sequence[tuple[int, int]], rng: np.random.Generator, resamples: int
) -> FloatArray:
    """Pearson's r of every pair in every resample, shape (resamples, pairs); NaN where a criterion does not vary.

    Items with the same ratings are drawn together, as often as a draw of single items would have hit any of them: a
    multinomial count per distinct row. Sorted as they are, the rows don't show in which order the items came. Memory
    stays below some 300 MB beside the result, whatever the number of items or pairs.
    """
    rows, times = _distinct_rows(_standardised(values))
    share = times / times.sum()
    drawn = np.empty((resamples, len(pairs)))
    size = max(1, _BLOCK_BYTES // (16 * len(rows)))
    for start in range(0, resamples, size):
        block = slice(start, min(start + size, resamples))
        counts = rng.multinomial(times.sum(), share, size=block.stop - block.start).astype(np.float64)
        for columns in _pair_blocks(len(pairs), len(rows)):
            drawn[block, columns] = _from_moments(counts @ _moments(rows, pairs[columns]))
    return drawn


def _standardised(values: FloatArray) -> FloatArray:
    """Every criterion with mean 0 and variance 1, so that sums of squares lose nothing."""
    scaled = values / np.maximum(np.nanmax(np.abs(values), axis=0, initial=0.0), np.finfo(float).tiny)
    known = np.isfinite(scaled)
    count = np.maximum(known.sum(axis=0), 1)
    deviations = scaled - np.where(known, scaled, 0.0).sum(axis=0) / count
    spread = np.sqrt(np.where(known, deviations**2, 0.0).sum(axis=0) / count)
    return np.asarray(deviations / np.where(spread > 0, spread, 1.0))


def _distinct_rows(values: FloatArray) -> tuple[FloatArray, IntArray]:
    # As an infinity a missing rating equals another one, which NaN does not.
    rows, times = np.unique(np.where(np.isnan(values), np.inf, values), axis=0, return_counts=True)
    return np.where(np.isinf(rows), np.nan, rows), times


def _pair_blocks(pairs: int, rows: int) -> Iterator[slice]:
    size = max(1, _BLOCK_BYTES // (8 * _MOMENTS * rows))
    return (slice(start, min(start + size, pairs)) for start in range(0, pairs, size))


def _moments(rows: FloatArray, pairs: Sequence[tuple[int, int]]) -> FloatArray:
    """What each row adds to the sums of 1, a, b, a², b² and ab of every pair, shape (rows, pairs · 6).

    A row that lacks a or b adds nothing.
    """
    a, b = (rows[:, [pair[side] for pair in pairs]] for side in (0, 1))
    both = both_known(a, b)
    a, b = np.where(both, a, 0.0), np.where(both, b, 0.0)
    return np.stack([both.astype(np.float64), a, b, a * a, b * b, a * b], axis=-1).reshape(len(rows), -1)


def _from_moments(sums: FloatArray) -> FloatArray:
    """Pearson's r from sums (resamples, pairs · 6), shape (resamples, pairs)."""
    n, *totals = np.moveaxis(sums.reshape(len(sums), -1, _MOMENTS), -1, 0)
    a, b, aa, bb, ab = (divide(total, n) for total in totals)
    var_a, var_b = aa - a * a, bb - b * b
    varies = (n >= MIN_PAIRS) & (var_a > _NO_VARIANCE) & (var_b > _NO_VARIANCE)
    r = divide(ab - a * b, np.sqrt(np.where(varies, var_a * var_b, 0.0)))
    return np.clip(r, -1.0, 1.0)
