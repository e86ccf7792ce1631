"""`radar validate`, and `--human` of `radar coupling`: published cells, real ratings, and what does not match."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from radar_dagster.cli import coupling, validate
from radar_dagster.errors import BadInputError
from radar_dagster.stats.cell import scores_from_cube
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.tables import HUMAN_CORRELATIONS, PROBE_BUDGET, VALIDATION

REFERENCE = Path(__file__).parents[2] / "data" / "reference"
Run = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `radar validate` on a frame; returns the exit code, the document and stderr."""

    def call(frame: pd.DataFrame, human: str, as_json: bool = True, **options: Any) -> tuple[int, Any, str]:
        frame.to_csv(tmp_path / "pairs.csv", index=False)
        chosen = {"raters": "all", "out": None, **options}
        code = validate.run(tmp_path / "pairs.csv", human=human, as_json=as_json, **chosen)
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if as_json else captured.out, captured.err

    return call


def published(benchmark: str, generator: str = "GPT-5.5-R", verifier: str = "Sonnet-4.6") -> pd.DataFrame:
    table = pd.read_csv(REFERENCE / "published_leakage.csv")
    cell = table[["benchmark", "generator", "verifier"]].eq([benchmark, generator, verifier]).all(axis=1)
    return table[cell]


def test_a_published_cell_agrees_with_the_published_vector_as_published(run: Run) -> None:
    code, document, err = run(published("helpsteer2"), "helpsteer2")
    (row,) = document["validation"]
    assert code == 0
    assert list(row) == VALIDATION.names
    assert all(list(pair) == HUMAN_CORRELATIONS.names for pair in document["human_correlations"])
    assert row["method"] == "given"
    assert row["pearson"] == pytest.approx(0.957, abs=0.0005)
    assert row["mae"] == pytest.approx(0.075, abs=0.0005)
    assert row["p_permutation"] == 1 / 120
    assert row["pairs_used"] == 10
    assert document["settings"]["human"] == "helpsteer2"
    assert err == ""


def test_leakages_alone_are_enough_and_pairs_may_stand_either_way_round(run: Run) -> None:
    cell = published("helpsteer2")
    bare = cell[["criterion_b", "criterion_a", "leakage_ba", "leakage_ab"]]
    turned = bare.set_axis(["criterion_a", "criterion_b", "leakage_ab", "leakage_ba"], axis=1)[::-1]
    found = run(turned, "helpsteer2")[1]["validation"][0]
    sym = cell.assign(sym=(cell["leakage_ab"] + cell["leakage_ba"]) / 2)
    expected = run(sym, "helpsteer2")[1]["validation"][0]
    assert {name: found[name] for name in ("pearson", "mae", "kendall")} == pytest.approx(
        {name: expected[name] for name in ("pearson", "mae", "kendall")}
    )


def test_real_ratings_stand_in_for_the_published_vector(run: Run, shared_data: Path) -> None:
    file = shared_data / "summeval_ratings_1600.csv"
    crowd = run(published("summeval"), str(file), raters="crowd")[1]["validation"][0]
    expert = run(published("summeval"), str(file), raters="expert")[1]["validation"][0]
    assert crowd["pearson"] > 0.8 > expert["pearson"]  # docs/human-reference.md: the published vector is the crowd's


def test_names_that_do_not_match_are_listed_on_both_sides(run: Run) -> None:
    with pytest.raises(BadInputError) as raised:
        run(published("helpsteer2"), "sumpubmed")
    for name in ("'helpfulness'", "'verbosity'", "'non-redundancy'", "'informativeness'"):
        assert name in str(raised.value)


def test_too_few_pairs_end_inconclusive_with_the_state_and_no_number(run: Run, tmp_path: Path) -> None:
    cell = published("summeval")
    cell.loc[cell.index[2:], "sym"] = np.nan
    code, document, _ = run(cell, "summeval", out=tmp_path / "out")
    (row,) = document["validation"]
    assert code == 3
    assert [row[name] for name in ("pearson", "spearman", "kendall", "mae", "p_permutation")] == [None] * 5
    assert row["pairs_used"] == 2
    assert row["detail"].startswith("too_few_pairs")
    assert "nan" not in (tmp_path / "out" / "validation.csv").read_text().lower()


def test_equal_values_have_a_distance_and_a_named_state(run: Run) -> None:
    code, document, _ = run(published("summeval").assign(sym=0.5), "summeval")
    (row,) = document["validation"]
    assert code == 3
    assert row["pearson"] is None
    assert row["detail"].startswith("constant_values")
    human = pd.read_csv(REFERENCE / "human_correlations.csv").query("benchmark == 'summeval'")["pearson_r"]
    assert row["mae"] == pytest.approx((human - 0.5).abs().mean())


def test_people_read_a_table_and_whose_ratings_it_is_about(run: Run) -> None:
    code, text, _ = run(published("summeval"), "summeval", as_json=False)
    assert code == 0
    assert "Agreement with people (published; raters: crowd)" in text
    assert "0.84" in text
    assert "1/24" in text


