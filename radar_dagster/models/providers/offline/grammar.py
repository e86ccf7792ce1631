"""Errors of spelling and agreement that a rule can find in English prose.

Here: detection in any text, without knowing what the text was before. A rule looks at a few neighbouring words, so it
misses errors that need a parser; it is written to be silent on correct prose. Not here: how errors are made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from radar_dagster.models.providers.offline.dictionary import is_known, is_misspelling, zipf
from radar_dagster.models.providers.offline.segments import Segment, vocabulary

_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+(?:[.,]\d+)*|[^\w\s]")

_DETERMINERS = vocabulary("the a an my our their your its every")
_PREPOSITIONS = vocabulary("of for from into with at")
_PLURAL_VERBS = vocabulary("are were have do don't aren't weren't haven't")
_SINGULAR_VERBS = vocabulary("is was has does doesn't isn't wasn't hasn't")
_AFTER_NO_DETERMINER = _PREPOSITIONS | _PLURAL_VERBS | vocabulary("in on is was has and but the a an to by or")
_AFTER_NO_PREPOSITION = vocabulary("is are was were has and but or")
_MODALS = vocabulary("will would can could must should may might cannot can't won't")
#: What stands before the subject of a clause; after a preposition the noun before the verb is no subject.
_CLAUSE_OPENERS = {"", ","} | vocabulary("; : because but so although while when if since whereas then")
_PLURAL_DETERMINERS = vocabulary("these those many several both few")
_COLLECTIVE = vocabulary(
    "people police rest majority number staff team data children men women media public family couple pair group "
    "others same young old poor rich sick following latter former criteria phenomena mice teeth feet"
)
_VOWEL_SOUND = re.compile(r"(?:[aeio]|u(?!s[aeiu]|ni(?!n|m)|r[aeiou]|t[aeiou]|b[aeiou]))(?!u)", re.IGNORECASE)
_SILENT_H = ("hour", "honest", "honour", "honor", "heir")


def errors(segments: Sequence[Segment]) -> Counter[str]:
    """The errors found, each as the words at fault, e.g. `recieve`, `they was`, `an report`, `the the`."""
    found: Counter[str] = Counter()
    for segment in segments:
        if not segment.is_code:
            found.update(_in_sentence(_TOKEN.findall(segment.text)))
    return found


def _in_sentence(tokens: list[str]) -> Iterator[str]:
    lowered = [token.lower().replace("’", "'") for token in tokens]
    if len(tokens) > 4 and tokens[0].islower() and tokens[-1] in ".!?" and is_known(lowered[0]):
        yield f"{tokens[0]} (no capital)"
    for i, word in enumerate(lowered):
        before = lowered[i - 1] if i else ""
        if tokens[i].islower() and is_misspelling(word):
            yield word
        if (before and before[0].isalpha() and _clashes(before, word, tokens[i])) or (
            i and _subject_clashes(lowered[i - 3] if i > 2 else "", lowered[i - 2] if i > 1 else "", before, word)
        ):
            yield f"{before} {word}"


def _clashes(first: str, second: str, written: str) -> bool:
    """Whether two neighbouring words can hardly be right, whatever stands around them."""
    return (
        (first == second and first.isalpha() and first not in {"that", "had", "very", "so", "no"} and written.islower())
        or (first == "a" and _sounds_like_vowel(second, written))
        or (first == "an" and written[0].isalpha() and written[0].islower() and not _sounds_like_vowel(second, written))
        or (first in _DETERMINERS and second in _AFTER_NO_DETERMINER)
        or (first in _PREPOSITIONS and second in _AFTER_NO_PREPOSITION)
        or (first in {"he", "she", "it", "this"} and second in {"are", "have", "do", "don't", "aren't", "haven't"})
        or (first in {"they", "we", "you", "these", "those"} and second in _SINGULAR_VERBS)
        or (first == "i" and second in {"is", "are", "has", "does", "were"})
        or (first in _MODALS and second.endswith("s") and not second.endswith("ss") and _is_inflected(second))
    )


def _subject_clashes(opener: str, determiner: str, noun: str, verb: str) -> bool:
    """Whether "the dogs was" or "the dog were" opens a clause."""
    if verb in _SINGULAR_VERBS and _is_plural(noun):
        return determiner in _PLURAL_DETERMINERS or (determiner == "the" and opener in _CLAUSE_OPENERS)
    subjunctive = opener == "if" and verb == "were"
    if verb in _PLURAL_VERBS and determiner in _DETERMINERS and opener in _CLAUSE_OPENERS and not subjunctive:
        return noun not in _COLLECTIVE and not noun.endswith("s") and noun.isalpha() and zipf(noun + "s") > 2.5
    return False


def _is_plural(noun: str) -> bool:
    return noun.endswith("s") and not noun.endswith(("ss", "us", "is", "news", "ics")) and zipf(noun[:-1]) > 2.5


def _is_inflected(word: str) -> bool:
    return max(zipf(word[:-1]), zipf(word.removesuffix("es"))) > 3 and word not in {
        "always",
        "perhaps",
        "sometimes",
        "besides",
        "this",
        "has",
        "its",
        "us",
        "was",
    }


def _sounds_like_vowel(word: str, written: str) -> bool:
    if not word or not word[0].isalpha() or written[0].isupper():
        return False
    return word.startswith(_SILENT_H) or (bool(_VOWEL_SOUND.match(word)) and not word.startswith(("one", "once", "eu")))
