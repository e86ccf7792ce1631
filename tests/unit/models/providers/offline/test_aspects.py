"""A criterion is understood from its own words: qualities, defects, amounts, and for the rest its terms."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.models.providers.offline.aspects import AMOUNTS, Aspect, profile
from radar_dagster.rubric.model import Criterion, Kind


def main_aspect(label: str, definition: str, kind: Kind = Kind.EVALUATIVE) -> tuple[Aspect, int]:
    found = profile(Criterion(id="c", label=label, definition=definition, kind=kind))
    aspect = max(found.weights, key=lambda a: found.weights[a])
    return aspect, found.signs[aspect]


@pytest.mark.parametrize(
    ("label", "definition", "expected"),
    [
        ("Truthfulness", "All claims are true.", Aspect.ACCURACY),
        ("No hallucinations", "Nothing is made up.", Aspect.ACCURACY),
        ("Factual consistency", "The text agrees with the source article.", Aspect.ACCURACY),
        ("Consistency", "The same tone from start to end.", Aspect.COHESION),
        ("Logical flow", "One idea leads on to the next.", Aspect.COHESION),
        ("Grammar", "Free of spelling errors.", Aspect.GRAMMAR),
        ("Completeness", "Nothing important is missing.", Aspect.COVERAGE),
        ("Clarity", "Easy to understand.", Aspect.READABILITY),
        ("Repetitiveness", "Says things once only.", Aspect.ECONOMY),
        ("Relevance to the question", "Holds the pertinent facts.", Aspect.COVERAGE),
        ("Focus", "Stays on topic.", Aspect.FOCUS),
    ],
)
def test_quality_criteria_are_recognised_and_count_upwards(label: str, definition: str, expected: Aspect) -> None:
    assert main_aspect(label, definition) == (expected, 1)


@pytest.mark.parametrize(
    ("label", "definition", "expected"),
    [
        ("Conciseness", "Says no more than needed.", (Aspect.LENGTH, -1)),
        ("Wordiness", "How many words are spent.", (Aspect.LENGTH, 1)),
        ("Simplicity", "Everyday language.", (Aspect.COMPLEXITY, -1)),
        ("Technical depth", "Expert vocabulary.", (Aspect.COMPLEXITY, 1)),
    ],
)
def test_amounts_take_the_sign_of_their_label(label: str, definition: str, expected: tuple[Aspect, int]) -> None:
    assert main_aspect(label, definition, Kind.DESCRIPTIVE) == expected


def test_a_descriptive_criterion_may_measure_a_defect() -> None:
    assert main_aspect("Redundancy", "How often it repeats itself.", Kind.DESCRIPTIVE) == (Aspect.ECONOMY, -1)


def test_what_the_definition_disclaims_is_not_measured() -> None:
    plain = profile(Criterion(id="c", label="Accuracy", definition="All figures are right."))
    disclaiming = profile(
        Criterion(id="c", label="Accuracy", definition="All figures are right; length and grammar do not matter.")
    )
    assert set(disclaiming.weights) == set(plain.weights) == {Aspect.ACCURACY}


@pytest.mark.parametrize(
    ("label", "definition", "sign"),
    [
        ("Mentions return policy", "The reply mentions the return policy and the deadline.", 1),
        ("Empathy", "Acknowledges the feelings of the customer.", 1),
        ("Cites sources", "Every claim is followed by a publication.", 1),
        ("Avoids medical advice", "Gives a diagnosis or dosage.", -1),
        ("Medical caution", "Does not give a diagnosis or dosage.", -1),
    ],
)
def test_an_unknown_criterion_rests_on_the_words_of_its_definition(label: str, definition: str, sign: int) -> None:
    assert main_aspect(label, definition) == (Aspect.TERMS, sign)


def test_words_that_led_to_another_aspect_are_not_looked_for() -> None:
    found = profile(Criterion(id="c", label="Trust", definition="No figure is invented; names the tariff."))
    assert Aspect.ACCURACY in found.weights
    assert found.phrases == ("figure", "names", "tariff")


def test_a_noun_is_no_predicate() -> None:
    found = profile(Criterion(id="c", label="Tact", definition="Words are kind; thanks the guest."))
    assert found.statements == ("This answer thanks the guest.",)


def test_the_id_of_a_criterion_is_no_key_to_a_table() -> None:
    def weights(criterion_id: str) -> dict[Aspect, float]:
        same = Criterion(id=criterion_id, label="Zorbing", definition="It holds together as one coherent text.")
        return dict(profile(same).weights)

    assert weights("c1") == weights("item 7")


@settings(deadline=None)  # the first example loads the dictionary
@given(
    st.text(alphabet=st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1).filter(str.strip),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip),
    st.sampled_from(Kind),
)
def test_any_criterion_has_weights_that_sum_to_one(label: str, definition: str, kind: Kind) -> None:
    found = profile(Criterion(id="c", label=label[:200], definition=definition, kind=kind))
    assert sum(found.weights.values()) == pytest.approx(1)
    assert found.weights.keys() == found.signs.keys()
    assert set(found.signs.values()) <= {1, -1}
    if kind is Kind.EVALUATIVE:
        assert all(found.signs[a] == 1 for a in found.signs if a not in AMOUNTS and a is not Aspect.TERMS)
