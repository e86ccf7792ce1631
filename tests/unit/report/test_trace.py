"""The rows of a trace give its value again, to the last bit and by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_cells import LEAKAGE, SELF_EFFECTS, make_cell

from radar_dagster.config import AuditSection
from radar_dagster.errors import BadInputError
from radar_dagster.report.data import ReportData
from radar_dagster.report.trace import LeakageTrace, recompute, trace_leakage
from radar_dagster.stats.settings import CouplingSettings, Estimator


def trace(cell: ReportData, source: str, target: str) -> LeakageTrace:
    return trace_leakage(cell.tables, cell.settings.coupling, source, target)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    n=st.integers(2, 5),
    tasks=st.integers(1, 9),
    probes=st.integers(1, 10),
    failure_rate=st.sampled_from([0.0, 0.1, 0.4]),
    estimator=st.sampled_from(list(Estimator)),
    seed=st.integers(0, 10_000),
)
def test_the_rows_of_a_trace_recompute_its_value_to_the_last_bit(
    *, n: int, tasks: int, probes: int, failure_rate: float, estimator: Estimator, seed: int
) -> None:
    cell = make_cell(
        LEAKAGE[:n, :n],
        np.array([0.8, 0.5, 0.45, 0.8, 0.2])[:n],
        "ABCDE"[:n],
        tasks=tasks,
        probes=probes,
        noise=0.2,
        failure_rate=failure_rate,
        seed=seed,
        settings=AuditSection(probes=probes, coupling=CouplingSettings(estimator=estimator, resamples=100)),
    )
    for source, target in cell.leaks:
        traced = trace(cell, source, target)
        assert traced.leakage == cell.leaks[source, target].leakage
        assert recompute(traced) == traced.leakage


def by_hand(traced: LeakageTrace) -> float:
    """The mean of tasks, written out: mean over + less mean over −, per task, divided, averaged."""
    leakages = []
    for task in [one.task for one in traced.slices]:
        moved = {}
        for name in ("on_source", "on_target"):
            sides = {
                direction: [
                    getattr(probe, name).p
                    for probe in traced.probes
                    if probe.task == task and probe.direction == direction and getattr(probe, name).p is not None
                ]
                for direction in "+-"
            }
            moved[name] = np.mean(sides["+"]) - np.mean(sides["-"])
        if moved["on_source"] >= traced.gate - 1e-9:
            leakages.append(moved["on_target"] / moved["on_source"])
    return float(np.mean(leakages))


def test_the_rows_give_the_value_by_hand_too() -> None:
    cell = make_cell(noise=0.2, failure_rate=0.1)
    for source, target in [("c0", "c1"), ("c2", "c0"), ("c3", "c2")]:
        assert trace(cell, source, target).leakage == pytest.approx(by_hand(trace(cell, source, target)))


def test_the_slices_hold_the_means_counts_and_ratios_that_lead_to_the_value() -> None:
    traced = trace(make_cell(noise=0.2, failure_rate=0.1), "c0", "c1")
    assert len(traced.slices) == 3
    for one in traced.slices:
        assert one.self_effect == pytest.approx(one.source_plus - one.source_minus)
        assert one.gen_coupling == pytest.approx(one.target_plus - one.target_minus)
        assert one.leakage == pytest.approx(one.gen_coupling / one.self_effect)
        rows = [probe for probe in traced.probes if probe.task == one.task and probe.direction == "+"]
        assert one.target_n[0] == sum(probe.on_target.p is not None for probe in rows)
    assert traced.leakage == pytest.approx(np.mean([one.leakage for one in traced.slices]))


@pytest.mark.parametrize("estimator", list(Estimator))
def test_influence_is_the_derivative_of_the_value_along_each_probe(estimator: Estimator) -> None:
    coupling = CouplingSettings(estimator=estimator, resamples=100)
    cell = make_cell(noise=0.2, failure_rate=0.1, settings=AuditSection(probes=4, coupling=coupling))
    traced = trace(cell, "c0", "c1")
    step = 1e-6
    for probe in traced.probes:
        one = next(one for one in traced.slices if one.task == probe.task)
        plus = probe.direction == "+"
        means = (one.source_plus, one.target_plus) if plus else (one.source_minus, one.target_minus)
        nudged = probe
        for name, mean in zip(("on_source", "on_target"), means, strict=True):
            score = getattr(probe, name)
            if score.p is not None:
                # A step from the probe's score towards its stratum's mean.
                nudged = replace(nudged, **{name: replace(score, p=score.p + step * (mean - score.p))})
        moved = recompute(replace(traced, probes=tuple(nudged if p is probe else p for p in traced.probes)))
        assert (traced.leakage - moved) / step == pytest.approx(probe.influence, abs=1e-4)


def test_probes_that_pull_hardest_come_first_and_pulls_cancel_out() -> None:
    traced = trace(make_cell(noise=0.2), "c0", "c1")
    pulls = [probe.influence for probe in traced.probes]
    assert [abs(pull) for pull in pulls] == sorted((abs(pull) for pull in pulls), reverse=True)
    assert sum(pulls) == pytest.approx(0.0, abs=1e-12)


def test_an_unreliable_source_has_a_reason_probes_and_no_value() -> None:
    traced = trace(make_cell(), "c4", "c0")
    assert (traced.leakage, traced.reliable, traced.reason) == (None, False, "weak")
    assert recompute(traced) is None
    assert len(traced.probes) == 3 * 2 * 4
    assert all(probe.influence is None for probe in traced.probes)


def test_a_probe_in_a_slice_below_the_gate_has_no_influence() -> None:
    cell = make_cell(self_effects=np.array([0.5, *SELF_EFFECTS[1:]]), noise=0.25, tasks=6, probes=2)
    traced = trace(cell, "c0", "c1")
    assert traced.leakage is not None
    failed = {one.task for one in traced.slices if not one.passed}
    assert failed, "the seed must give a slice below the gate"
    assert {probe.task for probe in traced.probes if probe.influence is None} == failed


def test_a_trace_is_plain_json() -> None:
    document = trace(make_cell(failure_rate=0.2), "c0", "c1").to_json_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["probes"][0]["on_target"]["criterion"] == "c1"
    lost = [p for p in document["probes"] if p["on_target"]["state"] == "parse_error"]
    assert lost
    assert lost[0]["on_target"]["p"] is None
    assert lost[0]["on_target"]["detail"]


def test_an_unknown_criterion_and_a_criterion_into_itself_are_refused() -> None:
    cell = make_cell()
    with pytest.raises(BadInputError, match="no criterion 'c9'; there are c0, c1"):
        trace(cell, "c0", "c9")
    with pytest.raises(BadInputError, match="1 by definition"):
        trace(cell, "c0", "c0")
