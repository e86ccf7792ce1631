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


HOSTED = """\
benchmarks: [helpsteer2]
models:
  writer: there/writer@low
  judge: {model: there/judge, mode: live}
  free: local/judge
  claude: anthropic/claude-haiku-4-5
generators: [writer]
verifiers: [judge, free, claude]
endpoints:
  there: {base_url: "http://127.0.0.1:9", api_key_env: THERE_KEY}
  local: {base_url: "http://127.0.0.1:9"}
prices:
  there/writer: {input: 1, output: 1}
  there/j*: {input: 1, output: 1}
  there/jugde: {input: 1, output: 1}
  offline/*: {input: 1, output: 1}
"""


def test_keys_that_are_not_set_and_prices_of_nothing_are_warnings_and_no_faults(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "radar.yaml").write_text(HOSTED)
    monkeypatch.delenv("THERE_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not a key")
    assert check.run(as_json=True) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["errors"] == []
    assert document["warnings"] == [
        "endpoint there: no key; set the environment variable THERE_KEY: needed by writer (there/writer@low), "
        "judge (there/judge)",
        "endpoint anthropic: the environment variable ANTHROPIC_API_KEY holds no key, but other text: needed by "
        "claude (anthropic/claude-haiku-4-5)",
        "prices: 'there/jugde' is the price of no model here",
        "prices: 'offline/*' is the price of no model here",
    ]
    assert captured.err.count("warning: ") == 4
    assert check.run(as_json=False) == 0
    assert "All of it can be used" not in capsys.readouterr().out

    monkeypatch.setenv("THERE_KEY", "sk-there-0123456789")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789")
    assert check.run(as_json=False) == 0
    captured = capsys.readouterr()
    assert "All of it can be used." in captured.out
    assert captured.err.count("warning: ") == 2
    assert "0123456789" not in captured.out + captured.err
