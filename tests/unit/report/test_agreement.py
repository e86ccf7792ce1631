"""The section on people: sentences that the numbers carry, values of the right pairs, and names for what is missing."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_cells import PEOPLE, compared, human_frame, make_cell
from scipy import stats

from radar_dagster.report.agreement import chance_sentence, disagreement_sentence, people, signed, takeaway
from radar_dagster.report.data import ComparedPair, ReportData
from radar_dagster.report.page import whitened_rows
from radar_dagster.report.words import figure

CELL = compared(make_cell())
SECTION = people(CELL)
NAMES = {"a": "Tone", "b": "Length"}


def row(pearson: float | None, *, p: float | None = 0.01, pairs: int = 10, mae: float | None = 0.2, detail: str = ""):
    known = {"pearson": pearson, "spearman": None if pearson is None else 0.53}
    return {**known, "p_permutation": p, "pairs_used": pairs, "mae": mae, "detail": detail}


@pytest.mark.parametrize(
    ("pearson", "likeness", "called"),
    [
        (0.86, "couples these criteria much as people’s ratings do", "the agreement is strong"),
        (0.70, "couples these criteria much as people’s ratings do", "the agreement is strong"),
        (0.69, "couples these criteria partly as people’s ratings do", "the agreement is moderate"),
        (0.25, "couples these criteria hardly as people’s ratings do", "the agreement is weak"),
        (0.10, "does not couple these criteria as people’s ratings do", "there is no agreement"),
        (-0.19, "does not couple these criteria as people’s ratings do", "there is no agreement"),
        (-0.40, "couples most what people’s ratings couple least", "the agreement is negative"),
    ],
)
def test_agreement_is_called_by_its_size_and_sign(pearson: float, likeness: str, called: str) -> None:
    assert takeaway(row(pearson)) == (
        f"This judge {likeness}: over 10 pairs of criteria, {called} (Pearson {figure(pearson)}, ranks 0.53)."
    )


def test_agreement_that_swapped_names_reach_often_is_told_with_a_doubt_and_no_agreement_without_one() -> None:
    doubtful = takeaway(row(0.9, p=1 / 6, pairs=3))
    assert "(Pearson 0.90, ranks 0.53), but chance does as well too often to build on it." in doubtful
    assert "strong" not in doubtful
    assert "chance" not in takeaway(row(0.9, p=0.05))
    assert "chance" not in takeaway(row(0.1, p=0.5))


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (row(None, pairs=2, mae=None, detail="too_few_pairs: 2 with a number"),
         "Too few pairs to compare with people: 2 have a number on both sides, and 3 are needed."),
        (row(None, pairs=1, mae=None, detail="too_few_pairs: 1"), "1 has a number on both sides"),
        (row(None, pairs=0, mae=None, detail="too_few_pairs: 0"), "none have a number on both sides"),
        (row(None, detail="constant_values: 0.5 for all 10 pairs"),
         "so there is no order that people could agree with. On average the two lie 0.20 apart."),
        (row(None, detail="constant_reference: 0.5"), "People’s ratings couple all 10 pairs alike"),
        (row(None, detail="something new"), "could not be computed: something new."),
    ],
)  # fmt: skip
def test_each_state_without_a_correlation_has_words(missing: dict[str, object], words: str) -> None:
    assert words in takeaway(missing)


def test_the_p_value_is_a_count_of_relabellings_with_its_bound() -> None:
    assert chance_sentence(3 / 120, 5) == (
        "Of all 120 ways to give the criteria each other’s names, 3 agree as well (the true one included): p = 0.025. "
        "With 5 criteria p can’t be below 1/120."
    )
    assert "1 agrees as well (the true one included): p = 0.000025" in chance_sentence(1 / math.factorial(8), 8)
    assert chance_sentence(13 / 10_000, 9) == (
        "Of 9,999 random ways to give the criteria each other’s names, 12 agree as well: p = 0.0013. By drawing, p "
        "can’t be below 1/10,000."
    )


def brute_force_p(cell: ReportData) -> float:
    """The share of relabellings of the people's criteria that correlate at least as well, by scipy."""
    ours = {(pair.a, pair.b): pair.sym for pair in cell.compared if pair.sym is not None and pair.people is not None}
    criteria = sorted({name for pair in ours for name in pair})
    theirs = {frozenset(pair): r for pair, r in PEOPLE.items()}

    def correlation(order: tuple[str, ...]) -> float:
        new = dict(zip(criteria, order, strict=True))
        return stats.pearsonr(list(ours.values()), [theirs[frozenset((new[a], new[b]))] for a, b in ours])[0]

    found = [correlation(order) for order in itertools.permutations(criteria)]
    return sum(one >= correlation(tuple(criteria)) - 1e-12 for one in found) / len(found)


