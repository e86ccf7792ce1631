"""The rubric as rows of the lake, and back: a run audits what was materialised, not what the file says by now.

Not here: the columns (`tables.py`), and storing them (`lake.py`).
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from pydantic import BaseModel

from radar_dagster.rubric.model import Criterion, Rubric, Task
from radar_dagster.tables import RUBRIC


class Words(BaseModel):
    """What a rubric says of itself; it is shown to people and enters no hash."""

    title: str | None
    description: str


def rubric_frame(rubric: Rubric) -> pd.DataFrame:
    """A row for the rubric's own words, then one per criterion and one per task; see `tables.RUBRIC`."""
    words = Words(title=rubric.title, description=rubric.description)
    head = {
        **_item("rubric", 0, words, id=rubric.name, content_hash=rubric.content_hash),
        "label": rubric.title,
        "text": rubric.description,
    }
    criteria = [
        {
            **_item("criterion", position, criterion, criterion.id, criterion.content_hash),
            "label": criterion.label,
            "text": criterion.definition,
            "kind": criterion.kind.value,
            "weight": criterion.weight,
        }
        for position, criterion in enumerate(rubric.criteria)
    ]
    tasks = [
        {**_item("task", position, task, task.id, task.content_hash), "text": task.prompt}
        for position, task in enumerate(rubric.tasks)
    ]
    return pd.DataFrame([head, *criteria, *tasks], columns=RUBRIC.names)


def rubric_from_frame(name: str, frame: pd.DataFrame) -> Rubric:
    """Undo `rubric_frame`, whatever the order of the rows; ValueError when they are no rubric."""
    content = frame.sort_values("position").groupby("item")["content"].agg(list)
    words = [Words.model_validate_json(item) for item in content.get("rubric", [])]
    return Rubric(
        name=name,
        **(words[0].model_dump() if words else {}),
        criteria=tuple(Criterion.model_validate_json(item) for item in content.get("criterion", [])),
        tasks=tuple(Task.model_validate_json(item) for item in content.get("task", [])),
    )


def _item(kind: str, position: int, item: BaseModel, id: str, content_hash: str) -> dict[str, Any]:
    content = item.model_dump_json()
    return {"item": kind, "position": position, "id": id, "content": content, "content_hash": content_hash}
