"""The offline models on the shipped benchmarks, and the simulator through the door and Stage 3."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from radar_dagster.models.door import Door
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.settings import DoorSettings
from radar_dagster.models.stages import judge_probes, make_probes
from radar_dagster.rubric.loading import benchmark_path, load_rubric, shipped_benchmarks
from radar_dagster.stats.audit import analyse
from radar_dagster.stats.planted import expected_leakage
from radar_dagster.stats.settings import CouplingSettings

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark() -> dict:
    """The functions of benchmarks/offline_models.py."""
    return runpy.run_path(str(REPOSITORY / "benchmarks" / "offline_models.py"))


def test_the_tables_of_the_documentation_are_what_the_models_give_today(benchmark) -> None:
    page = (REPOSITORY / "docs" / "offline-models.md").read_text(encoding="utf-8")
    block = page.split("<!-- tables: begin -->")[1].split("<!-- tables: end -->")[0].strip()
    assert block == benchmark["all_tables"](), "run `python benchmarks/offline_models.py --tables` and paste its output"


@pytest.mark.parametrize("name", shipped_benchmarks())
def test_twenty_samples_of_a_stratum_are_twenty_texts(name: str) -> None:
    rubric = load_rubric(benchmark_path(name))
    door = Door(DoorSettings(models={"editor": ModelSpec(model="offline/editor")}))
    probes = make_probes(rubric, door, "editor", 20)
    different = probes.groupby(["task", "target", "direction"])["text"].nunique()
    assert len(different) == len(rubric.tasks) * len(rubric.criteria) * 2
    assert different.eq(20).all(), different[different.ne(20)]


def test_couplings_that_the_documentation_calls_built_in_are_there(benchmark) -> None:
    def leakage(name: str) -> pd.Series:
        tables = benchmark["audit"](load_rubric(benchmark_path(name)))
        assert tables.self_effects["self_effect"].gt(0).all()
        return tables.leakage.set_index(["source", "target"])["leakage"]

    helpsteer2, sumpubmed = leakage("helpsteer2"), leakage("sumpubmed")
    assert helpsteer2["helpfulness", "correctness"] > 0.5
    assert helpsteer2["correctness", "helpfulness"] > 0.2
    assert helpsteer2["verbosity", "helpfulness"] > 0.1
    assert abs(helpsteer2["coherence", "correctness"]) < 0.1
    assert sumpubmed["informativeness", "coverage"] > 0.8
    assert sumpubmed["coverage", "informativeness"] > 0.8
    assert sumpubmed["informativeness", "coherence"] > 0.2


def test_the_simulator_and_stage_three_return_the_planted_matrix() -> None:
    rubric = load_rubric(benchmark_path("helpsteer2"))
    ids = [criterion.id for criterion in rubric.criteria]
    matrix = np.eye(5)
    matrix[0, 1], matrix[1, 0], matrix[2, 4], matrix[4, 3] = 0.9, 0.7, -0.5, 0.4
    planted = {"criteria": ids, "leakage": matrix.tolist(), "self_effects": 0.7}
    door = Door(
        DoorSettings(
            models={
                "writer": ModelSpec(model="offline/planted", options=planted),
                "judge": ModelSpec(model="offline/planted", options={"noise": 0.15}),
            }
        )
    )
    scores = judge_probes(rubric, make_probes(rubric, door, "writer", 20), door, "judge")
    assert scores["p"].notna().all()
    tables = analyse(scores, settings=CouplingSettings(), criteria=ids)
    found = tables.leakage.set_index(["source", "target"])
    expected, _ = expected_leakage(matrix, np.full(5, 0.7), 0.15)
    inside = 0
    for i, source in enumerate(ids):
        for j, target in enumerate(ids):
            if i == j:
                continue
            row = found.loc[(source, target)]
            assert row["leakage"] == pytest.approx(expected[i, j], abs=0.12)
            inside += bool(row["ci_low"] <= expected[i, j] <= row["ci_high"])
    assert inside >= 17  # of 20 intervals at 95%
