"""JSON objects in a text that also holds other things: where they are, and reading one without believing too much.

Here: JSON only, in time linear in the text, whatever the text. Not here: what an object must hold (`parsing.py`).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

#: A brace that can begin an object: a key or the end comes next. Braces of formulas, sets and code are none of these.
_OPENING = re.compile(r'\{(?=\s*["}])')
#: Within an object: a string (to the end of the text if it never ends) or a brace outside of strings.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[{}]', re.DOTALL)
_BEFORE_FENCED = re.compile(r"```[ \t]*\w{0,20}[ \t]*\r?\n?\s{0,20}\Z")
_AFTER_FENCED = re.compile(r"\s{0,20}```")
_EXACT_FLOAT = re.compile(r"-?[0-9]+\.0+")


def find_objects(text: str) -> tuple[list[slice], bool]:
    """The outermost balanced `{…}` of a text in order, and whether one is opened after them that is never closed.

    Braces within strings don't count, and what stands within an object is part of it, so nothing inside is found on
    its own, even where the object turns out to be no JSON. Behind a brace that is never closed nothing is found.

    >>> find_objects('so {x} gives {"score": "{"} and {"a": {"b": 1}}')
    ([slice(13, 27, None), slice(32, 47, None)], False)
    """
    found: list[slice] = []
    opening = _OPENING.search(text)
    while opening is not None:
        start, end = opening.start(), _end(text, opening.start())
        if end is None:
            return found, True
        found.append(slice(start, end))
        opening = _OPENING.search(text, end)
    return found, False


def is_fenced(text: str, span: slice) -> bool:
    """Whether an object fills a fenced block of Markdown (three backticks, with or without a language)."""
    before = text[max(0, span.start - 80) : span.start]
    return bool(_BEFORE_FENCED.search(before) and _AFTER_FENCED.match(text, span.stop))


def _end(text: str, start: int) -> int | None:
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return None


def read_object(text: str) -> dict[str, Any] | str:
    """The object that a text from `find_objects` holds; otherwise why it holds none, as a clause.

    Strict JSON but for bare control characters within strings (line breaks, mostly), which have one meaning only. No
    key twice in one object, no NaN, no number that reading would change.

    >>> read_object('{"score": 3, "score": 4}')
    'the key "score" is there twice'
    """
    try:
        read = _DECODER.decode(text)
    except RecursionError:
        return "it is nested too deeply"
    except json.JSONDecodeError as error:
        return f"{error.msg.lower()} at line {error.lineno}, column {error.colno}"
    except _NotReadError as error:
        return str(error)
    except ValueError:  # Python's limit on the digits of integers
        return "a number has thousands of digits"
    return read if isinstance(read, dict) else "it is no object"


class _NotReadError(ValueError):
    """JSON by its form, but not by ours."""


def _float(text: str) -> float:
    value = float(text)
    exact = math.isfinite(value) and (not value.is_integer() or _EXACT_FLOAT.fullmatch(text))
    if not exact:
        raise _NotReadError(f"{text[:40]} is not written as a plain number")
    return value


def _no_number(text: str) -> float:
    raise _NotReadError(f"{text} is no number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for key, value in pairs:
        if key in read:
            raise _NotReadError(f'the key "{key[:40]}" is there twice')
        read[key] = value
    return read


_DECODER = json.JSONDecoder(
    strict=False, parse_float=_float, parse_constant=_no_number, object_pairs_hook=_without_repeats
)
