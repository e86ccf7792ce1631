"""How fast is the vectorised bootstrap? Ratios to a plain pandas loop and to scipy.stats.bootstrap, in one run.

Usage: python benchmarks/bootstrap.py

One cell of 5 criteria × 5 tasks × 2 directions × 20 probes, 500 resamples, the gate applied in every resample,
percentile intervals for every self-effect, leakage, SymCoupling and Asymmetry (signed). The pandas loop is timed on a
few resamples and scaled up to 500; everything else runs in full. How far the ends of the leakage intervals lie apart
between methods is printed too: it should be no more than resampling error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from radar_dagster.stats.bootstrap import percentile_interval, resample
from radar_dagster.stats.cell import FloatArray, ScoreCube
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.stats.settings import CouplingSettings

CRITERIA, TASKS, PROBES, RESAMPLES, GATE = 5, 5, 20, 500, 0.40
#: The pandas loop runs this many resamples and is scaled up.
SUBSET = 20
PAIRS = [(i, j) for i in range(CRITERIA) for j in range(CRITERIA) if i < j]
ORDERED = [(i, j) for i in range(CRITERIA) for j in range(CRITERIA) if i != j]


def example_cell() -> ScoreCube:
    """A planted cell with every self-effect well above the gate."""
    rng = np.random.default_rng(7)
    leakage = rng.uniform(-0.2, 0.9, (CRITERIA, CRITERIA))
    np.fill_diagonal(leakage, 1.0)
    means = latent_means(leakage, rng.uniform(0.65, 0.9, CRITERIA))
    return draw_cube(means, noise=0.15, tasks=TASKS, probes=PROBES, rng=rng)


def ours(cube: ScoreCube) -> FloatArray:
    """All intervals from one set of resamples; returns those of the leakage, (2, n, n)."""
    drawn = resample(cube, CouplingSettings(resamples=RESAMPLES))
    back = np.swapaxes(drawn.leakage, 1, 2)
    percentile_interval(drawn.self_effect, 0.95)
    percentile_interval((drawn.leakage + back) / 2, 0.95)
    percentile_interval(drawn.leakage - back, 0.95)
    return np.stack(percentile_interval(drawn.leakage, 0.95))


def wide_frame(cube: ScoreCube) -> pd.DataFrame:
    """One row per probe, one column per criterion."""
    keys = pd.MultiIndex.from_product(
        [cube.tasks, cube.criteria, ["+", "-"], range(PROBES)], names=["task", "target", "direction", "probe"]
    )
    return pd.DataFrame(cube.p.reshape(-1, CRITERIA), index=keys, columns=list(cube.criteria)).reset_index()


def pandas_loop(frame: pd.DataFrame, cube: ScoreCube, resamples: int) -> FloatArray:
    """As one would write it down: sample within groups, average, loop over tasks and pairs."""
    criteria, strata = list(cube.criteria), ["task", "target", "direction"]
    rows = []
    for seed in range(resamples):
        drawn = frame.groupby(strata).sample(frac=1, replace=True, random_state=seed)
        means = drawn.groupby(strata)[criteria].mean()
        row = {}
        for source in criteria:
            for target in criteria:
                ratios = []
                for task in cube.tasks:
                    plus, minus = means.loc[(task, source, "+")], means.loc[(task, source, "-")]
                    own = plus[source] - minus[source]
                    if own >= GATE:
                        ratios.append((plus[target] - minus[target]) / own)
                row[source, target] = np.mean(ratios)
        for a, b in PAIRS:
            there, back = row[criteria[a], criteria[b]], row[criteria[b], criteria[a]]
            row["sym", a, b], row["asym", a, b] = (there + back) / 2, there - back
        rows.append(row)
    quantiles = pd.DataFrame(rows).quantile([0.025, 0.975]).to_numpy()
    return quantiles[:, : CRITERIA**2].reshape(2, CRITERIA, CRITERIA)


Statistic = Callable[..., FloatArray]


def leakages_of(cube: ScoreCube, sources: Sequence[int]) -> Statistic:
    """A statistic of probe numbers, one argument per stratum (source, task, direction); works on stacked resamples.

    scipy resamples one-dimensional samples, so it is given the numbers of the probes: the scores of a probe on all
    criteria stay together. Returns (len(sources), n, …): leakage, with the self-effect on the diagonal.
    """

    def statistic(*probes: FloatArray, axis: int = -1) -> FloatArray:
        del axis
        rows, drawn = [], iter(probes)
        for source in sources:
            coupling = []
            for t in range(TASKS):
                plus = cube.p[t, source, 0][next(drawn)].mean(axis=-2)
                coupling.append(plus - cube.p[t, source, 1][next(drawn)].mean(axis=-2))
            slices = np.stack(coupling)
            own = slices[..., source]
            ratio = np.nanmean(np.where(own >= GATE, 1 / own, np.nan)[..., None] * slices, axis=0)
            ratio[..., source] = own.mean(axis=0)
            rows.append(np.moveaxis(ratio, -1, 0))
        return np.stack(rows)

    return statistic


def per_quantity() -> list[tuple[list[int], Callable[[FloatArray], FloatArray]]]:
    """(sources that matter, what to take of their leakages) for 5 self-effects, 20 leakages, 10 sym, 10 asym."""
    quantities: list[tuple[list[int], Callable[[FloatArray], FloatArray]]] = []
    quantities += [([i], lambda m, i=i: m[0, i]) for i in range(CRITERIA)]
    quantities += [([i], lambda m, j=j: m[0, j]) for i, j in ORDERED]
    quantities += [([i, j], lambda m, i=i, j=j: (m[0, j] + m[1, i]) / 2) for i, j in PAIRS]
    quantities += [([i, j], lambda m, i=i, j=j: m[0, j] - m[1, i]) for i, j in PAIRS]
    return quantities


def scipy_interval(statistic: Statistic, sources: int, vectorized: bool) -> FloatArray:
    """One call of scipy.stats.bootstrap."""
    found = stats.bootstrap(
        tuple(np.arange(PROBES) for _ in range(sources * TASKS * 2)),
        statistic,
        n_resamples=RESAMPLES,
        vectorized=vectorized,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    return np.stack([found.low, found.high])


def scipy_calls(cube: ScoreCube, vectorized: bool) -> FloatArray:
    """A call per quantity, the way the function is meant to be used; returns the leakage intervals, (2, n, n)."""
    bounds = np.ones((2, CRITERIA, CRITERIA))
    for index, (sources, take) in enumerate(per_quantity()):
        statistic = _composed(take, leakages_of(cube, sources))
        found = scipy_interval(statistic, len(sources), vectorized)
        if CRITERIA <= index < CRITERIA + len(ORDERED):
            bounds[(slice(None), *ORDERED[index - CRITERIA])] = found
    return bounds


def _composed(take: Callable[[FloatArray], FloatArray], whole: Statistic) -> Statistic:
    return lambda *probes, axis=-1: take(whole(*probes, axis=axis))


def scipy_at_once(cube: ScoreCube) -> FloatArray:
    """The strongest use of scipy: one call with a vectorised statistic that returns every quantity."""
    whole = leakages_of(cube, range(CRITERIA))

    def everything(*probes: FloatArray, axis: int = -1) -> FloatArray:
        leakage = whole(*probes, axis=axis)
        back = np.swapaxes(leakage, 0, 1)
        return np.concatenate([leakage, (leakage + back) / 2, leakage - back])

    bounds = scipy_interval(everything, CRITERIA, vectorized=True)[:, :CRITERIA]
    bounds[:, range(CRITERIA), range(CRITERIA)] = 1.0
    return bounds


def timed(work: Callable[[], FloatArray], repeats: int) -> tuple[float, FloatArray]:
    """Shortest wall time in seconds, and the result."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - started)
    return min(times), result


