"""Words: syllables against counted ones, misspellings against lists of common ones, stems that meet."""

import pytest

from radar_dagster.models.providers.offline.dictionary import is_known, is_misspelling, stem, syllables, zipf

#: Counted by saying them.
SYLLABLES = {
    1: ["cat", "walked", "makes", "through", "sand"],
    2: ["table", "being", "poem", "money", "orange", "people", "kitchen", "refund", "treadle", "questions", "little"],
    3: ["banana", "library", "created", "area", "radio", "idea", "hospital", "national", "together"],
    4: ["medication", "analysis", "biology", "necessary", "information"],
}


def test_syllables_agree_with_counting_for_nearly_all_words() -> None:
    pairs = [(word, n) for n, listed in SYLLABLES.items() for word in listed]
    right = sum(syllables(word) == n for word, n in pairs)
    assert right / len(pairs) >= 0.85


@pytest.mark.parametrize(
    "word", ["recieve", "seperate", "definately", "wich", "thier", "becuase", "goverment", "adress"]
)
def test_common_misspellings_are_found(word: str) -> None:
    assert is_misspelling(word)


@pytest.mark.parametrize(
    "word",
    [
        "colour",
        "randomised",
        "programme",
        "metre",
        "mitochondria",
        "oligomycin",
        "zelcorvane",
        "cardiomyopathy",
        "refunds",
        "退款",
        "naïve",
    ],
)
def test_british_spellings_and_unknown_terms_are_no_misspellings(word: str) -> None:
    assert not is_misspelling(word)


def test_frequent_words_have_a_higher_zipf_value_than_rare_ones() -> None:
    ordered = ["the", "people", "substantial", "ameliorate", "qqqzzz"]
    values = [zipf(word) for word in ordered]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(7.7, abs=0.4)  # "the" is about one word in twenty
    assert not is_known(ordered[-1])


@pytest.mark.parametrize(
    "forms", ["stop stops stopped stopping", "study studies studied", "refund refunded refund's", "agree agrees"]
)
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1
