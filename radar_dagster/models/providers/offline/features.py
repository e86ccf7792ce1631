"""Measured properties of one text on its own: sentences, terms, figures, names, repetitions, errors, word statistics.

Here: extraction, cached per text, linear in its length. Not here: comparison with the task (`measures.py`), scores.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from radar_dagster.models.providers.offline import grammar, segments
from radar_dagster.models.providers.offline.aspects import content_terms
from radar_dagster.models.providers.offline.dictionary import is_known, syllables, zipf
from radar_dagster.models.providers.offline.lexicon import STOPWORDS
from radar_dagster.models.providers.offline.segments import Segment, vocabulary

#: Only so much of a text is measured; the rest is named in the judgement.
MAX_CHARACTERS = 100_000
#: Language statistics settle long before this many words.
_MAX_WORDS = 5_000
#: Below this share of English words nothing is said about spelling, readability or word frequency.
_ENGLISH = 0.5

_NEGATIONS = vocabulary("not no never neither nor cannot without none nothing")
_GRAM = 4


@dataclass(frozen=True)
class Unit:
    """A segment that holds words: its place among the segments, its words and its terms."""

    segment: Segment
    words: tuple[str, ...]
    terms: tuple[str, ...]
    #: Terms that a negation within the three words before them denies.
    negated: frozenset[str]

    @cached_property
    def term_set(self) -> frozenset[str]:
        """The distinct terms."""
        return frozenset(self.terms)

    @cached_property
    def word_set(self) -> frozenset[str]:
        """The distinct words in lower case."""
        return frozenset(self.words)


class TextFeatures:
    """What a text holds. Every property is computed at its first use and kept."""

    def __init__(self, text: str) -> None:
        self.is_cut = len(text) > MAX_CHARACTERS
        self.segments: tuple[Segment, ...] = tuple(s for s in segments.split(text[:MAX_CHARACTERS]) if s.text)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The segments that hold a word or a figure."""
        units = (_unit(segment) for segment in self.segments)
        return tuple(unit for unit in units if unit.words or unit.terms)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """All words in lower case, code included."""
        return tuple(word for unit in self.units for word in unit.words)

    @cached_property
    def length(self) -> int:
        """Words and figures."""
        return len(self.words) + sum(self.figures.values())

    @cached_property
    def terms(self) -> Counter[str]:
        """Content terms with their counts; figures and names are among them."""
        return Counter(t for unit in self.units for t in unit.terms)

    @cached_property
    def figures(self) -> Counter[str]:
        """Figures in one notation with their counts."""
        return Counter(f for segment in self.segments for f in segments.figures(segment.text))

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Names, lower case to the form as written: capitals inside a sentence, or unknown words at its start."""
        found: dict[str, str] = {}
        for segment in self.segments:
            if not segment.is_code:
                found.update({name.lower(): name for name in names_in(segment.text)})
        return found

    @cached_property
    def inner_names(self) -> Mapping[str, str]:
        """The names that are capitalised inside a sentence: every first word has a capital, whatever it is."""
        prose = (segment.text for segment in self.segments if not segment.is_code)
        return {name.lower(): name for text in prose for name in names_in(text, first_words=False)}

    @cached_property
    def code_lines(self) -> tuple[str, ...]:
        """The lines of fenced code blocks, white space at their ends removed."""
        lines = (line.strip() for s in self.segments if s.is_code for line in s.text.splitlines())
        return tuple(line for line in lines if line and not line.startswith("```"))

    @cached_property
    def negated(self) -> frozenset[str]:
        """Terms that are denied somewhere."""
        return frozenset(t for unit in self.units for t in unit.negated)

    @cached_property
    def prose_words(self) -> tuple[str, ...]:
        """Words outside code, as written, at most 5,000."""
        found = [w for s in self.segments if not s.is_code for w in segments.words(s.text)]
        return tuple(found[:_MAX_WORDS])

    @cached_property
    def english_share(self) -> float | None:
        """Share of words outside code that are English; None without such words."""
        if not self.prose_words:
            return None
        names = self.names.keys()
        return sum(w.lower() in names or is_known(w) for w in self.prose_words) / len(self.prose_words)

    @property
    def is_english(self) -> bool:
        """Whether spelling, readability and word frequency can be measured."""
        return self.english_share is not None and self.english_share >= _ENGLISH

    @cached_property
    def grade(self) -> float:
        """Flesch-Kincaid grade level (Kincaid et al. 1975): 0.39·words/sentence + 11.8·syllables/word − 15.59."""
        sentences = max(1, sum(1 for unit in self.units if not unit.segment.is_code))
        count = len(self.prose_words)
        if not count:
            return 0.0
        prose_count = sum(len(unit.words) for unit in self.units if not unit.segment.is_code)
        return 0.39 * prose_count / sentences + 11.8 * sum(map(syllables, self.prose_words)) / count - 15.59

    @cached_property
    def word_frequency(self) -> float:
        """Mean Zipf frequency of the content words outside code, names left out; 4.5 without any."""
        names = self.names.keys()
        content = [w for w in map(str.lower, self.prose_words) if w not in STOPWORDS and w not in names and len(w) > 1]
        return sum(map(zipf, content)) / len(content) if content else 4.5

    @cached_property
    def errors(self) -> Counter[str]:
        """Errors of spelling and agreement; see `grammar.errors`."""
        return grammar.errors(self.segments)

    @cached_property
    def repeated_grams(self) -> float:
        """Share of the sequences of four words that occurred before in the text, 0..1."""
        grams = [self.words[i : i + _GRAM] for i in range(len(self.words) - _GRAM + 1)]
        return 1 - len(set(grams)) / len(grams) if grams else 0.0

    @cached_property
    def retold(self) -> tuple[int, ...]:
        """Indices of the units whose terms nearly all stand in one earlier unit."""
        return tuple(_retold(self.units))


@lru_cache(maxsize=256)
def features(text: str) -> TextFeatures:
    """The features of a text, from a cache: a probe is judged once per criterion."""
    return TextFeatures(text)


def _unit(segment: Segment) -> Unit:
    found = tuple(word.lower() for word in segments.words(segment.text))
    terms = content_terms(segment.text) + segments.figures(segment.text)
    return Unit(segment, found, tuple(terms), _negated(found))


def _negated(found: Sequence[str]) -> frozenset[str]:
    denied: set[str] = set()
    for i, word in enumerate(found):
        if word in _NEGATIONS or word.endswith(("n't", "n’t")):
            denied.update(content_terms(" ".join(found[i + 1 : i + 4]))[:1])
    return frozenset(denied)


_CAPITALISED = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_OPENING = re.compile(r"""(?:^|[:"“(\[*_#>|])\W*$""")


def names_in(sentence: str, first_words: bool = True) -> list[str]:
    """The capitalised words of a sentence that are names, as written, in order.

    A word at the start, or after a colon or an opening quotation mark, is one if no dictionary lists it; without
    `first_words` it never is.

    >>> names_in("Yesterday Dana Whitlock and Ostrand met us in Brenton.")
    ['Dana', 'Whitlock', 'Ostrand', 'Brenton']
    """
    found: list[str] = []
    for match in _CAPITALISED.finditer(sentence):
        word = match[0].removesuffix("'s").removesuffix("’s")
        if not word[0].isupper() or len(word) < 2 or word.startswith(("I'", "I’")):
            continue
        at_start = bool(_OPENING.search(sentence[max(0, match.start() - 4) : match.start()]))
        if word.lower() not in STOPWORDS and (not at_start or (first_words and not is_known(word))):
            found.append(word)
    return found


#: A unit tells nothing new when this share of its terms stands in one earlier unit.
_SAME = 0.75


def _retold(units: Sequence[Unit]) -> list[int]:
    """Compare each unit with the earlier ones that share its rarest terms; the cap keeps a hostile text linear."""
    seen: dict[str, list[int]] = {}
    told: list[int] = []
    for i, unit in enumerate(units):
        if len(unit.term_set) < 3:
            continue
        shared = Counter(j for t in unit.term_set for j in seen.get(t, ())[:20])
        candidates = shared.most_common(1)
        if candidates and candidates[0][1] >= _SAME * len(unit.term_set):
            told.append(i)
        for t in unit.term_set:
            seen.setdefault(t, []).append(i)
    return told
