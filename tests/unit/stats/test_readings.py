"""Readings of pairs and whether sampling error could change them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radar_dagster.stats.intervals import Bounds
from radar_dagster.stats.readings import QUANTITIES, find_crossings, read_pairs, task_sensitive
from radar_dagster.stats.settings import Reading, ReadingThresholds

DEFAULTS = ReadingThresholds()


def read(ab: float, ba: float, thresholds: ReadingThresholds = DEFAULTS) -> tuple[str, str | None]:
    found = read_pairs((ab + ba) / 2, abs(ab - ba), ab, ba, thresholds)
    return str(found.reading), found.upstream[()]


@pytest.mark.parametrize(
    ("ab", "ba", "expected"),
    [
        (0.9, 0.8, ("cluster", None)),
        (0.40, 0.40, ("cluster", None)),
        (0.5, 0.26, ("separable", None)),  # sym 0.38, asym 0.24: one direction is high, but they agree
        (0.8, 0.1, ("directional", "a")),
        (0.1, 0.8, ("directional", "b")),
        (0.65, 0.40, ("directional", "a")),  # asym exactly 0.25
        (0.39, 0.10, ("separable", None)),
        (0.1, 0.0, ("separable", None)),
        (-0.15, -0.15, ("tradeoff", None)),
        (0.9, -0.2, ("tradeoff", None)),  # one direction suffices, and comes before directional
        (-0.19, 0.0, ("separable", None)),
        (np.nan, 0.9, ("unreliable", None)),
    ],
)
def test_each_rule_at_and_beside_its_threshold(ab: float, ba: float, expected: tuple[str, str | None]) -> None:
    assert read(ab, ba) == expected


def test_thresholds_come_from_the_configuration() -> None:
    strict = ReadingThresholds(cluster_sym=0.1, asymmetry=0.5)
    assert read(0.4, 0.1, strict)[0] == "cluster"


def test_task_sensitivity_needs_spread_and_a_leakage_that_matters() -> None:
    leakage = np.array([0.2, -0.5, 0.19, 0.9, np.nan])
    sigma = np.array([0.3, 0.31, 0.9, 0.29, np.nan])
    assert task_sensitive(leakage, sigma, DEFAULTS).tolist() == [True, True, False, False, False]


numbers = st.floats(-1.5, 1.5)


def reading_of(values: dict[str, np.ndarray]) -> str:
    return read_pairs(*(values[q] for q in QUANTITIES), DEFAULTS).reading[0]


def with_bounds(ab: float, ba: float, widths: list[float]) -> tuple[dict[str, np.ndarray], dict[str, Bounds]]:
    values = dict(zip(QUANTITIES, ((ab + ba) / 2, abs(ab - ba), ab, ba), strict=True))
    arrays = {name: np.array([value]) for name, value in values.items()}
    bounds = {
        name: Bounds(arrays[name] - low, arrays[name] + high)
        for name, low, high in zip(QUANTITIES, widths[:4], widths[4:], strict=True)
    }
    return arrays, bounds


@given(numbers, numbers, st.lists(st.floats(0, 1), min_size=8, max_size=8))
def test_a_pair_is_uncertain_when_moving_one_quantity_to_an_end_of_its_interval_changes_the_reading(
    ab: float, ba: float, widths: list[float]
) -> None:
    values, bounds = with_bounds(ab, ba, widths)
    crossings = find_crossings(values, bounds, DEFAULTS)
    base = reading_of(values)
    others = {reading_of({**values, name: end}) for name in QUANTITIES for end in bounds[name]} - {base}
    found = set(crossings.other[crossings.possible])
    assert others <= found
    assert base not in found


@given(numbers, numbers, st.lists(st.floats(0, 0.6), min_size=8, max_size=8))
def test_no_reading_is_called_possible_that_the_intervals_exclude(ab: float, ba: float, widths: list[float]) -> None:
    values, bounds = with_bounds(ab, ba, widths)
    crossings = find_crossings(values, bounds, DEFAULTS)
    beside = [t + e for t in (-0.2, -0.15, 0.25, 0.4) for e in (-1e-6, 0.0, 1e-6)]
    places = []
    for name in QUANTITIES:
        low, high = (float(end[0]) for end in bounds[name])
        inside = [place for place in beside if low - 1e-5 <= place <= high + 1e-5]
        places.append([float(values[name][0]), low, high, *inside])
    grid = np.array(list(itertools.product(*places))).T
    assert set(crossings.other[crossings.possible]) <= set(read_pairs(*grid, DEFAULTS).reading)


def test_a_tradeoff_that_rests_on_two_numbers_is_uncertain_when_both_could_recover() -> None:
    """sym −0.16 and ℓ_ab −0.30: either alone keeps the tradeoff."""
    both = find_crossings(*with_bounds(-0.30, -0.02, [0, 0, 0, 0, 0.05, 0, 0.15, 0]), DEFAULTS)
    assert set(both.other[both.possible]) == {"separable"}
    # The narrower excess decides when more probes would rule the recovery out.
    assert set(both.quantity[both.possible]) == {"leakage_ab"}
    for widths in ([0, 0, 0, 0, 0.05, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0.15, 0]):
        assert not find_crossings(*with_bounds(-0.30, -0.02, widths), DEFAULTS).uncertain[0]


def test_a_directional_pair_could_be_a_cluster_when_it_is_both_stronger_and_more_even() -> None:
    """sym 0.38 and asym 0.27 become sym 0.40 and asym 0.24 together."""
    found = find_crossings(*with_bounds(0.515, 0.245, [0, 0.04, 0, 0, 0.03, 0, 0, 0]), DEFAULTS)
    assert set(found.other[found.possible]) == {"separable", "cluster"}


def test_the_other_reading_and_the_distance_belong_to_the_crossed_threshold() -> None:
    values, bounds = with_bounds(0.38, 0.36, [0.05, 0.0, 0.0, 0.0, 0.05, 0.0, 0.0, 0.0])
    crossings = find_crossings(values, bounds, DEFAULTS)
    row = np.flatnonzero(crossings.possible[:, 0])[0]
    assert set(crossings.quantity[crossings.possible]) == {"sym"}
    assert (crossings.quantity[row, 0], crossings.threshold[row, 0]) == ("sym", 0.40)
    assert crossings.other[row, 0] == Reading.CLUSTER.value
    assert crossings.distance[row, 0] == pytest.approx(0.03)
    assert crossings.reach[row, 0] == pytest.approx(0.05)


def test_an_interval_that_ends_at_a_threshold_it_would_have_to_fall_below_is_certain() -> None:
    values, bounds = with_bounds(0.45, 0.45, [0.05, *[0.0] * 7])
    assert not find_crossings(values, bounds, DEFAULTS).uncertain[0]


def test_without_intervals_everything_within_one_crossing_is_possible() -> None:
    values, bounds = with_bounds(0.9, 0.9, [np.nan] * 8)
    crossings = find_crossings(values, bounds, DEFAULTS)
    assert set(crossings.other[crossings.possible]) == {"tradeoff", "separable", "directional"}


def test_an_unreliable_pair_is_not_called_uncertain() -> None:
    values, bounds = with_bounds(np.nan, 0.9, [np.nan] * 8)
    assert not find_crossings(values, bounds, DEFAULTS).uncertain[0]
