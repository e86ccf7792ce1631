"""The probes shown for a pair are those with the widest contrast, found here by trying all of them."""

import itertools

import numpy as np
import pytest
from made_cells import make_cell

from radar_dagster.report.data import ReportData
from radar_dagster.report.evidence import (
    PAIRS_WITH_EVIDENCE,
    TASKS_PER_DIRECTION,
    Evidence,
    Exhibit,
    pairs_with_evidence,
)


def brute_force(cell: ReportData, source: str, target: str) -> list[tuple[str, float]]:
    """(task, contrast) of the best + and − probes per task, by going through all of their combinations."""
    sign = cell.leaks[source, target].sign
    scores = cell.tables["scores"]
    best = []
    for task in [task.id for task in cell.rubric.tasks]:
        of_task = scores[(scores["target"] == source) & (scores["criterion"] == target) & (scores["task"] == task)]
        sides = [of_task[of_task["direction"] == direction]["p"].dropna() for direction in "+-"]
        contrasts = [sign * (plus - minus) for plus, minus in itertools.product(*sides)]
        if contrasts:
            best.append((task, max(contrasts)))
    return sorted(best, key=lambda item: -item[1])[:TASKS_PER_DIRECTION]


def contrast(exhibit: Exhibit, sign: int) -> float:
    assert exhibit.plus.on_target.p is not None
    assert exhibit.minus.on_target.p is not None
    return sign * (exhibit.plus.on_target.p - exhibit.minus.on_target.p)


@pytest.mark.parametrize("seed", range(4))
def test_the_probes_shown_have_the_widest_contrast_of_all_in_the_direction_of_the_coupling(seed: int) -> None:
    cell = make_cell(noise=0.25, failure_rate=0.1, seed=seed)
    evidence = Evidence(cell)
    for (source, target), leak in cell.leaks.items():
        shown = evidence.exhibits(source, target)
        expected = brute_force(cell, source, target)
        assert [contrast(exhibit, leak.sign) for exhibit in shown] == pytest.approx([value for _, value in expected])
        for exhibit in shown:
            assert exhibit.plus.task == exhibit.minus.task == exhibit.task
            assert (exhibit.plus.direction, exhibit.minus.direction) == ("+", "-")
            assert exhibit.plus.on_target.state == "ok"


def test_a_probe_shows_its_own_text_scores_rationales_and_calls() -> None:
    cell = make_cell()
    cell.tables["probes"]["detail"] = "moved " + cell.tables["probes"]["probe"]
    exhibit = Evidence(cell).exhibits("c0", "c1")[0]
    assert exhibit.plus.detail == f"moved {exhibit.plus.probe}"
    row = cell.tables["probes"].set_index("probe").loc[exhibit.plus.probe]
    judged = cell.tables["scores"].set_index(["probe", "criterion"]).loc[(exhibit.plus.probe, "c1")]
    assert (exhibit.plus.text, exhibit.plus.call_key) == (row["text"], row["call_key"])
    on_target = exhibit.plus.on_target
    assert (on_target.score, on_target.p, on_target.rationale, on_target.call_key) == (
        judged["score"], judged["p"], judged["rationale"], judged["call_key"],
    )  # fmt: skip


def test_a_pair_begins_with_the_direction_that_carries() -> None:
    cell = make_cell()
    pair = next(pair for pair in cell.pairs if (pair.a, pair.b) == ("c2", "c3"))
    assert [(source, target) for source, target, _ in Evidence(cell).of_pair(pair)] == [("c2", "c3"), ("c3", "c2")]


def test_a_direction_without_scored_probes_shows_none() -> None:
    cell = make_cell()
    cell.tables["scores"].loc[cell.tables["scores"]["criterion"] == "c1", "p"] = None
    assert Evidence(cell).exhibits("c0", "c1") == ()


def test_a_large_rubric_shows_the_strongest_pairs_only() -> None:
    n = 16
    leakage = np.eye(n)
    leakage[3, 7] = 0.9
    cell = make_cell(leakage, np.full(n, 0.8), [f"L{i}" for i in range(n)], tasks=1, probes=2)
    shown = pairs_with_evidence(cell.pairs)
    assert len(cell.pairs) == 120
    assert len(shown) == PAIRS_WITH_EVIDENCE
    assert min(pair.strength for pair in shown) >= max(p.strength for p in set(cell.pairs) - set(shown))
    assert ("c3", "c7") in {(pair.a, pair.b) for pair in shown}
