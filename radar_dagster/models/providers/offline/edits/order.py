"""The order of sentences and the words that tie them together.

Not here: dropping or adding content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random

from radar_dagster.models.providers.offline.edits.common import Edit, Segments, capitalised
from radar_dagster.models.providers.offline.measures import agreement_with_order
from radar_dagster.models.providers.offline.phrasing import plural
from radar_dagster.models.providers.offline.segments import Segment


def scramble(text: Segments, rng: Random) -> Edit:
    """Put the sentences into another order and take out the words that tie them together.

    A text of fewer than six sentences is cut at its clauses first. At most six in ten pairs keep their order.
    """
    cut = split_clauses(text) if len(text) < 6 else text
    untied = [s if s.is_code else s._replace(text=untie(s.text)) for s in cut]
    order = _another_order(len(untied), rng)
    shuffled = [untied[j]._replace(gap=cut[i].gap or " ") for i, j in enumerate(order)]
    notes = [f"cut {plural(len(text), 'sentence')} into {len(cut)}"] if len(cut) > len(text) else []
    removed = sum(a.text != b.text for a, b in zip(cut, untied, strict=True))
    notes += [f"removed the connectives of {plural(removed, 'sentence')}"] if removed else []
    notes += [f"shuffled {plural(len(order), 'sentence')}"] if len(order) > 1 else []
    return Edit(shuffled, ", ".join(notes))


def _another_order(count: int, rng: Random) -> list[int]:
    order = list(range(count))
    best, best_agreement = order[::-1], 0.0
    for _ in range(20):
        rng.shuffle(order)
        agreement = agreement_with_order(order)
        if 0.25 <= agreement <= 0.6:
            return order
        if best_agreement < agreement <= 0.6:
            best, best_agreement = list(order), agreement
    return best


_CLAUSE = re.compile(
    r"(?:,|;)\s+(?P<link>and|but|because|although|while|whereas|so|since|which|however,|therefore,?)\s+|;\s+",
    re.IGNORECASE,
)


#: Also cuts "… and the …", where the second part is likely to have a subject of its own.
LOOSE_CLAUSE = re.compile(
    _CLAUSE.pattern + r"|\s+and\s+(?=(?:he|she|it|they|we|you|i|there|this|the|an?|her|his|its|their)\s)", re.IGNORECASE
)


def split_clauses(
    text: Segments, rng: Random | None = None, share: float = 1.0, at: re.Pattern[str] = _CLAUSE
) -> Segments:
    """Make sentences of clauses of at least four words; with `rng`, at only a share of the places."""
    result: Segments = []
    for segment in text:
        if segment.is_code or not segment.text.endswith((".", "!", "?")):
            result.append(segment)
            continue
        result += _clauses_of(segment, at, lambda: rng is None or rng.random() < share)
    return result


def _clauses_of(segment: Segment, at: re.Pattern[str], cuts: Callable[[], bool]) -> Iterator[Segment]:
    start, lead = 0, ""
    for match in at.finditer(segment.text):
        head, tail = segment.text[start : match.start()], segment.text[match.end() :]
        if min(len(head.split()), len(tail.split())) < 4 or head.count("(") != head.count(")") or not cuts():
            continue
        yield Segment(capitalised(lead + head) + ".", " ")
        start, lead = match.end(), "This " if (match["link"] or "").lower() == "which" else ""
    yield Segment(capitalised(lead + segment.text[start:]) if start else segment.text, segment.gap)


_TIES = "however|therefore|thus|hence|consequently|moreover|furthermore|then|next|finally|first|also|still|otherwise|so"
_LEADING_TIE = re.compile(
    rf"^(?:(?:{_TIES}),\s+|(?:but|and|because|although|since|while|whereas|so)\s+)", re.IGNORECASE
)
_INNER_TIE = re.compile(
    r"(?<!\bsince)(?<!\buntil)(?<!\bby)(?<!\bfrom),?\s+(?:therefore|thus|hence|consequently|moreover|also|then|however|otherwise)\b,?",
    re.IGNORECASE,
)


def untie(sentence: str) -> str:
    """A sentence without the connectives that tie it to others."""
    untied = _LEADING_TIE.sub("", sentence)
    return capitalised(_INNER_TIE.sub("", untied)) if untied else sentence


def displace(text: Segments, rng: Random) -> Edit:
    """Move one sentence elsewhere; the gaps stay where they are, so that paragraphs keep their shape."""
    texts = list(text)
    i, j = rng.sample(range(len(text)), 2)
    texts.insert(j, texts.pop(i))
    return Edit([s._replace(gap=old.gap or " ") for s, old in zip(texts, text, strict=True)], "moved 1 sentence")
