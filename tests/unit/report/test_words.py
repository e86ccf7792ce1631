"""Numbers, readings and reasons in words; what is unknown is called so."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_cells import make_cell

from radar_dagster.models.naming import ModelSpec
from radar_dagster.report.data import Pair, ReportData, Settling
from radar_dagster.report.words import (
    cost_words,
    count,
    figure,
    listed,
    meaning,
    model_kind,
    pair_explanation,
    pair_phrase,
    reason_words,
    remedy,
    settling_sentence,
    span,
    tokens_words,
)

CELL = make_cell()
PAIRS = {(pair.a, pair.b): pair for pair in CELL.pairs}


@given(st.floats(-10, 10))
def test_figures_have_a_real_minus_and_never_a_negative_zero(value: float) -> None:
    shown = figure(value)
    assert "-" not in shown
    assert shown != "−0.00"
    assert float(shown.replace("−", "-")) == pytest.approx(value, abs=0.00501)


def test_missing_figures_are_named_and_missing_intervals_are_none() -> None:
    assert figure(None) == "not measured"
    assert span(None, 0.5) is None
    assert span(-0.1, 0.5) == "−0.10 to 0.50"


def test_counts_and_lists_read_like_sentences() -> None:
    assert [count(1, "pair"), count(1770, "pair"), count(2, "criterion", "criteria")] == [
        "1 pair", "1,770 pairs", "2 criteria",
    ]  # fmt: skip
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])] == [
        "a", "a and b", "a, b, c and 2 more",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pair", "phrase"),
    [
        (("c0", "c1"), "Accuracy and Factuality are counted twice"),
        (("c0", "c2"), "Accuracy pulls against Brevity"),
        (("c2", "c3"), "Clarity rides on Brevity"),
        (("c1", "c2"), "Factuality and Brevity are independent here"),
        (("c0", "c4"), "Accuracy with Humour could not be measured"),
    ],
)
def test_each_reading_has_words_without_statistics(pair: tuple[str, str], phrase: str) -> None:
    assert pair_phrase(PAIRS[pair], CELL.names) == phrase


def test_the_explanation_of_a_ride_names_the_carrier_first() -> None:
    pair = PAIRS["c2", "c3"]
    expected = (
        f"Every point of Brevity moves Clarity by {figure(pair.leakage_ab)}; "
        f"a point of Clarity moves Brevity by {figure(pair.leakage_ba)}."
    )
    assert pair_explanation(pair, CELL) == expected


def test_an_unmeasured_pair_says_which_criterion_failed_and_why() -> None:
    own = {effect.criterion: effect for effect in CELL.self_effects}["c4"]
    assert pair_explanation(PAIRS["c0", "c4"], CELL) == f"Humour: {reason_words(own, CELL)}."
    assert "the gate asks for 0.40" in reason_words(own, CELL)


def test_a_pair_whose_target_lacks_scores_is_explained_though_both_criteria_passed_the_gate() -> None:
    cell = without_scores(make_cell(), target="c0", criterion="c1")
    pair = next(pair for pair in cell.pairs if (pair.a, pair.b) == ("c0", "c1"))
    assert pair_explanation(pair, cell) == "Factuality: too many of its scores on probes of Accuracy are missing."


def without_scores(cell: ReportData, target: str, criterion: str) -> ReportData:
    from made_cells import make_report

    scores = cell.tables["scores"].copy()
    lost = (scores["target"] == target) & (scores["criterion"] == criterion)
    scores.loc[lost, ["score", "p"]] = None
    scores.loc[lost, "state"] = "refused"
    models = (cell.generator, cell.verifier)
    return make_report(cell.rubric, cell.tables["probes"], scores, cell.settings, models)


@pytest.mark.parametrize("reason", ["weak", "negative", "too_few_tasks", "missing_scores", "something new"])
def test_every_reason_has_words(reason: str) -> None:
    words = reason_words(replace(CELL.self_effects[4], reason=reason, self_effect=None), CELL)
    assert words
    assert reason == "something new" or reason not in words


def test_settling_says_how_many_probes_or_why_none_would_do() -> None:
    settling = Settling("sym", 0.38, 0.28, 0.48, 0.40, "cluster", 3, 75)
    sentence = settling_sentence(settling, PAIRS["c0", "c1"], CELL.names)
    assert sentence == (
        "Uncertain: the mean of both directions is 0.38 (0.28 to 0.48), around the threshold 0.40; on its other side "
        "the pair reads “counted twice”. About 75 probes per task, criterion and direction would settle it; this audit "
        "drew 3."
    )
    beyond = settling_sentence(replace(settling, probes_needed=None), PAIRS["c0", "c1"], CELL.names)
    assert beyond.endswith("Even 200 probes would not settle it: the value lies too near the threshold.")
    blind = settling_sentence(replace(settling, low=None, probes_needed=None), PAIRS["c0", "c1"], CELL.names)
    assert "There is no interval" in blind
    early = settling_sentence(replace(settling, probes_now=1, probes_needed=None), PAIRS["c0", "c1"], CELL.names)
    assert "200" not in early
    assert early.endswith(
        "How many probes would settle it can be forecast from 3 per task, criterion and direction upwards, and this "
        "audit drew 1."
    )
    one_way = settling_sentence(replace(settling, quantity="leakage_ba"), PAIRS["c0", "c1"], CELL.names)
    assert "Factuality → Accuracy is 0.38" in one_way


def settled_by(*needed: int | None, now: int = 3) -> list[Pair]:
    rows = [Settling("sym", 0.38, 0.28, 0.48, 0.40, "cluster", now, n) for n in needed]
    return [replace(PAIRS["c0", "c1"], uncertain=True, settling=(row,)) for row in rows]


def test_the_remedy_is_the_largest_forecast_and_says_how_many_pairs_it_is_for() -> None:
    each = "per task, criterion and direction"
    assert remedy("inconclusive", settled_by(12, 75)) == (
        f"About 75 probes {each} would settle the 2 uncertain pairs: --probes 75"
    )
    assert remedy("inconclusive", settled_by(12, None)) == (
        f"About 12 probes {each} would settle 1 of the 2 uncertain pairs: --probes 12"
    )
    assert remedy("inconclusive", settled_by(None, now=1)) == (
        f"3 probes {each} would tell how many it takes to settle the uncertain pair: --probes 3"
    )
    assert remedy("inconclusive", settled_by(None)) is None
    assert remedy("inconclusive", []) is None
    assert remedy("passed", settled_by(12)) is None


@pytest.mark.parametrize(
    ("uncertain", "words"),
    [
        (0, "2 are independent here"),
        (1, "2 look independent, 1 of them uncertain"),
        (2, "2 look independent, all 2 "),
    ],
)
def test_independence_that_is_uncertain_is_not_told_as_a_fact(uncertain: int, words: str) -> None:
    cell = make_cell(np.eye(3), np.full(3, 0.9), ("A", "B", "C"), noise=0.05)
    pairs = cell.tables["criterion_pairs"]
    pairs["reading"] = ["cluster", "separable", "separable"]
    pairs["uncertain"] = [False, uncertain > 0, uncertain > 1]
    assert f"Of 3 pairs, {words}" in meaning(cell)


def test_a_model_is_called_what_it_is() -> None:
    kinds = [model_kind(ModelSpec(model=name)) for name in ("offline/reader", "python/my:judge", "elsewhere/large")]
    assert kinds == ["rule-based", "your own function", None]


def test_the_two_leakages_of_a_ride_begin_with_the_one_that_carries() -> None:
    ride = PAIRS["c2", "c3"]
    assert ride.directions == (("c2", "c3", ride.leakage_ab), ("c3", "c2", ride.leakage_ba))
    turned = replace(ride, a="c3", b="c2", leakage_ab=ride.leakage_ba, leakage_ba=ride.leakage_ab)
    assert turned.directions == ride.directions
    twice = PAIRS["c0", "c1"]
    assert [names[:2] for names in twice.directions] == [("c0", "c1"), ("c1", "c0")]


def test_the_meaning_names_dimensions_readings_and_the_heaviest_criterion() -> None:
    paragraph = meaning(CELL)
    assert paragraph.startswith("You list 5 criteria, of which 4 could be measured; of those, this judge uses ")
    assert "Accuracy and Factuality are counted twice." in paragraph
    assert "Clarity rides on Brevity." in paragraph
    assert "Accuracy pulls against Brevity." in paragraph
    assert "4 could not be measured." in paragraph
    assert "times what its weight says" in paragraph


def test_nothing_measured_is_said_without_a_number_of_criteria() -> None:
    cell = make_cell(self_effects=CELL_OF_WEAK)
    assert meaning(cell) == (
        "Of the 5 criteria you list, 0 could be measured under this judge. Of 10 pairs, 0 are independent here and 10 "
        "could not be measured."
    )


CELL_OF_WEAK = pd.Series([0.1] * 5).to_numpy()


def test_tokens_are_a_sum_or_unknown_but_never_zero_for_what_nobody_counted() -> None:
    known, unknown = {"input_tokens": 1200, "output_tokens": 30}, {"input_tokens": None, "output_tokens": None}
    assert tokens_words([known, known], rule_based=False) == "2,400 in, 60 out"
    assert tokens_words([known, unknown], rule_based=False) == "1,200 in, 30 out in 1 call; unknown for 1"
    assert tokens_words([unknown], rule_based=False) == "unknown"
    assert tokens_words([unknown], rule_based=True) == "none: rule-based models count no tokens"


def test_only_the_offline_models_are_said_to_cost_nothing() -> None:
    assert cost_words(ModelSpec(model="offline/reader"), [0.0]).startswith("nothing")
    assert cost_words(ModelSpec(model="python/my.module:judge"), [None]).startswith("unknown: it is your own")
    assert cost_words(ModelSpec(model="elsewhere/large"), [None, None]) == "unknown"
    assert cost_words(ModelSpec(model="elsewhere/large"), []) == "unknown"
    assert cost_words(ModelSpec(model="elsewhere/large"), [0.25, 0.5]) == "0.7500 US dollars"
    assert cost_words(ModelSpec(model="elsewhere/large"), [0.25, None]) == "0.2500 US dollars; unknown for 1 call"
