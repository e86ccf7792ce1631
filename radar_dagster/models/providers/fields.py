"""Reading JSON that somebody else wrote: a field is what the protocol promises, or it is absent.

Compatible servers omit fields and invent others, so nothing here trusts a type or a size. Not here: which fields a
protocol has (`openai.py`, `anthropic.py`), what an error means (`refusals.py`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from radar_dagster.models.exchange import Candidate
from radar_dagster.models.replies import storable

#: No context is longer: a count of tokens above this is no count, and what it comes to is nobody's money.
_MOST_TOKENS = 10**7
#: What servers of both protocols call a reply that was cut at a limit, in the spelling of `reason_of`. All other
#: words that no protocol knows, and none at all (local servers often send none), count as a reply's own end: that it
#: was cut is not known, and a verdict is only read where it is whole.
CUT = frozenset({
    "length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_new_tokens", "max_length",
    "model_length", "output_length", "token_limit", "token_limit_reached", "context_length", "context_length_exceeded",
    "context_window_exceeded", "model_context_window_exceeded", "truncated", "incomplete",
})  # fmt: skip
#: The longest name or id that is kept.
_LONGEST_NAME = 200


class UnreadableError(Exception):
    """A reply that is not what the protocol promises; the message says what was found instead."""


def json_object(content: bytes) -> Mapping[str, Any]:
    """The JSON object that a body holds; UnreadableError when it holds something else."""
    if not content.strip():
        raise UnreadableError("the reply is empty")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        kind = "a web page" if content.lstrip()[:1] == b"<" else "no JSON"
        raise UnreadableError(f"the reply is {kind}; is base_url the address of the API?") from None
    if not isinstance(found, dict):
        raise UnreadableError(f"the reply is no JSON object but {named_type(found)}")
    return found


def named_type(value: object) -> str:
    """A value's type in words, without the value."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def mapping_of(value: object) -> Mapping[str, Any]:
    """The object; an empty one when the value is none."""
    return value if isinstance(value, dict) else {}


def items_of(value: object) -> Sequence[Any]:
    """The list; an empty one when the value is none."""
    return value if isinstance(value, list) else ()


def text_of(value: object) -> str | None:
    """The text; None when the value is none or has no characters."""
    return value if isinstance(value, str) and value else None


def name_of(value: object) -> str | None:
    """A short text that can be stored: a model's name, an id."""
    text = text_of(value)
    return None if text is None else storable(text)[:_LONGEST_NAME]


def reason_of(value: object) -> str:
    """Why a reply ended, as a server says it, in small letters with underscores; empty when it does not say."""
    return "_".join(re.split(r"[\s_-]+", (text_of(value) or "").strip().lower()))


def count_of(value: object) -> int | None:
    """A number of tokens: an integer of 0 or more. A text, a fraction or a negative number is none."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if is_count and isinstance(value, int) else None


def usage_of(value: object) -> Mapping[str, Any]:
    """The counts of a reply; empty when one of them can't be: the others come from whoever made that one up."""
    usage = mapping_of(value)
    parts = [usage, *map(mapping_of, usage.values())]
    counts = [count for part in parts for name, count in part.items() if "token" in name]
    absurd = [count for count in counts if isinstance(count, int | float) and not count <= _MOST_TOKENS]
    return {} if absurd else usage


def candidate_of(value: object) -> Candidate | None:
    """A token with the logarithm of its probability; None unless it has both and the probability is not 0."""
    fields = mapping_of(value)
    token, logprob = fields.get("token"), fields.get("logprob")
    if not isinstance(token, str) or isinstance(logprob, bool) or not isinstance(logprob, int | float):
        return None
    # Rounding may lift a probability of 1 just above it; more than that is no probability.
    if not math.isfinite(logprob) or logprob > 0.01:
        return None
    return Candidate(token, min(float(logprob), 0.0))


def date_of(value: object) -> date | None:
    """The day of an ISO 8601 date or moment (in UTC), or of a moment in Unix seconds."""
    moment = moment_of(value)
    return None if moment is None else datetime.fromtimestamp(moment, UTC).date()


def moment_of(value: object) -> float | None:
    """Unix seconds of an ISO 8601 date or moment (UTC where it names no zone), or of a number of them."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return None
