"""Making what a text says wrong: other figures, other names, statements turned round, code altered.

Not here: leaving things out (`content.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from random import Random

from radar_dagster.models.providers.offline import lexicon, segments
from radar_dagster.models.providers.offline.edits.common import YEAR, Edit, Segments, pool
from radar_dagster.models.providers.offline.features import names_in
from radar_dagster.models.providers.offline.phrasing import plural


def alter_facts(text: Segments, known_figures: Collection[str], rng: Random, share: float) -> Edit:
    """Change a share of the figures and names (one of each at least), and turn statements into their contrary.

    A figure or name changes alike wherever it occurs. New figures are none of `known_figures`. A text without
    figure, name or code has one sentence turned in any case.
    """
    figures = _other_figures(text, known_figures, rng, share)
    names = _other_names(text, rng, share)
    bare = not (figures or names or any(s.is_code for s in text))
    reversals = 0
    result: Segments = []
    for segment in text:
        changed = _NUMBER.sub(lambda m: figures.get(m[0], m[0]), segment.text)
        turned = 0
        if segment.is_code:
            changed, turned = _turn_code(changed, rng, share)
        else:
            changed = _TOKEN.sub(lambda m: names.get(m[0], m[0]), changed)
            if rng.random() < 0.7 * share or (bare and not reversals):
                changed, turned = _turn_statement(changed, rng)
        reversals += turned
        result.append(segment._replace(text=changed))
    changes = (
        (len(figures), "figure", "altered"),
        (len(names), "name", "replaced"),
        (reversals, "statement", "reversed"),
    )
    return Edit(result, ", ".join(f"{verb} {plural(n, noun)}" for n, noun, verb in changes if n))


_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b")
_SMALL = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
#: A name with its genitive split off.
_TOKEN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*(?:['’](?!s\b)[^\W\d_]+)*")


def _share_of(found: Sequence[str], rng: Random, share: float) -> list[str]:
    return rng.sample(found, max(1, round(share * len(found)))) if found else []


def _other_names(text: Segments, rng: Random, share: float) -> dict[str, str]:
    """Other names for a share of those in the text; months and days stay."""
    kept = lexicon.MONTHS_AND_DAYS | {name.lower() for name in lexicon.NAMES}
    names = (name for s in text if not s.is_code for name in names_in(s.text) if name.lower() not in kept)
    return dict(zip(_share_of(list(dict.fromkeys(names)), rng, share), pool(lexicon.NAMES, rng), strict=False))


def _other_figures(text: Segments, known: Collection[str], rng: Random, share: float) -> dict[str, str]:
    """Other figures for a share of those in the text, of the same form and about the same size."""
    found = list(dict.fromkeys(m[0] for s in text for m in _NUMBER.finditer(s.text) if len(m[0]) <= 15))
    others: dict[str, str] = {}
    for figure in _share_of(found, rng, share):
        tries = (rng.choice(_SMALL) if figure in _SMALL else _scaled(figure, rng) for _ in range(8))
        new = next((t for t in tries if t != figure and not set(segments.figures(t)) & set(known)), None)
        if new is not None:
            others[figure] = new
    return others


def _scaled(figure: str, rng: Random) -> str:
    if re.fullmatch(r"\d{1,2}:\d\d", figure):
        hour, _, minute = figure.partition(":")
        return f"{(int(hour) + rng.randint(1, 7)) % 24}:{minute}"
    if not re.fullmatch(r"\d+|\d{1,3}(?:,\d{3})+|\d+\.\d+", figure):  # 1.2.3 and the like
        return figure[:-1] + str((int(figure[-1]) + rng.randint(1, 9)) % 10)
    decimals = len(figure.partition(".")[2])
    value = float(figure.replace(",", ""))
    if YEAR.fullmatch(figure):
        return str(int(value) + rng.choice((-1, 1)) * rng.randint(2, 9))
    other = value * rng.choice((rng.uniform(0.4, 0.8), rng.uniform(1.3, 2.2)))
    if value < 10 and not decimals:
        other = value + rng.randint(1, 6)
    return f"{other:,.{decimals}f}" if "," in figure else f"{other:.{decimals}f}"


_AUXILIARY = re.compile(
    r"\b(is|are|was|were|will|can|could|must|should|has|have|had|does|do|did|may)\b(?! not\b|n['’]t)", re.IGNORECASE
)
_WORD = re.compile(r"[a-z]+")


def _turn_statement(sentence: str, rng: Random) -> tuple[str, int]:
    """Swap words for their antonyms or negate the first auxiliary verb; a sentence that allows neither stays."""
    options = [m for m in _WORD.finditer(sentence) if m[0] in lexicon.antonyms()]
    if options and rng.random() < 0.6:
        m = rng.choice(options)
        return sentence[: m.start()] + lexicon.antonyms()[m[0]] + sentence[m.end() :], 1
    if found := re.search(r"\b(?:not|never) ", sentence):
        return sentence[: found.start()] + sentence[found.end() :], 1
    if auxiliary := _AUXILIARY.search(sentence):
        return sentence[: auxiliary.end()] + " not" + sentence[auxiliary.end() :], 1
    return sentence, 0


_CODE_SWAPS = {
    ">=": "<=", "<=": ">=", "==": "!=", "!=": "==", "+": "-", "-": "+", "<": ">", ">": "<", "max(": "min(",
    "min(": "max(", " and ": " or ", " or ": " and ", "True": "False", "False": "True", "break": "continue",
}  # fmt: skip
_OPERATOR = re.compile("|".join(re.escape(k) for k in _CODE_SWAPS))


def _turn_code(code: str, rng: Random, share: float) -> tuple[str, int]:
    lines = code.split("\n")
    changed = [line if line.lstrip().startswith("```") else _turned_line(line, rng, share) for line in lines]
    return "\n".join(changed), sum(a != b for a, b in zip(lines, changed, strict=True))


def _turned_line(line: str, rng: Random, share: float) -> str:
    return _OPERATOR.sub(lambda m: _CODE_SWAPS[m[0]], line, count=1) if rng.random() < share else line
