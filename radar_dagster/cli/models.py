"""`radar models`: for every configured model, whether it can be reached, what it can take, its price, its retirement.

Asks each endpoint for what it lists; makes no call to a model and costs nothing. Not here: whether models can serve
rubrics (`check.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from radar_dagster.cli import output
from radar_dagster.cli.errors import OPERATIONAL, PASSED
from radar_dagster.config import Workspace, current_workspace
from radar_dagster.errors import RadarError
from radar_dagster.models.clients import ModelCard
from radar_dagster.models.door import Door
from radar_dagster.models.exchange import CallFailed
from radar_dagster.models.hosted import HostedModel
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.preflight import card_of, not_listed
from radar_dagster.models.prices import Quote
from radar_dagster.report.words import model_kind

#: Capabilities in the order in which they are shown, with the words for people.
_WORDS = {
    "temperature": "temperature",
    "structured_output": "JSON schema",
    "logprobs": "token probabilities",
    "effort": "effort",
    "batch": "batches",
}


def run(*, as_json: bool) -> int:
    """Print what is known of every model of the workspace; exit 4 when one of them can't be used."""
    workspace = current_workspace()
    door = Door(workspace.door)
    with output.results_only():
        rows = asyncio.run(_rows(workspace, door))
    output.print_json({"models": rows}) if as_json else _show(rows)
    for row in rows:
        if row["error"]:
            output.on_stderr(f"Error: {row['alias']}: {row['error']}")
    return OPERATIONAL if any(row["error"] for row in rows) else PASSED


async def _rows(workspace: Workspace, door: Door) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(_row(door, alias, spec) for alias, spec in workspace.models.items())))


async def _row(door: Door, alias: str, spec: ModelSpec) -> dict[str, Any]:
    row: dict[str, Any] = {
        "alias": alias, "model": spec.model, "kind": model_kind(spec) or "hosted", "mode": spec.mode, "url": None,
        "key_variable": None, "reachable": None, "listed": None, "capabilities": {}, "price": None, "lifecycle": None,
        "retires": None, "error": None,
    }  # fmt: skip
    try:
        model = door.model(alias)
        if not isinstance(model, HostedModel):
            return {**row, "reachable": True}
        row |= _configured(model, door)
        card = await card_of(model)
        row |= _listed(row["capabilities"], card)
        if card.denied is not None:
            row["error"] = card.denied
        elif not card.listed:
            output.note(f"{alias}: {not_listed(model, card)}")
    except RadarError as error:
        row["error"] = str(error)
    except CallFailed as error:
        row |= {"reachable": False, "error": error.message}
    return row


def _configured(model: HostedModel, door: Door) -> dict[str, Any]:
    price = door.prices.describe(model.spec.model, model.endpoint)
    return {
        "url": model.endpoint.url,
        "key_variable": model.endpoint.key_variable,
        "capabilities": {name: getattr(model.capabilities, name) for name in _WORDS},
        "price": None if price is None else _quoted(price),
    }


def _quoted(price: Quote) -> dict[str, Any]:
    return {
        "input": float(price.input),
        "output": float(price.output),
        "source": price.source,
        "more_for_long_inputs": price.tiered,
    }


def _listed(known: Mapping[str, bool], card: ModelCard) -> dict[str, Any]:
    """What the provider's list adds; it knows better than the built-in table."""
    return {
        "reachable": True,
        "listed": card.listed,
        "capabilities": {**known, **card.capabilities},
        "lifecycle": card.lifecycle,
        "retires": None if card.retires is None else card.retires.isoformat(),
    }


def _show(rows: Sequence[Mapping[str, Any]]) -> None:
    output.print_table(
        ("alias", "model", "reachable", "takes", "USD per million in / out", "retires"),
        [
            (row["alias"], row["model"], _reach(row), _takes(row), _price(row), row["retires"] or row["lifecycle"])
            for row in rows
        ],
    )


def _reach(row: Mapping[str, Any]) -> str:
    if row["kind"] != "hosted":
        return f"here ({row['kind']})" if row["reachable"] else "no"
    if row["error"] or not row["reachable"]:
        return "no"
    return "yes" if row["listed"] else "not listed"


def _takes(row: Mapping[str, Any]) -> str | None:
    return ", ".join(words for name, words in _WORDS.items() if row["capabilities"].get(name)) or None


def _price(row: Mapping[str, Any]) -> str | None:
    if row["kind"] != "hosted":
        return None
    price = row["price"]
    return "unknown" if price is None else f"{price['input']:g} / {price['output']:g}"
