"""Intervals by the delta method: t intervals for self-effects, leakage, SymCoupling and Asymmetry.

Here: closed-form variances from the scatter of probes within their strata, the fallback for one probe per stratum,
and the floor below which no interval shrinks. Not here: resampling (`bootstrap.py`). docs/statistics.md derives the
formulas and shows their coverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from radar_dagster.stats.cell import BoolArray, FloatArray, IntArray, ScoreCube
from radar_dagster.stats.coupling import Coupling, Slices
from radar_dagster.stats.numbers import TOLERANCE, divide, nanmean, nanvar
from radar_dagster.stats.settings import Estimator


class Bounds(NamedTuple):
    """Lower and upper ends of intervals; NaN where there is no interval."""

    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Precision:
    """How precise estimates are. Precisions of independent estimates add up; see `combine`."""

    variance: FloatArray  #: NaN where the scores carry no information about it
    spread: FloatArray  #: Σ c²/ν over the independent parts c of the variance with ν degrees of freedom each
    resolution: FloatArray  #: half-width below which an interval would claim more than the scores can show
    over_tasks: BoolArray  #: the variance comes from the spread over tasks, for want of probes within strata

    def half_width(self, confidence: float) -> FloatArray:
        """Half-width of the t interval with Satterthwaite's degrees of freedom variance²/spread."""
        varies = self.spread > 0
        freedom = np.where(varies, divide(self.variance**2, np.where(varies, self.spread, np.nan)), 1.0)
        return np.maximum(stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(self.variance), self.resolution)


def combine(a: Precision, b: Precision, scale: float = 1.0) -> Precision:
    """Precision of scale·(x ± y) for independent estimates x and y."""
    return Precision(
        variance=scale**2 * (a.variance + b.variance),
        spread=scale**4 * (a.spread + b.spread),
        resolution=scale * np.hypot(a.resolution, b.resolution),
        over_tasks=a.over_tasks | b.over_tasks,
    )


def transpose(precision: Precision) -> Precision:
    """The precision of ℓ_ji in the place of ℓ_ij."""
    return Precision(precision.variance.T, precision.spread.T, precision.resolution.T, precision.over_tasks.T)


def around(estimate: FloatArray, half_width: FloatArray) -> Bounds:
    """Symmetric interval."""
    return Bounds(estimate - half_width, estimate + half_width)


def fold(difference: Bounds) -> Bounds:
    """Interval for |δ| from one for the signed difference δ; it reaches 0 when the signs of its ends differ."""
    low, high = np.abs(difference.low), np.abs(difference.high)
    straddles = difference.low * difference.high < 0
    return Bounds(np.where(straddles, 0.0, np.minimum(low, high)), np.maximum(low, high))


def include(bounds: Bounds, estimate: FloatArray) -> Bounds:
    """Widen intervals so that they contain their estimate (a percentile interval of a skewed statistic may not)."""
    return Bounds(np.minimum(bounds.low, estimate), np.maximum(bounds.high, estimate))


def self_effect_precision(cube: ScoreCube, slices: Slices, confidence: float) -> Precision:
    """Precision of the mean self-effect of every criterion, shape (n,)."""
    own = np.arange(len(cube.criteria))
    scores = np.moveaxis(cube.p[:, own, :, :, own], 0, 1)  # (T, n, 2, N)
    used = np.isfinite(slices.self_effect)
    weight = np.where(used, divide(1.0, used.sum(axis=0)), 0.0)
    parts = _Parts(
        probes=np.isfinite(scores).sum(axis=3)[..., None],
        variance=nanvar(scores, axis=3, ddof=1)[..., None],
        weight=np.broadcast_to(weight[:, :, None], scores.shape[:3])[..., None],
    )
    within = _within_strata(parts)
    between = _over_tasks(slices.self_effect[..., None], used[..., None])
    steps = _steps(cube)
    resolution = _unseen_share(parts, confidence) * steps[:, None]
    return _squeeze(_choose(within, between, resolution))


