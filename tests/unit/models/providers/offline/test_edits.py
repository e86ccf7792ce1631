"""Each operation does to the text what it says, measured by means that the reader does not use."""

import re
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.models.providers.offline import lexicon
from radar_dagster.models.providers.offline.edits import content, facts, length, order, slips, variation, wording
from radar_dagster.models.providers.offline.edits.common import Edit, Segments, common_words, lowered
from radar_dagster.models.providers.offline.segments import join, split

LONG = (
    "The harbour of Velm closed its last shipyard in 1998. About 2,300 people have left the town since then. Many of "
    "its houses stand empty. In 2015 the council sold forty of them for one crown each. The buyers promised to repair "
    "the roofs within three years. By 2019 all but six had kept their word. The school has 90 pupils."
)
SHORT = (
    "The council of Velm sold forty houses for one crown each, because many had stood empty for years, and the buyers "
    "promised to repair the roofs. The school still has fewer than 90 pupils, but its future looks brighter now."
)
SEEDS = range(8)


def sentences(text: str) -> Counter[str]:
    """Sentences by the simplest rule, which fits the texts above."""
    return Counter(re.split(r"(?<=[.!?])\s+", text))


def numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d[\d,.]*\d|\d", text))


def run(operation: Callable[[Segments, Random], Edit], text: str, seed: int) -> str:
    return join(operation(split(text), Random(seed)).segments)


@pytest.mark.parametrize("seed", SEEDS)
def test_scrambling_a_text_keeps_its_sentences_and_changes_their_order(seed: int) -> None:
    scrambled = run(order.scramble, LONG, seed)
    assert sentences(scrambled) == sentences(LONG)
    before, after = list(sentences(LONG)), list(sentences(scrambled))
    places = [before.index(s) for s in after]
    kept = sum(a < b for i, a in enumerate(places) for b in places[i + 1 :]) / (7 * 6 / 2)
    assert kept <= 0.6


@pytest.mark.parametrize("seed", SEEDS)
def test_scrambling_a_short_text_cuts_it_at_its_clauses_and_drops_the_connectives(seed: int) -> None:
    scrambled = run(order.scramble, SHORT, seed)
    assert len(sentences(scrambled)) > len(sentences(SHORT))
    assert not re.search(r"\b(?:because|but)\b", scrambled, re.IGNORECASE)
    content_words = {"council", "forty", "empty", "roofs", "90", "pupils", "future", "brighter"}
    assert content_words <= set(re.findall(r"\w+", scrambled))


@pytest.mark.parametrize("seed", SEEDS)
def test_altering_facts_changes_figures_and_leaves_their_number(seed: int) -> None:
    altered = run(lambda t, rng: facts.alter_facts(t, {"1998", "2300", "2015", "2019", "90"}, rng, 0.8), LONG, seed)
    assert sum(numbers(altered).values()) == sum(numbers(LONG).values())
    assert not numbers(altered) >= numbers(LONG)
    foreign = numbers(altered) - numbers(LONG)
    assert 1 <= sum(foreign.values()) <= 5


def test_the_same_figure_or_name_is_altered_alike_wherever_it_occurs() -> None:
    text = "In Brenton Karsten paid 415 crowns. Yes, 415 crowns went from Karsten to Brenton's mayor."
    for seed in SEEDS:
        altered = run(lambda t, rng: facts.alter_facts(t, {"415"}, rng, 1.0), text, seed)
        assert "415" not in altered
        assert set(numbers(altered).values()) == {2}
        assert "Karsten" not in altered
        assert sum(altered.count(name) == 2 for name in lexicon.NAMES) == 2


def test_months_keep_their_names() -> None:
    altered = run(lambda t, rng: facts.alter_facts(t, (), rng, 1.0), "He came to Velm in April with Zoltan.", 1)
    assert "April" in altered
    assert "Zoltan" not in altered


def test_code_is_altered_in_its_operators_and_not_in_its_words() -> None:
    code = "```python\nif total >= limit:\n    total = total - 25\n```"
    altered = run(lambda t, rng: facts.alter_facts(t, (), rng, 1.0), code, 3)
    assert re.findall(r"[a-z]+", altered) == re.findall(r"[a-z]+", code)
    assert altered != code
    assert altered.startswith("```python\n")


