"""Reading a completion: a generator's text, a verifier's verdict as JSON, a score from token probabilities.

A score is only ever read, never guessed: nothing is closed, clamped, rounded or picked out of prose. Not here: finding
JSON in a text (`json_objects.py`), what counts as a level and what is storable (`replies.py`), asking again
(`chains.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from radar_dagster.models.exchange import Candidate, Completion, Stop
from radar_dagster.models.json_objects import find_objects, is_fenced, read_object
from radar_dagster.models.replies import (
    Generation,
    Judgement,
    State,
    generation,
    judgement,
    outside_reasoning,
    storable,
)
from radar_dagster.models.requests import GenerationRequest, JudgementRequest
from radar_dagster.rubric.model import Scale

_Reply = TypeVar("_Reply", Generation, Judgement)

#: A verdict has all of these; further keys are ignored.
VERDICT_FIELDS = ("reasoning", "score", "rationale")

#: Below it, the first token is more likely something else than a level, and the levels tell what the model would have
#: said had it not said that.
MASS_FLOOR = 0.5

#: The detail of a verdict that was to be read from probabilities when there were none.
NO_CANDIDATES = "the endpoint sent no token probabilities"


def read_generation(request: GenerationRequest, completion: Completion) -> Generation:  # noqa: ARG001 - as for verdicts
    """The text that a generator wrote, without its reasoning.

    A refusal in prose that ends like any text is a text: it is judged as the response that it is, and its scores show.
    """
    ended = _ended_early(completion)
    return _recorded(Generation.failed(*ended) if ended else generation(completion.text), completion)


def read_judgement(request: JudgementRequest, completion: Completion) -> Judgement:
    """The verdict that a completion holds as a JSON object with all of `VERDICT_FIELDS`, or why there is none.

    Of several verdicts the last in a fenced block counts, else the last; `detail` tells when their scores differ. One
    that stands word for word in what was judged is a quotation and never counts. A completion that stopped at its limit
    of tokens is `truncated`, even where an object is complete: what would have come next is unknown.
    """
    ended = _ended_early(completion)
    return _recorded(Judgement.failed(*ended) if ended else _verdict(request, completion.text), completion)


def read_judgement_from_probabilities(request: JudgementRequest, completion: Completion) -> Judgement:
    """The expected level over the probabilities of the level tokens, for a scale that `can_score_from_probabilities`.

    `score` is the most probable level, the lowest of equals; `expected` is Σ level·p / Σ p over the levels. A level may
    come as several tokens ("3" and " 3"): they add up. Too little mass on levels (`MASS_FLOOR`) is a `parse_error`. The
    limit of one token is meant to be reached, so it is no truncation here.
    """
    ended = _ended_early(completion, limit_is_meant=True)
    if ended:
        return _recorded(Judgement.failed(*ended), completion)
    return _recorded(_expectation(request.criterion.scale, completion.candidates or ()), completion)


def can_score_from_probabilities(scale: Scale) -> str | None:
    """Why scores on this scale can't be read from the probabilities of one token; None when they can."""
    if scale.min >= 0 and scale.max <= 9:
        return None
    return f"token probabilities need levels of one digit, but the scale is {scale.min}..{scale.max}"


def problem_of(reply: Generation | Judgement) -> str:
    """What was wrong with a reply, as one line for the model that is asked again."""
    return " ".join((reply.detail or f"it ended as {reply.state.value}").split())


def _recorded(reply: _Reply, completion: Completion) -> _Reply:
    usage = completion.usage
    counted = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return reply.model_copy(update={"parameters": dict(completion.sent), **counted})


def _ended_early(completion: Completion, *, limit_is_meant: bool = False) -> tuple[State, str] | None:
    """State and detail of a completion whose text was withheld or cut; None for one that may be read."""
    if completion.stop is Stop.REFUSAL or completion.refusal is not None:
        words = (completion.refusal or completion.text).strip()
        return State.REFUSED, f"the model refused: {words[:500]}" if words else "the model refused"
    if completion.stop is Stop.FILTER:
        return State.FILTERED, "a content filter withheld the reply"
    if completion.stop is Stop.LENGTH and not limit_is_meant:
        return State.TRUNCATED, f"cut off at the limit of tokens{_counts(completion)}"
    return None


def _counts(completion: Completion) -> str:
    written, reasoned = completion.usage.output_tokens, completion.usage.reasoning_tokens
    if written is None:
        return ""
    return f", after {written}" + (f", {reasoned} of them reasoning" if reasoned else "")


class _Verdict(NamedTuple):
    """A verdict, the JSON that it was read from, and whether that fills a fenced block."""

    text: str
    fenced: bool
    judgement: Judgement


