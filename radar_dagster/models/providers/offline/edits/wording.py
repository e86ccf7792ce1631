"""Harder and easier words and sentences.

Not here: language errors (`slips.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

from radar_dagster.models.providers.offline import lexicon
from radar_dagster.models.providers.offline.edits.common import (
    PARENTHESIS,
    Edit,
    Segments,
    common_words,
    in_case_of,
    is_sentence,
    lowered,
    mended_articles,
    pool,
    squeezed,
)
from radar_dagster.models.providers.offline.edits.content import insert_sentences
from radar_dagster.models.providers.offline.edits.order import LOOSE_CLAUSE, split_clauses
from radar_dagster.models.providers.offline.phrasing import plural
from radar_dagster.models.providers.offline.segments import Segment, vocabulary


def complicate(text: Segments, rng: Random, share: float) -> Edit:
    """Use rarer words, join sentences to long ones, and open them with ornate phrases."""
    worded, swapped = swap_words(text, lexicon.rarer_forms(), rng, share)
    joined = _join_sentences(worded, rng, 0.7 * share)
    ornate = pool(lexicon.ORNATE, rng, forever=True)
    openings = 0
    common = common_words(text)
    result = list(joined)
    for i, segment in enumerate(joined):
        if is_sentence(segment) and rng.random() < 1.2 * share:
            result[i] = segment._replace(text=f"{next(ornate)} {lowered(segment.text, common)}")
            openings += 1
    notes = [f"made {plural(swapped, 'word')} rarer"] if swapped else []
    notes += [f"opened {plural(openings, 'sentence')} ornately"] if openings else []
    notes += [f"joined {plural(len(text) - len(joined), 'pair')} of sentences"] if len(joined) < len(text) else []
    return Edit(result, ", ".join(notes))


def simplify(text: Segments, rng: Random, share: float) -> Edit:
    """Use simpler words, leave out parentheses and adverbs in -ly, cut sentences at their clauses, add plain ones."""
    result, swapped = swap_words(text, lexicon.simpler_forms(), rng, share)
    bare = [s if s.is_code else s._replace(text=squeezed(_ADVERB.sub("", PARENTHESIS.sub("", s.text)))) for s in result]
    left_out = sum(a.text != b.text for a, b in zip(result, bare, strict=True))
    cut = split_clauses(bare, rng, share, LOOSE_CLAUSE)
    plain = insert_sentences(cut, lexicon.PLAIN, rng, 0.3 * share)
    notes = [f"made {plural(swapped, 'word')} simpler"] if swapped else []
    notes += [f"shortened {plural(left_out, 'sentence')}"] if left_out else []
    notes += [f"cut {plural(len(text), 'sentence')} into {len(cut)}"] if len(cut) > len(text) else []
    return Edit(plain.segments, ", ".join([*notes, plain.note]))


def swap_words(text: Segments, swaps: Mapping[str, str], rng: Random, share: float) -> tuple[Segments, int]:
    """Exchange a share of the words that `swaps` knows, and tell how many were."""
    count, previous = 0, ""

    def swap(match: re.Match[str]) -> str:
        nonlocal count, previous
        word, before = match[0].lower(), previous
        previous = word
        new = swaps.get(word)
        is_noun = before in _BEFORE_NOUNS and word in lexicon.verb_forms()
        if new is None or is_noun or rng.random() >= share or match[0].isupper():
            return match[0]
        count += 1
        return in_case_of(match[0], new)

    result = [s if s.is_code else s._replace(text=mended_articles(re.sub(r"[^\W\d_]+", swap, s.text))) for s in text]
    return result, count


_BEFORE_NOUNS = vocabulary("the a an my your his her its our their this that each every no of first second last whole")
_JOINTS = (
    "; moreover, ",
    ", and it may be added that ",
    "; consequently, ",
    ", whereas at the same time ",
    "; furthermore, ",
)


def _join_sentences(text: Segments, rng: Random, share: float) -> Segments:
    result: Segments = []
    common = common_words(text)
    for segment in text:
        previous = result[-1] if result else None
        if (
            previous and is_sentence(previous) and is_sentence(segment) and previous.text.endswith(".")
            and "\n" not in previous.gap and rng.random() < share
        ):  # fmt: skip
            result[-1] = Segment(previous.text[:-1] + rng.choice(_JOINTS) + lowered(segment.text, common), segment.gap)
        else:
            result.append(segment)
    return result


_ADVERB = re.compile(r"(?<=\s)(?!only\b|early\b|family\b|likely\b|daily\b|apply\b|reply\b|supply\b)[a-z]{3,}ly\s+")