@pytest.mark.parametrize("seed", SEEDS)
def test_repeating_raises_the_share_of_repeated_trigrams(seed: int) -> None:
    def repeated(text: str) -> float:
        tokens = re.findall(r"\w+", text.lower())
        counts = Counter(zip(tokens, tokens[1:], tokens[2:], strict=False))
        return 1 - len(counts) / sum(counts.values())

    assert repeated(LONG) < 0.02
    assert repeated(run(lambda t, rng: length.repeat(t, rng, 0.5), LONG, seed)) > 0.2


@pytest.mark.parametrize("seed", SEEDS)
def test_padding_and_compressing_reach_their_length(seed: int) -> None:
    words = len(LONG.split())
    padded = run(lambda t, rng: length.pad(t, rng, 2.0), LONG, seed)
    assert 2.0 * words <= len(padded.split()) <= 2.0 * words + 30
    assert sentences(LONG) <= sentences(padded)
    compressed = run(lambda t, rng: length.compress(t, rng, 0.5), LONG, seed)
    assert 0.25 * words <= len(compressed.split()) <= 0.5 * words
    assert set(compressed.lower().split()) <= set(LONG.lower().split())


@pytest.mark.parametrize("seed", SEEDS)
def test_replaced_content_is_gone_and_the_length_stays(seed: int) -> None:
    replaced = run(lambda t, rng: content.replace_content(t, lexicon.VAGUE, rng, 0.8), LONG, seed)
    kept = sentences(LONG) & sentences(replaced)
    assert 1 <= sum(kept.values()) <= 3
    assert set(sentences(replaced)) - set(sentences(LONG)) <= set(lexicon.VAGUE)
    assert 0.8 <= len(replaced.split()) / len(LONG.split()) <= 1.35


def test_blurring_takes_out_every_figure_and_name() -> None:
    blurred = run(lambda t, rng: content.blur(t, rng, 1.0), "In 2015 Greta Lund paid £40.50 to 12 buyers in Velm.", 1)
    assert not re.search(r"\d|Greta|Lund|Velm", blurred)
    assert "buyers" in blurred


def test_an_inserted_opener_is_followed_by_a_small_letter_unless_a_name_follows() -> None:
    stock = lexicon.stock_sentences()
    assert all(lowered(s)[0].islower() for s in stock if not s.startswith("I "))
    assert lowered("I agree.") == "I agree."
    text = split("Shipyards are gone. The shipyards of Velm closed. Velm and Karsten sank. Karsten is a village.")
    openers = [lowered(s.text, common_words(text)).split()[0] for s in text]
    assert openers == ["shipyards", "the", "Velm", "Karsten"]


@pytest.mark.parametrize("index", range(0, 81, 5))
def test_padded_and_framed_summaries_hold_no_capital_after_an_opener(index: int) -> None:
    padded = length.pad(split(SHORT), Random(index), 2.0).segments
    ornate = wording.complicate(padded, Random(index), 0.9).segments
    for text in (padded, ornate):
        framed = join(variation.vary(text, index, is_summary=True).segments)
        leads = [*lexicon.FIRST_WORDS, *lexicon.LAST_WORDS, *lexicon.ORNATE]
        assert not re.search(rf"(?:{'|'.join(leads)}) (?!I\b)[A-Z]", framed)


def test_more_errors_are_made_at_a_higher_rate() -> None:
    def damaged_share(share: float) -> float:
        lost = 0
        for seed in SEEDS:
            damaged = run(lambda t, rng: slips.make_errors(t, rng, share), LONG, seed).split()
            lost += sum((Counter(LONG.split()) - Counter(damaged)).values())
        return lost / len(SEEDS) / len(LONG.split())

    assert damaged_share(0.0) == 0
    assert 0.01 < damaged_share(0.1) < damaged_share(0.4) < 0.4


def test_complicating_lengthens_words_and_sentences_and_simplifying_shortens_sentences() -> None:
    def letters(text: str) -> float:
        return sum(map(len, re.findall(r"\w+", text))) / len(re.findall(r"\w+", text))

    def words_per_sentence(text: str) -> float:
        return len(text.split()) / sum(sentences(text).values())

    for seed in SEEDS:
        harder = run(lambda t, rng: wording.complicate(t, rng, 0.8), LONG, seed)
        easier = run(lambda t, rng: wording.simplify(t, rng, 0.9), SHORT, seed)
        assert letters(harder) > letters(LONG) + 0.5
        assert words_per_sentence(harder) > words_per_sentence(LONG)
        assert words_per_sentence(easier) < 0.7 * words_per_sentence(SHORT)
        assert numbers(harder) == numbers(LONG)
        assert numbers(easier) == numbers(SHORT)


