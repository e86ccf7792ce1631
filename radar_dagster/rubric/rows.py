"""The rubric as rows of the lake, and back: a run audits what was materialised, not what the file says by now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from radar_dagster.rubric.model import Criterion, Rubric, Task


def rubric_rows(rubric: Rubric) -> list[dict[str, Any]]:
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
    return criteria + tasks


def rubric_from_rows(name: str, rows: Iterable[Mapping[str, Any]]) -> Rubric:
    """Undo `rubric_rows`; ValueError when the rows are no rubric."""
    ordered = sorted(rows, key=lambda row: int(row["position"]))
    return Rubric(
        name=name,
        criteria=tuple(Criterion.model_validate_json(r["content"]) for r in ordered if r["item"] == "criterion"),
        tasks=tuple(Task.model_validate_json(r["content"]) for r in ordered if r["item"] == "task"),
    )


def _item(kind: str, position: int, item: Criterion | Task) -> dict[str, Any]:
    return {
        "item": kind,
        "position": position,
        "id": item.id,
        "content": item.model_dump_json(),
        "content_hash": item.content_hash,
    }
