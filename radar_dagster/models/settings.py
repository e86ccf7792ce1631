"""What the door for model calls is opened with: models, endpoints, prices, ledger, budget.

Here: data that a configuration can hold, without any key. Not here: the file it comes from (`config.py`), acting on it
(`door.py`).
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from radar_dagster.errors import BadInputError
from radar_dagster.models.endpoints import BUILT_IN, Endpoint
from radar_dagster.models.naming import PROGRAMMATIC, ModelSpec
from radar_dagster.models.prices import Price

#: Holds the ledger's URL where that is not for a file: a PostgreSQL URL with a password, say. It comes first.
LEDGER_VARIABLE = "RADAR_LEDGER"


class DoorSettings(BaseModel):
    """`ledger` is a file or the URL of a PostgreSQL database; without one, nothing is kept of programmatic calls and
    hosted ones are refused. `plugins` is the folder in which `python/module:object` models are looked for beside the
    installed packages.
    """

    model_config = ConfigDict(frozen=True)

    models: dict[str, ModelSpec]
    plugins: Path | None = None
    endpoints: dict[str, Endpoint] = Field(default_factory=dict)
    prices: dict[str, Price] = Field(default_factory=dict)
    ledger: str | None = None
    budget_usd: float | None = None

    def spec(self, alias: str) -> ModelSpec:
        """What an alias stands for; BadInputError with the known ones when it is not configured."""
        if alias not in self.models:
            raise BadInputError(f"no model {alias!r}; models has {', '.join(self.models)}")
        return self.models[alias]

    def endpoint(self, spec: ModelSpec) -> Endpoint | None:
        """Where a hosted model is reached; None for a programmatic one; BadInputError with the known names."""
        provider = spec.name.provider
        if provider in PROGRAMMATIC:
            return None
        known = {**BUILT_IN, **self.endpoints}
        if provider not in known:
            names = ", ".join(f"{name}/…" for name in (*PROGRAMMATIC, *known))
            raise BadInputError(
                f"{spec.model}: no endpoint {provider!r}; there are {names}; declare others under `endpoints:`"
            )
        return known[provider]

    @property
    def ledger_url(self) -> str | None:
        """The environment's URL if there is one, else the configured one."""
        return (os.environ.get(LEDGER_VARIABLE) or self.ledger) if self.ledger else None
