"""The policy's answer, rule by rule, on tables that come out of planted cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from radar_dagster.stats.audit import CouplingTables, analyse_cube
from radar_dagster.stats.cell import scores_from_cube
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.stats.settings import CouplingSettings, Policy, Reading, ReadingThresholds
from radar_dagster.stats.verdict import decide

NAMES = ("clarity", "depth", "tone")


def cell(
    *, ab: float, ba: float, effects: tuple[float, ...] = (0.9, 0.9, 0.9), probes: int = 20, noise: float = 0.1
) -> tuple[CouplingTables, pd.DataFrame]:
    """Clarity and depth leak as told, tone is on its own; all scores are ok."""
    leakage = np.array([[1.0, ab, 0.0], [ba, 1.0, 0.0], [0.0, 0.0, 1.0]])
    means = latent_means(leakage, np.array(effects))
    cube = replace(draw_cube(means, noise=noise, tasks=5, probes=probes, rng=np.random.default_rng(3)), criteria=NAMES)
    scores = scores_from_cube(cube).assign(state="ok")
    return analyse_cube(cube, CouplingSettings()), scores


def without(scores: pd.DataFrame, criterion: str, direction: str, share: float) -> pd.DataFrame:
    """Let the first `share` of the judgements on a criterion and direction be refused."""
    where = scores.index[(scores["criterion"] == criterion) & (scores["direction"] == direction)]
    changed = scores.copy()
    changed.loc[where[: round(share * len(where))], "state"] = "refused"
    return changed


def test_independent_criteria_pass() -> None:
    verdict = decide(*cell(ab=0.0, ba=0.0), Policy())
    assert (verdict.verdict, verdict.exit_code) == ("passed", 0)
    assert "No pair of criteria is counted twice or pulling against each other" in verdict.reasons[0]


def test_a_certain_cluster_violates_and_names_the_pair() -> None:
    verdict = decide(*cell(ab=0.9, ba=0.9), Policy())
    assert (verdict.verdict, verdict.exit_code) == ("violated", 1)
    assert verdict.reasons[0].startswith("clarity and depth are counted twice")


def test_a_certain_tradeoff_violates() -> None:
    verdict = decide(*cell(ab=-0.7, ba=-0.7), Policy())
    assert verdict.verdict == "violated"
    assert verdict.reasons[0].startswith("clarity and depth pull against each other")


def test_a_direction_is_reported_and_passes_unless_the_policy_fails_on_it() -> None:
    made = cell(ab=0.9, ba=0.0)
    passed = decide(*made, Policy())
    assert passed.verdict == "passed"
    sentence = "In one pair one criterion rides on the other; this policy does not count that."
    assert sentence in passed.reasons
    accepted = decide(*made, Policy(accepted_pairs=(("clarity", "depth"),)))
    assert sentence not in accepted.reasons
    strict = decide(*made, Policy(fail_on=(Reading.DIRECTIONAL,)))
    assert strict.verdict == "violated"
    assert strict.reasons[0].startswith("depth rides on clarity")


@pytest.mark.parametrize("pair", [("clarity", "depth"), ("depth", "clarity")])
def test_an_accepted_pair_passes_in_either_order_and_is_still_mentioned(pair: tuple[str, str]) -> None:
    verdict = decide(*cell(ab=0.9, ba=0.9), Policy(accepted_pairs=(pair,)))
    assert verdict.verdict == "passed"
    assert any(reason.startswith("Accepted by the policy: clarity and depth") for reason in verdict.reasons)


def test_an_accepted_pair_that_names_no_criterion_is_reported() -> None:
    verdict = decide(*cell(ab=0.0, ba=0.0), Policy(accepted_pairs=(("clarity", "deepness"),)))
    assert verdict.verdict == "passed"
    assert any("clarity / deepness" in reason and "clarity, depth, tone" in reason for reason in verdict.reasons)


def test_too_few_scores_overall_are_inconclusive_whatever_else() -> None:
    tables, scores = cell(ab=0.9, ba=0.9)
    verdict = decide(tables, without(scores, "tone", "+", 0.2), Policy(min_ok_share_per_direction=0.5))
    assert (verdict.verdict, verdict.exit_code) == ("inconclusive", 3)
    assert "96.6% of the judgements have a score; the policy asks for 98%" in verdict.reasons[0]
    assert "60 refused" in verdict.reasons[0]
    assert any("counted twice" in reason for reason in verdict.reasons)


def test_too_few_scores_in_one_direction_are_inconclusive() -> None:
    tables, scores = cell(ab=0.0, ba=0.0)
    verdict = decide(tables, without(scores, "tone", "-", 0.11), Policy())
    assert verdict.verdict == "inconclusive"
    assert "tone" in verdict.reasons[0]
    assert "lower" in verdict.reasons[0]
    assert decide(tables, without(scores, "tone", "-", 0.10), Policy()).verdict == "passed"


def test_no_judgements_are_inconclusive() -> None:
    tables, scores = cell(ab=0.0, ba=0.0)
    assert decide(tables, scores.head(0), Policy()).verdict == "inconclusive"


def test_a_criterion_under_the_gate_is_inconclusive_or_only_reported_as_the_policy_says() -> None:
    made = cell(ab=0.0, ba=0.0, effects=(0.9, 0.9, 0.1))
    verdict = decide(*made, Policy())
    assert verdict.verdict == "inconclusive"
    assert "what tone moves" in verdict.reasons[0]
    lenient = decide(*made, Policy(unreliable_is_inconclusive=False))
    assert lenient.verdict == "passed"
    assert any("what tone moves" in reason for reason in lenient.reasons)


def test_a_violation_stands_although_another_criterion_could_not_be_measured() -> None:
    verdict = decide(*cell(ab=0.9, ba=0.9, effects=(0.9, 0.9, 0.1)), Policy())
    assert verdict.verdict == "violated"
    assert any("what tone moves" in reason for reason in verdict.reasons)


def test_fewer_than_two_reliable_criteria_are_always_inconclusive() -> None:
    made = cell(ab=0.0, ba=0.0, effects=(0.9, 0.1, 0.1))
    lenient = Policy(unreliable_is_inconclusive=False, uncertain_is_inconclusive=False, fail_on=())
    verdict = decide(*made, lenient)
    assert verdict.verdict == "inconclusive"
    assert verdict.reasons[0].startswith("Only 1 of 3 criteria")


def test_an_uncertain_cluster_is_inconclusive_not_violated() -> None:
    tables, scores = cell(ab=0.5, ba=0.5, probes=2, noise=0.3)
    pair = tables.criterion_pairs.iloc[0]
    assert pair["uncertain"]
    verdict = decide(tables, scores, Policy())
    assert verdict.verdict == "inconclusive"
    assert "could also be" in verdict.reasons[0]
    lenient = decide(tables, scores, Policy(uncertain_is_inconclusive=False))
    assert lenient.verdict == "passed"
    assert "certain to be" in lenient.reasons[0]


def test_a_pair_that_could_turn_into_a_violation_is_inconclusive_whichever_threshold_is_the_slowest() -> None:
    """Directional now; a smaller asymmetry would make it a cluster."""
    tables, scores = cell(ab=0.95, ba=0.45, probes=3, noise=0.2)
    pair = tables.criterion_pairs.iloc[0]
    assert (pair["reading"], pair["uncertain"]) == ("directional", True)
    verdict = decide(tables, scores, Policy(fail_on=(Reading.CLUSTER,)))
    assert verdict.verdict == "inconclusive"
    assert "could also be counted twice" in verdict.reasons[0]


def test_an_uncertain_pair_that_can_not_become_a_violation_does_not_matter() -> None:
    tables, scores = cell(ab=0.42, ba=0.0, probes=10)
    pair = tables.criterion_pairs.iloc[0]
    assert (pair["reading"], pair["uncertain"]) in {("directional", True), ("separable", True)}
    assert decide(tables, scores, Policy(fail_on=(Reading.CLUSTER, Reading.TRADEOFF))).verdict == "passed"
    assert decide(tables, scores, Policy(fail_on=(Reading.DIRECTIONAL,))).verdict == "inconclusive"


def test_thresholds_other_than_those_of_the_tables_are_an_error() -> None:
    tables, scores = cell(ab=0.9, ba=0.9)
    with pytest.raises(ValueError, match=r"clarity / depth is listed as cluster.*thresholds"):
        decide(tables, scores, Policy(), ReadingThresholds(cluster_sym=0.99))


def test_tables_that_went_through_storage_give_the_same_verdict() -> None:
    """The lake hands tables back with its own types for missing values."""
    tables, scores = cell(ab=0.9, ba=0.9, effects=(0.9, 0.9, 0.1))
    stored = CouplingTables(**{name: frame.convert_dtypes() for name, frame in vars(tables).items()})
    assert decide(stored, scores.convert_dtypes(), Policy()) == decide(tables, scores, Policy())


def test_reasons_are_sentences() -> None:
    for verdict in (
        decide(
            *cell(ab=0.9, ba=0.0, effects=(0.9, 0.9, 0.1)), Policy(fail_on=tuple(set(Reading) - {Reading.UNRELIABLE}))
        ),
        decide(*cell(ab=0.5, ba=0.5, probes=2, noise=0.3), Policy()),
        decide(*cell(ab=0.0, ba=0.0), Policy(fail_on=())),
    ):
        assert verdict.reasons
        for reason in verdict.reasons:
            assert reason[0].isupper() or reason.split()[0] in NAMES
            assert reason.endswith(".")
            assert "nan" not in reason
