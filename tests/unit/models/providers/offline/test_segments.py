"""Splitting loses nothing, finds sentences as a reader would, and takes linear time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.models.providers.offline.segments import figures, join, split, words


@settings(deadline=None)  # the first example loads the dictionary
@given(st.text())
def test_joining_gives_back_any_text(text: str) -> None:
    assert join(split(text)) == text.strip()


@settings(deadline=None)  # the first example loads the dictionary
@given(st.text(alphabet="aB .!?\n`\"')1,", max_size=200))
def test_joining_gives_back_texts_made_of_separators(text: str) -> None:
    assert join(split(text)) == text.strip()


def test_abbreviations_initials_and_decimals_do_not_end_a_sentence() -> None:
    text = "Dr. A. Lee met Mr. Poe, e.g. in St. Ives. It cost 3.50 vs. 4.20 before. Done!"
    assert [s.text for s in split(text)] == [
        "Dr. A. Lee met Mr. Poe, e.g. in St. Ives.",
        "It cost 3.50 vs. 4.20 before.",
        "Done!",
    ]


def test_verse_is_split_at_its_lines_and_wrapped_prose_is_not() -> None:
    verse = "The fog came down upon the bay,\nAnd no one saw the boat,"
    wrapped = (
        "The council of the town decided late at night, after a long debate, to\n"
        "Sell the houses for a crown each. Nobody had thought that possible at all.\n"
        "It worked."
    )
    assert len(split(verse)) == 2
    assert [s.text.split()[0] for s in split(wrapped)] == ["The", "Nobody", "It"]


def test_a_fenced_block_is_one_piece() -> None:
    text = "See below. It works.\n\n```python\nx = 1. \n\ny = 2\n```\n\nThat is all."
    kinds = [(s.is_code, s.text.splitlines()[0]) for s in split(text)]
    assert kinds == [(False, "See below."), (False, "It works."), (True, "```python"), (False, "That is all.")]


def test_chinese_sentences_end_at_their_own_marks_and_every_sign_is_a_word() -> None:
    assert [s.text for s in split("退款已经处理。请等待!")] == ["退款已经处理。", "请等待!"]
    assert words("退款 ok") == ["退", "款", "ok"]


def test_figures_are_brought_to_one_notation() -> None:
    assert figures("2,340 of 1.50, three at 9:00; 4.0 and 1,12") == ["2340", "1.5", "3", "9:00", "4", "1,12"]


@pytest.mark.parametrize(
    "text", ["!" * 200_000 + "x", "." + '"' * 200_000 + " x", " " * 200_000 + "x", "1," * 100_000, "a-" * 100_000]
)
def test_runs_of_marks_do_not_cost_quadratic_time(text: str, a_minute_of_cpu: None) -> None:
    split(text), words(text), figures(text)  # milliseconds; quadratic time would be minutes