def test_the_section_tells_the_p_value_that_brute_force_finds() -> None:
    p = brute_force_p(CELL)
    assert f"{round(24 * p)} agree" in SECTION.details[0]
    assert f"p = {figure(p, 3)}." in SECTION.details[0]
    assert SECTION.details[0].endswith("With 4 criteria p can’t be below 1/24.")


def pair(sym: float | None, r: float | None) -> ComparedPair:
    return ComparedPair("a", "b", sym, None, None, r, None, None, {})


def test_the_largest_disagreement_says_who_couples_the_pair_more() -> None:
    assert disagreement_sentence(pair(0.8, 0.3), NAMES) == (
        "The two differ most on Tone and Length: the judge couples them more (0.80) than people’s ratings do (0.30)."
    )
    assert disagreement_sentence(pair(-0.42, 0.1), NAMES) == (
        "The two differ most on Tone and Length: people’s ratings couple them more (0.10) than the judge does (−0.42)."
    )
    assert disagreement_sentence(pair(0.3, 0.302), NAMES) == "No pair differs by as much as 0.01."


def test_differences_have_a_sign_and_zero_has_none() -> None:
    assert [signed(value) for value in (0.256, -0.256, 0.004, -0.004)] == ["+0.26", "−0.26", "0.00", "0.00"]


def test_pairs_hold_both_numbers_and_the_largest_difference_comes_first() -> None:
    syms = {(pair.a, pair.b): pair.sym for pair in CELL.pairs}
    apart = {key: abs(syms[key] - r) for key, r in PEOPLE.items()}
    order = sorted(apart, key=lambda key: -apart[key])
    assert [(row.a, row.b) for row in SECTION.pairs] == [(CELL.names[a], CELL.names[b]) for a, b in order]
    for shown, key in zip(SECTION.pairs, order, strict=True):
        assert (shown.judge.shown, shown.people.shown) == (figure(syms[key]), figure(PEOPLE[key]))
        assert shown.difference == signed(syms[key] - PEOPLE[key])
        low, high = SECTION.axis.low, SECTION.axis.high
        assert float(shown.judge.at) == pytest.approx(100 * (syms[key] - low) / (high - low), abs=0.006)
        assert shown.gap == tuple(sorted((shown.judge.at, shown.people.at), key=float))
    first = CELL.names[order[0][0]], CELL.names[order[0][1]]
    assert f"The two differ most on {first[0]} and {first[1]}" in SECTION.details[2]


def test_the_pair_that_agreement_rests_on_is_named_with_what_is_left_without_it() -> None:
    used = [pair for pair in CELL.compared if pair.sym is not None and pair.people is not None]

    def r(kept: list[ComparedPair]) -> float:
        return float(stats.pearsonr([pair.sym for pair in kept], [pair.people for pair in kept]).statistic)

    without = {(pair.a, pair.b): r([other for other in used if other is not pair]) for pair in used}
    a, b = max(without, key=lambda key: abs(without[key] - r(used)))
    assert SECTION.details[1] == (
        f"It rests most on {CELL.names[a]} and {CELL.names[b]}: without that pair Pearson is {figure(without[a, b])}."
    )


def test_published_values_have_no_interval_and_those_of_a_file_have_one() -> None:
    assert all(row.people.interval is None and row.people.low is None for row in SECTION.pairs)
    assert all(row.judge.interval is not None for row in SECTION.pairs)
    section = people(compared(make_cell(), human=human_frame(PEOPLE, source="ratings.tsv", raters="crowd", width=0.1)))
    shown = {(row.a, row.b): row.people.interval for row in section.pairs}
    assert shown["Accuracy", "Factuality"] == "0.70 to 0.90"
    assert section.whose == "50 items of ratings.tsv; raters: crowd"
    assert section.axis.high == pytest.approx(max(1.0, *(p.sym_high for p in CELL.pairs if p.sym_high is not None)))


def test_baselines_are_columns_and_methods_only_where_they_were_made() -> None:
    values = CELL.tables["baselines"].set_index(["method", "criterion_a", "criterion_b"])["value"]
    assert SECTION.baselines == ("Synthetic correlation", "RRD-style redundancy")
    of = {name: criterion for criterion, name in CELL.names.items()}
    for shown in SECTION.pairs:
        expected = [values[method, of[shown.a], of[shown.b]] for method in ("synthetic_correlation", "rrd")]
        assert list(shown.baselines) == [figure(value) for value in expected]
    assert [method.name for method in SECTION.methods] == [
        "This audit (RADAR)", "Synthetic correlation", "RRD-style redundancy",
    ]  # fmt: skip
    without = people(compared(make_cell(), baselines=False))
    assert (without.baselines, len(without.methods)) == ((), 1)
    assert not any("redundancy" in caveat for caveat in without.caveats)
    assert any("compare its order with people’s, not its distance" in caveat for caveat in SECTION.caveats)


