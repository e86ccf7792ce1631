"""The models' door as a Dagster resource, and progress of long stages in Dagster's log.

Not here: calling a model (`models/door.py`).
"""

from __future__ import annotations

import time
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg

from radar_dagster.config import Workspace
from radar_dagster.models.door import Door, Progress
from radar_dagster.models.naming import ModelSpec

_SECONDS_BETWEEN_LINES = 10.0


class ModelsResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Aliases of radar.yaml and what they stand for; `plugins` is the folder of `python/…` models."""

    models: dict[str, dict[str, Any]]
    plugins: str

    @classmethod
    def of(cls, workspace: Workspace) -> ModelsResource:
        """The resource for a workspace's models."""
        models = {alias: spec.model_dump() for alias, spec in workspace.models.items()}
        return cls(models=models, plugins=str(workspace.root))

    @cached_property
    def door(self) -> Door:
        """The one door for model calls."""
        specs = {alias: ModelSpec.model_validate(spec) for alias, spec in self.models.items()}
        return Door(specs, plugins=Path(self.plugins))


def log_progress(log: dg.DagsterLogManager, what: str) -> Progress:
    """A progress callback that writes a line at most every ten seconds, and one at the end."""
    started = last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_LINES or done == total:
            last = now
            log.info(f"{what}: {done} of {total} calls in {now - started:.1f} s")

    return report
