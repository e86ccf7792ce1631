"""`offline/reader`: a rule-based verifier that scores a text from measured features.

Here: how the measured aspects of a criterion become one level of its scale, and the words of the verdict. Not here: the
reading of the criterion (`aspects.py`), the measuring (`measures.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from radar_dagster.errors import BadInputError
from radar_dagster.models.providers.offline.aspects import Aspect, Profile, profile
from radar_dagster.models.providers.offline.features import MAX_CHARACTERS, features
from radar_dagster.models.providers.offline.measures import Measured, measure, measure_terms
from radar_dagster.models.providers.offline.phrasing import listed
from radar_dagster.models.replies import Judgement, State, judgement
from radar_dagster.models.requests import JudgementRequest
from radar_dagster.rubric.model import Scale

#: A criterion is scored when at least this share of it could be measured.
_MEASURABLE = 0.5


class _Part(NamedTuple):
    aspect: Aspect
    weight: float
    sign: int
    measured: Measured

    @property
    def contribution(self) -> float:
        """The part's value in the direction of the criterion, 0..1."""
        value = self.measured.value or 0.0
        return value if self.sign > 0 else 1 - value


class Reader:
    """Scores deterministically. `strictness` above 1 lowers every value but 0 and 1, below 1 raises it."""

    def __init__(self, strictness: float = 1.0) -> None:
        self._strictness = strictness

    def judge(self, request: JudgementRequest) -> Judgement:
        """Measure the criterion's aspects and map their weighted mean onto the scale.

        `refused` when more than half of the criterion could not be measured, as with spelling in a Chinese text.
        """
        asked = profile(request.criterion)
        parts = [_Part(a, w, asked.signs[a], _measured(request, asked, a)) for a, w in asked.weights.items()]
        usable = [part for part in parts if part.measured.value is not None]
        share = sum(part.weight for part in usable)
        if share < _MEASURABLE:
            reasons = "; ".join(part.measured.words for part in parts if part.measured.value is None)
            return Judgement.failed(
                State.REFUSED, f"the rule-based reader can't measure {request.criterion.label}: {reasons}"
            )
        has_words = bool(features(request.response).length)
        value = _value(usable, share, has_words)
        strict = value**self._strictness
        level = _level(strict, request.criterion.scale)
        total = f"{value:.2f}" if self._strictness == 1 else f"{value:.2f} ({strict:.2f} with strictness)"
        made = f"{total} of 1, level {level} on {request.criterion.scale.min}..{request.criterion.scale.max}"
        return judgement(
            level,
            request.criterion.scale,
            reasoning=_reasoning(parts, request.response),
            rationale=_rationale(parts, made) if has_words else f"The text holds no words: {made}.",
        )


def _measured(request: JudgementRequest, asked: Profile, aspect: Aspect) -> Measured:
    if aspect is Aspect.TERMS:
        return measure_terms(request.response, asked.terms)
    return measure(request.response, request.task, aspect)


def _value(usable: list[_Part], share: float, has_words: bool) -> float:
    """The weighted mean of what could be measured; a text without a word is at the bottom of every criterion."""
    if not has_words:
        return 0.0
    return sum(part.weight * part.contribution for part in usable) / share


def _level(value: float, scale: Scale) -> int:
    """The nearest level, halves up. Monotone in `value`."""
    return scale.min + math.floor(value * (scale.max - scale.min) + 0.5)


def _reasoning(parts: list[_Part], response: str) -> str:
    lines = []
    for part in parts:
        value = "not measured" if part.measured.value is None else f"{part.measured.value:.2f}"
        turned = ", counted in reverse" if part.sign < 0 else ""
        lines.append(
            f"{part.aspect.value.capitalize()} (weight {part.weight:.0%}{turned}): {part.measured.words}; {value}."
        )
    if features(response).is_cut:
        lines.append(f"Only the first {MAX_CHARACTERS:,} of {len(response):,} characters were measured.")
    return "Rule-based reading. " + " ".join(lines)


def _rationale(parts: list[_Part], made: str) -> str:
    """Every aspect with value and weight, and the score they make; then how the one that costs most was measured."""
    usable = [part for part in parts if part.measured.value is not None]
    costliest = max(usable, key=lambda part: (round(part.weight * (1 - part.contribution), 6), part.weight))
    named = listed([_in_brief(part) for part in parts])
    about = f"{costliest.aspect.value}: " if len(parts) > 1 else ""
    words = f"{about}{costliest.measured.words}"
    return f"{named[:1].upper()}{named[1:]}: {made}. {words[:1].upper()}{words[1:]}."


def _in_brief(part: _Part) -> str:
    """The aspect with the value that enters the mean and its weight: `terms 0.40 (38%)`."""
    value = "not measured" if part.measured.value is None else f"{part.contribution:.2f}"
    return f"{part.aspect.value} {value} ({part.weight:.0%}{', reversed' if part.sign < 0 else ''})"


def build(options: Mapping[str, Any]) -> Reader:
    """A reader from the options of a `ModelSpec`: `strictness`, a number from 0.2 to 5."""
    strictness = options.get("strictness", 1.0)
    if isinstance(strictness, bool) or not isinstance(strictness, (int, float)) or not 0.2 <= strictness <= 5:
        raise BadInputError(
            f"offline/reader: option strictness must be a number from 0.2 to 5, found {strictness!r:.80}"
        )
    return Reader(float(strictness))
