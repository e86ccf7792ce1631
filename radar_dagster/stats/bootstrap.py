"""The stratified bootstrap: every probe is redrawn within its (task, target, direction), all resamples at once.

Here: resampled self-effects and leakages, and percentile intervals over any statistic of them. Not here: what is
computed from a resample (`coupling.py`, `summaries.py`), and the default intervals (`intervals.py`).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from radar_dagster.stats.cell import BoolArray, FloatArray, IntArray, ScoreCube
from radar_dagster.stats.coupling import average_over_tasks, slices_from_means, weighted_stratum_means
from radar_dagster.stats.intervals import Bounds
from radar_dagster.stats.settings import CouplingSettings

#: With fewer usable resamples than this there is no interval: its ends would be single resamples.
MIN_RESAMPLES = 50

#: Targets are resampled in blocks whose intermediate arrays stay below about this many bytes.
_BLOCK_BYTES = 128_000_000


@dataclass(frozen=True)
class Resamples:
    """Statistics of B resamples of a cell; NaN where a resample leaves something undefined or under the gate."""

    self_effect: FloatArray  #: (B, n)
    reliable: BoolArray  #: (B, n) the row passed the gate
    leakage: FloatArray  #: (B, n, n)

    @property
    def gate_pass_rate(self) -> FloatArray:
        """Share of the resamples in which each criterion stays reliable, (n,)."""
        return np.asarray(self.reliable.mean(axis=0))


def resample(cube: ScoreCube, settings: CouplingSettings) -> Resamples:
    """Draw `settings.resamples` resamples of the probes within their strata and evaluate them with the gate.

    All scores of a drawn probe come along, so that scores of one probe stay together. The draws for a stratum depend
    only on the seed and on the ids of its task and target: neither the order of the criteria nor another criterion in
    the rubric changes them, and two cells that share probes are resampled alike. Memory: 8·B·n² bytes and a block.
    """
    n, B = len(cube.criteria), settings.resamples
    self_effect, leakage = np.empty((B, n)), np.empty((B, n, n))
    reliable = np.empty((B, n), dtype=bool)
    for block in _blocks(cube, B):
        means = _resampled_means(cube, block, B, settings.seed)
        coupling = average_over_tasks(
            slices_from_means(means, settings.gate, own=block), settings.gate, settings.estimator
        )
        self_effect[:, block], reliable[:, block] = coupling.self_effect, coupling.reliable
        leakage[:, block] = coupling.leakage
    return Resamples(self_effect, reliable, leakage)


def percentile_interval(resampled: FloatArray, confidence: float) -> Bounds:
    """Percentile interval over axis 0, NaN resamples left out; NaN where fewer than 50 resamples are usable.

    Linear interpolation between order statistics, as in numpy.quantile.
    """
    ordered = np.sort(resampled, axis=0)  # NaN go last
    usable = np.isfinite(ordered).sum(axis=0)
    tail = (1 - confidence) / 2
    enough = usable >= MIN_RESAMPLES
    low, high = (_quantile(ordered, usable, q) for q in (tail, 1 - tail))
    return Bounds(np.where(enough, low, np.nan), np.where(enough, high, np.nan))


def _quantile(ordered: FloatArray, usable: IntArray, q: float) -> FloatArray:
    position = np.maximum(usable - 1, 0) * q
    below = np.floor(position).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(usable - 1, 0))
    low = np.take_along_axis(ordered, below[None], axis=0)[0]
    high = np.take_along_axis(ordered, above[None], axis=0)[0]
    return np.asarray(low + (high - low) * (position - below))


def _blocks(cube: ScoreCube, resamples: int) -> list[IntArray]:
    T, n, _, N, _ = cube.p.shape
    per_target = 8 * resamples * T * 2 * (4 * n + 3 * N)
    size = max(1, _BLOCK_BYTES // per_target)
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]


def _resampled_means(cube: ScoreCube, block: IntArray, resamples: int, seed: int) -> FloatArray:
    """Means of every resample and stratum, shape (B, T, block, 2, n); NaN where all drawn scores are missing."""
    scores = cube.p[:, block]
    weights = _draw_weights(cube, block, resamples, seed)
    if np.isfinite(scores).all():  # every draw counts as many probes: half the work
        return np.moveaxis(weights @ scores / scores.shape[3], 3, 0)
    return np.moveaxis(weighted_stratum_means(scores, weights), 3, 0)


def _draw_weights(cube: ScoreCube, block: IntArray, resamples: int, seed: int) -> FloatArray:
    """How often each probe is drawn in each resample, shape (T, block, 2, B, N)."""
    T, N = len(cube.tasks), cube.p.shape[3]
    probes = cube.probes[:, block, :, None, None]
    # Single precision is plenty to choose among N probes, and halves the memory traffic that dominates here.
    position = np.empty((T, len(block), 2, resamples, N), dtype=np.float32)
    for t, task in enumerate(cube.tasks):
        for k, target in enumerate(block):
            _stream(seed, task, cube.criteria[target]).random(dtype=np.float32, out=position[t, k])
    position *= probes.astype(np.float32)
    # One bin per probe and resample, and a last one for the draws of strata with fewer than N probes, which draw only
    # as often as they have probes.
    drawn = position.astype(np.intp)
    if (probes < N).any():
        drawn = np.where(np.arange(N) < probes, drawn, N)
    rows = drawn.size // N
    drawn += (np.arange(rows) * (N + 1)).reshape(*drawn.shape[:-1], 1)
    counts = np.bincount(drawn.ravel(), minlength=rows * (N + 1)).reshape(*drawn.shape[:-1], N + 1)
    return counts[..., :N].astype(np.float64)


def _stream(seed: int, task: str, target: str) -> np.random.Generator:
    names = (zlib.crc32(str(name).encode("utf-8", "surrogatepass")) for name in (task, target))
    return np.random.default_rng([seed, *names])
