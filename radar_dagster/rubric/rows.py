"""The rubric as rows of the lake, and back: a run audits what was materialised, not what the file says by now."""

from __future__ import annotations

from typing import Any

import pandas as pd

from radar_dagster.rubric.model import Criterion, Rubric, Task
from radar_dagster.tables import RUBRIC


def rubric_frame(rubric: Rubric) -> pd.DataFrame:
    """One row per criterion, then one per task; see `tables.RUBRIC`."""
    criteria = [
        {
            **_item("criterion", position, criterion),
            "label": criterion.label,
            "text": criterion.definition,
            "kind": criterion.kind.value,
            "weight": criterion.weight,
        }
        for position, criterion in enumerate(rubric.criteria)
    ]
    tasks = [
        {**_item("task", position, task), "label": None, "text": task.prompt, "kind": None, "weight": None}
        for position, task in enumerate(rubric.tasks)
    ]
    return pd.DataFrame(criteria + tasks, columns=RUBRIC.names)


def rubric_from_frame(name: str, frame: pd.DataFrame) -> Rubric:
    """Undo `rubric_frame`, whatever the order of the rows; ValueError when they are no rubric."""
    content = frame.sort_values("position").groupby("item")["content"].agg(list)
    return Rubric(
        name=name,
        criteria=tuple(Criterion.model_validate_json(item) for item in content.get("criterion", [])),
        tasks=tuple(Task.model_validate_json(item) for item in content.get("task", [])),
    )


def _item(kind: str, position: int, item: Criterion | Task) -> dict[str, Any]:
    return {
        "item": kind,
        "position": position,
        "id": item.id,
        "content": item.model_dump_json(),
        "content_hash": item.content_hash,
    }