def leakage_precision(
    cube: ScoreCube, slices: Slices, coupling: Coupling, estimator: Estimator, confidence: float
) -> Precision:
    """Precision of every leakage, shape (n, n); undefined (NaN) where the leakage is.

    The ratio of two means varies, to first order, like the mean of the residuals z = p_j − ℓ·p_i over the self-effect.
    ℓ is the slice's own ratio for the mean of tasks and the common one for the pooled estimator. The residuals need
    both scores of a probe; probes that lack one are left out of the variance.
    """
    n = len(cube.criteria)
    own_scores = np.moveaxis(cube.p[:, np.arange(n), :, :, np.arange(n)], 0, 1)  # (T, n, 2, N)
    if estimator is Estimator.POOLED:
        used = np.isfinite(slices.coupling) & np.isfinite(slices.self_effect)[..., None]
        mean_effect = nanmean(np.where(used, slices.self_effect[..., None], np.nan), axis=0)
        ratio = np.broadcast_to(coupling.leakage, used.shape)
        effect = np.broadcast_to(mean_effect, used.shape)
        by_task = divide(slices.coupling - ratio * slices.self_effect[..., None], effect)
    else:
        used = np.isfinite(slices.leakage)
        ratio, by_task = slices.leakage, slices.leakage
        effect = np.broadcast_to(slices.self_effect[..., None], used.shape)
    residual = cube.p - ratio[:, :, None, None, :] * own_scores[..., None]
    tasks_used = used.sum(axis=0)
    weight = np.where(used, divide(1.0, effect * tasks_used), 0.0)
    parts = _Parts(
        probes=np.isfinite(residual).sum(axis=3),
        variance=nanvar(residual, axis=3, ddof=1),
        weight=np.broadcast_to(weight[:, :, None, :], (*residual.shape[:3], n)),
    )
    within = _within_strata(parts)
    between = _over_tasks(by_task, used)
    steps = _steps(cube)
    step = np.hypot(steps[None, :], np.nan_to_num(coupling.leakage) * steps[:, None])
    resolution = _unseen_share(parts, confidence) * step * np.abs(weight).sum(axis=0)
    return _on_defined(_choose(within, between, resolution), coupling.entry_reliable)


class _Parts(NamedTuple):
    """Strata as independent parts of a linear estimate Σ weight·mean; all (T, n, 2, m)."""

    probes: IntArray  #: scores that exist
    variance: FloatArray  #: their sample variance, NaN for fewer than two
    weight: FloatArray


def _within_strata(parts: _Parts) -> tuple[FloatArray, FloatArray]:
    """Variance and spread (see `Precision`) from the scatter within strata; NaN where no stratum shows any.

    A stratum with a single score says nothing about scatter: it is given the mean variance of the other strata of the
    same estimate, and their degrees of freedom.
    """
    active = parts.weight != 0
    known = active & np.isfinite(parts.variance)
    factor = parts.weight**2 / np.maximum(parts.probes, 1)
    borrowed = divide(np.where(active & ~known, factor, 0.0).sum(axis=(0, 2)), known.sum(axis=(0, 2)))
    share = (factor + borrowed[None, :, None, :]) * np.where(known, parts.variance, 0.0)
    spread = divide(share**2, np.where(known, parts.probes - 1, np.nan))
    nothing = ~known.any(axis=(0, 2))
    variance = np.where(nothing, np.nan, share.sum(axis=(0, 2)))
    return variance, np.where(nothing, np.nan, np.nansum(spread, axis=(0, 2)))


def _over_tasks(by_task: FloatArray, used: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Variance and spread from the scatter of the slices' own estimates (T, n, m); tasks − 1 degrees of freedom."""
    tasks = used.sum(axis=0)
    variance = divide(nanvar(np.where(used, by_task, np.nan), axis=0, ddof=1), tasks)
    return variance, divide(variance**2, tasks - 1)


def _choose(
    within: tuple[FloatArray, FloatArray], between: tuple[FloatArray, FloatArray], resolution: FloatArray
) -> Precision:
    over_tasks = ~np.isfinite(within[0])
    return Precision(
        variance=np.where(over_tasks, between[0], within[0]),
        spread=np.where(over_tasks, between[1], within[1]),
        resolution=resolution,
        over_tasks=over_tasks & np.isfinite(between[0]),
    )


def _unseen_share(parts: _Parts, confidence: float) -> FloatArray:
    """The largest share of deviating probes that M probes would miss with probability 1 − confidence, shape (n, m).

    M is the number of probes that enter the estimate, in the direction that has fewer. (1 − q)^M = 1 − confidence is
    the "rule of three": q ≈ 3/M at 95%.
    """
    probes = np.where(parts.weight != 0, parts.probes, 0).sum(axis=0).min(axis=1)
    return 1 - (1 - confidence) ** divide(1.0, np.maximum(probes, 1))


def _steps(cube: ScoreCube) -> FloatArray:
    """The smallest difference between two scores that the judge gave on each criterion, (n,); 1 if it gave one."""
    steps = np.ones(len(cube.criteria))
    for j in range(len(steps)):
        values = np.unique(cube.p[..., j])
        gaps = np.diff(values[np.isfinite(values)])
        gaps = gaps[gaps > TOLERANCE]
        steps[j] = gaps.min(initial=1.0)
    return steps


def _squeeze(precision: Precision) -> Precision:
    return Precision(
        precision.variance[:, 0], precision.spread[:, 0], precision.resolution[:, 0], precision.over_tasks[:, 0]
    )


def _on_defined(precision: Precision, defined: BoolArray) -> Precision:
    """Blank what belongs to undefined estimates; the diagonal is 1 by definition and has no uncertainty."""
    values = (precision.variance, precision.spread, precision.resolution)
    variance, spread, resolution = (np.where(defined, value, np.nan) for value in values)
    diagonal = np.eye(len(defined), dtype=bool) & defined
    for value in (variance, spread, resolution):
        value[diagonal] = 0.0
    return Precision(variance, spread, resolution, precision.over_tasks & defined & ~diagonal)
