"""Each aspect moves with what it is about, and only in that direction."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.models.providers.offline.aspects import Aspect
from radar_dagster.models.providers.offline.features import features, names_in
from radar_dagster.models.providers.offline.measures import (
    agreement_with_order,
    contradictions,
    evidence,
    measure,
    measure_terms,
    order_agreement,
)
from radar_dagster.rubric.model import Task

SENTENCES = [
    "The harbour of Velm closed its last shipyard in 1998.",
    "About 2,300 people have left the town since then.",
    "The council sold forty houses for one crown each.",
    "All buyers promised to repair the roofs within three years.",
    "The primary school has only 90 pupils left.",
]
TASK = Task(id="velm", prompt="Tell the story of the place.", reference=" ".join(SENTENCES))


def value(text: str, aspect: Aspect, task: Task = TASK) -> float:
    found = measure(text, task, aspect).value
    assert found is not None
    return found


@pytest.mark.parametrize("aspect", [a for a in Aspect if a is not Aspect.TERMS])
def test_the_reference_itself_is_good_in_every_quality_and_average_in_every_amount(aspect: Aspect) -> None:
    found = value(TASK.reference or "", aspect)
    assert found == pytest.approx(0.5, abs=0.05) if aspect in {Aspect.LENGTH, Aspect.COMPLEXITY} else found >= 0.9


@settings(deadline=None, max_examples=30)  # the first example loads the dictionary
@given(st.permutations(range(5)))
def test_order_agreement_is_kendalls_tau_moved_to_the_unit_interval(order: list[int]) -> None:
    from scipy.stats import kendalltau

    text = features(" ".join(SENTENCES[i] for i in order))
    agreement, placed = order_agreement(text, evidence(TASK).index)
    assert placed == 5
    assert agreement == pytest.approx((kendalltau(range(5), order).statistic + 1) / 2)


@settings(deadline=None, max_examples=30)  # the first example loads the dictionary
@given(st.lists(st.integers(0, 5), max_size=12))
def test_order_agreement_of_places_with_ties_counts_unequal_pairs(places: list[int]) -> None:
    pairs = [(a, b) for i, a in enumerate(places) for b in places[i + 1 :] if a != b]
    expected = sum(a < b for a, b in pairs) / len(pairs) if pairs else 1.0
    assert agreement_with_order([float(p) for p in places]) == pytest.approx(expected)


@settings(deadline=None, max_examples=30)  # the first example loads the dictionary
@given(st.permutations(range(5)))
def test_cohesion_never_rises_when_the_order_is_disturbed(order: list[int]) -> None:
    shuffled = " ".join(SENTENCES[i] for i in order)
    assert value(shuffled, Aspect.COHESION) <= value(TASK.reference or "", Aspect.COHESION) + 1e-9
    for aspect in (Aspect.COVERAGE, Aspect.ACCURACY, Aspect.FOCUS, Aspect.LENGTH, Aspect.GRAMMAR, Aspect.ECONOMY):
        assert value(shuffled, aspect) == pytest.approx(value(TASK.reference or "", aspect))


@settings(deadline=None, max_examples=30)  # the first example loads the dictionary
@given(st.sets(st.integers(0, 4)), st.integers(0, 4))
def test_coverage_and_length_rise_with_every_sentence_of_the_reference(kept: set[int], extra: int) -> None:
    fewer = " ".join(SENTENCES[i] for i in sorted(kept))
    more = " ".join(SENTENCES[i] for i in sorted(kept | {extra}))
    for aspect in (Aspect.COVERAGE, Aspect.SUBSTANCE, Aspect.LENGTH):
        assert value(fewer, aspect) <= value(more, aspect)


@settings(deadline=None, max_examples=30)  # the first example loads the dictionary
@given(st.integers(1, 30), st.integers(1, 30))
def test_length_rises_with_the_number_of_words(a: int, b: int) -> None:
    shorter, longer = sorted((a, b))
    assert value("word " * shorter, Aspect.LENGTH) <= value("word " * longer, Aspect.LENGTH)


def test_half_and_double_length_lie_at_equal_distance_from_the_middle() -> None:
    count = len((TASK.reference or "").split())
    half, double = value("word " * (count // 2), Aspect.LENGTH), value("word " * (count * 2), Aspect.LENGTH)
    assert 0 < half < 0.5 < double < 1
    assert half + double == pytest.approx(1, abs=0.03)


@settings(deadline=None, max_examples=30)  # the first example loads the dictionary
@given(st.integers(0, 5))
def test_economy_falls_with_every_sentence_said_again(again: int) -> None:
    def economy(count: int) -> float:
        return value(" ".join(SENTENCES + SENTENCES[:count]), Aspect.ECONOMY)

    assert all(economy(k + 1) < economy(k) for k in range(again))


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("2,300", "2,900", "foreign figure"),
        ("three", "seven", "foreign figure"),
        ("Velm", "Ostrava", "foreign name"),
        ("promised to", "never promised to", "reversed statement"),
        ("last", "first", "reversed statement"),
    ],
)
def test_every_kind_of_false_statement_is_found_and_costs_accuracy(old: str, new: str, kind: str) -> None:
    text = (TASK.reference or "").replace(old, new, 1)
    found = contradictions(features(text), evidence(TASK))
    assert [k for k, items in found.items() if items] == [kind]
    assert value(text, Aspect.ACCURACY) < value(TASK.reference or "", Aspect.ACCURACY)


def test_a_first_word_is_no_foreign_name_unless_it_has_a_capital_elsewhere_too() -> None:
    def foreign(addition: str) -> list[str]:
        text = f"{TASK.reference} {addition}"
        return contradictions(features(text), evidence(TASK))["foreign name"]

    assert foreign("Insofar as one can tell, the town is poor. Needless to say, it is small.") == []
    assert foreign("Zelinka left the town.") == []
    assert foreign("Zelinka left the town. The council thanked Zelinka.") == ["Zelinka"]


def test_the_same_figure_in_another_notation_is_no_contradiction() -> None:
    text = (TASK.reference or "").replace("2,300", "2300").replace("three", "3")
    assert not any(contradictions(features(text), evidence(TASK)).values())


def test_altered_code_is_found_and_moved_code_is_not() -> None:
    code = "```python\ntotal = 0\nfor item in items:\n    total = total + item\nreturn total\n```"
    task = Task(id="code", prompt="Write it.", reference=f"Here it is.\n\n{code}")
    altered = contradictions(features(code.replace("+", "-")), evidence(task))
    assert altered["altered code line"] == ["total = total - item"]
    assert not any(contradictions(features(code + "\n\nHere it is."), evidence(task)).values())


def test_grammar_falls_with_every_error() -> None:
    reference = TASK.reference or ""
    damaged = [
        reference,
        reference.replace("people have", "peolpe have"),
        reference.replace("people have", "peolpe have").replace("school has", "school have"),
        reference.replace("people have", "peolpe have").replace("The primary school has", "the the primry school have"),
    ]
    values = [value(text, Aspect.GRAMMAR) for text in damaged]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) >= 3


def test_words_of_the_task_are_never_misspelt() -> None:
    task = Task(id="odd", prompt="Tell me of the recieve protocol.", reference="The recieve protocol is old.")
    assert value("The recieve protocol is good.", Aspect.GRAMMAR, task) == 1


def test_rarer_words_and_longer_sentences_are_more_complex_and_less_readable() -> None:
    simple = "The town is small. It has few people. They like it. The school is old."
    hard = (
        "Notwithstanding its diminutive proportions, the municipality encompasses an idiosyncratic populace, whose "
        "predilections are commensurate with the antiquated educational establishment."
    )
    assert (
        value(simple, Aspect.COMPLEXITY)
        < value(TASK.reference or "", Aspect.COMPLEXITY)
        < value(hard, Aspect.COMPLEXITY)
    )
    assert value(hard, Aspect.READABILITY) < value(TASK.reference or "", Aspect.READABILITY)


def test_the_grade_level_follows_the_published_formula() -> None:
    """One sentence of ten words and, said aloud, twelve syllables (un-der, ta-bles)."""
    text = "The old dog and the young cat sat under tables."
    assert features(text).grade == pytest.approx(0.39 * 10 + 11.8 * 12 / 10 - 15.59)


def test_focus_falls_when_asides_are_added() -> None:
    aside = " My cousin collects stamps of bridges, and tomatoes need plenty of sun in summer gardens."
    assert value((TASK.reference or "") + aside, Aspect.FOCUS) < value(TASK.reference or "", Aspect.FOCUS)


def test_terms_are_counted_over_their_inflections_and_synonyms() -> None:
    found = measure_terms("He demonstrated the refunds.", ["show", "refund", "label"])
    assert found.value == pytest.approx(2 / 3 / 0.7)
    assert "2 of 3 content words" in found.words


@pytest.mark.parametrize(
    ("task", "named"),
    [
        (Task(id="a", prompt="Tell me about boats.", source="Boats float on water. Ships float, too."), "source"),
        (Task(id="b", prompt="Tell me about boats."), "prompt"),
    ],
)
def test_without_a_reference_the_source_or_the_prompt_is_measured_against_and_named(task: Task, named: str) -> None:
    found = measure("Boats float.", task, Aspect.COVERAGE)
    assert found.value is not None
    assert f"of the {named}" in found.words
    assert measure("Boats float.", task, Aspect.COHESION).value is not None


def test_names_are_capitals_within_a_sentence_or_unknown_words_at_its_start() -> None:
    assert names_in("Vesterholm beat the Lions, said Dana's coach.") == ["Vesterholm", "Lions", "Dana"]
    assert names_in("The dog barked. I'm here") == []
    assert names_in("Vesterholm beat the Lions.", first_words=False) == ["Lions"]


@pytest.mark.parametrize("aspect", [a for a in Aspect if a is not Aspect.TERMS])
@settings(deadline=None, max_examples=30)  # the first example loads the dictionary
@given(text=st.text(max_size=300))
def test_any_text_has_a_value_in_the_unit_interval_or_none(aspect: Aspect, text: str) -> None:
    found = measure(text, TASK, aspect)
    assert found.value is None or 0 <= found.value <= 1
    assert re.search(r"\w", found.words)
