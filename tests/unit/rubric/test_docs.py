"""docs/rubrics.md tells the truth: its example loads, and the messages it quotes are the messages people get."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.rubric.loading import load_rubric
from radar_dagster.rubric.model import Criterion, Rubric, Task

PAGE = (Path(__file__).parents[3] / "docs" / "rubrics.md").read_text(encoding="utf-8")

TONE = "id: tone\n    label: Tone\n    definition: Kind."
BASE = f"""\
criteria:
  - {TONE}
  - id: clarity
    label: Clarity
    definition: Clear.
tasks:
  - id: late-parcel
    prompt: Reply.
"""
#: What is wrong with a file -> the part of the message that does not depend on the lines of that file.
FAULTS = {
    "    kind: scale": "kind: Input should be 'evaluative' or 'descriptive', found 'scale'",
    "    lable: x": "lable: unknown key",
    "    scale: {min: 4, max: 0}": "scale: min must be below max, but is 4 with max 0",
    "    weight: 0": "weight: Input should be greater than 0, found 0",
    "    anchors: {5: x}": "anchors [5] are not levels of the scale 0..4",
    "    label: Tone": "key 'label' given twice",
    "  - id: x: y": "mapping values are not allowed here",
    "\tkind: x": "found character '\\t' that cannot start any token",
    f"  - id: x\n    label: X\n    definition: X\n  - {TONE}": "must be unique, but 'tone' is the id of numbers 1, 3",
}
REPLACED = {
    ("label: Tone", "label: No"): (
        "label: expected text (put it in quotes if YAML takes it for something else), found False"
    ),
    ("    label: Tone\n", ""): "label: required, but missing",
    ("label: Tone", 'label: "To\\u200bne"'): "label: must be one printable line, but contains U+200B",
    ("id: late-parcel", "id: Late parcel"): (
        "id: expected 1 to 64 of a-z, 0-9, '.', '_' and '-', with a letter or digit first, found 'Late parcel'"
    ),
    ("  - id: clarity\n    label: Clarity\n    definition: Clear.\n", ""): "criteria: expected at least 2, found 1",
}
CASES = [(BASE.replace(TONE, f"{TONE}\n{added}"), said) for added, said in FAULTS.items()]
CASES += [(BASE.replace(old, new), said) for (old, new), said in REPLACED.items()]


@pytest.mark.parametrize(("text", "said"), CASES, ids=[said for _, said in CASES])
def test_a_quoted_message_is_the_one_that_people_get(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "support.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInputError, match=re.escape(said)):
        load_rubric(path)
    assert said in PAGE


def test_the_example_of_the_page_is_a_rubric(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "support-reply.yaml"
    path.write_text(example, encoding="utf-8")
    assert [criterion.id for criterion in load_rubric(path).criteria] == ["accuracy", "length"]


def test_the_page_explains_every_key_and_no_other() -> None:
    explained = re.findall(r"^\| `(\w+)` \| (?:yes|no|for offline models) \|", PAGE, re.MULTILINE)
    top = {*Rubric.model_fields, "scale"}
    assert sorted(explained) == sorted([*top, *Criterion.model_fields, *Task.model_fields])
