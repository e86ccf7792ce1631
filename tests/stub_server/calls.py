"""Whether a request is one that a provider would serve: JSON, a known model, no parameter that the model rejects.

Here: checks before any fault; each raises `RefusedError`. Used for live calls and for the items of batches alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stub_server import anthropic_api, openai_api
from stub_server.asks import Ask, Protocol
from stub_server.errors import RefusedError
from stub_server.settings import Settings


def read_json(raw: bytes, protocol: Protocol) -> dict[str, Any]:
    """The body as an object of text that UTF-8 can carry."""
    try:
        body = json.loads(raw)
        if b"\\u" in raw:
            json.dumps(body, ensure_ascii=False).encode()  # a lone surrogate is refused, as the providers do
        if not isinstance(body, dict):
            raise ValueError("no object")
    except ValueError:
        text = "We could not parse the JSON body of your request."
        if protocol == "anthropic":
            raise anthropic_api.bad_request("The request body is not valid JSON") from None
        raise openai_api.bad_request(text, None, None) from None
    return body


def admit(ask: Ask, settings: Settings) -> None:
    """Refuse an unknown model, a rejected parameter, and what the provider's validation would refuse."""
    if not settings.knows(ask.model):
        raise unknown_model(ask.model, ask.protocol, azure=ask.azure)
    api = openai_api if ask.protocol == "openai" else anthropic_api
    for parameter, how in settings.rejected(ask.model).items():
        value = _inside(ask.body, parameter)
        if value is not None:
            raise api.rejected(ask.model, parameter, how, value)
    if settings.logprobs == "rejected" and ask.top_logprobs is not None:
        raise api.rejected(ask.model, "logprobs", "parameter", True)
    if settings.strict:
        api.check(ask)


def unknown_model(model: str, protocol: Protocol, *, azure: bool = False) -> RefusedError:
    """The provider's 404."""
    if azure:
        text = "The API deployment for this resource does not exist."
        return RefusedError(404, {"error": {"code": "DeploymentNotFound", "message": text}})
    if protocol == "anthropic":
        return RefusedError(404, anthropic_api.error("not_found_error", f"model: {model}"))
    text = f"The model `{model}` does not exist or you do not have access to it."
    return RefusedError(404, openai_api.error(text, "invalid_request_error", None, "model_not_found"))


def _inside(body: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    found: Any = body
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
