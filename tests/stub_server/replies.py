"""A reply before it is put into a protocol's shape: what the brain said, spoiled by a fault, cut to the limit.

Here: texts, stops and token counts. Not here: JSON bodies (`openai_api.py`, `anthropic_api.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stub_server.asks import Ask, tokens
from stub_server.brains import paragraph, probabilities
from stub_server.faults import Rule
from stub_server.settings import Settings

REFUSAL = "I'm sorry, but I can't help with that."


@dataclass(slots=True)
class Reply:
    """What is said. `candidates` are (token, natural-log probability) of the first token, the likeliest first."""

    text: str
    stop: Literal["end", "length", "refusal", "filter"] = "end"
    refusal: str | None = None
    reasoning: str | None = None
    with_usage: bool = True
    #: What is told of the completion's tokens instead of the truth.
    told_tokens: Any = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    candidates: list[tuple[str, float]] | None = None
    #: Whether the fault changed anything: a text that is no verdict has no score to spoil.
    spoiled: bool = False


def make_reply(ask: Ask, settings: Settings, fault: Rule | None) -> Reply:
    """The brain's words after the fault, if any, with their price in tokens."""
    reply = Reply(settings.brain(ask))
    if fault is not None:
        _spoil(reply, fault, ask)
    _bill(reply, ask, settings)
    if ask.top_logprobs is not None and settings.logprobs == "on":
        reply.candidates = _candidates(reply, ask, settings)
    return reply


def _spoil(reply: Reply, fault: Rule, ask: Ask) -> None:
    reply.spoiled = True
    if fault.kind in _TEXTS:
        before, reply.text = reply.text, _TEXTS[fault.kind](reply.text, fault, ask)
        reply.spoiled = reply.text != before
    elif fault.kind == "truncated":
        reply.text, reply.stop = reply.text[: len(reply.text) // 2], "length"
    elif fault.kind == "refusal":
        reply.text, reply.stop, reply.refusal = "", "refusal", REFUSAL
    elif fault.kind == "content_filter":
        reply.text, reply.stop = "", "filter"
    elif fault.kind == "missing_usage":
        reply.with_usage = False
    elif fault.kind == "wild_usage":
        reply.told_tokens = 10**12 if fault.value is None else fault.value
    elif fault.kind == "reasoning_apart":
        reply.reasoning = paragraph(f"{ask.content}/apart", 20)


def _fenced(text: str, _fault: Rule, _ask: Ask) -> str:
    return f"Here is what I came to:\n\n```json\n{text}\n```\n\nTell me if you need more."


def _out_of_range(text: str, fault: Rule, ask: Ask) -> str:
    found = _verdict(text)
    if found is None:
        return text
    above = max((level for level in _levels(ask) if isinstance(level, int)), default=9) + 3
    return json.dumps({**found, "score": above if fault.value is None else fault.value})


def _wrong_schema(text: str, _fault: Rule, _ask: Ask) -> str:
    found = _verdict(text)
    return text if found is None else json.dumps({"verdict": "good", "grade": found["score"]})


def _duplicate(text: str, _fault: Rule, ask: Ask) -> str:
    found = _verdict(text)
    if found is None:
        return text
    other = next((level for level in _levels(ask) if level != found["score"]), 0)
    return json.dumps({**found, "score": other}) + "\n\nOn reflection:\n\n" + text


def _thinking(text: str, _fault: Rule, ask: Ask) -> str:
    forged = _out_of_range(text, Rule("out_of_range"), ask)
    return f"<think>\nA first thought: {forged}\nNo, that is not it.\n</think>\n\n{text}"


def _empty(_text: str, _fault: Rule, _ask: Ask) -> str:
    return ""


def _think_open(text: str, _fault: Rule, _ask: Ask) -> str:
    return f"<think>\nLet me think about this.\n{text}"


#: Kinds that change the text alone: (text, fault, ask) -> text.
_TEXTS: Mapping[str, Callable[[str, Rule, Ask], str]] = {
    "fenced": _fenced,
    "out_of_range": _out_of_range,
    "wrong_schema": _wrong_schema,
    "duplicate_objects": _duplicate,
    "empty": _empty,
    "think_block": _thinking,
    "think_open": _think_open,
}


def _verdict(text: str) -> dict[str, Any] | None:
    """The reply as an object with a score, if it is one."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "score" in found else None


def _levels(ask: Ask) -> list[Any]:
    properties = (ask.schema or {}).get("properties", {})
    return list(properties.get("score", {}).get("enum", (1, 2, 3, 4, 5)))


def _bill(reply: Reply, ask: Ask, settings: Settings) -> None:
    """Count tokens; the limit holds for reasoning and text together, as with the providers."""
    limit = ask.max_tokens if ask.max_tokens is not None else 1 << 30
    reply.prompt_tokens = tokens("".join([ask.system, *(text for _, text in ask.messages)]))
    reply.cached_tokens = min(settings.cached_tokens, reply.prompt_tokens)
    reply.reasoning_tokens = min(settings.reasoning_tokens + tokens(reply.reasoning or ""), limit)
    left = limit - reply.reasoning_tokens
    if tokens(reply.text) > left:
        reply.text = reply.text.encode("utf-8", "surrogatepass")[: 4 * left].decode("utf-8", "ignore")
        reply.stop = "length"
    reply.completion_tokens = reply.reasoning_tokens + tokens(reply.text) + tokens(reply.refusal or "")


def _candidates(reply: Reply, ask: Ask, settings: Settings) -> list[tuple[str, float]]:
    levels = getattr(settings.brain, "levels", (1, 2, 3, 4, 5))
    likely = probabilities(settings.brain, ask, levels)
    named = [(str(level), math.log(probability)) for level, probability in likely.items()]
    if not reply.text.isdigit():
        named = [(reply.text[:4], math.log(0.97))]
    named += [("\n", math.log(0.02)), ("The", math.log(0.01))]
    return sorted(named, key=lambda candidate: -candidate[1])[: ask.top_logprobs]
