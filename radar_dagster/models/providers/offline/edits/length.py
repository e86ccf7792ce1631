"""More or fewer words for the same content.

Not here: other content (`content.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random

from radar_dagster.models.providers.offline import lexicon
from radar_dagster.models.providers.offline.aspects import content_terms
from radar_dagster.models.providers.offline.edits.common import (
    PARENTHESIS,
    Edit,
    Segments,
    closed,
    common_words,
    count_words,
    interleave,
    lowered,
    pool,
    squeezed,
    tidy,
    word_count,
)
from radar_dagster.models.providers.offline.edits.content import within_budget
from radar_dagster.models.providers.offline.edits.order import split_clauses
from radar_dagster.models.providers.offline.phrasing import plural
from radar_dagster.models.providers.offline.segments import Segment


def pad(text: Segments, rng: Random, factor: float) -> Edit:
    """Add asides on what the text speaks of until it has `factor` times its words."""
    missing = (factor - 1) * count_words(text)
    subjects = subjects_of(text) or ["matter"]
    templates = pool(lexicon.PADDING, rng, forever=True)
    added: list[str] = []
    while missing > 0:
        a = rng.choice(subjects)
        b = rng.choice([s for s in subjects if s != a] or ["rest"])
        added.append(next(templates).format(a=a, b=b))
        missing -= word_count(added[-1])
    return Edit(interleave(text, added, rng), f"padded with {plural(len(added), 'sentence')}" if added else "")


def compress(text: Segments, rng: Random, factor: float) -> Edit:
    """Keep the most central clauses, in their order, until `factor` of the words are used; at least one stays."""
    bare = [s if s.is_code else s._replace(text=squeezed(PARENTHESIS.sub("", s.text))) for s in text]
    clauses = split_clauses(bare)
    weights = Counter(t for s in clauses for t in content_terms(s.text))
    sizes = [word_count(s.text) for s in clauses]
    centrality = [
        sum(weights[t] for t in set(content_terms(s.text))) / (5 + size) * rng.uniform(0.8, 1.2)
        for s, size in zip(clauses, sizes, strict=True)
    ]
    by_centrality = sorted(range(len(clauses)), key=lambda i: -centrality[i])
    kept = within_budget(by_centrality, sizes, factor * count_words(text))
    result = tidy([s for i, s in enumerate(clauses) if i in kept])
    return Edit(result, f"cut from {plural(count_words(text), 'word')} to {count_words(result)}")


_RETELLING = ("In other words,", "To repeat,", "Again,", "As already said,", "To say it once more,", "That is to say,")


def repeat(text: Segments, rng: Random, share: float) -> Edit:
    """Say a share of the sentences again, at once or at the end, word for word or with a lead-in."""
    chosen = set(rng.sample(range(len(text)), max(1, round(share * len(text)))))
    common = common_words(text)
    result: Segments = []
    postponed: Segments = []
    for i, segment in enumerate(text):
        result.append(segment)
        if i not in chosen:
            continue
        again = segment.text
        if not segment.is_code and rng.random() < 0.6:
            again = f"{rng.choice(_RETELLING)} {lowered(again, common)}"
        if rng.random() < 0.5 and segment.gap:
            result[-1] = segment._replace(gap=" " if "\n" not in segment.gap else "\n")
            result.append(Segment(again, segment.gap, segment.is_code))
        else:
            postponed.append(Segment(again, " ", segment.is_code))
    return Edit(closed(result, " ") + postponed, f"said {plural(len(chosen), 'sentence')} again")


_SUBJECT = re.compile(
    r"\b(?:the|a|an|her|his|their|its|your|my|this)\s+((?:[a-z]+(?:-[a-z]+)?\s+){0,1}[a-z]+(?:-[a-z]+)?)"
    r"(?=\s+(?:of|was|is|are|were|that|which|who|and|has|had|but|will)\b|[,.;:])"
)


def subjects_of(text: Segments) -> list[str]:
    """Short noun phrases of the text ("second walk", "zip"), found between an article and a function word."""
    found = [m[1] for s in text if not s.is_code for m in _SUBJECT.finditer(s.text)]
    return list(dict.fromkeys(f for f in found if content_terms(f) and len(f) > 3))
