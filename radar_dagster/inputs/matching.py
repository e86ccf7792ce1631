"""Names in files from outside and the criteria of a rubric: which are the same, and how lists of them are shown.

Not here: files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

_SHOWN = 20


def same_name(name: str) -> str:
    """What spellings of one name have in common: no case, no spaces, hyphens or underscores.

    >>> same_name("Non-Redundancy") == same_name("non_redundancy") == same_name("nonredundancy")
    True
    """
    return re.sub(r"[\s_-]+", "", name).casefold()


def key_of(criteria: Sequence[str]) -> Callable[[str], str]:
    """A function under which a name equals the criterion it stands for, and no two criteria are equal.

    Criteria that would be the same but for case, spaces, hyphens and underscores are told apart by exact spelling.
    """
    shared = {key for key, count in Counter(map(same_name, criteria)).items() if count > 1}

    def key(name: str) -> str:
        return f"={name}" if same_name(name) in shared else same_name(name)

    return key


def listed(names: Iterable[str]) -> str:
    """The first names, quoted, and how many more there are."""
    everything = list(names)
    more = len(everything) - _SHOWN
    shown = ", ".join(f"{name!r:.60}" for name in everything[:_SHOWN])
    return (shown or "none") + (f" and {more:,} more" if more > 0 else "")
