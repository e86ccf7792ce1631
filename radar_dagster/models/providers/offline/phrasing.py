"""Counts and lists in words, for the notes of the editor and the reasons of the reader.

Not here: what is counted, and the wording of reports (`report/words.py`).
"""

from __future__ import annotations

from collections.abc import Sequence


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; there must be at least one."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def plural(n: int, noun: str, many: str | None = None) -> str:
    """`1 word`, `2 words`."""
    return f"{n} {noun}" if n == 1 else f"{n} {many or noun + 's'}"