def _verdict(request: JudgementRequest, reply: str) -> Judgement:
    text = _without_reasoning(reply)
    if text is None:
        return Judgement.failed(State.TRUNCATED, "a reasoning block was opened but never closed")
    spans, unclosed = find_objects(text)
    # Only what has a score can be a verdict; where nothing has one, the last object tells what is wrong.
    claims = [span for span in spans if '"score"' in text[span]] or spans[-1:]
    readings = [(span, _reading(text[span], request.criterion.scale)) for span in claims]
    verdicts = [_Verdict(text[span], is_fenced(text, span), read) for span, read in readings if read.state is State.OK]
    own = _without_quotations(verdicts, request)
    if own:
        return _last(own)
    if verdicts:
        return _no_verdict("the JSON object is copied from the text that was to be judged")
    if unclosed:
        return _no_verdict("a JSON object is opened but never closed")
    return readings[-1][1] if readings else _no_verdict(_no_object(text))


def _without_reasoning(reply: str) -> str | None:
    """Reasoning is marked outside of JSON; a tag within an object is something that the judge quotes."""
    pieces = outside_reasoning(reply)
    if pieces is None or len(pieces) > 1 or pieces[0].start > 0:
        pieces = outside_reasoning(_masked(reply))
    return None if pieces is None else "".join(reply[piece] for piece in pieces).strip("\ufeff \t\r\n")


def _masked(reply: str) -> str:
    """The reply with spaces where its JSON objects stand."""
    kept, end = [], 0
    for span in find_objects(reply)[0]:
        if isinstance(read_object(reply[span]), dict):
            kept += [reply[end : span.start], " " * (span.stop - span.start)]
            end = span.stop
    return "".join([*kept, reply[end:]])


def _reading(text: str, scale: Scale) -> Judgement:
    """The verdict of an object; `parse_error` where it is none."""
    content = read_object(text)
    if isinstance(content, str):
        return _no_verdict(f"the JSON object can't be read: {content}")
    missing = [name for name in VERDICT_FIELDS if name not in content]
    if missing:
        return _no_verdict(f"the JSON object lacks {' and '.join(missing)}")
    for name in ("reasoning", "rationale"):
        if not isinstance(content[name], str):
            return _no_verdict(f"{name} must be a text, found a value of type {type(content[name]).__name__}")
    return judgement(content["score"], scale, content["reasoning"], content["rationale"])


def _without_quotations(verdicts: list[_Verdict], request: JudgementRequest) -> list[_Verdict]:
    """Those that do not stand in what the judge was shown, however they are broken into lines there."""
    if not verdicts:
        return []
    shown = _squeezed(storable("\n".join((request.response, request.task.prompt, request.task.source or ""))))
    return [each for each in verdicts if _squeezed(storable(each.text)) not in shown]


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _last(verdicts: list[_Verdict]) -> Judgement:
    chosen = ([each for each in verdicts if each.fenced] or verdicts)[-1].judgement
    scores = list(dict.fromkeys(str(each.judgement.score) for each in verdicts))
    if len(scores) == 1:
        return chosen
    told = f"the reply holds verdicts with the scores {', '.join(scores)}; {chosen.score} counts"
    return chosen.model_copy(update={"detail": told})


def _no_object(text: str) -> str:
    return f"the reply holds no JSON object; it begins with {text[:60]!r}" if text else "the reply is empty"


def _no_verdict(detail: str) -> Judgement:
    return Judgement.failed(State.PARSE_ERROR, detail)


def _expectation(scale: Scale, candidates: Iterable[Candidate]) -> Judgement:
    by_token = {candidate.token: math.exp(min(candidate.logprob, 0.0)) for candidate in candidates}
    if not by_token:
        return _no_verdict(NO_CANDIDATES)
    if any(math.isnan(p) for p in by_token.values()):
        return _no_verdict("the endpoint sent a token probability that is no number")
    names = {str(level): level for level in scale.levels}
    weights = dict.fromkeys(scale.levels, 0.0)
    for token, p in by_token.items():
        level = names.get(_bare(token))
        if level is not None:
            weights[level] += p
    mass = math.fsum(weights.values())
    told = f"{mass:.3f} of the probability is on levels"
    if mass < MASS_FLOOR:
        likeliest = max(by_token, key=lambda token: by_token[token])
        return _no_verdict(f"only {told}, expected at least {MASS_FLOOR}; the likeliest token is {likeliest!r:.60}")
    expected = math.fsum(level * p for level, p in weights.items()) / mass
    return Judgement(
        state=State.OK,
        score=max(weights, key=lambda level: weights[level]),  # the first of equals, and levels ascend
        expected=min(max(expected, scale.min), scale.max),  # floating point may step over the end by one rounding
        detail=f"expected level over token probabilities; {told}",
    )


def _bare(token: str) -> str:
    """A token without the marks by which tokenizers write a space or a line break before it."""
    return token.strip().lstrip("▁ĠĊ").strip()
