"""A simulator with a known answer: scores drawn from a planted leakage matrix.

It stands behind the coverage benchmark, the tests and the model `offline/planted`. Not here: any estimator.

The latent mean of criterion j on a probe that targets i is 0.5 + s_i·L_ij/2 for the direction + and 0.5 − s_i·L_ij/2
for −. Normal noise is added, the sum is rounded to the nearest of the equally spaced levels in [0, 1], and what falls
outside lands on the outermost level. The expected score is therefore a sum of values of the normal
distribution function. Rounding and the ends of the scale bend the expected score away
from the latent mean, so what an estimator must recover is `expected_leakage`, not the nominal L.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from radar_dagster.stats.cell import BoolArray, FloatArray, IntArray, ScoreCube

#: Slack for latent means that touch 0 or 1, such as a self-effect of exactly 1.
_TOLERANCE = 1e-9


def latent_means(leakage: FloatArray, self_effects: FloatArray) -> FloatArray:
    """Latent means (…, n, 2, n): target, direction, scored criterion; leading axes (say, tasks) broadcast.

    `leakage` (…, n, n) has sources as rows and a diagonal of ones, `self_effects` is (…, n). ValueError names the entry
    when a shape or the diagonal is wrong or a mean leaves [0, 1].

    >>> latent_means(np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([0.8, 0.6]))[0]
    array([[0.9, 0.7],
           [0.1, 0.3]])
    """
    leakage = np.asarray(leakage, dtype=np.float64)
    self_effects = np.asarray(self_effects, dtype=np.float64)
    n = leakage.shape[-1]
    if leakage.ndim < 2 or leakage.shape[-2] != n or self_effects.ndim < 1 or self_effects.shape[-1] != n:
        raise ValueError(f"leakage {leakage.shape} must be square and fit the self-effects {self_effects.shape}")
    diagonal = np.diagonal(leakage, axis1=-2, axis2=-1)
    if not (diagonal == 1).all():
        where = np.argwhere(diagonal != 1)[0]
        raise ValueError(f"leakage[{where[-1]}, {where[-1]}] must be 1, but is {diagonal[tuple(where)]:g}")
    half = self_effects[..., :, None] * leakage / 2
    outside = np.argwhere(~(np.abs(half) <= 0.5 + _TOLERANCE))
    if outside.size:
        *_, i, j = (int(k) for k in outside[0])
        raise ValueError(
            f"self_effects[{i}]·leakage[{i}, {j}]/2 = {half[tuple(outside[0])]:g} moves the latent mean "
            "0.5 ± that out of [0, 1]"
        )
    return np.clip(np.stack([0.5 + half, 0.5 - half], axis=-2), 0.0, 1.0)


def discretise(latent: FloatArray, levels: int | Sequence[int]) -> IntArray:
    """Round latent scores to the nearest level index 0 … levels − 1; ties go up, what lies outside is clipped.

    `levels` may differ by criterion (the last axis of `latent`). The score on a scale min..max is min + index, and
    p = index / (levels − 1).

    >>> discretise(np.array([-0.3, 0.1, 0.125, 0.5, 1.7]), 5)
    array([0, 0, 1, 2, 4])
    """
    top = _top(levels)
    return np.clip(np.floor(np.asarray(latent) * top + 0.5), 0, top).astype(np.int64)


def expected_p(means: FloatArray, noise: float, levels: int | Sequence[int] = 5) -> FloatArray:
    """Exact expectation of the discretised score for latent means (…, n); the shape is kept.

    A level index is the number of rounding edges below the latent score, so its expectation is the sum over the edges
    of the probability of lying above each. With `noise` 0 it is the discretised mean itself.
    """
    means = np.asarray(means, dtype=np.float64)
    if noise < 0:
        raise ValueError(f"noise must not be negative, but is {noise:g}")
    top = np.broadcast_to(_top(levels), means.shape)
    if noise == 0:
        return discretise(means, levels) / top
    total = np.zeros_like(means)
    for edge in range(1, int(top.max()) + 1):
        total += np.where(edge <= top, ndtr((means - (edge - 0.5) / top) / noise), 0.0)
    return total / top


def expected_leakage(
    leakage: FloatArray, self_effects: FloatArray, noise: float, levels: int | Sequence[int] = 5
) -> tuple[FloatArray, FloatArray]:
    """What a perfect estimator would report: leakage (…, n, n) and self-effects (…, n) of the expected scores."""
    expected = expected_p(latent_means(leakage, self_effects), noise, levels)
    coupling = expected[..., 0, :] - expected[..., 1, :]
    own = np.diagonal(coupling, axis1=-2, axis2=-1)
    return coupling / own[..., :, None], own


def draw_cube(
    means: FloatArray,
    *,
    noise: float,
    tasks: int,
    probes: int,
    rng: np.random.Generator,
    levels: int | Sequence[int] = 5,
    shared: float = 0.0,
    failure_rate: float = 0.0,
) -> ScoreCube:
    """Draw a whole cell around latent means (n, 2, n), or (tasks, n, 2, n) when tasks differ.

    `noise` is the standard deviation of a latent score around its mean. The proportion `shared` of its variance is
    common to all criteria of a probe, as when a response is simply better than asked for. `failure_rate` is the share
    of scores that go missing, completely at random. Criteria are called c0, c1, … and tasks t0, t1, …
    """
    n = means.shape[-1]
    shape = (tasks, n, 2, probes, n)
    latent = np.broadcast_to(means, (tasks, n, 2, n))[:, :, :, None, :]
    common = rng.standard_normal((*shape[:-1], 1)) if shared else 0.0
    error = np.sqrt(1 - shared) * rng.standard_normal(shape) + np.sqrt(shared) * common
    p = discretise(latent + noise * error, levels) / _top(levels)
    if failure_rate:
        failed: BoolArray = rng.random(shape) < failure_rate
        p[failed] = np.nan
    return ScoreCube(
        tasks=tuple(f"t{t}" for t in range(tasks)),
        criteria=tuple(f"c{i}" for i in range(n)),
        p=p,
        probes=np.full((tasks, n, 2), probes, dtype=np.int64),
    )


def _top(levels: int | Sequence[int]) -> IntArray:
    """The highest level index, as an array that broadcasts against the criterion axis."""
    top = np.asarray(levels, dtype=np.int64) - 1
    if (top < 1).any():
        raise ValueError(f"a scale needs at least two levels, found {levels}")
    return top
