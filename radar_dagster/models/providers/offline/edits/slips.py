"""Language errors: misspelt words, broken agreement, doubled and missing words.

Not here: finding them (`grammar.py`).
"""

from __future__ import annotations

import re
from random import Random

from radar_dagster.models.providers.offline.dictionary import is_known
from radar_dagster.models.providers.offline.edits.common import Edit, Segments, squeezed
from radar_dagster.models.providers.offline.phrasing import plural

_FLIPS = {
    "is": "are", "are": "is", "was": "were", "were": "was", "has": "have", "have": "has", "does": "do", "do": "does",
    "a": "an", "an": "a",
}  # fmt: skip
_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")


def make_errors(text: Segments, rng: Random, share: float) -> Edit:
    """Misspell words, break agreement and articles, double and drop words.

    A share of the words is tried; names and most short words pass unharmed.
    """
    counts = {"misspelling": 0, "agreement error": 0, "doubled or missing word": 0}
    previous = ""

    def damage(match: re.Match[str]) -> str:
        nonlocal previous
        word, before = match[0], previous
        previous = word.lower()
        if rng.random() >= (share if word not in _FLIPS else min(1.0, 3 * share)):
            return word
        if word in _FLIPS:
            counts["agreement error"] += 1
            return _FLIPS[word]
        if before in {"the", "a", "an", "of"} and word.islower() and rng.random() < 0.4:
            counts["doubled or missing word"] += 1
            return before if rng.random() < 0.5 else ""
        if word.islower() and len(word) > 4 and (slip := _misspelt(word, rng)):
            counts["misspelling"] += 1
            return slip
        return word

    result = [s if s.is_code else s._replace(text=squeezed(_TOKEN.sub(damage, s.text))) for s in text]
    return Edit(result, ", ".join(f"made {plural(n, kind)}" for kind, n in counts.items() if n))


def _misspelt(word: str, rng: Random) -> str | None:
    """A slip of the pen that is no word: two letters swapped, one left out or one doubled."""
    for _ in range(6):
        i = rng.randrange(1, len(word) - 1)
        slip = rng.choice(
            (word[:i] + word[i + 1] + word[i] + word[i + 2 :], word[:i] + word[i + 1 :], word[:i] + word[i] + word[i:])
        )
        if slip != word and not is_known(slip):
            return slip
    return None
