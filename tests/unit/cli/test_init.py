"""`radar init`: a workspace that loads, and nothing overwritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from radar_dagster.cli import init
from radar_dagster.config import load_workspace
from radar_dagster.errors import BadInputError
from radar_dagster.rubric.loading import load_rubric


def test_the_new_workspace_loads_with_its_rubric_and_every_commented_key_is_a_real_one(tmp_path: Path) -> None:
    assert init.run(tmp_path / "new", as_json=False) == 0
    workspace = load_workspace(tmp_path / "new" / "radar.yaml")
    assert workspace.pairs() == [("editor", "reader")]
    rubric = workspace.rubric("example")
    assert rubric == load_rubric(tmp_path / "new" / "rubrics" / "example.yaml")
    assert all(task.reference for task in rubric.tasks)

    # Whoever takes the `# ` from an optional line must get a file that loads.
    text = (tmp_path / "new" / "radar.yaml").read_text()
    keys = ["allow_self_pairs", "tasks", "estimator", "thresholds", "accepted_pairs", "  - [clarity"]
    keys += ["schedule", "  cron", "  production_pairs", "store"]
    for key in keys:
        assert f"# {key}" in text
        text = text.replace(f"# {key}", key)
    (tmp_path / "new" / "radar.yaml").write_text(text)
    loaded = load_workspace(tmp_path / "new" / "radar.yaml")
    assert loaded.schedule.production_pairs == ("editor~reader",)
    assert loaded.audit.policy.accepted_pairs == (("clarity", "length"),)
    assert loaded.audit.tasks == 2


def test_a_file_that_is_there_is_never_overwritten_and_then_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "rubrics").mkdir()
    (tmp_path / "rubrics" / "example.yaml").write_text("mine")
    with pytest.raises(BadInputError, match=r"rubrics/example\.yaml: would be overwritten"):
        init.run(tmp_path, as_json=False)
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["rubrics", "example.yaml"]
    assert (tmp_path / "rubrics" / "example.yaml").read_text() == "mine"


def test_a_gitignore_that_is_there_keeps_its_lines_and_gets_one(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log")
    init.run(tmp_path, as_json=False)
    assert (tmp_path / ".gitignore").read_text().splitlines()[0] == "*.log"
    assert ".radar/" in (tmp_path / ".gitignore").read_text().splitlines()


def test_json_names_the_files_and_nothing_else_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init.run(tmp_path, as_json=True)
    written = json.loads(capsys.readouterr().out)["written"]
    assert written == [str(tmp_path / name) for name in ("radar.yaml", "rubrics/example.yaml", ".gitignore")]
    assert all(Path(path).is_file() for path in written)
