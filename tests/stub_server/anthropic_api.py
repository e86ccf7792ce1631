"""Anthropic's shapes: messages read and written, errors, models.

Here: JSON in, JSON out. Not here: HTTP (`app.py`), batches (`batches.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from stub_server.asks import Ask
from stub_server.errors import RefusedError
from stub_server.openai_api import text_of
from stub_server.replies import Reply
from stub_server.settings import ModelFacts, Settings

_STOPS = {"end": "end_turn", "length": "max_tokens", "refusal": "refusal", "filter": "refusal"}
_NUMERIC = ("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf")
_FORBIDDEN = {"integer": _NUMERIC, "number": _NUMERIC, "string": ("maxLength", "minLength")}


def ask_from(body: Mapping[str, Any], sample: str | None, *, in_batch: bool = False) -> Ask:
    """A request from its body; RefusedError with a 400 where the body is none."""
    for name in ("model", "messages", "max_tokens"):
        if name not in body:
            raise bad_request(f"{name}: Field required")
    if not isinstance(body["messages"], list) or not body["messages"]:
        raise bad_request("messages: at least one message is required")
    wanted = (body.get("output_config") or {}).get("format") or {}
    return Ask(
        protocol="anthropic",
        model=str(body["model"]),
        system=text_of(body.get("system")),
        messages=tuple((str(each.get("role")), text_of(each.get("content"))) for each in body["messages"]),
        body=body,
        schema=wanted.get("schema") if wanted.get("type") == "json_schema" else None,
        max_tokens=body["max_tokens"] if isinstance(body["max_tokens"], int) else None,
        sample=sample,
        in_batch=in_batch,
    )


def check(ask: Ask) -> None:
    """Refuse what Anthropic refuses: a system role among the messages, empty texts, bounds in schemas, no limit."""
    for place, (role, text) in enumerate(ask.messages):
        if role not in ("user", "assistant"):
            raise bad_request(f'messages.{place}.role: Input should be "user" or "assistant", not "{role}"')
        if not text:
            raise bad_request(f"messages.{place}: all messages must have non-empty content")
    if ask.max_tokens is None or ask.max_tokens < 1:
        raise bad_request("max_tokens: Input should be greater than or equal to 1")
    if ask.body.get("stream"):
        raise bad_request("stream: the stub does not stream")
    problem = _unsupported(ask.schema)
    if problem is not None:
        raise bad_request(f"output_config.format.schema: {problem}")


def _unsupported(schema: Any) -> str | None:
    """What structured output does not take in a schema; None if nothing."""
    if not isinstance(schema, Mapping):
        return None
    kind = schema.get("type")
    if kind == "object" and schema.get("additionalProperties") is not False:
        return "For 'object' type, 'additionalProperties' must be explicitly set to false"
    found = [name for name in _FORBIDDEN.get(str(kind), ()) if name in schema]
    if len(found) == 1:
        return f"For '{kind}' type, property '{found[0]}' is not supported"
    if found:
        return f"For '{kind}' type, properties {', '.join(found)} are not supported"
    inside = [*schema.get("properties", {}).values(), schema.get("items"), *schema.get("anyOf", [])]
    return next((problem for value in inside if (problem := _unsupported(value))), None)


def rejected(model: str, parameter: str, how: str, value: Any) -> RefusedError:
    """The 400 that names a parameter which the model does not take."""
    if how not in ("parameter", "value"):
        return bad_request(how)
    if parameter in ("temperature", "top_p", "top_k"):
        return bad_request(f"`{parameter}` is deprecated for this model.")
    if parameter == "output_config.effort":
        return bad_request("This model does not support the effort parameter.")
    return bad_request(f"{parameter}: Extra inputs are not permitted")


def message(ask: Ask, reply: Reply, settings: Settings, identity: str) -> dict[str, Any]:
    """The body of a successful reply."""
    content: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": "c3R1Yg=="})
    if reply.text:
        content.append({"type": "text", "text": reply.text, "citations": None})
    details = {"type": "refusal", "category": None, "explanation": reply.refusal} if reply.refusal else None
    body: dict[str, Any] = {
        "id": f"msg_{identity}",
        "type": "message",
        "role": "assistant",
        "model": settings.served_as.get(ask.model, ask.model),
        "content": content,
        "stop_reason": _STOPS[reply.stop],
        "stop_sequence": None,
        "stop_details": details,
    }
    if reply.with_usage:
        body["usage"] = {
            "input_tokens": reply.prompt_tokens - reply.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": reply.cached_tokens,
            "output_tokens": reply.completion_tokens if reply.told_tokens is None else reply.told_tokens,
            "output_tokens_details": {"thinking_tokens": reply.reasoning_tokens},
            "service_tier": "batch" if ask.in_batch else "standard",
        }
    return body


def bad_request(text: str) -> RefusedError:
    """A 400."""
    return RefusedError(400, error("invalid_request_error", text))


def filtered() -> RefusedError:
    """The 400 of the content filter."""
    return bad_request("Output blocked by content filtering policy")


def error(kind: str, text: str) -> dict[str, Any]:
    """The body of an error."""
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_stub"}


def model_of(name: str, facts: ModelFacts) -> dict[str, Any]:
    """A model as the listing shows it."""
    return {
        "type": "model",
        "id": name,
        "display_name": facts.display_name or name,
        "created_at": datetime.fromtimestamp(facts.created, UTC).isoformat().replace("+00:00", "Z"),
        "lifecycle": facts.lifecycle,
        "deprecated_at": facts.deprecated_at,
        "retires_at": facts.retires_at,
        "line": None,
        "max_input_tokens": facts.max_input_tokens,
        "max_tokens": facts.max_tokens,
        "capabilities": _capabilities(facts),
    }


def _capabilities(facts: ModelFacts) -> dict[str, Any]:
    def support(value: bool) -> dict[str, bool]:
        return {"supported": value}

    efforts = {level: support(facts.effort) for level in ("low", "medium", "high", "xhigh", "max")}
    thinking = {
        "adaptive": support(facts.thinking),
        "between_tools": support(False),
        "disabled": support(True),
        "enabled": support(False),
    }
    plain = ("citations", "code_execution", "image_input", "pdf_input")
    return {
        "batch": support(facts.batch),
        **{name: support(True) for name in plain},
        "context_management": support(False),
        "effort": {**support(facts.effort), **efforts},
        "server_tools": {**support(False), "code_execution": support(False), "web_search": support(False)},
        "structured_outputs": support(facts.structured_outputs),
        "thinking": {**support(facts.thinking), "types": thinking},
    }
