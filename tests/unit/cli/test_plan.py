"""`radar plan`: the paper's cost table, unknown prices, several pairs, measured tokens; and it writes nothing."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from radar_dagster.cli import plan
from radar_dagster.cli.workspace import AuditOptions
from radar_dagster.errors import BadInputError
from radar_dagster.lake import Lake
from radar_dagster.tables import PROBES

REFERENCE = Path(__file__).parents[2] / "data" / "reference" / "cost_table.csv"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RADAR_WORKSPACE", raising=False)
    return tmp_path


def rubric(folder: Path, criteria: int, tasks: int) -> str:
    document = {
        "criteria": [{"id": f"c{k}", "label": f"C{k}", "definition": f"Quality {k}."} for k in range(criteria)],
        "tasks": [{"id": f"t{k}", "prompt": f"Do {k}.", "reference": f"Done {k}."} for k in range(tasks)],
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(document))
    return "mine.yaml"


def planned(capsys: pytest.CaptureFixture[str], options: AuditOptions, corpus: int | None = None) -> dict[str, Any]:
    assert plan.run(options, corpus=corpus, as_json=True) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def million_tokens(row: dict[str, Any]) -> float:
    return (row["input_tokens"] + row["output_tokens"]) / 1e6


@pytest.mark.parametrize("column", ["helpsteer2", "hypothetical"])
def test_the_published_cost_table_is_reproduced_to_its_printed_digits(
    here: Path, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    with REFERENCE.open() as file:
        published = {row["quantity"]: row[column] for row in csv.DictReader(file)}
    name = rubric(here, int(published["criteria"]), int(published["tasks"]))
    document = planned(capsys, AuditOptions(name, probes=1), corpus=int(published["corpus_items"]))
    assert f"{million_tokens(document['annotation']):.1f}" == published["full_annotation_mtok"]
    for probes in (1, 3, 5, 10, 20):
        total = planned(capsys, AuditOptions(name, probes=probes))["total"]
        assert f"{million_tokens(total):.2f}" == published[f"radar_n{probes}_mtok"]


def test_the_columns_are_the_contracts_and_offline_models_cost_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = planned(capsys, AuditOptions("helpsteer2"))
    assert [list(row) for row in document["plan"]] == [["stage", "calls", "input_tokens", "output_tokens", "usd"]] * 2
    # By hand: 5 tasks × 5 criteria × 2 directions × 3 probes, each scored on 5 criteria.
    assert [(row["stage"], row["calls"]) for row in document["plan"]] == [("generation", 150), ("verification", 750)]
    assert document["total"] == {
        "stage": "total",
        "calls": 900,
        "input_tokens": 150 * 540 + 750 * 1300,
        "output_tokens": 150 * 200 + 750 * 100,
        "usd": 0.0,
    }
    assert any("no provider to bill" in note for note in document["notes"])


def test_a_model_of_unknown_price_makes_its_stage_and_the_total_null_not_zero(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = planned(capsys, AuditOptions("helpsteer2", verifiers=["python/my:judge"]))
    assert [row["usd"] for row in document["plan"]] == [0.0, None]
    assert document["total"]["usd"] is None
    assert "price unknown: python/my:judge" in document["notes"]
    plan.run(AuditOptions("helpsteer2", verifiers=["python/my:judge"]), corpus=None, as_json=False)
    assert "unknown" in capsys.readouterr().out


def test_time_is_measured_for_what_is_free_to_call_and_unknown_for_the_rest(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = planned(capsys, AuditOptions("helpsteer2"))["seconds"]
    assert 0 < seconds["generation"] < 600
    assert 0 < seconds["verification"] < 600
    assert seconds["total"] == pytest.approx(seconds["generation"] + seconds["verification"])
    seconds = planned(capsys, AuditOptions("helpsteer2", generators=["python/never_imported:writer"]))["seconds"]
    assert seconds["generation"] is None
    assert seconds["total"] is None


def test_a_rubric_that_the_offline_models_can_not_serve_is_refused_before_the_audit(here: Path) -> None:
    document = yaml.safe_load((here / rubric(here, 2, 1)).read_text())
    del document["tasks"][0]["reference"]
    (here / "mine.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(BadInputError, match="reference"):
        plan.run(AuditOptions("mine.yaml"), corpus=None, as_json=True)


def test_a_second_verifier_adds_verification_calls_and_no_generation(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = planned(capsys, AuditOptions("helpsteer2", verifiers=["offline/reader", "python/my:judge"]))
    assert [row["calls"] for row in document["plan"]] == [150, 1500]


def test_measured_tokens_replace_the_defaults_once_some_calls_are_stored(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row: dict[str, Any] = dict.fromkeys(PROBES.names, "x")
    row |= {"sample": 1, "rule_based": True, "model": "python/my:writer", "output_tokens": 50}
    stored = pd.DataFrame([{**row, "probe": str(k), "input_tokens": tokens} for k, tokens in enumerate([10, 20, 90])])
    Lake(str(here / ".radar" / "lake")).write(
        "probes", stored[PROBES.names], benchmark="helpsteer2", generator="writer"
    )
    document = planned(capsys, AuditOptions("helpsteer2", generators=["python/my:writer"]))
    assert document["plan"][0]["input_tokens"] == 150 * 20  # the median of 10, 20, 90
    assert document["plan"][0]["output_tokens"] == 150 * 50
    assert document["plan"][1]["input_tokens"] == 750 * 1300
    assert document["settings"]["measured_tokens"] == {"python/my:writer": {"input": 20, "output": 50}}


def test_a_plan_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.run(AuditOptions("summeval"), corpus=1000, as_json=False)
    shown = capsys.readouterr().out
    assert "Judging 1,000 items on every criterion: 5.60 million tokens" in shown  # 1,000 × 4 × 1,400
    assert list(here.iterdir()) == []
