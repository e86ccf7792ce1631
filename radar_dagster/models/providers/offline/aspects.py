"""From a criterion's own words to what is measured and edited: its aspects, their weights and the sign of each.

Here: the reading of label, id and definition, shared by editor and reader, so that both understand a criterion alike.
No criterion of any benchmark is known by name. Not here: measuring (`features.py`) and editing (`edits/`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from radar_dagster.models.providers.offline import segments
from radar_dagster.models.providers.offline.lexicon import RUBRIC_WORDS, STOPWORDS, term
from radar_dagster.rubric.model import Criterion, Kind


class Aspect(StrEnum):
    """What can be measured in a text and moved by an edit. All but the first two are qualities: more is better."""

    LENGTH = "length"
    COMPLEXITY = "complexity"
    COVERAGE = "coverage"
    SUBSTANCE = "substance"
    ACCURACY = "accuracy"
    FOCUS = "focus"
    COHESION = "cohesion"
    ECONOMY = "economy"
    GRAMMAR = "grammar"
    READABILITY = "readability"
    #: The definition's content words, for criteria (or parts of them) that no cue below recognises.
    TERMS = "terms"


AMOUNTS = frozenset({Aspect.LENGTH, Aspect.COMPLEXITY})


class Profile(NamedTuple):
    """How a criterion is understood. `weights` sum to 1; a sign of −1 means that more of the aspect scores lower."""

    weights: Mapping[Aspect, float]
    signs: Mapping[Aspect, int]
    #: Runs of content words of the definition that led to no other aspect, as written.
    phrases: tuple[str, ...]
    #: The terms (`lexicon.term`) of those words.
    terms: tuple[str, ...]
    #: What the definition says of a good response, said by a response of itself: "This answer mentions the price."
    statements: tuple[str, ...]


class _Cue(NamedTuple):
    pattern: re.Pattern[str]
    aspects: Mapping[Aspect, float]
    sign: int


def _cue(pattern: str, *aspects: Aspect, sign: int = 1) -> _Cue:
    """A cue counts 1 in total; of several aspects each counts half as much again as the next one."""
    shares = [1.5**-i for i in range(len(aspects))]
    weights = {a: share / sum(shares) for a, share in zip(aspects, shares, strict=True)}
    return _Cue(re.compile(rf"\b(?:{pattern})", re.IGNORECASE), weights, sign)


_A = Aspect
#: In this order; what a cue matched is not seen by the later ones, so that "long sentences" says nothing about length.
_CUES = (
    # Sentences and words: ease or difficulty of reading.
    _cue(r"(?:long|tangled|nested|convoluted|run-on)\b[\w ,-]{0,20}\b(?:sentence|clause)\w*", _A.COMPLEXITY),
    _cue(r"(?:short|plain|simple)\b[\w ,-]{0,20}\bsentence\w*", _A.COMPLEXITY, sign=-1),
    _cue(r"sentences? (?:are )?of moderate length|sentence length", _A.READABILITY),
    _cue(r"plain (?:language|english|words)|(?:lay|everyday) (?:language|words|terms)", _A.COMPLEXITY, sign=-1),
    _cue(r"(?:common|short|simple|basic)\b[\w ,]{0,12}\bwords?", _A.COMPLEXITY, sign=-1),
    _cue(r"easy to (?:read|understand|follow)|easily read|readab\w+|legib\w+|understandab\w+|comprehensib\w+",
         _A.READABILITY),
    _cue(r"accessib\w+|reading ease|clarity|clearly written", _A.READABILITY),
    _cue(r"unreadab\w+|hard to read|incomprehensib\w+", _A.READABILITY, sign=-1),
    _cue(r"complex\w*|sophisticat\w+|technical\w*|specialist\w*|expert\w*|vocabular\w+|demanding|advanced|difficult\w*",
         _A.COMPLEXITY),
    _cue(r"rare (?:words?|or)|jargon|academic|intellectual\w*|erudit\w+", _A.COMPLEXITY),
    _cue(r"simpl\w+|plainness|plain-spoken|elementary", _A.COMPLEXITY, sign=-1),
    # Language errors.
    _cue(r"(?:language|spelling|grammar|grammatical|agreement|punctuation) (?:errors?|mistakes?)|typos?\b|misspel\w+",
         _A.GRAMMAR, sign=-1),
    _cue(r"ungrammatical|broken (?:language|english)|(?:sentence )?fragments?\b|missing words", _A.GRAMMAR, sign=-1),
    _cue(r"correctly (?:spel\w+|punctuat\w+|formed|written)", _A.GRAMMAR),
    _cue(r"gramma\w+|fluen\w+|spell\w+|punctuat\w+|well-formed|orthograph\w+|native|idiomatic", _A.GRAMMAR),
    # Saying things twice.
    _cue(r"non-?\s?redundan\w*|non-?\s?repetit\w*|no repetition\w*|says? (?:each|every)\w* thing once", _A.ECONOMY),
    _cue(r"redundan\w*|repetit\w*|repeat\w*|duplicat\w*|told again|said (?:again|twice)", _A.ECONOMY, sign=-1),
    # Order and connection.
    _cue(r"incoheren\w*|disjointed|disorgani[sz]\w*|jumbled|scrambled|shuffled|(?:sudden|abrupt) (?:jumps?|changes?)",
         _A.COHESION, sign=-1),
    _cue(r"unconnected|missing (?:links?|connections?)|non[- ]sequiturs?", _A.COHESION, sign=-1),
    _cue(r"coheren\w*|cohes\w*|logical\w*|well[- ]organi[sz]ed|organi[sz]ation|structure[ds]?\b|hang\w* together",
         _A.COHESION),
    _cue(r"(?:sensible|good|right|in|which|logical) order|connect\w*|flow\w*|transition\w*|leads? on|sequence",
         _A.COHESION),
    # Truth.
    _cue(r"hallucinat\w*|fabricat\w*|invent(?:s|ed)?\b|made[- ]up|contradict\w*|inaccura\w*"
         r"|incorrect\w*|false\w*|wrong\w*",
         _A.ACCURACY, sign=-1),
    _cue(r"(?:altered|swapped|reversed|distorted|added) \w+|misleading|mistake\w*|errors?\b", _A.ACCURACY, sign=-1),
    _cue(r"correct\w*|accura\w*|factual\w*|faithful\w*|truth\w*|true\b|supported|grounded\w*|verif\w+|agree with",
         _A.ACCURACY),
    _cue(r"match(?:es)? the source|facts\b", _A.ACCURACY),
    # What has to be there.
    _cue(r"vague\w*|missing numbers|without (?:facts|figures)", _A.SUBSTANCE, sign=-1),
    _cue(r"informati\w+|substan\w+|specific\w*|concrete\w*|(?:their|with) (?:figures|numbers)|main results",
         _A.SUBSTANCE,
         _A.COVERAGE),
    _cue(r"unhelpful\w*|incomplete\w*|missing|omit\w*|omission\w*|dodg\w+|skips?\b|half-way|evasive\w*",
         _A.COVERAGE, sign=-1),
    _cue(r"helpful\w*|useful\w*|utility|serves?\b|satisf\w+", _A.COVERAGE, _A.ACCURACY, _A.FOCUS),
    _cue(r"overall (?:quality|impression)|general quality|holistic\w*",
         _A.COVERAGE, _A.ACCURACY, _A.COHESION, _A.GRAMMAR),
    _cue(r"complete(?:ness|ly)?\b|comprehensive\w*|thorough\w*|exhaustive\w*|covers?\b|coverage|represent\w*",
         _A.COVERAGE),
    _cue(r"every instruction|follows? (?:the|all|every) instructions?|instruction[- ]following"
         r"|questions? (?:is|are) answered",
         _A.COVERAGE),
    _cue(r"(?:key|main|important|essential|all|pertinent|every) (?:\w+ )?(?:facts?|information"
         r"|content|points?|events?|parts?)",
         _A.COVERAGE),
    # What does not belong there.
    _cue(r"irrelevan\w*|off[- ]topic|digress\w*|side details?|minor (?:importance|details?)|tangent\w*",
         _A.FOCUS, sign=-1),
    _cue(r"(?:relevan|pertinen)\w*(?: to the (?:topic|question|prompt|task|source|article))?", _A.COVERAGE, _A.FOCUS),
    _cue(r"on[- ]topic|focus\w*|to the point|left out", _A.FOCUS),
    # Length.
    _cue(r"concise\w*|brevity|brief\w*|succinct\w*|terse\w*|compact\w*|short\w*|bare minimum", _A.LENGTH, sign=-1),
    _cue(r"verbos\w*|wordi\w*|wordy|lengthy|length\b|long\b|longer|padding|elaborat\w*"
         r"|how many words|detail(?:s|ed)?\b",
         _A.LENGTH),
)  # fmt: skip

_LABEL_WEIGHT = 3.0
#: What a definition can add for one aspect, so that a long definition does not outweigh the label.
_DEFINITION_CAP = 2.0
#: Weight of the definition's content words when the label holds no cue at all.
_UNKNOWN_WEIGHT = 4.0
#: Aspects with a smaller share are noise of the wording.
_SMALLEST_SHARE = 0.15

_CLAUSE = re.compile(r"[.;:!?]+(?:\s+|$)")
_DISCLAIMER = re.compile(
    r"\b(?:regardless of|irrespective of|independent(?:ly)? of|ignor(?:e|es|ing)|whatever (?:its|the)|not about|"
    r"(?:do|does|should|is|are) not (?:matter|count|considered|judged|part of|relevant|affect)|"
    r"neither end|no matter)\b",
    re.IGNORECASE,
)
#: A clause about what lowers the score names the contrary of what is wanted.
_LOWERING = re.compile(
    r"\b(?:lowers? the (?:score|rating)|scores? low(?:er)?|is penali[sz]ed|are penali[sz]ed|penali[sz]e\w*|needless\w*|"
    r"unnecessar\w*|avoid\w*|without|free of)\b",
    re.IGNORECASE,
)
#: "Consistent" is about truth when the criterion speaks of facts or a source, else about hanging together.
_CONSISTENCY = re.compile(r"\b(?:in)?consisten\w*", re.IGNORECASE)
_ABOUT_TRUTH = re.compile(
    r"\b(?:facts?|factual\w*|source|article|support\w*|invent\w*|hallucinat\w*|entail\w*)\b", re.IGNORECASE
)
_AVOIDANCE = re.compile(
    r"\b(?:avoid\w*|no|without|free of|never|refrain\w*|absence|lack of|not|nothing)\b", re.IGNORECASE
)


def profile(criterion: Criterion) -> Profile:
    """Understand a criterion from its id, label, definition and kind.

    An evaluative criterion wants every quality high, whether its text names the quality ("coherent") or the defect
    ("redundancy"). Amounts, the aspects of a descriptive criterion, and unknown terms take the sign that the words
    have, those of the label first.
    """
    return _profile(criterion.id, criterion.label, criterion.definition, criterion.kind)


@lru_cache(maxsize=512)
def _profile(criterion_id: str, label: str, definition: str, kind: Kind) -> Profile:
    name = label if _plain(criterion_id) in _plain(label) else f"{label} {criterion_id}"
    # An id such as `mentions_return-policy` is made of words, too.
    name = re.sub(r"[_/.]|(?<!non)-", " ", name, flags=re.IGNORECASE)
    consistent = "faithful" if _ABOUT_TRUTH.search(f"{name} {definition}") else "coherent"
    label_found, label_rest, _ = _evidence([_CONSISTENCY.sub(consistent, name)])
    clauses = [clause for clause in _CLAUSE.split(definition) if clause and not _DISCLAIMER.search(clause)]
    plain = [_CONSISTENCY.sub(consistent, clause) for clause in clauses]
    found, rest, matched = _evidence(plain)
    # "Nothing is invented" asks for the truth and not for the word.
    phrases = _phrases(plain, frozenset(content_terms(matched)) - frozenset(content_terms(rest)))
    terms = tuple(dict.fromkeys(t for phrase in phrases for t in content_terms(phrase)))

    strength = {aspect: min(abs_sum, _DEFINITION_CAP) for aspect, (abs_sum, _) in found.items()}
    unknown = set(content_terms(label_rest)) - RUBRIC_WORDS
    if label_found:
        total = sum(s for s, _ in label_found.values())
        known_share = total / (total + len(unknown))
        for aspect, (weight, _) in label_found.items():
            strength[aspect] = strength.get(aspect, 0.0) + _LABEL_WEIGHT * known_share * weight / total
        strength[Aspect.TERMS] = _LABEL_WEIGHT * (1 - known_share)
    else:
        strength[Aspect.TERMS] = _UNKNOWN_WEIGHT
    if kind is Kind.EVALUATIVE and Aspect.READABILITY in strength and Aspect.COMPLEXITY not in label_found:
        # "Easy to read, no rare words": that is one demand, and readability measures it as a quality.
        strength[Aspect.READABILITY] += strength.pop(Aspect.COMPLEXITY, 0.0)
    weights = _normalised(strength if terms else {a: s for a, s in strength.items() if a is not Aspect.TERMS})
    if not weights:  # a definition of nothing but rubric talk: judge what every answer needs
        weights = {Aspect.COVERAGE: 1.0}
    signs: dict[Aspect, int] = {a: _sign(a, kind, label_found, found) for a in weights if a is not Aspect.TERMS}
    if Aspect.TERMS in weights:
        signs[Aspect.TERMS] = -1 if _AVOIDANCE.search(name) or _starts_with_avoidance(clauses) else 1
    return Profile(MappingProxyType(weights), MappingProxyType(signs), phrases, terms, _statements(clauses))


def content_terms(text: str) -> list[str]:
    """The terms of the words that carry content, in order; signs of unspaced scripts are joined to pairs."""
    found = segments.words(text)
    kept = [term(w) for w in found if w.lower().replace("’", "'") not in STOPWORDS and (len(w) > 1 or not w.isascii())]
    single = [len(t) == 1 for t in kept]
    if not any(single):
        return kept
    pairs = [kept[i] + kept[i + 1] for i in range(len(kept) - 1) if single[i] and single[i + 1]]
    return [t for t, alone in zip(kept, single, strict=True) if not alone] + pairs


#: aspect -> (sum of weights, sum of signed weights)
_Evidence = dict[Aspect, tuple[float, float]]


def _evidence(clauses: Iterable[str]) -> tuple[_Evidence, str, str]:
    """What the cues find in the clauses, the text that no cue matched, and the text that one did."""
    found: _Evidence = {}
    left: list[str] = []
    matched: list[str] = []
    for clause in clauses:
        contrary = -1 if _LOWERING.search(clause) else 1
        rest = clause
        for cue in _CUES:
            matched += [match[0] for match in cue.pattern.finditer(rest)]
            rest, hits = cue.pattern.subn(" ", rest)
            # Only amounts are turned by their clause: "redundancy lowers the score" names a defect by itself.
            sign = cue.sign * contrary if AMOUNTS & cue.aspects.keys() else cue.sign
            for aspect, weight in cue.aspects.items() if hits else ():
                total, signed = found.get(aspect, (0.0, 0.0))
                found[aspect] = (total + weight * hits, signed + weight * hits * sign)
        left.append(rest)
    return found, " . ".join(left), " . ".join(matched)


def _normalised(strength: Mapping[Aspect, float]) -> dict[Aspect, float]:
    total = sum(strength.values())
    if total == 0:
        return {}
    kept = {aspect: s for aspect, s in strength.items() if s / total >= _SMALLEST_SHARE}
    kept = kept or dict([max(strength.items(), key=lambda item: item[1])])
    total = sum(kept.values())
    return {aspect: s / total for aspect, s in sorted(kept.items(), key=lambda item: -item[1])}


def _sign(aspect: Aspect, kind: Kind, label: _Evidence, found: _Evidence) -> int:
    if kind is Kind.EVALUATIVE and aspect not in AMOUNTS:
        return 1
    _, signed = label.get(aspect) or found.get(aspect, (0.0, 0.0))
    return -1 if signed < 0 else 1


def _starts_with_avoidance(clauses: list[str]) -> bool:
    """Whether the definition says "not" before it says what: "does not give a diagnosis"."""
    first = clauses[0] if clauses else ""
    found = _AVOIDANCE.search(first)
    phrases = _phrases([first])
    return bool(found and phrases and found.start() < first.find(phrases[0]))


def _phrases(clauses: Iterable[str], understood: Collection[str] = ()) -> tuple[str, ...]:
    """Runs of content words, rubric talk left out: "the return policy and its deadline" gives two.

    The terms `understood` are left out, too: they led to other aspects.
    """
    left_out = RUBRIC_WORDS | frozenset(understood)
    phrases: list[str] = []
    for clause in clauses:
        run: list[str] = []
        for word in [*re.findall(r"[\w'’-]+|[^\w\s]", clause), "."]:
            if segments.words(word) and word.lower() not in STOPWORDS and term(word) not in left_out:
                run.append(word)
            elif run:
                phrases.append(" ".join(run))
                run = []
    return tuple(dict.fromkeys(phrases))


_PREDICATE = re.compile(
    r"^\s*(?:(?:the|a|an|every|each)\s+(?:good\s+)?(?P<who>reply|response|answer|summary|text|explanation)\s+)?"
    r"(?P<verb>[a-z]{2,}[^s\s]s|does|is|has)(?P<rest>\s+(?!(?:is|are|was|were|have|has)\b)\S(?:.*\S)?)\s*$",
    re.IGNORECASE | re.DOTALL,
)

_NO_PREDICATES = STOPWORDS - {"is", "has", "does"}


def _statements(clauses: Iterable[str]) -> tuple[str, ...]:
    """Clauses such as "the reply mentions the price" or "mentions the price", with the response as their subject."""
    statements = []
    for clause in clauses:
        found = _PREDICATE.match(clause)
        if found and not _LOWERING.search(clause) and found["verb"].lower() not in _NO_PREDICATES:
            subject, verb = (found["who"] or "answer").lower(), found["verb"].lower()
            statements.append(f"This {subject} {verb}{found['rest']}.")
    return tuple(statements)


def _plain(name: str) -> str:
    return re.sub(r"\W|_", "", name.casefold())
