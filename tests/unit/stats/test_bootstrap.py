"""The vectorised bootstrap against a plain loop and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from radar_dagster.stats import bootstrap
from radar_dagster.stats.bootstrap import percentile_interval, resample
from radar_dagster.stats.cell import FloatArray, IntArray, ScoreCube
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.stats.settings import CouplingSettings, Estimator

LEAKAGE = np.array([[1.0, 0.7, -0.2], [0.4, 1.0, 0.1], [0.9, 0.0, 1.0]])


def planted(probes: int = 4, *, effects: tuple[float, ...] = (0.9, 0.8, 0.45), **kwargs: float) -> ScoreCube:
    rng = np.random.default_rng(5)
    means = latent_means(LEAKAGE, np.array(effects))
    return draw_cube(means, noise=0.2, tasks=3, probes=probes, rng=rng, **kwargs)  # type: ignore[arg-type]


def unbalanced() -> ScoreCube:
    cube = planted(failure_rate=0.15)
    probes = cube.probes.copy()
    probes[0, 0, 0], probes[1, 2, 1] = 2, 1
    p = np.where((np.arange(4) < probes[..., None])[..., None], cube.p, np.nan)
    return ScoreCube(cube.tasks, cube.criteria, p, probes)


def loop(cube: ScoreCube, drawn: list[list[list[list[IntArray]]]], gate: float, pooled: bool) -> FloatArray:
    """Leakage of one resample, written as the formulas are: drawn[t][i][d] are the numbers of the drawn probes."""
    n, T = len(cube.criteria), len(cube.tasks)
    result = np.full((n, n), np.nan)
    for i in range(n):
        coupling = np.empty((T, n))
        for t in range(T):
            side = [cube.p[t, i, d][drawn[t][i][d]] for d in (0, 1)]
            for j in range(n):
                plus, minus = (scores[:, j][~np.isnan(scores[:, j])] for scores in side)
                coupling[t, j] = plus.mean() - minus.mean() if len(plus) and len(minus) else np.nan
        own = coupling[:, i]
        defined = own[~np.isnan(own)]
        passed = [t for t in range(T) if own[t] >= gate - 1e-9]
        if not len(defined) or defined.mean() < gate - 1e-9 or 2 * len(passed) < T:
            continue
        for j in range(n):
            slices = [t for t in (range(T) if pooled else passed) if not np.isnan(coupling[t, j] + own[t])]
            if 2 * len(slices) < T:
                continue
            if pooled:
                result[i, j] = coupling[slices, j].sum() / own[slices].sum()
            else:
                result[i, j] = np.mean([coupling[t, j] / own[t] for t in slices])
    return result


@pytest.mark.parametrize("estimator", list(Estimator))
@pytest.mark.parametrize("cube", [planted(), unbalanced(), planted(1)], ids=["full", "unbalanced", "one probe"])
def test_every_resample_is_what_a_plain_loop_makes_of_the_same_draws(cube: ScoreCube, estimator: Estimator) -> None:
    settings = CouplingSettings(resamples=100, estimator=estimator)
    found = resample(cube, settings)
    weights = bootstrap._draw_weights(cube, np.arange(3), 100, settings.seed).astype(int)
    for b in range(0, 100, 9):
        drawn = [
            [[np.repeat(np.arange(weights.shape[-1]), weights[t, i, d, b]) for d in (0, 1)] for i in range(3)]
            for t in range(3)
        ]
        expected = loop(cube, drawn, settings.gate, estimator is Estimator.POOLED)
        np.testing.assert_allclose(found.leakage[b], expected, atol=1e-9)
        np.testing.assert_array_equal(found.reliable[b], np.isfinite(np.diag(expected)))


def test_each_stratum_draws_exactly_as_many_probes_as_it_has() -> None:
    cube = unbalanced()
    weights = bootstrap._draw_weights(cube, np.arange(3), 200, 1)
    np.testing.assert_array_equal(weights.sum(axis=-1), np.broadcast_to(cube.probes[..., None], (3, 3, 2, 200)))
    assert (weights[0, 0, 0, :, 2:] == 0).all()


def test_every_probe_is_drawn_equally_often() -> None:
    weights = bootstrap._draw_weights(planted(5), np.arange(3), 4000, 1)
    np.testing.assert_allclose(weights.mean(axis=3), 1.0, atol=0.08)
    np.testing.assert_allclose(weights.var(axis=3), 0.8, atol=0.12)


def test_percentile_intervals_agree_with_scipy() -> None:
    cube = planted(12, effects=(0.9, 0.8, 0.8))
    low, high = percentile_interval(resample(cube, CouplingSettings(resamples=6000)).leakage, 0.95)

    def leakage_01(*probes: IntArray, axis: int = -1) -> FloatArray:
        del axis
        means = [cube.p[k // 2, 0, k % 2][numbers].mean(axis=-2) for k, numbers in enumerate(probes)]
        slices = [means[k] - means[k + 1] for k in (0, 2, 4)]
        return np.mean([s[..., 1] / s[..., 0] for s in slices], axis=0)

    expected = stats.bootstrap(
        tuple(np.arange(12) for _ in range(6)),
        leakage_01,
        n_resamples=6000,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert (low[0, 1], high[0, 1]) == pytest.approx((expected.low, expected.high), abs=0.012)


def test_the_gate_is_applied_in_every_resample() -> None:
    found = resample(planted(3), CouplingSettings(resamples=400))
    assert found.gate_pass_rate[0] == 1.0
    assert 0.1 < found.gate_pass_rate[2] < 1.0
    failed = ~found.reliable[:, 2]
    assert np.isnan(found.leakage[failed, 2]).all()
    assert np.isfinite(found.leakage[~failed, 2]).all()
    assert np.isfinite(found.self_effect).all()


def test_the_same_seed_gives_the_same_resamples_and_another_seed_others() -> None:
    cube = planted()
    first, second, other = (resample(cube, CouplingSettings(resamples=100, seed=s)).leakage for s in (4, 4, 5))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_another_criterion_or_another_order_does_not_change_the_draws() -> None:
    cube = planted()
    order = [2, 0, 1]
    turned = ScoreCube(
        cube.tasks, tuple(cube.criteria[k] for k in order), cube.p[:, order][..., order], cube.probes[:, order]
    )
    settings = CouplingSettings(resamples=100)
    np.testing.assert_array_equal(
        resample(turned, settings).leakage, resample(cube, settings).leakage[:, order][:, :, order]
    )


def test_blocks_of_targets_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = resample(unbalanced(), CouplingSettings(resamples=100)).leakage
    monkeypatch.setattr(bootstrap, "_BLOCK_BYTES", 1)
    np.testing.assert_array_equal(resample(unbalanced(), CouplingSettings(resamples=100)).leakage, whole)


def test_quantiles_skip_missing_resamples_like_numpy_does() -> None:
    values = np.random.default_rng(0).random((300, 4))
    values[values < 0.3] = np.nan
    low, high = percentile_interval(values, 0.9)
    np.testing.assert_allclose(low, np.nanquantile(values, 0.05, axis=0))
    np.testing.assert_allclose(high, np.nanquantile(values, 0.95, axis=0))


def test_too_few_usable_resamples_give_no_interval() -> None:
    values = np.full((500, 2), np.nan)
    values[:49, 0], values[:50, 1] = np.arange(49), np.arange(50)
    low, high = percentile_interval(values, 0.95)
    assert np.isnan([low[0], high[0]]).all()
    assert np.isfinite([low[1], high[1]]).all()
