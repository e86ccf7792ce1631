"""Why watching is not enough: the same passive correlation with and without coupling, and coupling without any."""

from __future__ import annotations

import numpy as np
import pytest

from radar_dagster.stats.audit import analyse_cube
from radar_dagster.stats.passive import rrd, synthetic_correlation
from radar_dagster.stats.planted import discretise, draw_cube, latent_means
from radar_dagster.stats.settings import CouplingSettings

NOISE, RESPONSES = 0.1, 2000
UNCOUPLED = np.eye(2)
COUPLED = np.array([[1.0, 0.8], [0.0, 1.0]])


def passive_scores(leakage: np.ndarray, spread: tuple[float, float], common_cause: float = 0.0) -> np.ndarray:
    """Scores of responses that nobody pushed: their own variation leaks like any other."""
    rng = np.random.default_rng(20)
    own, common = rng.standard_normal((RESPONSES, 2)), rng.standard_normal((RESPONSES, 1))
    deviations = np.array(spread) * (np.sqrt(common_cause) * common + np.sqrt(1 - common_cause) * own)
    levels = np.clip(0.5 + deviations @ leakage, 0, 1)
    return discretise(levels + NOISE * rng.standard_normal(levels.shape), 5) / 4


def reading(leakage: np.ndarray) -> str:
    """What the audit by intervention says of the one pair."""
    means = latent_means(leakage, np.full(2, 0.7))
    cube = draw_cube(means, noise=NOISE, tasks=5, probes=5, rng=np.random.default_rng(21))
    return str(analyse_cube(cube, CouplingSettings()).criterion_pairs["reading"].item())


def correlation(p: np.ndarray) -> float:
    return float(synthetic_correlation(p).values[0, 1])


def test_a_common_cause_correlates_criteria_that_do_not_move_each_other() -> None:
    p = passive_scores(UNCOUPLED, (0.25, 0.25), common_cause=0.8)
    # 0.8 of the variance 0.25² is shared; noise 0.1² and rounding to steps of 1/4 (1/192) dilute it, to 0.64.
    assert correlation(p) == pytest.approx(0.8 * 0.25**2 / (0.25**2 + NOISE**2 + 1 / 192), abs=0.05)
    assert rrd(p).redundancy.values[0, 1] > 0.3
    assert reading(UNCOUPLED) == "separable"


def test_a_coupling_shows_in_no_correlation_where_its_source_hardly_varies() -> None:
    p = passive_scores(COUPLED, (0.02, 0.25))
    assert abs(correlation(p)) < 3 / np.sqrt(RESPONSES) + 0.05  # a rest of 0.8·0.02² of covariance is there
    assert abs(rrd(p).redundancy.values[0, 1]) < 0.1
    assert reading(COUPLED) == "directional"


def test_the_same_correlation_comes_with_and_without_coupling() -> None:
    cause = passive_scores(UNCOUPLED, (0.25, 0.25), common_cause=0.8)
    coupling = passive_scores(COUPLED, (0.25, 0.15))
    assert correlation(coupling) == pytest.approx(correlation(cause), abs=0.06)
    assert rrd(coupling).redundancy.values[0, 1] == pytest.approx(rrd(cause).redundancy.values[0, 1], abs=0.06)
    assert (reading(UNCOUPLED), reading(COUPLED)) == ("separable", "directional")


def test_a_criterion_that_never_varies_hides_its_coupling_altogether_and_says_so() -> None:
    p = passive_scores(COUPLED, (0.0, 0.25))
    p[:, 0] = 1.0  # as by a generator that is always at the top
    assert synthetic_correlation(p).reasons[0][1] == "constant"
    assert rrd(p).weight_reasons == ("constant", "too_few")
