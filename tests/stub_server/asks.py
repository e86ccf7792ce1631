"""A request for a completion as the stub understands it, the same for both protocols.

Here: `Ask`, its identity (`content`) and the numbers drawn from it. Not here: reading one off the wire
(`openai_api.py`, `anthropic_api.py`), answering it (`brains.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

Protocol = Literal["openai", "anthropic"]

#: A header that tells the samples of one prompt apart; nothing else on the wire does.
SAMPLE_HEADER = "x-client-request-id"


@dataclass(slots=True)
class Ask:
    """One request. `messages` are (role, text) without the system's; `sample` is the header's value or the `seed`.

    `content` is a SHA-256 (hex) over model, system, messages, schema and sample: not over temperature, token limits and
    the like, so that a call repeated without a refused parameter or with a larger limit keeps its identity.
    `nth` counts how often this content was asked (from 1), `draw` how often it was answered before (from 0).
    """

    protocol: Protocol
    model: str
    system: str
    messages: tuple[tuple[str, str], ...]
    body: Mapping[str, Any]
    schema: Mapping[str, Any] | None
    max_tokens: int | None
    sample: str | None = None
    azure: bool = False
    in_batch: bool = False
    nth: int = 1
    draw: int = 0
    content: str = ""

    def __post_init__(self) -> None:
        if not self.content:
            said = [self.model, self.system, self.messages, self.schema, self.sample]
            self.content = sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    @property
    def text(self) -> str:
        """Everything that was said, the system's message first."""
        return "\n".join([self.system, *(text for _, text in self.messages)])

    @property
    def top_logprobs(self) -> int | None:
        """How many candidates of a token are asked for; None when no probabilities are."""
        return int(self.body.get("top_logprobs") or 0) if self.body.get("logprobs") is True else None

    def number(self, *salt: object) -> float:
        """A number in [0, 1) that follows from the content and the salt alone."""
        return number(self.content, *salt)


def number(*parts: object) -> float:
    """A number in [0, 1) that follows from its arguments alone.

    >>> number("a", 1) == number("a", 1) != number("a", 2)
    True
    """
    digest = sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
    # 53 bits: more would round up to 1.0 now and then
    return (int.from_bytes(digest[:8], "big") >> 11) / (1 << 53)


def tokens(text: str) -> int:
    """The stub's idea of a token: four bytes of UTF-8, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)
