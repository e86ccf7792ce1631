"""`radar call`: one call as the ledger keeps it, attempt by attempt: what was said, what was sent, what came back.

Not here: from a leakage value down to the keys of its calls (`trace.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from radar_dagster.cli import output
from radar_dagster.cli.errors import PASSED
from radar_dagster.config import current_workspace
from radar_dagster.errors import BadInputError
from radar_dagster.models.door import Door

_KEY = re.compile(r"[0-9a-f]{8,64}")
_FACTS = (
    "state", "status", "detail", "served_model", "provider_id", "latency_s", "usd", "usd_at_most", "finished_at",
    "run_id",
)  # fmt: skip
_TOKENS = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")


def run(key: str, *, as_json: bool) -> int:
    """Print every attempt at the call; BadInputError when there is no such call."""
    attempts = [dict(row) for row in _attempts(key.strip().lower())]
    for row in attempts:
        row["request"], row["parameters"] = _read(row["request"]), _read(row["parameters"])
        row["parsed"] = _read(row["parsed"])
    if as_json:
        output.print_json({"key": attempts[0]["key"], "attempts": attempts})
        return PASSED
    output.say(f"Call {attempts[0]['key']}: {attempts[0]['role']} by {attempts[0]['model']}")
    said = None
    for row in attempts:
        _show(row, messages=row["request"] != said)
        said = row["request"]
    return PASSED


def _attempts(key: str) -> Sequence[Mapping[str, Any]]:
    if not _KEY.fullmatch(key):
        raise BadInputError(f"{key!r} is no key of a call: expected its first 8 to 64 hexadecimal digits")
    with Door(current_workspace().door) as door:
        rows = door.history(key)
    if not rows:
        raise BadInputError(f"the ledger of this workspace has no call {key}")
    return [{name: getattr(row, name) for name in row.__slots__} for row in rows]


def _read(document: str | None) -> Any:
    return None if document is None else json.loads(document)


def _show(row: Mapping[str, Any], *, messages: bool) -> None:
    output.say()
    output.say(f"Attempt {row['attempt']} ({row['mode']})")
    for name in _FACTS:
        if row[name] is not None:
            output.say(f"  {name}: {row[name]}")
    counted = [f"{name} {row[name]:,}" for name in _TOKENS if row[name] is not None]
    if counted:
        output.say(f"  {', '.join(counted)}")
    output.say(f"  parameters sent: {json.dumps(row['parameters'], ensure_ascii=False)}")
    if messages:
        for message in row["request"] if isinstance(row["request"], list) else [row["request"]]:
            _show_text(str(message.get("role", "request")), message.get("content") or json.dumps(message, indent=2))
    if row["reply"] is not None:
        _show_text("reply", row["reply"])
    if row["parsed"] is not None:
        output.say(f"  read: {json.dumps(row['parsed'], ensure_ascii=False)}")


def _show_text(title: str, text: str) -> None:
    output.say(f"  {title}:")
    for line in text.splitlines():
        output.say(f"  | {line}")
