"""Errors in the providers' own shapes.

Here: `RefusedError`, and the bodies and headers of faults that are HTTP errors. Not here: when one happens
(`faults.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RefusedError(Exception):
    """A request that gets an error: the status, the JSON body and extra headers."""

    def __init__(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = headers or {}


#: kind -> (status, type, code, message) of OpenAI's errors
OPENAI: Mapping[str, tuple[int, str, str | None, str]] = {
    "rate_limited": (429, "requests", "rate_limit_exceeded", "Rate limit reached for {model} on requests per min."),
    "quota": (429, "insufficient_quota", "insufficient_quota",
              "You exceeded your current quota, please check your plan and billing details."),
    "forbidden": (403, "invalid_request_error", None, "Project does not have access to model {model}"),
    "too_long": (400, "invalid_request_error", "context_length_exceeded",
                 "This model's maximum context length is 128000 tokens. However, your messages resulted in more."),
    "server_error": (500, "server_error", None, "The server had an error while processing your request. Sorry!"),
    "overloaded": (503, "server_error", None, "The engine is currently overloaded, please try again later"),
}  # fmt: skip

#: kind -> (status, type, message) of Anthropic's errors
ANTHROPIC: Mapping[str, tuple[int, str, str]] = {
    "rate_limited": (429, "rate_limit_error", "This request would exceed your rate limit of requests per minute."),
    "quota": (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "forbidden": (403, "permission_error", "Your API key does not have permission to use the specified resource."),
    "too_long": (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    "server_error": (500, "api_error", "Internal server error"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
}


def waiting(kind: str, seconds: float | None, words: str | None) -> dict[str, str]:
    """The headers that say when to come back; `words` (a date, nonsense) stand in for the seconds."""
    if words is not None:
        return {"retry-after": words}
    if kind == "rate_limited":
        return {"retry-after": f"{1 if seconds is None else seconds:g}"}
    if kind == "rate_limited_ms":
        return {"retry-after-ms": f"{1000 * (0.05 if seconds is None else seconds):g}", "retry-after": "1"}
    return {}


def error_of(
    kind: str, protocol: str, model: str, seconds: float | None = None, words: str | None = None
) -> RefusedError:
    """The error of a fault; KeyError if the fault is none with a JSON body."""
    name = "rate_limited" if kind.startswith("rate_limited") else kind
    headers = waiting(kind, seconds, words) if name == "rate_limited" else {}
    if protocol == "anthropic":
        status, sort, text = ANTHROPIC[name]
        body: dict[str, Any] = {"type": "error", "error": {"type": sort, "message": text}, "request_id": "req_stub"}
        return RefusedError(status, body, headers)
    status, sort, code, text = OPENAI[name]
    told = {"message": text.format(model=model), "type": sort, "param": None, "code": code}
    return RefusedError(status, {"error": told}, headers)
