"""`offline/editor`: a rule-based generator that makes probes by editing the task's reference answer.

Here: which text operations a criterion and a direction call for, and which ones vary a response to the bare task.
Not here: the operations (`edits/`), the reading of the criterion (`aspects.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from radar_dagster.errors import BadInputError
from radar_dagster.models.providers.offline import lexicon, segments
from radar_dagster.models.providers.offline.aspects import Aspect, Profile, profile
from radar_dagster.models.providers.offline.edits import content, facts, length, order, slips, variation, wording
from radar_dagster.models.providers.offline.edits.common import Edit, Segments, count_words
from radar_dagster.models.providers.offline.features import features
from radar_dagster.models.providers.offline.measures import evidence
from radar_dagster.models.replies import Generation, State, generation
from radar_dagster.models.requests import GenerationRequest, ResponseRequest
from radar_dagster.rubric.model import Rubric, Task, content_hash

#: An aspect is edited when at least this share of the criterion rests on it.
_EDITED_SHARE = 0.3
#: The share of probes that get one small fault at random, as texts by people and language models have.
_BLEMISHED = 0.4
#: A response to the bare task differs from the reference by so many mild edits, each of an intensity between these.
_NATURAL_EDITS, _NATURAL_INTENSITY = 3, (0.1, 0.5)
#: About 8,000 words; some operations compare all sentences with each other.
_MAX_CHARACTERS = 50_000
#: Part of every seed: raise it when the operations change, so that no two versions of a text share a seed.
_VERSION = 1


@dataclass(frozen=True)
class _Job:
    """What an operation needs to know besides the text."""

    task: Task
    profile: Profile
    rng: Random
    #: How thoroughly to edit, 0.7..1 in a probe: drawn per sample, so that scores spread as they do between writers.
    intensity: float


class Editor:
    """Edits references; `seed` makes another editor that draws other edits from the same operations."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def check_rubric(self, rubric: Rubric) -> None:
        """Every task must have a reference answer, because that is what gets edited."""
        for task in rubric.tasks:
            if not task.reference or not task.reference.strip():
                raise BadInputError(
                    f"rubric {rubric.name}: task {task.id!r} has no reference answer, and offline/editor makes its "
                    "probes by editing one; add `reference:` to the task or use another generator"
                )
            if len(task.reference) > _MAX_CHARACTERS:
                raise BadInputError(
                    f"rubric {rubric.name}: the reference answer of task {task.id!r} has {len(task.reference):,} "
                    f"characters; offline/editor edits at most {_MAX_CHARACTERS:,}"
                )

    def generate(self, request: GenerationRequest) -> Generation:
        """The reference, edited as criterion and direction ask and lightly varied; `detail` tells how.

        `refused` without a reference, or with one that `check_rubric` does not let pass.
        """
        return self._edited(request, lambda rng: _asked_for(request, rng))

    def respond(self, request: ResponseRequest) -> Generation:
        """The reference with up to three mild edits drawn at random, as texts by different writers differ.

        Rule-based like the probes: what varies together is what the operations change together.
        """
        return self._edited(request, lambda rng: _natural(request.task, rng))

    def _edited(self, request: GenerationRequest | ResponseRequest, draw: Callable[[Random], _Work]) -> Generation:
        reference = (request.task.reference or "").strip()
        if not reference or len(reference) > _MAX_CHARACTERS:
            why = "is too long to edit" if reference else "is missing"
            return Generation.failed(State.REFUSED, f"the reference answer of task {request.task.id!r} {why}")
        text = segments.split(reference)
        base = request.model_copy(update={"sample": 1})
        offset = int(content_hash([_VERSION, self._seed, base.model_dump(mode="json")])[:8], 16)
        rng = Random(f"{offset}/{request.sample}")
        notes: list[str] = []
        for operation, job in draw(rng):
            text, note = operation(text, job)
            notes.append(note)
        if rng.random() < _BLEMISHED:
            text, note = variation.blemish(text, rng, rng.choice(variation.BLEMISHES))
            notes.append(note)
        # Last, so that two samples that came out alike still differ.
        text, note = variation.vary(text, offset + request.sample * 7919, is_summary=request.task.source is not None)
        notes.append(note)
        told = "; ".join(note for note in notes if note) or "the reference answer as it is"
        return generation(segments.join(text), detail=told)


_Operation = Callable[[Segments, _Job], Edit]
_Work = Sequence[tuple[_Operation, _Job]]


def _asked_for(request: GenerationRequest, rng: Random) -> _Work:
    """What criterion and direction call for."""
    job = _Job(request.task, profile(request.criterion), rng, rng.uniform(0.7, 1.0))
    return [(operation, job) for operation in _operations(job.profile, 1 if request.direction == "+" else -1)]


def _natural(task: Task, rng: Random) -> _Work:
    """Edits that nobody asked for: which, in which direction and how thoroughly is drawn, and each stays mild."""
    aspects = [aspect for aspect in _ORDER if aspect in _MILD_EDITS]
    drawn = rng.sample(aspects, rng.randint(0, _NATURAL_EDITS))
    operations = [rng.choice(_MILD_EDITS[aspect]) for aspect in aspects if aspect in drawn]
    return [(each, _Job(task, _NO_CRITERION, rng, rng.uniform(*_NATURAL_INTENSITY))) for each in operations]


