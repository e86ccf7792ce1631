"""docs/workspace.md tells the truth: it lists every key of radar.yaml with its default, and its example loads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from radar_dagster.config import Workspace, load_workspace

PAGE = (Path(__file__).parents[2] / "docs" / "workspace.md").read_text(encoding="utf-8")
#: key -> default as the page writes it in YAML, "" where it names none.
LISTED = re.findall(r"^\| `([a-z_.*]+)` \| (?:`([^`]*)`)? ?\|", PAGE, re.MULTILINE)


def sections(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """The models in a field's type, each with what stands between the field and their keys: `.` or `.*.`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield ".", annotation
        return
    for part in get_args(annotation):
        yield from ((".*.", model) for _, model in sections(part))


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key that a file of this model may hold, as dotted paths; a mapping's own keys are `*`."""
    for name, field in model.model_fields.items():
        if field.exclude:
            continue  # set by the program: where the file lies
        found = list(sections(field.annotation))
        if not any(between == "." for between, _ in found):
            yield prefix + name
        for between, section in found:
            yield from keys(section, f"{prefix}{name}{between}")


def test_the_page_lists_every_key_once_and_no_other() -> None:
    assert sorted(key for key, _ in LISTED) == sorted(keys(Workspace))


def test_the_walk_over_the_models_reaches_the_keys_of_sections_mappings_and_sections_in_sections() -> None:
    walked = set(keys(Workspace))
    assert {"store", "models", "models.*.options", "audit.tasks", "audit.coupling.thresholds.asymmetry"} <= walked
    assert not {"root", "audit", "audit.coupling"} & walked


@pytest.mark.parametrize(("key", "written"), [item for item in LISTED if "*" not in item[0]])
def test_the_default_on_the_page_is_that_of_the_model(key: str, written: str) -> None:
    default: Any = Workspace().model_dump(mode="json")
    for part in key.split("."):
        default = default[part]
    assert yaml.safe_load(written) == default


def test_the_example_on_the_page_is_a_workspace_with_a_key_of_every_section(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "radar.yaml").write_text(example, encoding="utf-8")
    workspace = load_workspace(tmp_path / "radar.yaml")
    assert list(workspace.benchmarks) == ["helpsteer2", "support"]
    assert len(workspace.pairs()) == 4
    top = {key.split(".")[0] for key in keys(Workspace)}
    assert set(yaml.safe_load(example)) == top - {"models", "allow_self_pairs"}
