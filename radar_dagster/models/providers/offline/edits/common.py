"""What the operations share: the `Edit` they return, and small repairs to sentences.

Not here: any operation of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from radar_dagster.models.providers.offline import lexicon, segments
from radar_dagster.models.providers.offline.features import names_in
from radar_dagster.models.providers.offline.segments import Segment, vocabulary

Segments = list[Segment]


class Edit(NamedTuple):
    """The text after an operation, and what was done in words; an empty note means that nothing could be done."""

    segments: Segments
    note: str


YEAR = re.compile(r"\b(?:1[5-9]|20)\d\d\b")
PARENTHESIS = re.compile(r"\s*\([^()\n]{1,200}\)")


def pool(items: Sequence[str], rng: Random, forever: bool = False) -> Iterator[str]:
    """The items in random order, once or again and again."""
    while items:
        yield from rng.sample(list(items), len(items))
        if not forever:
            return


def interleave(text: Segments, added: Iterable[str], rng: Random) -> Segments:
    """Put each added sentence after a random sentence of a paragraph (after any segment if there is none)."""
    places = [i for i, s in enumerate(text) if is_sentence(s)] or list(range(len(text)))
    after: dict[int, list[str]] = {}
    for sentence in added:
        after.setdefault(rng.choice(places), []).append(sentence)
    result: Segments = []
    for i, segment in enumerate(text):
        new = after.get(i, [])
        between = " " if is_sentence(segment) and segment.gap != "\n" else "\n"
        chain = [segment._replace(gap=between) if new else segment, *(Segment(s, between) for s in new)]
        result += [*chain[:-1], chain[-1]._replace(gap=segment.gap)]
    return result


def tidy(text: Segments) -> Segments:
    """The same segments with a gap between each two and none at the end."""
    return [s._replace(gap=s.gap or " ") for s in text[:-1]] + [s._replace(gap="") for s in text[-1:]]


def closed(text: Segments, gap: str) -> Segments:
    """The same segments, the last one followed by `gap`."""
    return [*text[:-1], text[-1]._replace(gap=gap)] if text else []


def is_sentence(segment: Segment) -> bool:
    """Whether a segment is a sentence of prose and not code, a heading, a greeting or a line of verse."""
    return not segment.is_code and segment.text.endswith((".", "!", "?")) and len(segment.text.split()) > 3


def count_specifics(text: str) -> int:
    """How many figures and names a sentence holds."""
    return len(segments.figures(text)) + len(names_in(text))


def count_words(text: Segments) -> int:
    """Words as white space divides them."""
    return sum(word_count(s.text) for s in text)


def word_count(sentence: str) -> int:
    """Words of one sentence."""
    return len(sentence.split())


def capitalised(text: str) -> str:
    """With a capital first letter, the rest as it is."""
    return text[:1].upper() + text[1:]


#: First words that are no names; "In short, jack" would be a fault of the editor's own. The stock sentences open with
#: none, so one of them may follow another: "Besides, needless to say".
_STARTERS = (
    lexicon.STOPWORDS
    | lexicon.CONNECTIVES
    | {sentence.split()[0].strip(",.").lower() for sentence in lexicon.stock_sentences()}
    | vocabulary(
        "inasmuch notwithstanding subsequent presently accordingly nonetheless nevertheless thank please two three "
        "four five six seven eight nine ten hundred thousand people men women children today yesterday tomorrow "
        "whatever according during despite several another nobody everyone someone lastly among amid beyond half"
    )
)


def lowered(text: str, common: Collection[str] = ()) -> str:
    """Start in lower case, unless the first word could be a name or is "I"; `common` words are no names."""
    first = re.sub(r"\W", "", text.split(maxsplit=1)[0]).lower() if text.split() else ""
    is_word = first != "i" and (first in _STARTERS or first in common or first in lexicon.simpler_forms())
    return text[:1].lower() + text[1:] if is_word else text


def common_words(text: Segments) -> frozenset[str]:
    """Words that the text writes in lower case and never with a capital inside a sentence."""
    prose = [s.text for s in text if not s.is_code]
    names = {name.lower() for sentence in prose for name in names_in(sentence, first_words=False)}
    return frozenset(w for sentence in prose for w in segments.words(sentence) if w.islower()) - names


def in_case_of(old: str, new: str) -> str:
    """`new` with a capital if `old` has one."""
    return capitalised(new) if old[:1].isupper() else new


def mended_articles(text: str) -> str:
    """With "a" and "an" as the next word asks for."""
    text = re.sub(r"\b([Aa])n(?= [bcdfgjklmnpqrstvwxyz])", r"\1", text)
    return re.sub(r"\b([Aa])(?= (?:[aeio]|un(?!i)|ul|ut(?!i)))", r"\1n", text)


def squeezed(text: str) -> str:
    """Close the holes that removed words leave."""
    return re.sub(r"[ \t]+(?=[ \t]|[,.;:!?](?:\s|$))", "", text).strip(" \t")
