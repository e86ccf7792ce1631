"""What the stub says. A brain is any callable from an `Ask` to a text.

Here: the brain that answers anything from a hash, and one that plants and finds marks so that audits succeed. Not
here: spoiling what a brain said (`replies.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from typing import Any, Literal

from stub_server.asks import Ask

Brain = Callable[[Ask], str]

_VOCABULARY = """
amber anchor apple arrow autumn basket beacon birch blanket bottle bridge brook button candle canvas carpet castle
cedar cherry circle cloud clover copper coral corner cotton cradle crystal curtain dawn desert dock drift ember engine
fabric feather fern field flint forest fountain garden glass granite harbour harvest hazel hill honey island ivory
jacket kettle ladder lantern leaf linen lotus maple marble meadow mirror morning
"""
_WORDS = _VOCABULARY.split()


def paragraph(seed: str, words: int = 60) -> str:
    """Sentences of plain words that follow from the seed; two seeds give two texts."""
    chosen: list[str] = []
    block = seed.encode()
    while len(chosen) < words:
        block = sha256(block).digest()
        chosen += [_WORDS[byte % len(_WORDS)] for byte in block]
    sentences = [chosen[start : min(start + 10, words)] for start in range(0, words, 10)]
    return " ".join(" ".join(sentence).capitalize() + "." for sentence in sentences)


class DefaultBrain:
    """Answers anything: an object for a schema, a level where probabilities are asked for, else a paragraph.

    The same request has the same reply always, but for free text without a sample index: N equal prompts must give N
    texts, so those also depend on how often the content was answered before (`distinct=False` turns that off; then
    nothing depends on the order of arrival). `judge_when` is a piece of text by which a judge's prompt without a
    schema is known; it is answered by a JSON object of `fields`. `levels` are the scores where no schema names them.
    """

    def __init__(
        self,
        *,
        levels: Sequence[int] = (1, 2, 3, 4, 5),
        words: int = 60,
        distinct: bool = True,
        judge_when: str | None = None,
        fields: Sequence[str] = ("reasoning", "score", "rationale"),
    ) -> None:
        self.levels = tuple(levels)
        self.words = words
        self.distinct = distinct
        self.judge_when = judge_when
        self.fields = tuple(fields)

    def __call__(self, ask: Ask) -> str:
        """The reply to a request."""
        if ask.schema is not None:
            return json.dumps(self._fill(ask, ask.schema, ask.schema, "reply"), ensure_ascii=False)
        if ask.top_logprobs is not None:
            return str(self.level(ask, self.levels))
        if self.judge_when is not None and self.judge_when in ask.text:
            return json.dumps({name: self._field(ask, name) for name in self.fields}, ensure_ascii=False)
        return self.write(ask)

    def level(self, ask: Ask, levels: Sequence[int]) -> int:
        """The score of a judgement."""
        return levels[int(ask.number("level") * len(levels))]

    def write(self, ask: Ask) -> str:
        """A free text."""
        draw = ask.draw if self.distinct and ask.sample is None else 0
        return paragraph(f"{ask.content}/{draw}", self.words)

    def probabilities(self, ask: Ask, levels: Sequence[int]) -> dict[int, float]:
        """How probable each level is as the first token; the most probable one is `level`."""
        chosen = self.level(ask, levels)
        steepness = 0.7 + 1.3 * ask.number("steepness")
        weights = {level: math.exp(-steepness * abs(level - chosen)) for level in levels}
        whole = sum(weights.values()) / 0.97  # the rest is for tokens that are no level
        return {level: weight / whole for level, weight in weights.items()}

    def _field(self, ask: Ask, name: str) -> int | str:
        return self.level(ask, self.levels) if name == "score" else paragraph(f"{ask.content}/{name}", 12)

    def _fill(self, ask: Ask, schema: Mapping[str, Any], root: Mapping[str, Any], name: str) -> Any:
        """A value that satisfies the (sub)schema."""
        schema = _plain(schema, root)
        if "enum" in schema:
            return self._choose(ask, schema["enum"], name)
        kind = schema.get("type", "object")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object":
            properties = schema.get("properties", {})
            return {key: self._fill(ask, value, root, key) for key, value in properties.items()}
        if kind == "array":
            return [self._fill(ask, schema.get("items", {"type": "string"}), root, name)]
        return self._scalar(ask, kind, schema, name)

    def _choose(self, ask: Ask, options: Sequence[Any], name: str) -> Any:
        if all(type(option) is int for option in options):
            return self.level(ask, options)
        return options[int(ask.number(name) * len(options))]

    def _scalar(self, ask: Ask, kind: str, schema: Mapping[str, Any], name: str) -> Any:
        if kind == "integer":
            levels = range(schema.get("minimum", self.levels[0]), schema.get("maximum", self.levels[-1]) + 1)
            return self.level(ask, levels)
        if kind == "number":
            return round(ask.number(name), 3)
        if kind == "boolean":
            return ask.number(name) < 0.5
        return None if kind == "null" else paragraph(f"{ask.content}/{name}", 12)


class AuditBrain(DefaultBrain):
    """Writes `QUALITY(mark)=high` into what it generates and scores by it, so that interventions have an effect.

    `marks` maps a text by which a criterion is known in a prompt (its label, or better a whole line) to a mark;
    `up` and `down` are texts by which a generator's prompt tells the direction. The first that occurs counts, longer
    ones of `marks` first. A judged text with the criterion's mark gets the top or the bottom level in `agreement` of
    all cases, else the one beside it; one without the mark gets any level. The marks of other criteria change nothing.

    To adapt it: override `mark`, `direction` or `is_generation`.
    """

    def __init__(
        self,
        marks: Mapping[str, str],
        up: Sequence[str] = ("high",),
        down: Sequence[str] = ("low",),
        *,
        agreement: float = 0.8,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self.marks = dict(marks)
        self.up = tuple(up)
        self.down = tuple(down)
        self.agreement = agreement

    def is_generation(self, ask: Ask) -> bool:
        """Whether a text is to be written; `level` and `write` are called accordingly."""
        return any(mark in ask.text for mark in (*self.up, *self.down))

    def mark(self, ask: Ask) -> str | None:
        """The mark of the criterion that the prompt is about."""
        found = [label for label in self.marks if label in ask.text]
        return self.marks[max(found, key=len)] if found else None

    def direction(self, ask: Ask) -> Literal["high", "low"] | None:
        """Where the generator should push."""
        if any(text in ask.text for text in self.up):
            return "high"
        return "low" if any(text in ask.text for text in self.down) else None

    def write(self, ask: Ask) -> str:
        """A paragraph, with the mark where criterion and direction are found."""
        mark, direction = self.mark(ask), self.direction(ask)
        text = super().write(ask)
        return f"{text} {planted(mark, direction)}" if mark and direction and self.is_generation(ask) else text

    def level(self, ask: Ask, levels: Sequence[int]) -> int:
        """The top or the bottom of the levels, as the mark in the judged text has it."""
        mark = self.mark(ask)
        step = 0 if ask.number("agreement") < self.agreement or len(levels) == 1 else 1
        if mark is not None and planted(mark, "high") in ask.text:
            return levels[len(levels) - 1 - step]
        if mark is not None and planted(mark, "low") in ask.text:
            return levels[step]
        return super().level(ask, levels)


def planted(mark: str, direction: Literal["high", "low"]) -> str:
    """The token that a generation holds and a judgement looks for.

    >>> planted("clarity", "high")
    'QUALITY(clarity)=high'
    """
    return f"QUALITY({mark})={direction}"


def probabilities(brain: Brain, ask: Ask, levels: Sequence[int]) -> dict[int, float]:
    """Those of the brain if it has any, else those of the default one."""
    own = getattr(brain, "probabilities", None) or DefaultBrain().probabilities
    result: dict[int, float] = own(ask, levels)
    return result


def brain_from(described: str | Mapping[str, Any]) -> Brain:
    """A brain from JSON: "default", {"kind": "default" or "audit", …arguments}, or the name "module:object"."""
    if isinstance(described, str) and ":" in described:
        module, _, name = described.partition(":")
        brain: Brain = getattr(import_module(module), name)
        return brain
    given = {"kind": described} if isinstance(described, str) else dict(described)
    kinds: dict[str, type[DefaultBrain]] = {"default": DefaultBrain, "audit": AuditBrain}
    return kinds[given.pop("kind")](**given)


def _plain(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema without references and unions (the first member stands for all); a constant becomes an enum of one."""
    if "$ref" in schema:
        found: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return _plain(found, root)
    for union in ("anyOf", "oneOf", "allOf"):
        if schema.get(union):
            return _plain(schema[union][0], root)
    return {"enum": [schema["const"]]} if "const" in schema else schema
