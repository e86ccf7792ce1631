"""How many probes would settle an uncertain pair."""

from __future__ import annotations

import numpy as np
import pytest

from radar_dagster.stats.intervals import Bounds
from radar_dagster.stats.readings import QUANTITIES, find_crossings
from radar_dagster.stats.settings import ReadingThresholds
from radar_dagster.stats.settling import MAX_PROBES, probes_needed, settle

#: The interval comes from the scatter within strata.
WITHIN = np.array([False])


def test_the_width_scales_with_one_over_the_root_of_the_probes() -> None:
    needed = probes_needed(np.array([3.0]), np.array([0.31]), np.array([0.1]))
    assert needed.tolist() == [29.0]
    assert 0.31 * np.sqrt(3 / 29) < 0.1 < 0.31 * np.sqrt(3 / 28)


def test_a_budget_beyond_all_reason_is_not_a_plan() -> None:
    now, reach = np.full(4, 20.0), np.array([0.1, 0.1, np.nan, 0.1])
    needed = probes_needed(now, reach, np.array([0.031, 0.0317, 0.1, 0.0]))
    assert np.isnan(needed[0])
    assert needed[1] <= MAX_PROBES
    assert np.isnan(needed[2:]).all()


def crossings(half_widths: dict[str, float], ab: float, ba: float) -> object:
    values = dict(zip(QUANTITIES, (np.array([v]) for v in ((ab + ba) / 2, abs(ab - ba), ab, ba)), strict=True))
    bounds = {q: Bounds(values[q] - half_widths.get(q, 0.0), values[q] + half_widths.get(q, 0.0)) for q in QUANTITIES}
    return find_crossings(values, bounds, ReadingThresholds())


def test_the_slowest_crossing_is_named() -> None:
    # sym 0.425 needs (0.05/0.025)² = 4 times the probes, asym 0.05 needs (0.3/0.2)² = 2.25 times.
    found = crossings({"sym": 0.05, "asym": 0.3}, 0.45, 0.40)
    (row,) = settle(found, np.array([5.0]), WITHIN)
    assert row.quantity == "sym"
    assert (row.now, row.needed) == (5, 20)
    assert row.other_reading == "separable"


def test_a_value_on_its_threshold_can_not_be_settled() -> None:
    found = crossings({"sym": 0.05, "asym": 0.3}, 0.40, 0.40)
    (row,) = settle(found, np.array([5.0]), WITHIN)
    assert row.quantity == "sym"
    assert row.needed is None


def test_without_an_interval_the_nearest_threshold_is_named() -> None:
    found = crossings(dict.fromkeys(QUANTITIES, float("nan")), 0.5, 0.5)
    (row,) = settle(found, np.array([1.0]), WITHIN)
    assert (row.quantity, row.threshold) == ("sym", 0.40)
    assert row.needed is None


def test_nothing_is_forecast_from_an_interval_over_tasks_or_from_fewer_than_three_probes() -> None:
    found = crossings({"sym": 0.05, "asym": 0.3}, 0.45, 0.40)
    for now, over_tasks, forecast in ((5.0, True, False), (1.0, True, False), (2.0, False, False), (3.0, False, True)):
        (row,) = settle(found, np.array([now]), np.array([over_tasks]))
        assert (row.needed is not None) == forecast
        assert row.quantity == "sym"


def test_a_certain_pair_has_no_row() -> None:
    assert settle(crossings({"sym": 0.01}, 0.9, 0.9), np.array([5.0]), WITHIN) == []


def test_enough_probes_really_settle_the_pair() -> None:
    found = crossings({"sym": 0.05}, 0.46, 0.42)
    (row,) = settle(found, np.array([5.0]), WITHIN)
    assert row.needed is not None
    assert settle(crossings({"sym": 0.05 * np.sqrt(5 / row.needed)}, 0.46, 0.42), np.array([5.0]), WITHIN) == []
    assert settle(crossings({"sym": 0.05 * np.sqrt(5 / (row.needed - 1))}, 0.46, 0.42), np.array([5.0]), WITHIN) != []
    assert row.needed == pytest.approx(5 * (0.05 / 0.04) ** 2, abs=1)
