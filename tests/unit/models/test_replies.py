"""Reply hygiene: what is storable, what is a score, what is a failed generation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radar_dagster.models.replies import State, generation, judgement, storable, strip_reasoning
from radar_dagster.rubric.model import Scale

ANY_TEXT = st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Z", "C"]))
FIVE = Scale()


@given(ANY_TEXT)
def test_storable_text_is_utf8_without_control_characters_and_stays_so(text: str) -> None:
    stored = storable(text)
    stored.encode("utf-8")
    assert not {c for c in stored if ord(c) < 0x20} - {"\n", "\t"}
    assert storable(stored) == stored


@given(st.text(alphabet=st.characters(exclude_categories=["C"])))
def test_ordinary_text_is_stored_as_it_is(text: str) -> None:
    assert storable(text) == text


def test_what_is_not_storable_is_shown_and_not_dropped() -> None:
    assert storable("a\x00b\x1b[2Jc\ud83dd\u202ee") == r"a\x00b\x1b[2Jc\ud83dd\u202ee"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("<think>plan</think>Answer", "Answer"),
        ("<THINK>\nplan\n</THINK>\n\nAnswer\n", "Answer"),
        ("one <think>a</think> two <think>b</think>", "one  two"),
        ("<thinking>a</thinking><thought>b</thought><reasoning>c</reasoning>Answer", "Answer"),
        ("<seed:think>a</seed:think><|think|>b<|/think|>[THINK]c[/THINK]◁think▷d◁/think▷Answer", "Answer"),
        ("<|begin_of_thought|>a<|end_of_thought|>Answer", "Answer"),
        ("<think>a <think>b</think> c</think>Answer", "Answer"),
        ("<think>shall I write <reasoning> or <thinking>?</think>Answer", "Answer"),
        ("Answer", "Answer"),
        ("[think] again, I thought, <thinker> and </b>", "[think] again, I thought, <thinker> and </b>"),
    ],
)
def test_closed_reasoning_is_removed(text: str, kept: str) -> None:
    assert strip_reasoning(text) == kept


@pytest.mark.parametrize(
    "text", ["plan</think> Answer", "a</think> b</think> Answer", "a<think>b</think>c</think>Answer"]
)
def test_all_before_an_end_without_a_beginning_is_reasoning_and_the_reply_says_so(text: str) -> None:
    """Templates that begin the reply with `<think>` themselves leave the other end only."""
    reply = generation(text, detail="edited")
    assert (reply.state, reply.text) == (State.OK, "Answer")
    assert reply.detail is not None
    assert reply.detail.startswith("edited; all before a closing reasoning tag")


@pytest.mark.parametrize(
    "text", ["<think>plan", "Answer <think>", "<think>a <think>b</think> c", "<think>a</thinking>b"]
)
def test_a_reasoning_block_without_its_end_is_a_truncated_reply(text: str) -> None:
    reply = generation(text)
    assert (reply.state, reply.text) == (State.TRUNCATED, None)


@given(st.lists(st.sampled_from(["<think>", "</think>", "a", "<thinking>", "</thinking>", " "])).map("".join))
def test_what_is_kept_holds_no_tag(text: str) -> None:
    kept = strip_reasoning(text)
    assert kept is None or set(kept) <= set("a ")


@pytest.mark.parametrize("text", ["", "  \n", "<think>all of it</think>"])
def test_an_empty_generation_is_a_failure_with_a_reason(text: str) -> None:
    reply = generation(text)
    assert reply.state is State.PARSE_ERROR
    assert reply.detail


@pytest.mark.parametrize(
    ("raw", "level"), [(0, 0), (4, 4), (3.0, 3), ("3", 3), (" 2\n", 2), ("0\x1f", 0), (np.int64(3), 3)]
)
def test_a_level_is_a_score(raw: object, level: int) -> None:
    reply = judgement(raw, FIVE)
    assert (reply.state, reply.score) == (State.OK, level)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        True,
        False,
        "4/5",
        "4/10",
        2.5,
        "2.5",
        5,
        -1,
        "",
        "four",
        "４",
        [3],
        {"score": 3},
        float("nan"),
        10**30,
        pytest.param(10**5000, id="thousands of digits"),
    ],
)
def test_what_is_no_level_is_a_parse_error_and_never_a_score(raw: object) -> None:
    reply = judgement(raw, FIVE)
    assert (reply.state, reply.score) == (State.PARSE_ERROR, None)
    assert reply.detail is not None
    assert "expected an integer level 0..4" in reply.detail


@given(st.one_of(st.integers(), st.floats(), ANY_TEXT, st.booleans(), st.none(), st.binary()))
def test_nothing_becomes_a_score_off_the_scale(raw: object) -> None:
    reply = judgement(raw, Scale(min=1, max=5))
    assert (reply.score in range(1, 6)) == (reply.state is State.OK)
