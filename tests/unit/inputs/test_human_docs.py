"""docs/human-reference.md tells the truth: its numbers come out of the real ratings and of simulated ones."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from radar_dagster.inputs.human import HumanSource, human_table
from radar_dagster.inputs.published import published_correlations
from radar_dagster.stats.cell import FloatArray
from radar_dagster.stats.correlation import correlate
from radar_dagster.stats.human import human_correlations

PAGE = (Path(__file__).parents[3] / "docs" / "human-reference.md").read_text(encoding="utf-8")
CELLS = Path(__file__).parents[2] / "data" / "reference" / "published_leakage.csv"
FILES = {
    "helpsteer2": "helpsteer2_validation_ratings.csv",
    "summeval": "summeval_ratings_1600.csv",
    "sumpubmed": "sumpubmed_human_annotation.tsv",
}


def table(header: str) -> list[list[str]]:
    """The cells of the page's table with this header."""
    lines = PAGE.split(f"| {header} |\n", 1)[1].splitlines()[1:]
    rows = lines[: next((k for k, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def numbers(cell: str) -> list[float]:
    return [float(text) for text in re.findall(r"-?\d*\.\d+|-?\d+", cell.replace("−", "-").replace(",", " "))]


def people(benchmark: str, folder: Path, raters: Any = "all") -> pd.DataFrame:
    published = published_correlations(benchmark)
    assert published is not None
    criteria = list(dict.fromkeys([*published["criterion_a"], *published["criterion_b"]]))
    source = HumanSource(file=folder / FILES[benchmark], raters=raters)
    measured, _ = human_table(source, criteria)
    return measured.assign(published=published["pearson_r"])


def assert_estimate(cell: str, row: pd.Series) -> None:
    r, low, high = numbers(cell)
    assert r == pytest.approx(row["pearson_r"], abs=0.00051)
    # Rounded to two decimals; another release of numpy may draw other resamples.
    assert (low, high) == pytest.approx((row["ci_low"], row["ci_high"]), abs=0.012)


@pytest.mark.parametrize(
    ("benchmark", "header"),
    [
        ("sumpubmed", "pair | published | measured, n = 50 | Spearman"),
        ("helpsteer2", "pair | published | validation alone, n = 1,038 | Spearman"),
    ],
)
def test_the_vectors_of_one_kind_of_raters_are_those_of_the_data(
    benchmark: str, header: str, shared_data: Path
) -> None:
    measured, shown = people(benchmark, shared_data), table(header)
    assert len(shown) == len(measured)
    assert f"n = {measured['items'][0]:,}" in header
    for (pair, published, estimate, spearman), (_, row) in zip(shown, measured.iterrows(), strict=True):
        assert pair == f"{row['criterion_a']} / {row['criterion_b']}"
        assert numbers(published) == [row["published"]]
        assert_estimate(estimate, row)
        assert numbers(spearman) == pytest.approx([row["spearman"]], abs=0.00051)


def test_the_vectors_of_summevals_crowd_and_experts_are_those_of_the_data(shared_data: Path) -> None:
    crowd, experts = people("summeval", shared_data, "crowd"), people("summeval", shared_data, "expert")
    shown = table("pair | published | crowd, n = 1,600 | experts, n = 1,600")
    for (pair, published, by_crowd, by_experts), k in zip(shown, range(6), strict=True):
        assert pair == f"{crowd['criterion_a'][k]} / {crowd['criterion_b'][k]}"
        assert numbers(published) == [crowd["published"][k]]
        assert_estimate(by_crowd, crowd.loc[k])
        assert_estimate(by_experts, experts.loc[k])
    for name, pearson, spearman, difference in table(
        "the published vector against | Pearson | Spearman | mean difference"
    ):
        measured = {"crowd": crowd, "experts": experts}[name]
        found = correlate(measured["pearson_r"], measured["published"])
        apart = (measured["pearson_r"] - measured["published"]).abs().mean()
        shown_numbers = [*numbers(pearson), *numbers(spearman), *numbers(difference)]
        assert shown_numbers == pytest.approx([found.pearson, found.spearman, apart], abs=0.00051)
    above = crowd["published"] - crowd["pearson_r"]
    assert (round(above.min(), 2), round(above.max(), 2)) == (0.06, 0.08)


def test_what_the_choice_of_raters_does_to_the_printed_cells_is_computed(shared_data: Path) -> None:
    cells = pd.read_csv(CELLS)
    for cell, reference, *shown in table("cell | reference | Pearson | Spearman | MAE"):
        generator, verifier = cell.split(" → ")
        chosen = cells[(cells["benchmark"] == "summeval") & (cells["generator"] == generator)]
        measured = people("summeval", shared_data, "expert" if reference == "experts" else "crowd")
        both = measured.merge(chosen[chosen["verifier"] == verifier], on=["criterion_a", "criterion_b"])
        assert len(both) == 6
        r = both["published" if reference == "published" else "pearson_r"]
        found = correlate(r, both["sym"])
        expected = [found.pearson, found.spearman, (r - both["sym"]).abs().mean()]
        assert [numbers(text)[0] for text in shown] == pytest.approx(expected, abs=0.0051)


def test_only_complexity_and_verbosity_put_validation_alone_outside_the_interval(shared_data: Path) -> None:
    measured = people("helpsteer2", shared_data)
    rounding = 0.005
    outside = (measured["published"] < measured["ci_low"] - rounding) | (
        measured["published"] > measured["ci_high"] + rounding
    )
    assert measured.loc[outside, ["criterion_a", "criterion_b"]].to_numpy().tolist() == [["complexity", "verbosity"]]


def simulated(kind: str, n: int, r: float, rng: np.random.Generator) -> FloatArray:
    x, e = rng.normal(size=(2, n))
    both = np.column_stack([x, r * x + math.sqrt(1 - r * r) * e])
    return both if kind == "normal" else np.digitize(both, [-2.2, -1.6, -1.0, -0.3]).astype(float)


#: Correlation of the normal variables that, cut into five levels, correlate as the page says.
LATENT = {("normal", 0.5): 0.5, ("five levels", 0.4): 0.5, ("five levels", 0.82): 0.9}


@pytest.mark.slow
@pytest.mark.parametrize("row", table("ratings | true r | items | bootstrap | Fisher's z"), ids=" ".join)
def test_the_intervals_cover_the_truth_as_often_as_the_page_says(row: list[str]) -> None:
    kind, (truth,), items = row[0], numbers(row[1]), int(row[2].replace(",", ""))
    latent, rng, samples = LATENT[kind, truth], np.random.default_rng(items), 300
    exact = float(np.corrcoef(simulated(kind, 1_000_000, latent, np.random.default_rng(9)).T)[0, 1])
    assert exact == pytest.approx(truth, abs=0.005)
    covered, by_fisher, known = 0, 0, 0
    for seed in range(samples):
        found = human_correlations(simulated(kind, items, latent, rng), ["a", "b"], rng_seed=seed, resamples=600)
        one = found.iloc[0]
        if math.isfinite(one["ci_low"]):
            known += 1
            covered += one["ci_low"] <= exact <= one["ci_high"]
            by_fisher += abs(math.atanh(min(one["pearson_r"], 1 - 1e-9)) - math.atanh(exact)) <= 1.96 / math.sqrt(
                items - 3
            )
    # Two independent shares, of 600 samples on the page and of up to 300 here, three standard errors apart.
    for shown, count in ((row[3], covered), (row[4], by_fisher)):
        share = numbers(shown)[0] / 100
        assert count / known == pytest.approx(
            share, abs=0.005 + 3 * math.sqrt(share * (1 - share) * (1 / 600 + 1 / known))
        )