def test_a_criterion_that_is_spelled_in_two_ways_is_one(run: Run) -> None:
    """Else it would be two criteria, each without most of its pairs, and the correlation another one."""
    cell = published("summeval").reset_index(drop=True)
    expected = run(cell, "summeval")[1]["validation"][0]
    cell.loc[1, "criterion_a"], cell.loc[4, "criterion_b"] = "COHERENCE", "Rele vance"
    assert run(cell, "summeval")[1]["validation"][0] == expected


def test_a_pair_that_stands_twice_under_two_spellings_is_refused_with_both_lines(run: Run) -> None:
    cell = published("summeval").reset_index(drop=True)
    twice = pd.concat([cell, cell.iloc[[0]].assign(criterion_a="Coherence")])
    with pytest.raises(BadInputError, match=r"pairs\.csv:8: repeats line 2"):
        run(twice, "summeval")


def test_a_decimal_comma_is_recognised(run: Run) -> None:
    cell = published("summeval").astype({"sym": object}).reset_index(drop=True)
    cell.loc[2, "sym"] = "0,61"
    with pytest.raises(BadInputError, match=r"pairs\.csv:4: column 'sym'.*is it 0\.61, with a decimal point\?"):
        run(cell, "summeval")


@pytest.mark.parametrize("value", [1e200, -1e308, 1e7])
def test_a_value_that_no_pair_can_have_is_refused_with_its_line(run: Run, value: float) -> None:
    cell = published("summeval").reset_index(drop=True)
    cell.loc[3, "sym"] = value
    with pytest.raises(BadInputError, match=r"pairs\.csv:5: column 'sym': expected a value of a pair"):
        run(cell, "summeval")


def test_raters_are_not_chosen_from_finished_correlations(run: Run, tmp_path: Path) -> None:
    human = pd.read_csv(REFERENCE / "human_correlations.csv").query("benchmark == 'summeval'")
    human.to_csv(tmp_path / "human.csv", index=False)
    assert run(published("summeval"), str(tmp_path / "human.csv"))[0] == 0
    with pytest.raises(BadInputError, match="finished correlations"):
        run(published("summeval"), str(tmp_path / "human.csv"), raters="expert")


def test_a_pipe_is_no_file_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pairs.csv")
    with pytest.raises(BadInputError, match="is no file"):
        validate.run(tmp_path / "pairs.csv", human="summeval", raters="all", out=None, as_json=True)


@pytest.mark.parametrize(
    ("human", "options", "told"),
    [
        ("nosuch", {}, "neither a file nor a benchmark"),
        ("summeval", {"raters": "expert"}, "no raters to choose from"),
    ],
)
def test_a_source_that_is_none_is_named(run: Run, human: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInputError, match=told):
        run(published("summeval"), human, **options)


# ---------------------------------------------------------------- radar coupling --human


NAMES = ("coherence", "consistency", "fluency", "relevance")


def scores_file(folder: Path) -> Path:
    leakage = np.array([[1, 0.2, 0.8, 0.6], [0.1, 1, 0.0, 0.7], [0.6, 0, 1, 0.2], [0.9, 0.4, 0.1, 1]])
    cube = draw_cube(latent_means(leakage, np.full(4, 0.8)), noise=0.1, tasks=4, probes=6, rng=np.random.default_rng(0))
    frame = scores_from_cube(cube)
    renamed = dict(zip(cube.criteria, NAMES, strict=True))
    frame[["target", "criterion"]] = frame[["target", "criterion"]].replace(renamed)
    frame.assign(score=frame["p"] * 4).drop(columns="p").to_csv(folder / "scores.csv", index=False)
    return folder / "scores.csv"


def test_coupling_compares_with_people_and_shows_fewer_probes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {
        "scale": "0:4",
        "given": {},
        "policy_file": None,
        "raters": "all",
        "out": tmp_path / "out",
    }
    coupling.run(scores_file(tmp_path), human="summeval", as_json=True, **options)
    document = json.loads(capsys.readouterr().out)
    (row,) = document["validation"]
    pairs = {(pair["criterion_a"], pair["criterion_b"]): pair["sym"] for pair in document["criterion_pairs"]}
    human = {(pair["criterion_a"], pair["criterion_b"]): pair["pearson_r"] for pair in document["human_correlations"]}
    assert set(pairs) == set(human)
    assert row["pearson"] == pytest.approx(
        np.corrcoef([pairs[key] for key in pairs], [human[key] for key in pairs])[0, 1]
    )
    assert [row["probes"] for row in document["probe_budget"]] == [1, 2, 3, 4, 5, 6]
    assert all(list(row) == PROBE_BUDGET.names for row in document["probe_budget"])
    assert document["probe_budget"][-1]["pearson"] == pytest.approx(row["pearson"])
    assert document["settings"]["human"] == "summeval"
    assert {"validation.csv", "probe_budget.parquet", "human_correlations.csv"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }


def test_coupling_without_people_says_nothing_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {"scale": "0:4", "given": {}, "policy_file": None, "raters": "all", "out": None}
    coupling.run(scores_file(tmp_path), human=None, as_json=True, **options)
    document = json.loads(capsys.readouterr().out)
    assert document["validation"] == []
    assert "human_correlations" not in document
