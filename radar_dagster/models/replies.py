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
    reasoning: str | None = None
    rationale: str | None = None


_REASONING = re.compile(r"<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_OPEN_REASONING = re.compile(r"</?think>", re.IGNORECASE)
# Everything of Unicode's Cc but tab and newline, the bidirectional overrides, and lone surrogates.
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def strip_reasoning(text: str) -> str | None:
    """Remove `<think>…</think>` blocks; None when a block is left open, because then the reply was cut short."""
    kept = _REASONING.sub("", text)
    return None if _OPEN_REASONING.search(kept) else kept.strip()


def storable(text: str) -> str:
    r"""Make control characters, bidirectional overrides and lone surrogates visible: `\x1b`, `\u202e`, `\ud800`.

    >>> storable("\x1b[31mred\ud800")
    '\\x1b[31mred\\ud800'
    """
    return _UNSTORABLE.sub(_escape, text.replace("\r\n", "\n"))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def generation(text: str, detail: str | None = None) -> Generation:
    """A generation from raw model text: reasoning removed, made storable; an empty remainder is a `parse_error`."""
    kept = strip_reasoning(text)
    if kept is None:
        return Generation.failed(State.TRUNCATED, "a reasoning block was opened but never closed")
    if not kept:
        return Generation.failed(State.PARSE_ERROR, "the reply holds no text")
    return Generation(state=State.OK, text=storable(kept), detail=detail)


def judgement(score: object, scale: Scale, reasoning: str | None = None, rationale: str | None = None) -> Judgement:
    """A judgement from a raw score: an integer, an integral float or a digit string that is a level of the scale.

    Everything else ("4/5", true, 2.5, 9, None) is a `parse_error` that says what was found.
    """
    level = _level(score)
    if level is None or level not in scale.levels:
        expected = f"expected an integer level {scale.min}..{scale.max}"
        return Judgement.failed(State.PARSE_ERROR, f"{expected}, found {score!r:.80}")
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