def main() -> None:
    """Time, compare, print."""
    cube = example_cell()
    frame = wide_frame(cube)
    quick, reference = timed(lambda: ours(cube), 7)
    print(f"radar_dagster, all {len(per_quantity())} intervals, {RESAMPLES} resamples: {quick * 1000:.1f} ms")

    seconds, _ = timed(lambda: pandas_loop(frame, cube, SUBSET), 1)
    seconds *= RESAMPLES / SUBSET
    print(f"pandas loop ({SUBSET} resamples, scaled up): {seconds * 1000:,.0f} ms = {seconds / quick:,.0f}×")
    rivals: list[tuple[str, Callable[[], FloatArray], int]] = [
        ("a call per quantity, plain statistic", lambda: scipy_calls(cube, vectorized=False), 1),
        ("a call per quantity, vectorised statistic", lambda: scipy_calls(cube, vectorized=True), 3),
        ("one call for everything, vectorised by hand", lambda: scipy_at_once(cube), 5),
    ]
    for name, work, repeats in rivals:
        seconds, bounds = timed(work, repeats)
        apart = np.abs(bounds - reference).max()
        print(f"scipy, {name}: {seconds * 1000:,.0f} ms = {seconds / quick:,.0f}×, ends at most {apart:.3f} apart")


if __name__ == "__main__":
    main()