def _operations(asked: Profile, direction: int) -> list[_Operation]:
    """The operations for a profile and +1 or −1, in the order in which they don't undo each other."""
    largest = max(asked.weights.values())
    edited = [a for a, w in asked.weights.items() if w >= _EDITED_SHARE or w == largest]
    chosen: list[_Operation] = []
    for aspect in _ORDER:
        if aspect not in edited:
            continue
        # Content that goes is replaced by what lies beside the point anyway: one operation serves both aspects.
        if aspect is Aspect.COVERAGE and Aspect.FOCUS in edited and direction < 0:
            continue
        # Where another aspect counts more the reference is the good answer: added key words would only mar it.
        if aspect is Aspect.TERMS and direction * asked.signs[aspect] > 0 and asked.weights[aspect] < largest:
            continue
        operation = _EDITS[aspect].get(direction * asked.signs[aspect])
        if operation is not None:
            chosen.append(operation)
    return chosen


def _lose_coverage(text: Segments, job: _Job) -> Edit:
    """Say little of what was asked for: either vaguely all over, or at length about one part."""
    share = 0.9 * job.intensity
    if job.rng.random() < 0.5 or len(text) < 4:
        return content.replace_content(text, lexicon.VAGUE, job.rng, share)
    start = job.rng.randrange(len(text))
    kept = content.replace_content(text, (), job.rng, share, keep_from=start)
    padded = length.pad(kept.segments, job.rng, count_words(text) / max(1, count_words(kept.segments)))
    return Edit(padded.segments, f"kept one part only ({kept.note}), {padded.note}")


def _lose_substance(text: Segments, job: _Job) -> Edit:
    blurred = content.blur(text, job.rng, 0.8 * job.intensity)
    vague = content.replace_content(blurred.segments, lexicon.VAGUE, job.rng, 0.4 * job.intensity)
    return Edit(vague.segments, f"{blurred.note}; {vague.note}" if blurred.note else vague.note)


def _lose_focus(text: Segments, job: _Job) -> Edit:
    """Put side matters in the place of the main ones."""
    return content.replace_content(text, _side_matters(job.task), job.rng, 0.85 * job.intensity)


def _side_matters(task: Task) -> tuple[str, ...]:
    """Sentences of the source that the reference passes over; without a source, asides from elsewhere."""
    found = evidence(task)
    important = found.yardstick.terms
    passed_over = [
        unit.segment.text
        for unit in (features(task.source).units if task.source and task.reference else ())
        if len(unit.words) > 5 and sum(t in important for t in unit.term_set) < 0.4 * len(unit.term_set)
    ]
    return tuple(passed_over) if len(passed_over) >= 3 else (*passed_over, *lexicon.TANGENTS)


def _lose_accuracy(text: Segments, job: _Job) -> Edit:
    return facts.alter_facts(text, evidence(job.task).figures, job.rng, 0.45 * job.intensity)


def _cover_terms(text: Segments, job: _Job) -> Edit:
    return content.add_phrases(text, job.profile.statements, job.profile.phrases, job.rng, job.intensity)


def _avoid_terms(text: Segments, job: _Job) -> Edit:
    return content.remove_terms(text, frozenset(job.profile.terms), job.rng)


#: The order of editing: content, facts, order, length, repetition, wording, errors.
_ORDER = (
    Aspect.FOCUS, Aspect.COVERAGE, Aspect.SUBSTANCE, Aspect.TERMS, Aspect.ACCURACY, Aspect.COHESION, Aspect.LENGTH,
    Aspect.ECONOMY, Aspect.COMPLEXITY, Aspect.READABILITY, Aspect.GRAMMAR,
)  # fmt: skip

#: What to do for less (−1) and more (+1) of an aspect. The reference is a good answer: for more of a quality it stays.
_EDITS: Mapping[Aspect, Mapping[int, _Operation]] = {
    Aspect.FOCUS: {-1: _lose_focus},
    Aspect.COVERAGE: {-1: _lose_coverage},
    Aspect.SUBSTANCE: {-1: _lose_substance},
    Aspect.ACCURACY: {-1: _lose_accuracy},
    Aspect.TERMS: {-1: _avoid_terms, 1: _cover_terms},
    Aspect.COHESION: {-1: lambda text, job: order.scramble(text, job.rng)},
    Aspect.LENGTH: {
        -1: lambda text, job: length.compress(text, job.rng, 0.8 - 0.35 * job.intensity),
        1: lambda text, job: length.pad(text, job.rng, 1 + job.intensity),
    },
    Aspect.ECONOMY: {-1: lambda text, job: length.repeat(text, job.rng, 0.75 * job.intensity)},
    Aspect.COMPLEXITY: {
        -1: lambda text, job: wording.simplify(text, job.rng, job.intensity),
        1: lambda text, job: wording.complicate(text, job.rng, 0.6 * job.intensity),
    },
    Aspect.READABILITY: {-1: lambda text, job: wording.complicate(text, job.rng, 0.6 * job.intensity)},
    Aspect.GRAMMAR: {-1: lambda text, job: slips.make_errors(text, job.rng, 0.25 * job.intensity)},
}


_NO_CRITERION = Profile({}, {}, (), (), ())


def _displace(text: Segments, job: _Job) -> Edit:
    return order.displace(text, job.rng) if len(text) > 1 else Edit(text, "")


#: Operations that do little when their intensity is low. Terms are a criterion's; a scrambled text is never mild.
_MILD_EDITS: Mapping[Aspect, Sequence[_Operation]] = {
    **{aspect: tuple(edits.values()) for aspect, edits in _EDITS.items() if aspect is not Aspect.TERMS},
    Aspect.COHESION: (_displace,),
}


def build(options: Mapping[str, Any]) -> Editor:
    """An editor from the options of a `ModelSpec`: `seed`, an integer."""
    seed = options.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadInputError(f"offline/editor: option seed must be an integer, found {seed!r:.80}")
    return Editor(seed)