def test_methods_have_the_numbers_that_scipy_finds() -> None:
    used = [pair for pair in CELL.compared if pair.sym is not None]
    ours, theirs = [pair.sym for pair in used], [pair.people for pair in used]
    assert SECTION.methods[0].numbers == (
        figure(stats.pearsonr(ours, theirs)[0]),
        figure(stats.spearmanr(ours, theirs)[0]),
        figure(stats.kendalltau(ours, theirs)[0]),
        figure(float(np.mean(np.abs(np.array(ours) - np.array(theirs))))),
        figure(brute_force_p(CELL), 3),
        "6",
    )


def test_pairs_that_are_left_out_are_named_with_the_side_that_lacks_a_number() -> None:
    text = " ".join(SECTION.caveats)
    assert "because people’s ratings give no number: Accuracy with Humour, Factuality with Humour" in text
    section = people(compared(make_cell(), {**PEOPLE, ("c0", "c4"): 0.5, ("c1", "c4"): None}))
    text = " ".join(section.caveats)
    assert "could not measure them reliably: Accuracy with Humour and Factuality with Humour." in text
    shown = {(row.a, row.b): row for row in section.pairs}
    unmeasured = shown["Accuracy", "Humour"]
    assert (unmeasured.judge.shown, unmeasured.judge.at, unmeasured.gap, unmeasured.difference) == (
        "–",
        None,
        None,
        "–",
    )
    assert section.pairs[-2:] == (unmeasured, shown["Factuality", "Humour"])


def test_only_offline_models_carry_the_note_about_fixed_rules() -> None:
    assert any("fixed rules" in caveat for caveat in SECTION.caveats)
    hosted = people(compared(make_cell(generator="elsewhere/large", verifier="elsewhere/small")))
    assert not any("fixed rules" in caveat for caveat in hosted.caveats)


def test_without_people_nothing_is_known_and_nothing_is_shown() -> None:
    for cell in (make_cell(), compared(make_cell(), {})):
        section = people(cell)
        assert not section.known
        assert (section.pairs, section.methods, section.caveats, section.details) == ((), (), (), ())


def test_too_few_pairs_are_a_state_in_words_without_a_table_of_methods() -> None:
    section = people(compared(make_cell(), {("c0", "c1"): 0.8, ("c0", "c2"): 0.1}, baselines=False))
    assert section.takeaway.startswith("Too few pairs to compare with people: 2 have a number on both sides")
    assert section.methods == ()
    assert len(section.pairs) == 2
    assert len(section.details) == 1, "no p-value, and still the largest difference"


def test_ratings_without_any_correlation_say_why() -> None:
    section = people(compared(make_cell(), {("c0", "c1"): None, ("c0", "c2"): None}))
    assert section.takeaway == (
        "These ratings give no correlation for any pair: too few items were rated on both criteria."
    )
    assert (section.pairs, section.methods, section.caveats) == ((), (), ())


def test_a_judge_that_couples_all_pairs_alike_has_a_distance_and_no_order() -> None:
    cell = compared(make_cell(), baselines=False)
    table = pd.DataFrame(
        [["radar", None, None, None, 0.3, None, 6, "constant_values: 0.5 for all 6 pairs"]],
        columns=cell.tables["validation"].columns,
    )
    section = people(replace(cell, tables={**cell.tables, "validation": table}))
    assert section.methods[0].numbers == ("–", "–", "–", "0.30", "–", "6")
    assert section.methods[0].note == "the same value for all pairs"


def test_whitened_weights_stand_beside_the_declared_ones_with_a_reason_where_there_is_none() -> None:
    table = CELL.tables["baseline_weights"]
    rows = whitened_rows(CELL)
    assert [row.declared for row in rows] == ["20%"] * 5
    assert [row.whitened for row in rows[:4]] == [f"{weight:.0%}" for weight in table["whitened"][:4]]
    assert (rows[4].whitened, rows[4].note) == ("–", "its scores were the same on every response")
    assert whitened_rows(make_cell()) == []


@pytest.mark.parametrize("reason", ["constant", "too_few", "singular", "negative_weight"])
def test_every_reason_for_no_weight_has_words(reason: str) -> None:
    weights = CELL.tables["baseline_weights"].assign(whitened=np.nan, reason=reason)
    rows = whitened_rows(replace(CELL, tables={**CELL.tables, "baseline_weights": weights}))
    assert all(row.whitened == "–" and row.note and reason not in row.note for row in rows)
