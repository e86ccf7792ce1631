"""`radar coupling`: the document's keys and columns, exit codes, files, and a value that is computed by hand here."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from radar_dagster.cli import coupling
from radar_dagster.errors import BadInputError
from radar_dagster.stats.settings import CouplingSettings
from radar_dagster.tables import SCHEMAS

CRITERIA = ("Clarity/Style v1.0", "Tone, overall", "Accuracy")
#: Effects on the 0..4 scale of pushing a row's criterion, on the column's.
SEPARATE = np.array([[3.0, 0.1, 0.0], [0.0, 3.0, 0.1], [0.1, 0.0, 3.0]])
CLUSTERED = np.array([[3.0, 2.6, 0.0], [2.6, 3.0, 0.0], [0.0, 0.0, 3.0]])
WEAK = np.array([[0.4, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])


def scores(effects: np.ndarray, tasks: int = 3, probes: int = 6) -> pd.DataFrame:
    """Scores around the middle of the scale, with a small deterministic wobble between probes."""
    rows = []
    for task, i, sign, probe, j in itertools.product(range(tasks), range(3), (1, -1), range(probes), range(3)):
        wobble = 0.1 * ((probe + i + 2 * j + task) % 3 - 1)
        score = 2 + sign * effects[i, j] / 2 + wobble
        rows.append((f"t{task}", CRITERIA[i], "+" if sign > 0 else "-", probe, CRITERIA[j], round(score, 3)))
    return pd.DataFrame(rows, columns=["task", "target", "direction", "probe", "criterion", "score"])


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any, str]]:
    """Run the command on a frame; returns the exit code, the document and stderr."""

    def call(frame: pd.DataFrame, as_json: bool = True, **options: Any) -> tuple[int, Any, str]:
        frame.to_csv(tmp_path / "scores.csv", index=False)
        given = options.pop("given", {})
        chosen = {"scale": "0:4", "policy_file": None, "human": None, "raters": "all", "out": None, **options}
        code = coupling.run(tmp_path / "scores.csv", given=given, as_json=as_json, **chosen)
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if as_json else captured.out, captured.err

    return call


def test_the_document_has_the_contracts_keys_and_columns_in_order(run: Callable[..., Any]) -> None:
    code, document, _ = run(scores(SEPARATE))
    assert code == 0
    tables = ["self_effects", "leakage", "criterion_pairs", "coupling_summary", "aggregation_sensitivity"]
    for table in [*tables, "task_slices"]:
        assert all(list(row) == SCHEMAS[table].names for row in document[table]), table
        assert document[table]
    assert document["validation"] == []
    assert document["verdict"][0]["verdict"] == "passed"
    assert document["verdict"][0]["settings"]["coupling"] == CouplingSettings().model_dump(mode="json")
    assert document["verdict"][0]["settings"]["policy"] == document["settings"]["policy"]
    assert {row["metric"] for row in document["coupling_summary"]} == {
        "global_positive", "global_tension", "max_coupling", "effective_criteria",
    }  # fmt: skip
    assert document["settings"]["gate"] == CouplingSettings().gate
    assert sum(row["n"] for row in document["states"]) == 3 * 3 * 2 * 6 * 3
    assert document["notes"] == []


def test_leakage_is_the_mean_over_tasks_of_the_ratio_of_differences(run: Callable[..., Any]) -> None:
    frame = scores(CLUSTERED)
    _, document, _ = run(frame)
    found = {(row["source"], row["target"]): row["leakage"] for row in document["leakage"]}
    for i, j in itertools.product(CRITERIA, CRITERIA):
        ratios = []
        for task in ("t0", "t1", "t2"):

            def mean(criterion: str, direction: str, task: str = task, i: str = i) -> float:
                chosen = frame[
                    (frame["task"] == task)
                    & (frame["target"] == i)
                    & (frame["criterion"] == criterion)
                    & (frame["direction"] == direction)
                ]
                return float(chosen["score"].mean()) / 4

            ratios.append((mean(j, "+") - mean(j, "-")) / (mean(i, "+") - mean(i, "-")))
        assert found[i, j] == pytest.approx(float(np.mean(ratios)), abs=1e-12)


def test_a_cluster_violates_the_policy_and_a_weak_criterion_leaves_it_inconclusive(run: Callable[..., Any]) -> None:
    code, document, _ = run(scores(CLUSTERED))
    assert (code, document["verdict"][0]["exit_code"]) == (1, 1)
    code, document, _ = run(scores(WEAK))
    assert code == 3
    weak = next(row for row in document["self_effects"] if row["criterion"] == CRITERIA[0])
    assert (weak["reliable"], weak["reason"]) == (False, "weak")
    assert all(row["leakage"] is None for row in document["leakage"] if row["source"] == CRITERIA[0])


def test_a_gate_from_the_options_and_a_policy_from_a_file_decide(tmp_path: Path, run: Callable[..., Any]) -> None:
    assert run(scores(WEAK), given={"gate": 0.05})[0] == 0
    (tmp_path / "policy.yaml").write_text(f"accepted_pairs: [[{CRITERIA[0]}, '{CRITERIA[1]}']]\n")
    assert run(scores(CLUSTERED), policy_file=tmp_path / "policy.yaml")[0] == 0
    (tmp_path / "policy.yaml").write_text("thresholds: {cluster_sym: 0.99}\n")
    code, document, _ = run(scores(CLUSTERED), policy_file=tmp_path / "policy.yaml")
    assert document["settings"]["thresholds"]["cluster_sym"] == 0.99
    assert code != 1


def test_the_order_of_rows_changes_nothing(run: Callable[..., Any]) -> None:
    frame = scores(CLUSTERED)
    _, first, _ = run(frame, given={"interval": "bootstrap"})
    _, second, _ = run(frame.sample(frac=1, random_state=4), given={"interval": "bootstrap"})
    assert first == second


def test_another_seed_changes_only_what_is_resampled(run: Callable[..., Any]) -> None:
    _, first, _ = run(scores(SEPARATE), given={"interval": "bootstrap", "seed": 1, "resamples": 200})
    _, second, _ = run(scores(SEPARATE), given={"interval": "bootstrap", "seed": 2, "resamples": 200})
    assert [row["leakage"] for row in first["leakage"]] == [row["leakage"] for row in second["leakage"]]
    assert [row["ci_low"] for row in first["leakage"]] != [row["ci_low"] for row in second["leakage"]]


def test_missing_cells_are_counted_in_states_and_notes_and_too_many_leave_it_inconclusive(
    run: Callable[..., Any],
) -> None:
    frame = scores(SEPARATE).astype({"score": object})
    frame.loc[frame.index % 10 == 0, "score"] = None
    code, document, err = run(frame)
    missing = sum(row["n"] for row in document["states"] if row["state"] == "missing")
    assert missing == int(frame["score"].isna().sum())
    assert code == 3
    assert f"note: {missing} of {len(frame)} scores are missing" in err
    _, shown, _ = run(frame, as_json=False)
    assert f"  - {missing} of {len(frame)} scores ended as missing\n" in shown
    _, shown, _ = run(scores(SEPARATE), as_json=False)
    assert "ended as" not in shown
    assert shown.endswith("Scores were read on a scale from 0 to 4 (--scale 0:4).\n")


def test_the_folder_gets_every_table_twice_and_the_document(tmp_path: Path, run: Callable[..., Any]) -> None:
    _, document, err = run(scores(WEAK), out=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == document
    assert f"wrote {tmp_path}/out" in err
    for table in ("self_effects", "leakage", "criterion_pairs", "coupling_summary", "task_slices", "settling"):
        from_csv = pd.read_csv(tmp_path / "out" / f"{table}.csv", keep_default_na=False, dtype=str)
        stored = pq.read_table(tmp_path / "out" / f"{table}.parquet")
        assert stored.schema.equals(SCHEMAS[table])
        assert list(from_csv.columns) == SCHEMAS[table].names
        assert len(from_csv) == stored.num_rows == len(document[table])
        assert not re.search("nan|inf|none|null", "".join(from_csv.to_numpy().ravel()), re.IGNORECASE) or table in (
            "coupling_summary",
        )
    leakage = pd.read_csv(tmp_path / "out" / "leakage.csv")
    assert [None if np.isnan(x) else x for x in leakage["leakage"]] == [row["leakage"] for row in document["leakage"]]


def test_bad_input_writes_nothing(tmp_path: Path, run: Callable[..., Any]) -> None:
    frame = scores(SEPARATE).astype({"score": object})
    frame.loc[4, "score"] = "five"
    with pytest.raises(BadInputError, match=r"scores\.csv:6: column 'score'"):
        run(frame, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_people_get_the_verdict_first_then_the_matrix_and_the_pairs_in_words(run: Callable[..., Any]) -> None:
    _, shown, _ = run(scores(CLUSTERED), as_json=False)
    assert shown.startswith("Violated.")
    assert "Clarity/Style v1.0 and Tone, overall are counted twice" in shown
    assert re.search(r"^Tone, overall +0\.00 +0\.87 +1\.00$", shown, re.MULTILINE)  # 2.6 / 3
    _, shown, _ = run(scores(WEAK), as_json=False)
    assert re.search(r"^Clarity/Style v1\.0 +– +– +–$", shown, re.MULTILINE)
    assert "failed: weak" in shown


@pytest.mark.parametrize(("text", "expected"), [("0:4", (0, 4)), ("1:5", (1, 5)), (" -2 : 2 ", (-2, 2))])
def test_a_scale_is_its_lowest_and_highest_level(text: str, expected: tuple[int, int]) -> None:
    scale = coupling.parse_scale(text)
    assert (scale.min, scale.max) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4", "--scale: expected the lowest and the highest level as 0:4, found '4'"),
        ("0-4", "--scale: expected"),
        ("a:b", "--scale: expected"),
        ("4:0", "--scale 4:0: min must be below max"),
        ("0:1000", "--scale 0:1000: at most 101 levels"),
    ],
)
def test_a_scale_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        coupling.parse_scale(text)
    assert str(caught.value).startswith(message)


def test_statistics_options_outside_their_range_are_named(run: Callable[..., Any]) -> None:
    with pytest.raises(BadInputError, match="--resamples: Input should be greater than or equal to 100, found 3"):
        run(scores(SEPARATE), given={"resamples": 3})
