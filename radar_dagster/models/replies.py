"""What comes back from a model: the states of a call, and the text hygiene that every reply passes.

Model output is hostile input: it is made storable here, and a score is taken only when it is one of the criterion's
levels; nothing clamps, rounds or guesses. Not here: escaping for where a text is shown (`report/escape.py`).
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from radar_dagster.rubric.model import Scale


class State(StrEnum):
    """How a call ended. Only `ok` has a text or a score."""

    OK = "ok"
    PARSE_ERROR = "parse_error"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    FILTERED = "filtered"
    TRANSPORT_ERROR = "transport_error"
    BUDGET_STOPPED = "budget_stopped"
    #: A score row without a call: the probe's own generation failed, so there was nothing to judge.
    NO_PROBE = "no_probe"
    #: A row of somebody's own scores file whose cell is empty.
    MISSING = "missing"


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True)

    state: State
    #: Why the state is not `ok`, or what the model tells about an `ok` reply (the edits that made a probe).
    detail: str | None = None
    #: The parameters that were actually sent; empty for models that take none.
    parameters: Mapping[str, Any] = Field(default_factory=dict)
    #: None where the model does not count tokens.
    input_tokens: int | None = None
    output_tokens: int | None = None
    #: What the call cost; None where the price is unknown. Models of the package itself cost nothing.
    usd: float | None = None

    @classmethod
    def failed(cls, state: State, detail: str) -> Self:
        """A reply without content."""
        return cls(state=state, detail=storable(detail))


class Generation(_Reply):
    """A response (a probe's text), or the reason why there is none."""

    text: str | None = None


class Judgement(_Reply):
    """One verdict on one criterion, or the reason why there is none."""

    score: int | None = None
    #: The expected level over the probabilities of the level tokens, where the score was read from those; within the
    #: scale, not an integer. `score` is then the most probable level.
    expected: float | None = None
    reasoning: str | None = None
    rationale: str | None = None


# How models mark their reasoning: <think>, <thinking>, <thought>, <reasoning>, also with a prefix (<seed:think>), as
# special tokens (<|think|>, <|begin_of_thought|> … <|end_of_thought|>), as [THINK] and as ◁think▷.
_REASONING_TAG = re.compile(
    r"[<◁]\|?(?P<close>/|end_of_)?(?:begin_of_|[a-z]{1,16}:)?(?P<name>think(?:ing)?|thought|reasoning)\s?\|?[>▷]"
    r"|(?-i:\[(?P<close_2>/)?(?P<name_2>THINK)\])",
    re.IGNORECASE,
)
# Everything of Unicode's Cc but tab and newline, the bidirectional overrides, and lone surrogates.
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def strip_reasoning(text: str) -> str | None:
    """Remove blocks of reasoning, nested ones too; None when a block is left open: then the reply was cut short.

    Everything before a closing tag without an opening one is reasoning: chat templates that write `<think>` into the
    prompt leave only the other end in the reply.

    >>> strip_reasoning("<think>first <think>a detail</think> then</think>Answer")
    'Answer'
    >>> strip_reasoning("first a detail, then</think>Answer")
    'Answer'
    """
    pieces = outside_reasoning(text)
    return None if pieces is None else "".join(text[piece] for piece in pieces).strip()


def outside_reasoning(text: str) -> list[slice] | None:
    """The pieces of a text that are no reasoning, as `strip_reasoning` has it; None when a block is left open."""
    pieces: list[slice] = []
    start, name, depth = 0, "", 0
    for tag in _REASONING_TAG.finditer(text):
        tag_name, closes = (tag["name"] or tag["name_2"]).lower(), bool(tag["close"] or tag["close_2"])
        if depth == 0 and closes:
            pieces, start = [], tag.end()
        elif depth == 0:
            pieces.append(slice(start, tag.start()))
            name, depth = tag_name, 1
        elif tag_name == name:  # within a block of one name, tags of another are just words
            depth += -1 if closes else 1
            start = tag.end()
    return None if depth else [*pieces, slice(start, len(text))]


def storable(text: str) -> str:
    r"""Make control characters, bidirectional overrides and lone surrogates visible: `\x1b`, `\u202e`, `\ud800`.

    >>> storable("\x1b[31mred\ud800")
    '\\x1b[31mred\\ud800'
    """
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").isprintable():  # nearly every text, and the search takes several times as long
        return text
    return _UNSTORABLE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def generation(text: str, detail: str | None = None) -> Generation:
    """A generation from raw model text: reasoning removed, made storable; an empty remainder is a `parse_error`.

    Where a beginning was taken for reasoning although no tag opens it, the detail says so.
    """
    pieces = outside_reasoning(text)
    if pieces is None:
        return Generation.failed(State.TRUNCATED, "a reasoning block was opened but never closed")
    kept = "".join(text[piece] for piece in pieces).strip()
    if not kept:
        return Generation.failed(State.PARSE_ERROR, "the reply holds no text")
    notes = [detail] if detail else []
    if pieces[0].start > 0:
        notes.append("all before a closing reasoning tag without an opening one was removed as reasoning")
    return Generation(state=State.OK, text=storable(kept), detail="; ".join(notes) or None)


def judgement(score: object, scale: Scale, reasoning: str | None = None, rationale: str | None = None) -> Judgement:
    """A judgement from a raw score: an integer, an integral float or a digit string that is a level of the scale.

    Everything else ("4/5", true, 2.5, 9, None) is a `parse_error` that says what was found.
    """
    level = _level(score)
    if level is None or level not in scale.levels:
        expected = f"expected an integer level {scale.min}..{scale.max}"
        return Judgement.failed(State.PARSE_ERROR, f"{expected}, found {_shown(score)}")
    return Judgement(
        state=State.OK,
        score=level,
        reasoning=None if reasoning is None else storable(reasoning),
        rationale=None if rationale is None else storable(rationale),
    )


def _level(score: object) -> int | None:
    if isinstance(score, bool):
        return None
    if isinstance(score, numbers.Integral):  # NumPy's integers are no `int`
        return int(score)
    if isinstance(score, float):
        return int(score) if score.is_integer() else None
    if isinstance(score, str) and re.fullmatch(r"[+-]?[0-9]{1,9}", score.strip()):
        return int(score.strip())
    return None


def _shown(score: object) -> str:
    try:
        return f"{score!r:.80}"
    except (ValueError, RecursionError):  # integers of thousands of digits, lists within lists
        return f"a value of type {type(score).__name__} that can't be shown"