def test_rarer_words_are_rarer_by_the_dictionary() -> None:
    from spellchecker import SpellChecker

    counts = SpellChecker().word_frequency
    pairs = [(simple, rare) for simple, rare in lexicon.rarer_forms().items() if " " not in rare and counts[simple]]
    rarer = sum(counts[rare] < counts[simple] for simple, rare in pairs)
    assert rarer / len(pairs) > 0.95


def test_terms_are_taken_out_and_phrases_put_in() -> None:
    without = run(lambda t, rng: content.remove_terms(t, {"roof", "school"}, rng), LONG, 1)
    assert not re.search(r"roofs?|school", without)
    assert "1998" in without
    with_phrases = run(lambda t, rng: content.add_phrases(t, (), ["opening hours", "tram stop"], rng, 1.0), LONG, 1)
    assert "opening hours" in with_phrases
    assert "tram stop" in with_phrases


def test_when_every_sentence_holds_a_term_one_stays_without_it() -> None:
    left = run(lambda t, rng: content.remove_terms(t, {"roof"}, rng), "The roof leaks. Their roof leaks badly.", 1)
    assert "roof" not in left
    assert "leaks" in left


@pytest.mark.parametrize("is_summary", [True, False])
@pytest.mark.parametrize("text", [LONG, SHORT, "Fog falls,\nAnd stays."])
def test_twenty_variations_are_twenty_texts(text: str, is_summary: bool) -> None:
    varied = {join(variation.vary(split(text), 12345 + k * 7919, is_summary).segments) for k in range(20)}
    assert len(varied) == 20


OPERATIONS: dict[str, Callable[[Segments, Random], Edit]] = {
    "scramble": order.scramble,
    "replace": lambda t, rng: content.replace_content(t, lexicon.VAGUE, rng, 0.8),
    "insert": lambda t, rng: content.insert_sentences(t, lexicon.TANGENTS, rng, 0.5),
    "blur": lambda t, rng: content.blur(t, rng, 0.9),
    "add": lambda t, rng: content.add_phrases(t, ("This answer is {odd}.",), ["a {b} c", "%s"], rng, 1.0),
    "remove": lambda t, rng: content.remove_terms(t, {"a", "b"}, rng),
    "alter": lambda t, rng: facts.alter_facts(t, (), rng, 0.9),
    "pad": lambda t, rng: length.pad(t, rng, 1.5),
    "compress": lambda t, rng: length.compress(t, rng, 0.5),
    "repeat": lambda t, rng: length.repeat(t, rng, 0.7),
    "complicate": lambda t, rng: wording.complicate(t, rng, 0.9),
    "simplify": lambda t, rng: wording.simplify(t, rng, 0.9),
    "errors": lambda t, rng: slips.make_errors(t, rng, 0.5),
    **{
        kind: lambda t, rng, kind=kind: variation.blemish(t, rng, kind)  # type: ignore[misc]
        for kind in variation.BLEMISHES
    },
    "vary": lambda t, rng: variation.vary(t, rng.randrange(2**20), is_summary=False),
}


@pytest.mark.parametrize("name", OPERATIONS)
@settings(deadline=None, max_examples=30)  # the first example loads the dictionary
@given(text=st.text(min_size=1).filter(str.strip), seed=st.integers(0, 1000))
def test_every_operation_accepts_any_text_and_is_deterministic(name: str, text: str, seed: int) -> None:
    operation = OPERATIONS[name]
    assert operation(split(text), Random(seed)) == operation(split(text), Random(seed))


@pytest.mark.parametrize("name", OPERATIONS)
@settings(deadline=None, max_examples=30)  # the first example loads the dictionary
@given(
    text=st.text(alphabet="abT .,;!?\n`()'-12%£", min_size=1, max_size=300).filter(str.strip), seed=st.integers(0, 9)
)
def test_every_operation_accepts_any_arrangement_of_marks(name: str, text: str, seed: int) -> None:
    OPERATIONS[name](split(text), Random(seed))
