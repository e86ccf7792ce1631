"""`radar check`: all faults at once, and what is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radar_dagster.cli import check, init
from radar_dagster.errors import BadInputError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RADAR_WORKSPACE", raising=False)
    return tmp_path


def test_a_new_workspace_is_in_order(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init.run(here, as_json=True)
    capsys.readouterr()
    assert check.run(as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["workspace"] == str(here / "radar.yaml")
    assert [(row["benchmark"], row["criteria"], row["tasks"]) for row in document["benchmarks"]] == [("example", 3, 2)]
    assert [(row["alias"], row["roles"]) for row in document["models"]] == [
        ("editor", ["generator"]),
        ("reader", ["verifier"]),
    ]
    assert document["errors"] == []


def test_without_a_workspace_the_defaults_are_checked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.run(as_json=False) == 0
    shown = capsys.readouterr().out
    assert "no radar.yaml in sight" in shown
    assert "helpsteer2" in shown


def test_every_fault_is_reported_at_once_and_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "bad.yaml").write_text("criteria: []\ntasks: []\n")
    (here / "radar.yaml").write_text(
        "benchmarks: [bad.yaml, gone.yaml, helpsteer2, summeval]\n"
        "models: {editor: offline/editor, gpt: nowhere/gpt, mine: python/no_such_module_here:judge}\n"
        "generators: [editor]\nverifiers: [gpt, mine]\n"
    )
    assert check.run(as_json=True) == 2
    captured = capsys.readouterr()
    errors = json.loads(captured.out)["errors"]
    assert any("bad.yaml" in error and "criteria" in error for error in errors)
    assert any("gone.yaml: cannot be read" in error for error in errors)
    assert sum("nowhere" in error for error in errors) == 1
    assert sum("no_such_module_here" in error for error in errors) == 1
    assert all(f"Error: {error.splitlines()[0]}" in captured.err for error in errors)


def test_a_radar_yaml_that_can_not_be_read_is_bad_input(here: Path) -> None:
    (here / "radar.yaml").write_text("verifiers: [gpt]\n")
    with pytest.raises(BadInputError, match=r"radar\.yaml"):
        check.run(as_json=False)
