"""What is known about single English words: frequency, spelling, stem, syllables.

Here: look-ups and rules about one word at a time, cached. The dictionary (pyspellchecker's, about 160,000 words with
counts) is loaded at the first look-up. Not here: word lists of our own (`lexicon.py`), anything about whole texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

#: Below this Zipf value a word counts as rare: fewer than about one occurrence in 630,000 words.
RARE = 3.2
#: A word that stands in no dictionary is taken to be as rare as this.
_UNLISTED = 1.5

#: A derived form counts as a word when its base is at least this common.
_COMMON_BASE = 2.5

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_VOWEL_GROUP = re.compile(r"[aeiouy]+")
#: A final e, -ed or -es that is not spoken: "make", "walked", "makes", but "table", "wanted", "houses", "tables".
_SILENT_E = re.compile(r"(?:[aeiouy]l|[^aeioly])e$|[^tde]ed$|(?:[aeiouy]l|[^lscgxzhei]|[^cs]h)es$")
#: Neighbouring vowels that are spoken apart: "radio", "video", "being", "poem".
_TWO_VOWELS = re.compile(r"ia(?!l)|io(?!n)|eo(?!p)|ua|ea$|ium$|[ey]ing$|poe[mt]")
#: Letters of British spellings and of the American ones that the dictionary lists.
_BRITISH = (
    ("isation", "ization"), ("ising", "izing"), ("ised", "ized"), ("ises", "izes"), ("ise", "ize"), ("yse", "yze"),
    ("ysed", "yzed"), ("our", "or"), ("ogue", "og"), ("lled", "led"), ("lling", "ling"), ("ller", "ler"),
    ("ae", "e"), ("oe", "e"), ("tre", "ter"), ("ence", "ense"), ("mme", "m"),
)  # fmt: skip
_ENDINGS = ("'s", "’s", "s", "es", "ed", "d", "ing", "ly", "ness", "less", "er", "r", "like", "ward", "wards")
_PREFIXES = ("un", "re", "non", "pre", "anti", "over", "under", "mis", "sub", "inter", "co", "self", "multi", "bio")


@lru_cache(maxsize=1)
def _counts() -> Mapping[str, int]:
    from spellchecker import SpellChecker

    counts: Mapping[str, int] = SpellChecker(language="en").word_frequency.dictionary
    return counts


@lru_cache(maxsize=1)
def _total() -> int:
    return sum(_counts().values())


@lru_cache(maxsize=50_000)
def is_known(word: str) -> bool:
    """Whether the dictionary lists the word, in American or British spelling, or its stem with a regular ending."""
    word = word.lower().replace("’", "'")
    return any(form in _counts() for form in _spellings(word)) or (len(word) > 4 and _is_derived(word))


@lru_cache(maxsize=50_000)
def zipf(word: str) -> float:
    """Zipf frequency: log10 of the occurrences per billion words; 1.5 for a word that is not listed.

    The scale is that of van Heuven et al. (2014), SUBTLEX-UK: 3 and below are rare words, 5 and above everyday ones.
    """
    word = word.lower().replace("’", "'")
    count = max((_counts().get(form, 0) for form in _spellings(word)), default=0)
    return math.log10(count * 1e9 / _total()) if count else _UNLISTED


@lru_cache(maxsize=50_000)
def is_misspelling(word: str) -> bool:
    """Whether an unlisted word is one slip of the pen away from a listed one that is not rare.

    A word that resembles nothing (a name, a chemical, another language) is unlisted but no misspelling.
    """
    word = word.lower()
    if len(word) < 4 or not (word.isascii() and word.isalpha()) or len(word) > 30 or is_known(word):
        return False
    return any(zipf(form) >= RARE for form in _one_slip_away(word))


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Take off regular endings of number, tense, adverb and possession, so that forms of one word meet.

    >>> [stem(word) for word in ("refunded", "refunds", "Refund's", "stopping", "studies", "quickly")]
    ['refund', 'refund', 'refund', 'stop', 'study', 'quick']
    """
    word = word.lower().replace("’", "'").removesuffix("'s").removesuffix("'")
    if not word.isascii() or len(word) < 4:
        return word
    if word.endswith(("ies", "ied")) and len(word) > 4:
        return word[:-3] + "y"
    for ending, shortest in (("ing", 3), ("ed", 3), ("ly", 4)):
        base = word.removesuffix(ending)
        if base != word and len(base) >= shortest and base[-1] != "e" and _VOWEL_GROUP.search(base):
            return _bare(base)
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return _bare(word)


@lru_cache(maxsize=50_000)
def syllables(word: str) -> int:
    """Estimate the syllables of an English word by its groups of vowels; at least 1.

    >>> [syllables(word) for word in ("cat", "table", "readable", "amended", "walked", "idea")]
    [1, 2, 3, 3, 1, 3]
    """
    word = word.lower()
    count = len(_VOWEL_GROUP.findall(word)) - bool(_SILENT_E.search(word)) + len(_TWO_VOWELS.findall(word))
    return max(1, count)


def _bare(word: str) -> str:
    """Undo a doubled consonant and drop a silent e, so that `stopp`, `stop` and `hope`, `hop(ing)` meet their base."""
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _spellings(word: str) -> Iterator[str]:
    yield word
    for british, american in _BRITISH:
        if british in word:
            yield word.replace(british, american)


def _is_derived(word: str) -> bool:
    if re.search("[^aeiou]ys$", word):
        return False  # "studys" is no plural
    bases = [word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending)]
    bases += [word.removeprefix(prefix) for prefix in _PREFIXES if word.startswith(prefix)]
    bases += [base[:-1] + "y" for base in bases if base.endswith("i")]
    # Short or rare bases make a word of nearly every slip: "reslut" would be re + slut, "thier" thi + er.
    return any(len(base) >= 5 and zipf(base) >= _COMMON_BASE for base in bases)


def _one_slip_away(word: str) -> Iterator[str]:
    """Every string at one transposition, deletion, substitution or insertion (Damerau 1964)."""
    for i in range(len(word) + 1):
        head, tail = word[:i], word[i:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        if tail:
            yield head + tail[1:]
            yield from (head + letter + tail[1:] for letter in _LETTERS)
        yield from (head + letter + tail for letter in _LETTERS)
