"""`radar plan`: the paper's cost table, prices known and unknown, measured tokens and latencies; it writes nothing."""

from __future__ import annotations

import csv
import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import genai_prices
import pandas as pd
import pytest
import yaml

from radar_dagster.cli import plan
from radar_dagster.cli.workspace import AuditOptions
from radar_dagster.errors import BadInputError
from radar_dagster.lake import Lake
from radar_dagster.models.ledger import Entry, Ledger
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


def test_the_passive_baselines_are_planned_when_they_are_asked_for(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """T = 2, n = 3, N = 3: 36 probes and 108 scores; M = 10: 2·T·M = 40 responses more, each scored on n criteria."""
    name = rubric(here, criteria=3, tasks=2)
    calls = {
        baselines: {
            row["stage"]: row["calls"] for row in planned(capsys, AuditOptions(name, baselines=baselines))["plan"]
        }
        for baselines in (False, True)
    }
    assert calls == {
        False: {"generation": 36, "verification": 108},
        True: {"generation": 36 + 40, "verification": 108 + 120},
    }


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
    row |= {"sample": 1, "rule_based": True, "model": "python/my:writer", "output_tokens": 50, "usd": None}
    stored = pd.DataFrame([{**row, "probe": str(k), "input_tokens": tokens} for k, tokens in enumerate([10, 20, 90])])
    Lake(str(here / ".radar" / "lake")).write(
        "probes", stored[PROBES.names], benchmark="helpsteer2", generator="writer"
    )
    document = planned(capsys, AuditOptions("helpsteer2", generators=["python/my:writer"]))
    assert document["plan"][0]["input_tokens"] == 150 * 20  # the median of 10, 20, 90
    assert document["plan"][0]["output_tokens"] == 150 * 50
    assert document["plan"][1]["input_tokens"] == 750 * 1300
    assert document["settings"]["measured_tokens"] == {
        "generation": {"python/my:writer": {"input": 20, "output": 50}},
        "verification": {},
    }


def test_what_a_model_takes_as_a_generator_says_nothing_of_what_it_takes_as_a_verifier(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row: dict[str, Any] = dict.fromkeys(PROBES.names, "x")
    row |= {"sample": 1, "rule_based": True, "model": "python/my:both", "usd": None}
    row |= {"input_tokens": 7, "output_tokens": 5}
    Lake(str(here / ".radar" / "lake")).write(
        "probes", pd.DataFrame([row])[PROBES.names], benchmark="helpsteer2", generator="both"
    )
    generators, verifiers = ["python/my:both", "offline/editor"], ["python/my:both", "offline/reader"]
    document = planned(capsys, AuditOptions("helpsteer2", generators=generators, verifiers=verifiers))
    assert len(document["settings"]["pairs"]) == 3  # all but the model with itself
    assert document["plan"][0]["input_tokens"] == 150 * 7 + 150 * 540
    assert document["plan"][1]["input_tokens"] == 3 * 750 * 1300


def test_a_plan_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan.run(AuditOptions("summeval"), corpus=1000, as_json=False)
    shown = capsys.readouterr().out
    assert "Judging 1,000 items on every criterion: 5.60 million tokens" in shown  # 1,000 × 4 × 1,400
    assert list(here.iterdir()) == []


# Hosted models


@pytest.fixture
def hosted(here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes a radar.yaml with an endpoint `local`; there are no keys, and the network is out of reach."""
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "RADAR_LEDGER"):
        monkeypatch.delenv(variable, raising=False)

    def unreachable(*args: object) -> None:
        raise AssertionError("a plan touched the network")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    monkeypatch.setattr(socket, "getaddrinfo", unreachable)

    def write(verifier: Any = "local/m", endpoint: Mapping[str, Any] | None = None, **more: Any) -> None:
        document = {
            "generators": {"writer": "local/m"},
            "verifiers": {"judge": verifier},
            "allow_self_pairs": True,
            "endpoints": {"local": {"base_url": "http://127.0.0.1:9", "api_key_env": "NOBODY_SET", **(endpoint or {})}},
            **more,
        }
        (here / "radar.yaml").write_text(yaml.safe_dump(document))

    return write


def entry(**more: Any) -> Entry:
    common = {"key": "k", "session": "s", "run_id": "r", "role": "judge", "endpoint": "local", "model": "local/m"}
    end = {"mode": "live", "attempt": 1, "final": True, "state": "ok", "request": "[]", "parameters": "{}"}
    return Entry(**{**common, **end, "finished_at": "2026-01-01T00:00:00.000+00:00", **more})


def test_a_hosted_models_calls_cost_their_tokens_times_its_price(
    here: Path, capsys: pytest.CaptureFixture[str], hosted: Callable[..., None]
) -> None:
    hosted(prices={"local/*": {"input": 3, "output": 15}})
    document = planned(capsys, AuditOptions("helpsteer2"), corpus=1000)
    # By hand, with the paper's tokens: 540 × 3 + 200 × 15 and 1,300 × 3 + 100 × 15 millionths of a dollar a call.
    assert [row["usd"] for row in document["plan"]] == [
        pytest.approx(150 * 0.00462, rel=1e-12),
        pytest.approx(750 * 0.0054, rel=1e-12),
    ]
    assert document["total"]["usd"] == pytest.approx(150 * 0.00462 + 750 * 0.0054, rel=1e-12)
    assert document["annotation"]["usd"] == pytest.approx(1000 * 5 * 0.0054, rel=1e-12)
    assert document["settings"]["prices"] == {"local/m": {"input": 3, "output": 15, "source": "radar.yaml"}}
    assert "local/m: $3 read, $15 written per million tokens (radar.yaml)" in document["notes"]
    plan.run(AuditOptions("helpsteer2"), corpus=1000, as_json=False)
    shown = capsys.readouterr().out
    assert " 4.74 " in shown
    assert "times this audit, $27.00." in shown


def test_batches_cost_less_by_their_discount_and_take_a_time_that_nobody_knows(
    here: Path, capsys: pytest.CaptureFixture[str], hosted: Callable[..., None]
) -> None:
    hosted(
        verifier={"model": "local/m", "mode": "batch"},
        prices={"local/*": {"input": 3, "output": 15, "batch_discount": 0.25}},
    )
    with Ledger(here / ".radar" / "ledger.sqlite") as ledger:
        ledger.append([entry(latency_s=2.0, input_tokens=1300, output_tokens=100)])
    document = planned(capsys, AuditOptions("helpsteer2"))
    assert [row["usd"] for row in document["plan"]] == [
        pytest.approx(150 * 0.00462, rel=1e-12),
        pytest.approx(750 * 0.0054 * 0.75, rel=1e-12),
    ]
    assert document["seconds"]["verification"] is None
    assert any(note.startswith("in batches, at their lower price: local/m") for note in document["notes"])


def test_a_server_of_ones_own_has_no_price_until_radar_yaml_names_one(
    here: Path, capsys: pytest.CaptureFixture[str], hosted: Callable[..., None]
) -> None:
    hosted(verifier="local/gpt-4o", budget_usd=5, prices={"local/m": {"input": 0, "output": 0}})
    document = planned(capsys, AuditOptions("helpsteer2"))
    assert [row["usd"] for row in document["plan"]] == [0.0, None]
    assert document["total"]["usd"] is None
    assert document["settings"]["prices"]["local/gpt-4o"] is None
    assert "price unknown: local/gpt-4o; give it under `prices:` in radar.yaml" in document["notes"]
    assert any("the budget is $5" in note and "refused" in note for note in document["notes"])
    plan.run(AuditOptions("helpsteer2"), corpus=None, as_json=False)
    assert "unknown" in capsys.readouterr().out


def test_the_providers_own_models_are_priced_without_a_key_and_without_a_call(
    here: Path, capsys: pytest.CaptureFixture[str], hosted: Callable[..., None]
) -> None:
    hosted()
    options = AuditOptions(
        "helpsteer2", generators=["openai/gpt-4o-mini"], verifiers=["anthropic/claude-haiku-5-5@other"]
    )
    document = planned(capsys, options)
    each = [
        genai_prices.calc_price(
            genai_prices.Usage(input_tokens=reads, output_tokens=writes), name, provider_id=provider
        )
        for provider, name, reads, writes in (
            ("openai", "gpt-4o-mini", 540, 200),
            ("anthropic", "claude-haiku-5-5", 1300, 100),
        )
    ]
    assert [row["usd"] for row in document["plan"]] == [
        pytest.approx(150 * float(each[0].total_price), rel=1e-12),
        pytest.approx(750 * float(each[1].total_price), rel=1e-12),
    ]
    assert document["settings"]["prices"]["openai/gpt-4o-mini"]["source"] == f"genai-prices {genai_prices.__version__}"
    assert any("nothing is known yet of the tokens of anthropic/claude" in note for note in document["notes"])


def test_the_ledger_tells_tokens_and_latency_of_a_model_in_its_role(
    here: Path, capsys: pytest.CaptureFixture[str], hosted: Callable[..., None]
) -> None:
    hosted(endpoint={"concurrency": 100}, prices={"local/m": {"input": 1, "output": 10}})
    with Ledger(here / ".radar" / "ledger.sqlite") as ledger:
        ledger.append(
            [
                entry(input_tokens=1000, output_tokens=50, latency_s=1.0),
                entry(input_tokens=2000, output_tokens=60, latency_s=2.0),
                entry(input_tokens=9000, output_tokens=900, latency_s=30.0),
                entry(input_tokens=2000, output_tokens=60, latency_s=9000.0, mode="batch"),
                entry(input_tokens=5, output_tokens=5, latency_s=0.1, state="refused"),
                entry(input_tokens=5, output_tokens=5, latency_s=0.1, model="local/other"),
                entry(role="generate", latency_s=4.0),
            ]
        )
    document = planned(capsys, AuditOptions("helpsteer2"))
    assert document["plan"][0]["input_tokens"] == 150 * 540  # stored, but without tokens
    assert document["plan"][1]["input_tokens"] == 750 * 2000
    assert document["plan"][1]["output_tokens"] == 750 * 60
    assert document["plan"][1]["usd"] == pytest.approx(750 * 0.0026, rel=1e-12)
    # 100 calls at once: 150 take two rounds of 4 s, 750 take eight of 2 s.
    assert document["seconds"] == {"generation": 8.0, "verification": 16.0, "total": 24.0}
    assert document["settings"]["measured_tokens"]["verification"] == {"local/m": {"input": 2000, "output": 60}}


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ({"requests_per_minute": 75}, 600.0),  # 750 calls in ten minutes
        ({"tokens_per_minute": 210_000}, 300.0),  # 750 × 1,400 tokens in five
        ({"requests_per_minute": 1_000_000}, 16.0),
    ],
)
def test_an_audit_takes_as_long_as_the_endpoints_limits_make_it(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    hosted: Callable[..., None],
    limit: Mapping[str, int],
    seconds: float,
) -> None:
    hosted(endpoint={"concurrency": 100, **limit})
    with Ledger(here / ".radar" / "ledger.sqlite") as ledger:
        ledger.append([entry(input_tokens=1300, output_tokens=100, latency_s=2.0)])
    assert planned(capsys, AuditOptions("helpsteer2"))["seconds"]["verification"] == seconds


def test_a_ledger_on_a_server_is_not_asked(
    here: Path, capsys: pytest.CaptureFixture[str], hosted: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted()
    monkeypatch.setenv("RADAR_LEDGER", "postgresql://somebody@db.example.org/calls")
    assert planned(capsys, AuditOptions("helpsteer2"))["seconds"]["verification"] is None


def test_little_money_is_not_shown_as_none(
    here: Path, capsys: pytest.CaptureFixture[str], hosted: Callable[..., None]
) -> None:
    hosted(prices={"local/*": {"input": 0.001, "output": 0.004}})
    plan.run(AuditOptions("helpsteer2"), corpus=None, as_json=False)
    # 150 × (540 × 0.001 + 200 × 0.004) and 750 × (1,300 × 0.001 + 100 × 0.004), in millionths.
    shown = capsys.readouterr().out
    assert " 0.0002 " in shown
    assert " 0.0013 " in shown


def test_a_plan_beyond_the_budget_says_so(
    here: Path, capsys: pytest.CaptureFixture[str], hosted: Callable[..., None]
) -> None:
    hosted(prices={"local/*": {"input": 3, "output": 15}}, budget_usd=4.8)  # the plan comes to 4.743
    for budget, too_little in ((None, False), (4.7, True), (4.75, False)):
        notes = planned(capsys, AuditOptions("helpsteer2", budget=budget))["notes"]
        assert any("likely to stop this audit" in note for note in notes) is too_little


def test_a_service_tier_that_is_asked_for_is_the_one_that_is_priced(
    here: Path, capsys: pytest.CaptureFixture[str], hosted: Callable[..., None]
) -> None:
    spent = []
    for extra in ({}, {"service_tier": "flex"}, {"service_tier": "unheard-of"}):
        hosted(verifier={"model": "openai/gpt-5-mini", "options": {"extra": extra}})
        spent.append(planned(capsys, AuditOptions("helpsteer2"))["plan"][1]["usd"])
    assert spent[1] < spent[0]
    assert spent[2] is None


def test_what_can_not_be_called_is_refused_before_the_audit(here: Path, hosted: Callable[..., None]) -> None:
    hosted(verifier="nowhere/m")
    with pytest.raises(BadInputError, match="no endpoint 'nowhere'"):
        plan.run(AuditOptions("helpsteer2"), corpus=None, as_json=True)
    hosted(verifier={"model": "local/m", "options": {"temprature": 1}})
    with pytest.raises(BadInputError, match="temprature"):
        plan.run(AuditOptions("helpsteer2"), corpus=None, as_json=True)


def test_a_plan_of_hosted_models_writes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], hosted: Callable[..., None]
) -> None:
    hosted()
    plan.run(AuditOptions("helpsteer2"), corpus=None, as_json=False)
    assert [path.name for path in here.rglob("*")] == ["radar.yaml"]
    with Ledger(here / ".radar" / "ledger.sqlite") as ledger:
        ledger.append([entry(latency_s=1.0)])
        before = ledger.tally()
    plan.run(AuditOptions("helpsteer2"), corpus=None, as_json=False)
    with Ledger(here / ".radar" / "ledger.sqlite") as ledger:
        assert ledger.tally() == before
