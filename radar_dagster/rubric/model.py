"""The rubric: criteria, their scale, and the tasks that probes are written for.

Here: the pydantic models and their content hashes. Not here: reading files (`loading.py`), models, scores.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StringConstraints,
    field_validator,
    model_validator,
)

#: Slugs become folder names and Dagster partition keys, where `|`, `,`, `[`, `]` and `~` have a meaning of their own.
SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)

#: Joiners that several scripts need inside words; every other format character only hides something.
_JOINERS = "\u200c\u200d"


def printable(value: str) -> str:
    """One printable line in Unicode's composed form, so that two ids that look the same are the same.

    Ids and labels are shown in table cells, URL fragments and terminal lines. ValueError names the characters that do
    not belong there.
    """
    bad = {c for c in value if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and c not in _JOINERS}
    if bad:
        raise ValueError(
            f"must be one printable line, but contains {', '.join(f'U+{ord(c):04X}' for c in sorted(bad))}"
        )
    return unicodedata.normalize("NFC", value)


def _slug(value: str) -> str:
    if not SLUG.fullmatch(value):
        raise ValueError("expected 1 to 64 of a-z, 0-9, '.', '_' and '-', with a letter or digit first")
    return value


Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200), AfterValidator(printable)]
Slug = Annotated[str, AfterValidator(_slug)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def content_hash(value: Any) -> str:
    """SHA-256 (hex) of a JSON-able value, independent of key order and of how the YAML was laid out."""
    document = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(document.encode("ascii")).hexdigest()


class Kind(StrEnum):
    """What a high score means: better (`evaluative`), or merely more of something (`descriptive`)."""

    EVALUATIVE = "evaluative"
    DESCRIPTIVE = "descriptive"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Scale(_Frozen):
    """Integer levels `min..max`, both included."""

    min: StrictInt = 0
    max: StrictInt = 4

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min >= self.max:
            raise ValueError(f"min must be below max, but is {self.min} with max {self.max}")
        if self.max - self.min > 100:
            raise ValueError(f"at most 101 levels, but {self.min}..{self.max} has {self.max - self.min + 1}")
        return self

    @property
    def levels(self) -> tuple[int, ...]:
        """Every level that a verifier may answer, lowest first."""
        return tuple(range(self.min, self.max + 1))

    def proportion(self, score: float) -> float:
        """Map a score onto [0, 1]: p = (score − min) / (max − min)."""
        return (score - self.min) / (self.max - self.min)


class Criterion(_Frozen):
    """One thing that the judge scores, in one call of its own."""

    id: Name
    label: Name
    definition: Text
    kind: Kind = Kind.EVALUATIVE
    scale: Scale = Scale()
    anchors: dict[int, Text] = Field(default_factory=dict)
    weight: StrictFloat = Field(default=1.0, gt=0, allow_inf_nan=False)

    @field_validator("anchors", mode="before")
    @classmethod
    def _each_level_once(cls, value: Any) -> Any:
        """JSON has text keys, so `"1"` counts as 1; but then a level could be there twice and one be lost."""
        if isinstance(value, dict):
            levels = [str(key) for key in value]
            twice = sorted({level for level in levels if levels.count(level) > 1})
            if twice:
                raise ValueError(f"each level once, but {twice[0]} is there twice")
        return value

    @model_validator(mode="after")
    def _anchors_on_scale(self) -> Self:
        strangers = sorted(set(self.anchors) - set(self.scale.levels))
        if strangers:
            raise ValueError(f"anchors {strangers} are not levels of the scale {self.scale.min}..{self.scale.max}")
        return self

    @property
    def content_hash(self) -> str:
        """Hash of all that a generator or verifier is shown; the weight only enters the statistics."""
        return content_hash(self.model_dump(mode="json", exclude={"weight"}))


class Task(_Frozen):
    """A short prompt of the target domain; for summarisation, `source` holds the article that is summarised.

    `reference` is a good answer to the task. The offline models need it (the editor edits it, the reader measures
    length against it); hosted models never see it.
    """

    id: Slug
    prompt: Text
    source: Text | None = None
    reference: Text | None = None

    @property
    def content_hash(self) -> str:
        """Hash of the prompt, the source and the reference."""
        return content_hash(self.model_dump(mode="json"))


_Item = TypeVar("_Item", Criterion, Task)


class Rubric(_Frozen):
    """A named set of criteria with the tasks on which they are audited."""

    name: Slug
    title: Name | None = None
    description: str = ""
    criteria: tuple[Criterion, ...] = Field(min_length=2)
    tasks: tuple[Task, ...] = Field(min_length=1)

    @field_validator("criteria", "tasks")
    @classmethod
    def _unique_ids(cls, items: tuple[_Item, ...]) -> tuple[_Item, ...]:
        places: dict[str, list[int]] = {}
        for number, item in enumerate(items, start=1):
            places.setdefault(item.id, []).append(number)
        for item_id, numbers in places.items():
            if len(numbers) > 1:
                shown = ", ".join(map(str, numbers))
                raise ValueError(f"ids must be unique, but {item_id!r} is the id of numbers {shown}")
        return items

    @property
    def content_hash(self) -> str:
        """Hash of the criteria and tasks in order; titles, descriptions and YAML comments do not enter it."""
        weights = [c.weight for c in self.criteria]
        return content_hash([[c.content_hash for c in self.criteria], weights, [t.content_hash for t in self.tasks]])

    @property
    def version(self) -> str:
        """Sixteen hex digits of a hash over all that a model is shown; weights only enter the statistics."""
        return content_hash([[c.content_hash for c in self.criteria], [t.content_hash for t in self.tasks]])[:16]

    def criterion(self, criterion_id: str) -> Criterion:
        """The criterion with this id; KeyError with the known ids when there is none."""
        return _by_id(self.criteria, criterion_id, "criterion")

    def task(self, task_id: str) -> Task:
        """The task with this id; KeyError with the known ids when there is none."""
        return _by_id(self.tasks, task_id, "task")

    def with_tasks(self, task_ids: Iterable[str]) -> Rubric:
        """The same rubric on a selection of its tasks, in the rubric's order."""
        wanted = {self.task(task_id).id for task_id in task_ids}
        return self.model_copy(update={"tasks": tuple(t for t in self.tasks if t.id in wanted)})


def _by_id(items: tuple[_Item, ...], wanted: str, what: str) -> _Item:
    for item in items:
        if item.id == wanted:
            return item
    raise KeyError(f"no {what} {wanted!r}; there are {', '.join(repr(i.id) for i in items)}")
