"""The models' door as a Dagster resource, and what a stage's calls came to as metadata.

Not here: calling a model (`models/door.py`).
"""

from __future__ import annotations

import math
from typing import Any

import dagster as dg

from radar_dagster.config import Workspace
from radar_dagster.errors import BadInputError
from radar_dagster.models.door import Door
from radar_dagster.models.settings import DoorSettings

#: Tags of a run, or of a backfill, that change how its models are called: `true` has every call made again, a number of
#: US dollars replaces the workspace's budget.
FRESH_TAG, BUDGET_TAG = "radar/fresh", "radar/budget_usd"


class ModelsResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """How models are called; `settings` is a `DoorSettings` as JSON, without any key.

    `budget_usd` limits what may be spent, `fresh` has every call made again; a run's tags come first (`FRESH_TAG`,
    `BUDGET_TAG`). `session` is what both hold for; empty, it is the run with its re-executions.
    """

    settings: dict[str, Any]
    budget_usd: float | None = None
    fresh: bool = False
    session: str = ""

    @classmethod
    def of(cls, workspace: Workspace, *, session: str = "", fresh: bool = False) -> ModelsResource:
        """The resource for a workspace."""
        return cls(
            settings=workspace.door.model_dump(mode="json", exclude={"budget_usd"}),
            budget_usd=workspace.budget_usd,
            fresh=fresh,
            session=session,
        )

    def door(self, context: dg.AssetExecutionContext) -> Door:
        """The one door for model calls, for a run; BadInputError when a tag of it has no meaning."""
        tags = context.run.tags
        budget = _budget(tags[BUDGET_TAG]) if BUDGET_TAG in tags else self.budget_usd
        settings = DoorSettings.model_validate({**self.settings, "budget_usd": budget})
        fresh = _truth(tags[FRESH_TAG]) if FRESH_TAG in tags else self.fresh
        # A run that is executed again goes on with what its first execution has paid for, `fresh` or not.
        session = self.session or context.run.root_run_id or context.run.run_id
        return Door(settings, session=session, run_id=context.run.run_id, fresh=fresh)


def _truth(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise BadInputError(f"the run's tag {FRESH_TAG} is {value!r}: expected true or false")
    return value.lower() == "true"


def _budget(value: str) -> float:
    try:
        usd = float(value)
    except ValueError:
        usd = math.nan
    if not (math.isfinite(usd) and usd > 0):
        raise BadInputError(f"the run's tag {BUDGET_TAG} is {value!r}: expected US dollars above 0")
    return usd


def call_metadata(door: Door) -> dict[str, Any]:
    """What the calls of this run came to; `usd` is absent where a price is unknown, and never a sum of some.

    Keys: calls_made, usd_spent, calls_of_unknown_price, input_tokens_spent, output_tokens_spent.
    """
    rows = door.tally()
    metadata: dict[str, Any] = {"calls_made": sum(row.calls for row in rows)}
    unpriced = sum(row.unpriced for row in rows)
    if unpriced:
        metadata["calls_of_unknown_price"] = unpriced
    else:
        metadata["usd_spent"] = math.fsum(row.usd or 0.0 for row in rows)
    for name in ("input_tokens", "output_tokens"):
        known = [tokens for row in rows if (tokens := getattr(row, name)) is not None]
        if known:
            metadata[f"{name}_spent"] = sum(known)
    return metadata
