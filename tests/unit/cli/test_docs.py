"""docs/cli.md says what the commands say: every command, every option, every column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from radar_dagster.cli.main import app
from radar_dagster.cli.workspace import load_policy
from radar_dagster.models.replies import State
from radar_dagster.stats.settings import Policy, ReadingThresholds
from radar_dagster.tables import SCHEMAS

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def section(command: str) -> str:
    found = re.search(rf"^## radar {command}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, command
    return found[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_section_that_names_its_options(command: str) -> None:
    options = {name for parameter in COMMANDS[command].params for name in parameter.opts if name.startswith("--")}
    missing = {name for name in options - {"--help", "--json"} if f"`{name}" not in section(command)}
    assert not missing


def test_the_page_names_no_command_that_does_not_exist() -> None:
    assert set(re.findall(r"^## radar (\S+)$", PAGE, re.MULTILINE)) == set(COMMANDS)


def test_the_columns_are_those_of_the_tables() -> None:
    for table in (
        "self_effects",
        "leakage",
        "criterion_pairs",
        "coupling_summary",
        "verdict",
        "task_slices",
        "settling",
    ):
        row = re.search(rf"^\| {table} \| (.*) \|$", PAGE, re.MULTILINE)
        assert row, table
        columns = re.sub(r" \([^)]*\)", "", row[1]).split(", ")
        assert columns == SCHEMAS[table].names, table


def test_every_state_is_listed() -> None:
    row = re.search(r"^\| `state` \| optional: (.*) \|$", PAGE, re.MULTILINE)
    assert row
    assert set(re.findall(r"`(\w+)`", row[1])) == {state.value for state in State}


def test_the_policy_on_the_page_is_the_default_one(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(fail_on:.*?)```", PAGE, re.DOTALL)
    assert block
    (tmp_path / "policy.yaml").write_text(block[1])
    policy = load_policy(tmp_path / "policy.yaml")
    assert policy.thresholds == ReadingThresholds()
    assert Policy(**policy.model_dump(exclude={"thresholds"})) == Policy()
