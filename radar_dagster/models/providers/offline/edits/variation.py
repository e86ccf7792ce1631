"""Variation that leaves the quality of a text alone, and the small faults that every writer makes.

Not here: edits that a criterion asks for.
"""

from __future__ import annotations

import re
from random import Random

from radar_dagster.models.providers.offline import lexicon
from radar_dagster.models.providers.offline.edits.common import (
    Edit,
    Segments,
    closed,
    common_words,
    in_case_of,
    is_sentence,
    lowered,
    tidy,
)
from radar_dagster.models.providers.offline.edits.content import insert_sentences
from radar_dagster.models.providers.offline.edits.order import displace, untie
from radar_dagster.models.providers.offline.edits.slips import make_errors
from radar_dagster.models.providers.offline.edits.wording import swap_words
from radar_dagster.models.providers.offline.phrasing import plural
from radar_dagster.models.providers.offline.segments import Segment


def vary(text: Segments, index: int, is_summary: bool) -> Edit:
    """Exchange phrases for equal ones, so that different `index` give different texts of the same quality.

    The low bits of `index` say which of up to ten exchangeable phrases change: with five of them, 32 successive odd
    multiples of one number give 32 texts. A text with fewer also gets another opening and another end; a reply (no
    summary) gets a closing sentence now and then in any case.
    """
    places = _swappable(text)
    places = places[:: max(1, len(places) // 10)][:10]
    chosen = [place for bit, place in enumerate(places) if index >> bit & 1]
    joined = [s.text for s in text]
    for i, start, old, new in reversed(chosen):
        joined[i] = joined[i][:start] + new + joined[i][start + len(old) :]
    varied = [s._replace(text=t) for s, t in zip(text, joined, strict=True)]
    notes = [f"exchanged {plural(len(chosen), 'phrase')}"] if chosen else []
    opening = ending = 0
    if len(places) < 5:
        spare = index >> len(places)
        ending, opening = spare % 9, spare // 9 % 9
    elif not is_summary and index % 3 == 0:
        ending = 1 + index // 3 % 8
    framed = (_with_link_words if is_summary else _with_courtesies)(varied, opening, ending)
    notes += ["varied the opening and the end"] if framed != varied else []
    return Edit(framed, ", ".join(notes))


def _swappable(text: Segments) -> list[tuple[int, int, str, str]]:
    found: list[tuple[int, int, str, str]] = []
    for i, segment in enumerate(text):
        if segment.is_code:
            continue
        taken: set[int] = set()
        for match in _NEUTRAL.finditer(segment.text):
            if not taken & set(range(match.start(), match.end())):
                taken.update(range(match.start(), match.end()))
                found.append((i, match.start(), match[0], in_case_of(match[0], _NEUTRAL_NEW[match[0].lower()])))
    return found


_NEUTRAL_NEW = dict(lexicon.NEUTRAL_SWAPS)
_NEUTRAL = re.compile(
    r"\b(?:" + "|".join(sorted(map(re.escape, _NEUTRAL_NEW), key=len, reverse=True)) + r")\b(?! to\b|[.,;:!?])",
    re.IGNORECASE | re.ASCII,
)


def _with_courtesies(text: Segments, opening: int, ending: int) -> Segments:
    """A sentence before and after the text; 0 stands for none."""
    if ending:
        text = [*closed(text, "\n\n"), Segment(lexicon.CLOSERS[ending - 1], "")]
    return [Segment(lexicon.OPENERS[opening - 1], "\n\n"), *text] if opening else text


def _with_link_words(text: Segments, opening: int, ending: int) -> Segments:
    """A few words before the first and before the last sentence; 0 stands for none."""
    text = list(text)
    common = common_words(text)
    # A line of key words at the end is no sentence.
    last = next((i for i in range(len(text) - 1, 0, -1) if is_sentence(text[i])), len(text) - 1)
    if ending and last:
        rest = lowered(untie(text[last].text), common)
        text[last] = text[last]._replace(text=f"{lexicon.LAST_WORDS[ending - 1]} {rest}")
    if opening:
        text[0] = text[0]._replace(text=f"{lexicon.FIRST_WORDS[opening - 1]} {lowered(text[0].text, common)}")
    return text


#: Kinds of small faults; see `blemish`.
BLEMISHES = ("slip", "aside", "displaced", "lost", "wording")


def blemish(text: Segments, rng: Random, kind: str) -> Edit:
    """One small fault such as every writer makes: a slip, an aside, a sentence lost or displaced, an odd word."""
    if kind == "slip":
        return make_errors(text, rng, 0.03)
    if kind == "aside":
        return insert_sentences(text, lexicon.VAGUE, rng, rng.uniform(0.02, 0.15))
    if kind == "displaced" and len(text) > 2:
        return displace(text, rng)
    if kind == "lost" and len(text) > 2:
        i = rng.randrange(1, len(text))
        return Edit(tidy([s for k, s in enumerate(text) if k != i]), "left out 1 sentence")
    if kind == "wording":
        changed, count = swap_words(text, lexicon.rarer_forms(), rng, 0.2)
        return Edit(changed, f"made {plural(count, 'word')} rarer" if count else "")
    return Edit(text, "")
