"""Reading a completion: a generator's text, a verifier's verdict as JSON, a score from token probabilities.

A score is only ever read, never guessed: nothing is closed, clamped, rounded or picked out of prose. Not here: finding
JSON in a text (`json_objects.py`), what counts as a level and what is storable (`replies.py`), asking again
(`chains.py`).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
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
)
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, ResponseRequest
from radar_dagster.rubric.model import Scale

_Reply = TypeVar("_Reply", Generation, Judgement)

#: A verdict has all of these; further keys are ignored.
VERDICT_FIELDS = ("reasoning", "score", "rationale")

#: Below it, the first token is more likely something else than a level, and the levels tell what the model would have
#: said had it not said that.
MASS_FLOOR = 0.5

#: Probabilities that add up to more are none: rounding explains no larger excess over 1.
MASS_CEILING = 1.01

#: The detail of a verdict that was to be read from probabilities when there were none.
NO_CANDIDATES = "the endpoint sent no token probabilities"

# What follows is matched in texts without escapes, capitals and white space, see `_plain`.
_QUOTES = "\"'`‘’“”"
_ESCAPE = re.compile(r"\\+(?:u([0-9a-f]{4})|x([0-9a-f]{2})|[bfnrt])?", re.IGNORECASE)
_SHOWN_SCORE = re.compile(rf"[{_QUOTES}{{,]score[{_QUOTES}]?[:=][{_QUOTES}]?([+-]?[0-9]{{1,9}})")
_VALUE_OR_SIGN = re.compile(rf"([:=][{_QUOTES}])|\W")
_LEFT_OUT = re.compile(r"\.{2,}")
_FENCE_MARK = re.compile(r"```[ \t]*\w{0,20}")


def read_generation(
    request: GenerationRequest | ResponseRequest,  # noqa: ARG001 - as for verdicts
    completion: Completion,
) -> Generation:
    """The text that a generator wrote, without its reasoning.

    A refusal in prose that ends like any text is a text: it is judged as the response that it is, and its scores show.
    """
    ended = _ended_early(completion)
    return _recorded(Generation.failed(*ended) if ended else generation(completion.text), completion)


def read_judgement(request: JudgementRequest, completion: Completion) -> Judgement:
    """The verdict that a completion holds as a JSON object with all of `VERDICT_FIELDS`, or why there is none.

    Of several verdicts with one score the last counts; verdicts whose scores differ are a `parse_error`, wherever they
    stand, because taking one of them would be a guess. A verdict that repeats one from what the judge was shown (the
    same score and the same reasoning or rationale, in whatever spelling, perhaps shortened) is a quotation and never
    counts. Where a verdict with the same score was shown at all, one in the middle of prose is a `parse_error`: it may
    be a quotation in other words. A completion that stopped at its limit of tokens is `truncated`, even where an object
    is complete: what would have come next is unknown.
    """
    ended = _ended_early(completion)
    return _recorded(Judgement.failed(*ended) if ended else _verdict(request, completion.text), completion)


def read_judgement_from_probabilities(request: JudgementRequest, completion: Completion) -> Judgement:
    """The expected level over the probabilities of the level tokens, for a scale that `can_score_from_probabilities`.

    `score` is the most probable level, the lowest of equals; `expected` is Σ level·p / Σ p over the levels. A level may
    come as several tokens ("3" and " 3"): they add up. Too little mass on levels (`MASS_FLOOR`) is a `parse_error`. The
    limit of one token is meant to be reached, so it is no truncation here. Numbers that can't be probabilities (one is
    NaN, or they add up to more than `MASS_CEILING`) are a `parse_error`, too.
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
    """A verdict, and whether it stands in the middle of prose: neither alone in the reply nor in a fenced block."""

    judgement: Judgement
    in_prose: bool


class _Shown(NamedTuple):
    """What of the texts that the judge was shown tells a quotation: scores of JSON objects, and all `_words`."""

    scores: frozenset[int | None]
    words: str


