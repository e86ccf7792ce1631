"""What a model was found to refuse in this run, and what is sent to it since.

Not here: finding the parameter in an error (`refusals.py`), what was known of the model before (`capabilities.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from radar_dagster.models.capabilities import Capabilities, MaxTokensField
from radar_dagster.models.exchange import Trouble
from radar_dagster.models.providers.refusals import RefusedParameter

#: The names of the limit that can be told from each other by trying.
_LIMITS: tuple[MaxTokensField, ...] = ("max_completion_tokens", "max_tokens")
_CAPABILITIES = frozenset(each.name for each in fields(Capabilities))


class Learnt:
    """What is sent to a model: what was known of it, less what it has refused.

    `canonical` maps names on the wire to those of `Capabilities`; other parameters go by their names on the wire.
    """

    def __init__(self, capabilities: Capabilities, canonical: Mapping[str, str]) -> None:
        self.capabilities = capabilities
        #: Canonical name -> the endpoint's words.
        self.dropped: dict[str, str] = {}
        self._canonical = canonical
        self._refused: set[str] = set()

    def without_refused(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters by their names on the wire, without those that were refused."""
        return {name: value for name, value in parameters.items() if name not in self._refused}

    def from_refusal(self, refused: RefusedParameter, words: str) -> tuple[Trouble, str]:
        """Take note of a refusal; what it means for the call, and why. Several calls may bring the same one."""
        name = self._canonical.get(refused.name, refused.name)
        if name == "max_tokens_field":
            return self._rename_limit(refused, words)
        # The schema is ours, and a reply is read with or without it; other values are what a user wrote.
        if refused.unsupported or name == "structured_output":
            self._drop(refused.name, name, words)
            return Trouble.DROPPED, f"{refused.name} is left out from now on"
        return Trouble.FATAL, f"the value of {refused.name} is not accepted; set another in options"

    def _drop(self, wire_name: str, name: str, words: str) -> None:
        self._refused |= {wire_name, *(each for each, other in self._canonical.items() if other == name)}
        self.dropped[name] = words
        if name in _CAPABILITIES:
            changed: dict[str, Any] = {name: False}
            self.capabilities = replace(self.capabilities, **changed)

    def _rename_limit(self, refused: RefusedParameter, words: str) -> tuple[Trouble, str]:
        if not refused.unsupported:
            # Only this call may ask for so much: a reply that was cut is asked for again with a larger limit.
            return Trouble.REJECTED, f"{refused.name} is not accepted"
        self._refused.add(refused.name)
        left = [name for name in _LIMITS if name not in self._refused and name in self._canonical]
        if not left:
            return Trouble.FATAL, "no name for the limit of tokens is accepted"
        self.dropped["max_tokens_field"] = words
        self.capabilities = replace(self.capabilities, max_tokens_field=left[0])
        return Trouble.DROPPED, f"{refused.name} is sent as {left[0]} from now on"
