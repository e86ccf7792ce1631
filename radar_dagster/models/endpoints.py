"""Where hosted models are reached: the `endpoints:` of radar.yaml, and the two that need no entry there.

Here: the settings of an endpoint, its key from the environment, its address in the form that the SDK wants. Not here:
calling it (`providers/`), what its models can do (`capabilities.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from radar_dagster.errors import OperationalError
from radar_dagster.models.capabilities import Overrides

Protocol = Literal["openai", "anthropic"]

#: The official addresses, as they enter request keys; the SDKs know them too.
OFFICIAL: Mapping[Protocol, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_KEY_VARIABLES: Mapping[Protocol, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_AZURE_HOSTS = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
#: What is added to a base URL for a call, the longest first.
_CALLS = ("/chat/completions", "/completions", "/responses", "/messages")
_URL_VARIABLES: Mapping[Protocol, str] = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}


class Endpoint(BaseModel):
    """One entry of `endpoints:`; its models are named `entry/model`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Protocol = Field(default="openai", description="the API that it speaks")
    base_url: str | None = Field(default=None, description="its address, with or without a trailing /v1")
    api_key_env: str | None = Field(default=None, description="the environment variable that holds its key")
    api_version: str | None = Field(
        default=None, min_length=1, description="Azure's dated API; leave it out for its v1 API"
    )
    deployment: str | None = Field(default=None, min_length=1, description="what is sent as the model's name (Azure)")
    concurrency: int = Field(default=32, ge=1, le=1024, description="most calls in flight at once")
    requests_per_minute: int | None = Field(default=None, ge=1, description="never start more calls in a minute")
    tokens_per_minute: int | None = Field(default=None, ge=1, description="never ask for more tokens in a minute")
    timeout_s: float = Field(default=120.0, gt=0, le=86_400, description="seconds until a call is given up")
    deadline_s: float | None = Field(default=None, gt=0, description="seconds until a stage starts no more calls")
    max_attempts: int = Field(default=6, ge=1, le=20, description="tries of a call that fails by accident")
    batch_poll_s: float = Field(
        default=30.0, gt=0, le=3_600, allow_inf_nan=False, description="seconds between looks at a running batch"
    )
    look_up: bool = Field(default=True, description="ask it before an audit whether it knows its models")
    capabilities: dict[str, Overrides] = Field(
        default_factory=dict, description="model name or pattern -> what it can and can't take"
    )

    @field_validator("base_url")
    @classmethod
    def _well_formed(cls, value: str | None) -> str | None:
        fault = None if value is None else _fault_of(value)
        if fault is not None:
            raise ValueError(fault)
        return value

    @field_validator("api_key_env")
    @classmethod
    def _a_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            # The value is not repeated: it may well be the key itself.
            raise ValueError("expected the name of an environment variable, such as OPENAI_API_KEY")
        return value

    @model_validator(mode="after")
    def _azure_is_complete(self) -> Self:
        if self.api_version is not None and (self.base_url is None or self.protocol != "openai"):
            raise ValueError("api_version belongs to an Azure resource: protocol openai, with its base_url")
        return self

    @property
    def url(self) -> str:
        """The address in the form that the protocol's SDK wants: `/v1` at its end for OpenAI, none for Anthropic.

        With `api_version` it is that of the Azure resource itself. Other paths (`/v1beta/openai`) stay as they are.
        OperationalError when the address comes from the environment and is none.
        """
        address = self.base_url or self._url_from_environment()
        if address is None:
            return OFFICIAL[self.protocol]
        if self.api_version is not None:
            return _azure_resource(address)
        return _normalised(address, self.protocol)

    @property
    def is_official(self) -> bool:
        """Whether calls go to the provider itself rather than to a server that speaks its protocol."""
        return self.url == OFFICIAL[self.protocol]

    @property
    def is_azure(self) -> bool:
        """Whether calls go to OpenAI's models on Azure, by the dated API or by v1."""
        return self.api_version is not None or (self.protocol == "openai" and _on_azure(urlsplit(self.url)))

    @property
    def key_variable(self) -> str | None:
        """The environment variable that must hold a key; None for an address of one's own that names none."""
        if self.api_key_env is not None:
            return self.api_key_env
        return _KEY_VARIABLES[self.protocol] if self.base_url is None or self.is_official else None

    @property
    def takes_environment(self) -> bool:
        """Whether the SDK's other variables (organisation, project, extra headers) are meant for this endpoint too.

        They go with the SDK's own key to the SDK's own address, and never to an address or with a key named in
        radar.yaml.
        """
        is_own_key = self.key_variable == _KEY_VARIABLES[self.protocol]
        return is_own_key and (self.base_url is None or self.is_official)

    def api_key(self, name: str) -> str | None:
        """The key; None where none is needed. OperationalError names the variable to set and the endpoint `name`."""
        variable = self.key_variable
        if variable is None:
            return None
        key = os.environ.get(variable, "").strip()
        if not key:
            raise OperationalError(f"endpoint {name}: no key; set the environment variable {variable}")
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise OperationalError(f"endpoint {name}: the environment variable {variable} holds no key, but other text")
        return key

    def _url_from_environment(self) -> str | None:
        variable = _URL_VARIABLES[self.protocol]
        address = os.environ.get(variable, "").strip()
        if address and _fault_of(address):
            raise OperationalError(f"environment variable {variable}: {_fault_of(address)}")
        return address or None


#: Endpoints that exist without an entry; an entry of the same name replaces one.
BUILT_IN: Mapping[str, Endpoint] = {
    "openai": Endpoint(protocol="openai"),
    "anthropic": Endpoint(protocol="anthropic"),
}


def _fault_of(address: str) -> str | None:
    """What is wrong with an address; it is not repeated, because it may hold a key."""
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or re.search(r"[\s\x00-\x1f]", address):
        return "expected an address such as https://host/v1"
    if parts.username or parts.password or "?" in address or "#" in address:
        return "expected an address without user, password, query and fragment; keys go to api_key_env"
    for part in _CALLS:
        if parts.path.rstrip("/").endswith(part):
            return f"expected the address of the API, not of one of its calls; leave off {part}"
    return None


@lru_cache(maxsize=64)
def _normalised(address: str, protocol: Protocol) -> str:
    """`/v1` added to a bare OpenAI host (`/openai/v1` on Azure), taken from an Anthropic one; other paths stay."""
    parts = urlsplit(address)
    path = parts.path.rstrip("/")
    if protocol == "anthropic":
        path = path.removesuffix("/v1")
    elif _on_azure(parts) and path in ("", "/openai", "/v1"):
        path = "/openai/v1"
    elif not path:
        path = "/v1"
    return f"{_origin(parts)}{path}"


def _azure_resource(address: str) -> str:
    """The address of an Azure resource, from which the SDK makes the path of a deployment."""
    parts = urlsplit(address)
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/").removesuffix("/openai").rstrip("/")
    return f"{_origin(parts)}{path}"


def _on_azure(parts: SplitResult) -> bool:
    return (parts.hostname or "").endswith(_AZURE_HOSTS)


def _origin(parts: SplitResult) -> str:
    """Scheme, host and port, written in one way: two spellings of an address are one endpoint."""
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    is_default = parts.port in (None, {"http": 80, "https": 443}[parts.scheme])
    return f"{parts.scheme}://{host}" if is_default else f"{parts.scheme}://{host}:{parts.port}"