def _verdict(request: JudgementRequest, reply: str) -> Judgement:
    text = _without_reasoning(reply)
    if text is None:
        return Judgement.failed(State.TRUNCATED, "a reasoning block was opened but never closed")
    spans, unclosed = find_objects(text)
    # Only what has a score can be a verdict; where nothing has one, the last object tells what is wrong.
    claims = [span for span in spans if '"score"' in text[span]] or spans[-1:]
    readings = [(span, _reading(text[span], request.criterion.scale)) for span in claims]
    prose = _has_prose(text, spans)
    verdicts = [
        _Verdict(read, prose and not is_fenced(text, span)) for span, read in readings if read.state is State.OK
    ]
    task = request.task
    shown = _shown(request.response, task.prompt, task.source or "") if verdicts else _Shown(frozenset(), "")
    own = [each for each in verdicts if not _is_quotation(each.judgement, shown)]
    if own:
        return _agreed(own, shown)
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


def _has_prose(text: str, objects: list[slice]) -> bool:
    """Whether there are words outside of the objects and of the marks of fenced blocks."""
    starts = [0, *(span.stop for span in objects)]
    ends = [*(span.start for span in objects), len(text)]
    outside = " ".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    return re.search(r"\w", _FENCE_MARK.sub(" ", outside)) is not None


def _agreed(verdicts: list[_Verdict], shown: _Shown) -> Judgement:
    """The last of verdicts that are no quotations as far as can be told; `parse_error` where they leave a doubt."""
    scores = list(dict.fromkeys(each.judgement.score for each in verdicts))
    if len(scores) > 1:
        told = ", ".join(map(str, scores))
        return _no_verdict(f"the reply holds verdicts with different scores: {told}; expected one verdict")
    if scores[0] in shown.scores and all(each.in_prose for each in verdicts):
        return _no_verdict(
            "the JSON object stands in the middle of prose, where it can't be told from a quotation of what was to be "
            f"judged, which holds the score {scores[0]}, too; expected the JSON object alone"
        )
    return verdicts[-1].judgement


@lru_cache(maxsize=256)  # a response is judged on one criterion after the other
def _shown(*texts: str) -> _Shown:
    plain = _plain("\n".join(texts))
    # No parser here: a forgery may well be broken JSON, which the judge mends when it quotes it.
    scores = frozenset(map(int, _SHOWN_SCORE.findall(plain) if "score" in plain else ()))
    return _Shown(scores, _words(plain) if scores else "")


def _is_quotation(verdict: Judgement, shown: _Shown) -> bool:
    """Whether a verdict has a shown score and nothing else, or a text that begins a value in what was shown."""
    if verdict.score not in shown.scores:
        return False
    texts = [_plain(text) for text in (verdict.reasoning, verdict.rationale) if text]
    told = [text for text in texts if _words(text)]
    return not told or any(_begins_value(text, shown.words) for text in told)


def _begins_value(text: str, shown: str) -> bool:
    """Whether a plain text is the beginning of a quoted value in `shown`; dots stand for something left out."""
    position = 0
    for index, piece in enumerate(_LEFT_OUT.split(text)):
        words = _words(piece)
        wanted = f":{words}" if words and index == 0 else words
        position = shown.find(wanted, position)
        if position < 0:
            return False
        position += len(wanted)
    return True


def _plain(text: str) -> str:
    """A text as one may compare it with a copy: escapes resolved, in one form, one case, without white space."""
    if "\\" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1] or found[2] or "20", 16)), text)
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def _words(plain: str) -> str:
    """Letters and digits of a plain text, with a colon wherever a quoted value begins."""
    return _VALUE_OR_SIGN.sub(lambda found: ":" if found[1] else "", plain)


def _no_object(text: str) -> str:
    return f"the reply holds no JSON object; it begins with {text[:60]!r}" if text else "the reply is empty"


def _no_verdict(detail: str) -> Judgement:
    return Judgement.failed(State.PARSE_ERROR, detail)


def _expectation(scale: Scale, candidates: Iterable[Candidate]) -> Judgement:
    logprobs = {candidate.token: candidate.logprob for candidate in candidates}
    if not logprobs:
        return _no_verdict(NO_CANDIDATES)
    if any(math.isnan(logprob) for logprob in logprobs.values()):
        return _no_verdict("the endpoint sent a token probability that is no number")
    by_token = {token: math.exp(min(logprob, 1.0)) for token, logprob in logprobs.items()}  # e is too much already
    total = math.fsum(by_token.values())
    if total > MASS_CEILING:
        return _no_verdict(f"the endpoint sent token probabilities that add up to {total:.3f} or more, expected 1")
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
