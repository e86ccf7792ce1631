"""Self-effects, leakage and the reliability gate: the point estimates of Stage 3.

Here: what the scores say. Not here: how sure one may be (`intervals.py`, `bootstrap.py`) and what it means
(`readings.py`). Formulas: Singh, Davari and Mashhadi, "RADAR: Rubric-Aware Dependency and Redundancy Analysis for
LLM-as-Judge Evaluation"; where the paper is silent, docs/statistics.md states the choice.

All functions take leading batch axes (…), which is how the bootstrap evaluates every resample at once. Undefined
values are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from radar_dagster.stats.cell import BoolArray, FloatArray, IntArray, ScoreCube
from radar_dagster.stats.numbers import divide, nanmean, reaches
from radar_dagster.stats.settings import Estimator


@dataclass(frozen=True)
class Slices:
    """What every task (slice) contributes; T tasks, r sources (targets of probes), n scored criteria.

    `own` holds the position of every source among the criteria, which lets a block of sources be handled alone.
    """

    coupling: FloatArray  #: (…, T, r, n) GenCoupling_t(i→j) = p̄_j(t,i,+) − p̄_j(t,i,−), in [−1, 1]
    self_effect: FloatArray  #: (…, T, r) SelfEffect_t(i) = GenCoupling_t(i→i)
    passed: BoolArray  #: (…, T, r) SelfEffect_t(i) ≥ gate
    leakage: FloatArray  #: (…, T, r, n) Leakage_t(i→j) of the slices that passed, else NaN
    own: IntArray  #: (r,)


@dataclass(frozen=True)
class Coupling:
    """Averages over tasks. Leakage of what is unreliable is NaN; `coupling` is kept for inspection."""

    self_effect: FloatArray  #: (…, r) mean over the tasks in which it is defined
    reliable: BoolArray  #: (…, r) the per-criterion gate
    tasks_used: IntArray  #: (…, r) slices that passed the gate
    tasks_undefined: IntArray  #: (…, r) slices without a self-effect, for lack of scores
    coupling: FloatArray  #: (…, r, n) mean over tasks of GenCoupling_t
    #: (…, r, n) the mean over tasks of Leakage_t or `pooled`, as chosen; the diagonal of a reliable row is exactly 1
    leakage: FloatArray
    pooled: FloatArray  #: (…, r, n) mean GenCoupling / mean SelfEffect
    sigma: FloatArray  #: (…, r, n) standard deviation over tasks of Leakage_t (ddof = 0)
    entry_reliable: BoolArray  #: (…, r, n) leakage is defined
    entry_tasks: IntArray  #: (…, r, n) slices that enter the leakage


def stratum_means(cube: ScoreCube) -> FloatArray:
    """p̄_j(t,i,d), shape (T, n, 2, n): mean over the scores that exist; NaN where none does."""
    return nanmean(cube.p, axis=3)


def weighted_stratum_means(scores: FloatArray, weights: FloatArray) -> FloatArray:
    """Stratum means of B weightings of the probes at once: (…, N, n) scores and (…, B, N) weights give (…, B, n).

    A weight says how often a probe counts. NaN where every score that counts is missing.
    """
    present = np.isfinite(scores)
    total = weights @ np.where(present, scores, 0.0)
    return divide(total, weights @ present.astype(np.float64))


def slices_from_means(means: FloatArray, gate: float, own: IntArray | None = None) -> Slices:
    """Per-task coupling, self-effect and gated leakage from stratum means (…, T, r, 2, n).

    `own` gives the criterion that each of the r sources targets; by default source k targets criterion k. A slice whose
    self-effect lies below the gate gives no leakage; as the gate is above 0, nothing is ever divided by 0.
    """
    own = np.arange(means.shape[-3]) if own is None else own
    coupling = means[..., 0, :] - means[..., 1, :]
    self_effect = coupling[..., np.arange(len(own)), own]
    passed = reaches(self_effect, gate)
    leakage = divide(coupling, np.where(passed, self_effect, np.nan)[..., None])
    return Slices(coupling=coupling, self_effect=self_effect, passed=passed, leakage=leakage, own=own)


def average_over_tasks(slices: Slices, gate: float, estimator: Estimator = Estimator.MEAN_OF_TASKS) -> Coupling:
    """Averages over the task axis, with the per-criterion gate applied.

    A row is reliable when its mean self-effect reaches the gate and at least half of its slices passed. A single value
    of a reliable row is still undefined when fewer than half of the slices can give it, because the target's scores are
    missing. `pooled` uses every slice in which both of its means exist, gate or no gate: it divides only once, by a
    mean that reached the gate.
    """
    tasks = slices.self_effect.shape[-2]
    self_effect = nanmean(slices.self_effect, axis=-2)
    used = slices.passed.sum(axis=-2)
    reliable = reaches(self_effect, gate) & (2 * used >= tasks)

    both = np.isfinite(slices.coupling) & np.isfinite(slices.self_effect)[..., None]
    by_task = np.isfinite(slices.leakage)
    entry_tasks = (both if estimator is Estimator.POOLED else by_task).sum(axis=-3)
    entry_reliable = reliable[..., None] & (2 * entry_tasks >= tasks)
    if estimator is Estimator.POOLED:  # the slices that have scores on j may be the weak ones
        divisor = nanmean(np.where(both, slices.self_effect[..., None], np.nan), axis=-3)
        entry_reliable &= reaches(divisor, gate)

    mean_of_tasks = nanmean(slices.leakage, axis=-3)
    sigma = np.sqrt(nanmean((slices.leakage - mean_of_tasks[..., None, :, :]) ** 2, axis=-3))
    pooled = divide(
        np.where(both, slices.coupling, 0.0).sum(axis=-3),
        np.where(both, slices.self_effect[..., None], 0.0).sum(axis=-3),
    )
    for values, on_diagonal in ((mean_of_tasks, 1.0), (pooled, 1.0), (sigma, 0.0)):
        values[..., np.arange(len(slices.own)), slices.own] = on_diagonal
        values[~entry_reliable] = np.nan
    return Coupling(
        self_effect=self_effect,
        reliable=reliable,
        tasks_used=used,
        tasks_undefined=(~np.isfinite(slices.self_effect)).sum(axis=-2),
        coupling=nanmean(slices.coupling, axis=-3),
        leakage=pooled if estimator is Estimator.POOLED else mean_of_tasks,
        pooled=pooled,
        sigma=sigma,
        entry_reliable=entry_reliable,
        entry_tasks=entry_tasks,
    )


def unreliable_reasons(coupling: Coupling, gate: float, tasks: int) -> list[str | None]:
    """Why each row failed the gate (None for reliable rows); no batch axes.

    `missing_scores`: no self-effect is defined, or so many lack scores that the row could have passed with them.
    `negative`, `weak`: the mean self-effect is below 0, below the gate. `too_few_tasks`: the mean reaches the gate but
    fewer than half of the slices do.
    """
    return [
        None if reliable else _reason(float(effect), int(used), int(undefined), gate, tasks)
        for reliable, effect, used, undefined in zip(
            coupling.reliable, coupling.self_effect, coupling.tasks_used, coupling.tasks_undefined, strict=True
        )
    ]


def _reason(effect: float, used: int, undefined: int, gate: float, tasks: int) -> str:
    if undefined == tasks:
        return "missing_scores"
    if effect < 0:
        return "negative"
    if not reaches(effect, gate):
        return "weak"
    return "missing_scores" if 2 * (used + undefined) >= tasks else "too_few_tasks"


def symmetric_coupling(leakage: FloatArray) -> FloatArray:
    """SymCoupling(i,j) = (ℓ_ij + ℓ_ji)/2 for a leakage matrix (…, n, n); NaN unless both directions are defined.

    >>> symmetric_coupling(np.array([[1.0, 0.8], [0.2, 1.0]]))[0, 1]
    np.float64(0.5)
    """
    return (leakage + np.swapaxes(leakage, -1, -2)) / 2


def asymmetry(leakage: FloatArray) -> FloatArray:
    """Asymmetry(i,j) = |ℓ_ij − ℓ_ji| for a leakage matrix (…, n, n); NaN unless both directions are defined."""
    return np.abs(leakage - np.swapaxes(leakage, -1, -2))
