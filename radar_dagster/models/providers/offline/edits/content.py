"""What a text says: content dropped, replaced, blurred or added.

Not here: wrong content (`facts.py`), the same content twice (`length.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from random import Random

from radar_dagster.models.providers.offline import lexicon
from radar_dagster.models.providers.offline.aspects import content_terms
from radar_dagster.models.providers.offline.edits.common import (
    YEAR,
    Edit,
    Segments,
    capitalised,
    closed,
    count_specifics,
    count_words,
    interleave,
    pool,
    squeezed,
    tidy,
    word_count,
)
from radar_dagster.models.providers.offline.features import names_in
from radar_dagster.models.providers.offline.phrasing import listed, plural
from radar_dagster.models.providers.offline.segments import Segment


def replace_content(
    text: Segments, filler: Sequence[str], rng: Random, share: float, keep_from: int | None = None
) -> Edit:
    """Drop a share of the text and put sentences of `filler` in its place, so that the length stays about the same.

    What stays are the sentences with the fewest figures and names, or, with `keep_from`, one run of sentences from
    there on. At least one sentence stays.
    """
    sizes = [max(1, word_count(s.text)) for s in text]
    budget = max(1, round((1 - share) * sum(sizes)))
    if keep_from is None:
        order = sorted(range(len(text)), key=lambda i: (text[i].is_code, count_specifics(text[i].text) + rng.random()))
    else:
        order = [(keep_from + k) % len(text) for k in range(len(text))]
    kept = within_budget(order, sizes, budget)
    fillers = pool(filler, rng)
    result: Segments = []
    added, debt = 0, 0
    for i, segment in enumerate(text):
        if i in kept:
            result.append(segment)
            continue
        debt += sizes[i]
        while debt > 6 and (sentence := next(fillers, None)):
            result.append(Segment(sentence, segment.gap if "\n\n" in segment.gap else " "))
            debt -= word_count(sentence)
            added += 1
    if len(kept) == len(text):
        return Edit(text, "")
    dropped = f"dropped {len(text) - len(kept)} of {plural(len(text), 'sentence')}"
    return Edit(tidy(result), f"{dropped} and put {plural(added, 'other')} in their place" if added else dropped)


def within_budget(order: Iterable[int], sizes: Sequence[int], budget: float) -> set[int]:
    """The places that fit into a budget of words when they are taken in this order; the first one in any case."""
    kept: set[int] = set()
    for i in order:
        if not kept or sizes[i] <= budget:
            kept.add(i)
            budget -= sizes[i]
    return kept


def insert_sentences(text: Segments, filler: Sequence[str], rng: Random, share: float) -> Edit:
    """Add sentences of `filler` between the others until the text has grown by a share of its words."""
    wanted = share * count_words(text)
    added: list[str] = []
    for sentence in pool(filler, rng):
        if wanted <= 0:
            break
        added.append(sentence)
        wanted -= word_count(sentence)
    return Edit(interleave(text, added, rng), f"inserted {plural(len(added), 'sentence')}")


_QUANTITY = re.compile(
    r"(?P<money>[£$€¥]\s?)?\d+(?:[.,:]\d+)*(?P<share>\s?%|\s+per\s?cent)?(?P<unit>\s+(?=[a-z]+s\b))?"
)


def blur(text: Segments, rng: Random, share: float) -> Edit:
    """Put vague words in the place of figures and names."""
    count = 0

    def vague_quantity(match: re.Match[str]) -> str:
        nonlocal count
        if rng.random() >= share:
            return match[0]
        count += 1
        if match["money"]:
            return "a certain sum"
        if match["share"]:
            return "a certain share"
        if YEAR.fullmatch(match[0].strip()):
            return "a certain year" + (match["unit"] or "")
        return rng.choice(("some", "several", "a number of")) + match["unit"] if match["unit"] else "a certain number"

    result: Segments = []
    for segment in text:
        changed = _QUANTITY.sub(vague_quantity, segment.text)
        if not segment.is_code:
            changed, blurred = _blur_names(changed, rng, share)
            count += blurred
        result.append(segment._replace(text=changed))
    return Edit(result, f"blurred {plural(count, 'figure or name', 'figures and names')}" if count else "")


def _blur_names(sentence: str, rng: Random, share: float) -> tuple[str, int]:
    names = sorted(set(names_in(sentence)), key=len, reverse=True)
    if not names:
        return sentence, 0
    name = "(?:" + "|".join(map(re.escape, names)) + ")"
    run = re.compile(
        rf"\b(?P<before>(?:in|at|from|near|to|of)\s+)?(?:the\s+)?(?P<run>{name}(?:\s+{name})*)(?P<own>['’]s)?(?!\w)"
    )

    count = 0

    def vague_name(match: re.Match[str]) -> str:
        nonlocal count
        if rng.random() >= share:
            return match[0]
        count += 1
        vague = "a certain place" if match["before"] else rng.choice(("somebody", "one of those involved"))
        return (match["before"] or "") + vague + (match["own"] or "")

    changed = run.sub(vague_name, sentence)
    return capitalised(changed) if sentence[:1].isupper() else changed, count


def add_phrases(text: Segments, statements: Sequence[str], phrases: Sequence[str], rng: Random, share: float) -> Edit:
    """Add the given sentences, and a line at the end that lists a share of those phrases that are not in them."""
    left = [p for p in phrases if not any(p in statement for statement in statements)]
    chosen = rng.sample(left, max(0 if statements else 1, round(share * len(left)))) if left else []
    result = interleave(text, statements, rng)
    if chosen:
        line = rng.choice(lexicon.COVERING).format(x=", ".join(chosen))
        result = [*closed(result, "\n\n"), Segment(line, "")]
    added = [plural(len(statements), "sentence")] if statements else []
    added += ["a line"] if chosen else []
    return Edit(result, f"added {listed(added)} with the words of the definition" if added else "")


def remove_terms(text: Segments, terms: Collection[str], rng: Random) -> Edit:
    """Take out every sentence that holds one of the terms and put vague ones in their place.

    If every sentence holds one, the one with the fewest stays, without those words.
    """
    hits = [sum(t in terms for t in content_terms(s.text)) for s in text]
    if not any(hits):
        return Edit(text, "")
    spared = min(range(len(text)), key=lambda i: (hits[i], text[i].is_code)) if all(hits) else -1
    fillers = pool(lexicon.VAGUE, rng)
    result: Segments = []
    for i, segment in enumerate(text):
        if i == spared:
            result.append(segment._replace(text=_without(segment.text, terms)))
        elif not hits[i]:
            result.append(segment)
        elif sentence := next(fillers, None):
            result.append(Segment(sentence, segment.gap or " "))
    return Edit(tidy(result), f"took out {plural(sum(map(bool, hits)), 'sentence')} with words of the definition")


def _without(sentence: str, terms: Collection[str]) -> str:
    """A sentence without the words that stand for one of the terms; a dash where nothing is left."""
    kept = _WORD.sub(lambda m: "" if any(t in terms for t in content_terms(m[0])) else m[0], sentence)
    return squeezed(kept) or "–"


_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
