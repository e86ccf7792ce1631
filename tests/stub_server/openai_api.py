"""OpenAI's shapes: chat completions read and written, errors, models; Azure's where it differs.

Here: JSON in, JSON out. Not here: HTTP (`app.py`), batches (`batches.py`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from stub_server.asks import Ask
from stub_server.errors import RefusedError
from stub_server.replies import Reply
from stub_server.settings import ModelFacts, Settings

_STOPS = {"end": "stop", "length": "length", "refusal": "stop", "filter": "content_filter"}


def ask_from(
    body: Mapping[str, Any], sample: str | None, *, deployment: str | None = None, in_batch: bool = False
) -> Ask:
    """A request from its body; RefusedError with a 400 where the body is none."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
    said = [(str(message.get("role")), text_of(message.get("content"))) for message in messages]
    model = deployment or body.get("model")
    if not isinstance(model, str) or not model:
        raise bad_request("you must provide a model parameter", None, None)
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    wanted = body.get("response_format") or {}
    return Ask(
        protocol="openai",
        model=model,
        system="\n".join(text for role, text in said if role in ("system", "developer")),
        messages=tuple((role, text) for role, text in said if role not in ("system", "developer")),
        body=body,
        schema=(wanted.get("json_schema") or {}).get("schema") if wanted.get("type") == "json_schema" else None,
        max_tokens=limit if isinstance(limit, int) else None,
        sample=sample if sample is not None else _seed(body),
        azure=deployment is not None,
        in_batch=in_batch,
    )


def text_of(content: Any) -> str:
    """The text of a message, whether it is a string or a list of parts (either protocol)."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return "" if content is None else str(content)


def check(ask: Ask) -> None:
    """Refuse what OpenAI refuses: bad schema names, lax strict schemas, two limits, probabilities without asking."""
    body = ask.body
    if "max_tokens" in body and "max_completion_tokens" in body:
        raise bad_request("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.", None,
                          "invalid_parameter_combination")  # fmt: skip
    if body.get("top_logprobs") is not None and body.get("logprobs") is not True:
        raise bad_request("'top_logprobs' is only allowed when 'logprobs' is true.", "top_logprobs", None)
    if body.get("stream"):
        raise bad_request("The stub does not stream.", "stream", None)
    if ask.schema is not None:
        _check_format(body["response_format"]["json_schema"])


def _check_format(wanted: Mapping[str, Any]) -> None:
    name = wanted.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        raise bad_request(
            "Invalid 'response_format.json_schema.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
            "response_format.json_schema.name",
            "invalid_value",
        )
    problem = _lax(wanted["schema"], "()") if wanted.get("strict") else None
    if problem is not None:
        raise bad_request(f"Invalid schema for response_format '{name}': {problem}", "response_format", None)


def _lax(schema: Any, place: str) -> str | None:
    """Why a schema can't be strict; None if it can."""
    if not isinstance(schema, Mapping):
        return None
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return f"In context={place}, 'additionalProperties' is required to be supplied and to be false."
        missing = sorted(set(schema.get("properties", {})) - set(schema.get("required", [])))
        if missing:
            return f"In context={place}, 'required' is required to include every key. Missing '{missing[0]}'."
    inside = [*schema.get("properties", {}).items(), ("items", schema.get("items"))]
    return next((found for key, value in inside if (found := _lax(value, f"('properties', '{key}')"))), None)


def rejected(model: str, parameter: str, how: str, value: Any) -> RefusedError:
    """The 400 that names a parameter which the model does not take."""
    if how == "value":
        message = (
            f"Unsupported value: '{parameter}' does not support {value} with this model. "
            "Only the default (1) value is supported."
        )
        return bad_request(message, parameter, "unsupported_value")
    if how == "parameter":
        message = f"Unsupported parameter: '{parameter}' is not supported with this model."
        if parameter == "max_tokens":
            message += " Use 'max_completion_tokens' instead."
        return bad_request(message, parameter, "unsupported_parameter")
    return bad_request(how, None, None)


def completion(ask: Ask, reply: Reply, settings: Settings, identity: str) -> dict[str, Any]:
    """The body of a successful reply."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if reply.refusal else reply.text,
        "refusal": reply.refusal,
        "annotations": [],
    }
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    body: dict[str, Any] = {
        "id": f"chatcmpl-{identity}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": settings.served_as.get(ask.model, ask.model),
        "choices": [
            {"index": 0, "message": message, "logprobs": _logprobs(reply), "finish_reason": _STOPS[reply.stop]}
        ],
        "service_tier": "default",
        "system_fingerprint": None,
    }
    if reply.with_usage:
        body["usage"] = {
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens if reply.told_tokens is None else reply.told_tokens,
            "total_tokens": reply.prompt_tokens + reply.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": reply.cached_tokens, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens, "audio_tokens": 0},
        }
    return body


def _logprobs(reply: Reply) -> dict[str, Any] | None:
    """The probabilities of the first token; the stub's replies with probabilities have no other."""
    if reply.candidates is None:
        return None
    named = [{"token": token, "logprob": value, "bytes": list(token.encode())} for token, value in reply.candidates]
    first = next((each for each in named if each["token"] == reply.text), None)
    said = first or {"token": reply.text[:4], "logprob": -0.03, "bytes": list(reply.text[:4].encode())}
    return {"content": [{**said, "top_logprobs": named}], "refusal": None}


def bad_request(message: str, param: str | None, code: str | None) -> RefusedError:
    """A 400."""
    return RefusedError(400, error(message, "invalid_request_error", param, code))


def error(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def model_of(name: str, facts: ModelFacts) -> dict[str, Any]:
    """A model as the listing shows it."""
    return {
        "id": name,
        "object": "model",
        "created": facts.created,
        "owned_by": facts.owned_by,
        "shutdown_date": facts.shutdown_date,
    }


def _seed(body: Mapping[str, Any]) -> str | None:
    seed = body.get("seed")
    return None if seed is None else f"seed {seed}"
