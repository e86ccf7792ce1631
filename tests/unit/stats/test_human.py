"""People's ratings: known correlations of real data, intervals against other formulas, what is unknown and why."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from radar_dagster.stats.cell import FloatArray
from radar_dagster.stats.human import MIN_ITEMS, human_correlations

COLUMNS = ["criterion_a", "criterion_b", "pearson_r", "ci_low", "ci_high", "spearman", "items", "reason"]


def pair(x: FloatArray, y: FloatArray, **options: float) -> pd.Series:
    return human_correlations(np.column_stack([x, y]), ["x", "y"], **options).iloc[0]  # type: ignore[arg-type]


def correlated(n: int, r: float, seed: int) -> tuple[FloatArray, FloatArray]:
    """Bivariate normal."""
    x, e = np.random.default_rng(seed).normal(size=(2, n))
    return x, r * x + math.sqrt(1 - r * r) * e


def delta_method(x: FloatArray, y: FloatArray) -> float:
    """Half-width of the 95% interval of arctanh r for any distribution, from the influence function of r."""
    u, v = ((values - values.mean()) / values.std() for values in (x, y))
    r = (u * v).mean()
    influence = (u * v - r * (u * u + v * v) / 2) / (1 - r * r)
    return 1.96 * math.sqrt((influence**2).mean() / len(x))


REAL = {
    ("sumpubmed_human_annotation.tsv", "\t", "Non-Re Coh Read IOF", 4): [
        0.3299, 0.2889, 0.2115, 0.6178, 0.3313, 0.1218,
    ],
    ("helpsteer2_validation_ratings.csv", ",", "helpfulness correctness coherence complexity verbosity", 3): [
        0.940, 0.509, 0.180, 0.061, 0.482, 0.202, 0.093, 0.006, -0.040, 0.405,
    ],
    ("summeval_ratings_1600.csv", ",", "expert_mean_coherence expert_mean_consistency expert_mean_fluency "
     "expert_mean_relevance", 3): [0.315, 0.384, 0.660, 0.488, 0.413, 0.370],
}  # fmt: skip


@pytest.mark.parametrize(("where", "known"), REAL.items(), ids=[where[0] for where in REAL])
def test_real_ratings_give_the_known_correlations_with_intervals_that_fit_two_other_formulas(
    where: tuple[str, str, str, int], known: list[float], shared_data: Path
) -> None:
    name, separator, columns, digits = where
    frame = pd.read_csv(shared_data / name, sep=separator)[columns.split()]
    found = human_correlations(frame.to_numpy(float), columns.split())
    # Half a unit of the last printed digit, and a hair: complexity/verbosity is .40448 and printed as .405.
    assert found["pearson_r"].tolist() == pytest.approx(known, abs=0.5 * 10**-digits + 5e-5 * (digits < 4))
    assert (found["items"] == len(frame)).all()
    assert found["reason"].isna().all()
    for row in found.itertuples():
        x, y = frame[row.criterion_a].to_numpy(float), frame[row.criterion_b].to_numpy(float)
        assert row.spearman == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
        assert row.ci_low < row.pearson_r < row.ci_high
        half = (math.atanh(row.ci_high) - math.atanh(row.ci_low)) / 2
        # Both are first-order; at 50 items the terms left out (1/n, and the noise of 2,000 resamples) reach a fifth.
        assert half == pytest.approx(delta_method(x, y), rel=0.2 if len(frame) < 100 else 0.08)
        # Fisher's z takes the ratings for normal. Where nearly all are at the top, few items carry the correlation,
        # and it is twice as uncertain as that; nowhere is it much more certain.
        assert 0.75 < half / (1.96 / math.sqrt(len(frame) - 3)) < 2.2


@pytest.mark.parametrize("r", [-0.6, 0.0, 0.5, 0.95])
def test_of_normal_ratings_the_interval_is_that_of_fishers_z(r: float) -> None:
    x, y = correlated(1000, r, seed=11)
    row = pair(x, y, resamples=4000)
    half = 1.96 / math.sqrt(1000 - 3)
    # A sample of 1,000 has its own kurtosis, which scatters the width by some √(24/1,000)/2 = 8%.
    assert math.atanh(row.ci_low) == pytest.approx(math.atanh(row.pearson_r) - half, abs=0.16 * half)
    assert math.atanh(row.ci_high) == pytest.approx(math.atanh(row.pearson_r) + half, abs=0.16 * half)


def test_the_interval_is_that_of_resampling_one_by_one() -> None:
    rng = np.random.default_rng(3)
    ratings = rng.integers(0, 5, (40, 3)).astype(float)
    ratings[:, 1] = np.clip(ratings[:, 0] + rng.integers(-1, 2, 40), 0, 4)
    ratings[rng.random(ratings.shape) < 0.1] = np.nan
    draws = []
    for _ in range(3000):
        drawn = pd.DataFrame(ratings[rng.integers(0, 40, 40)])
        draws.append(drawn.corr().to_numpy()[np.triu_indices(3, 1)])
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    found = human_correlations(ratings, ["a", "b", "c"], resamples=6000)
    # The quantile of 3,000 draws has a standard error of √(.025·.975/3,000)/density, here below 0.01.
    assert found["ci_low"].to_numpy() == pytest.approx(low, abs=0.03)
    assert found["ci_high"].to_numpy() == pytest.approx(high, abs=0.03)


def test_pairs_come_in_the_order_of_the_criteria_with_the_columns_of_the_table() -> None:
    found = human_correlations(np.random.default_rng(0).normal(size=(20, 4)), ["d", "b", "a", "c"])
    assert list(found.columns) == COLUMNS
    assert ["".join(names) for names in zip(found["criterion_a"], found["criterion_b"], strict=True)] == [
        "db", "da", "dc", "ba", "bc", "ac",
    ]  # fmt: skip


def test_a_constant_criterion_is_unknown_and_named_and_leaves_the_others_known() -> None:
    ratings = np.random.default_rng(0).integers(0, 5, (30, 3)).astype(float)
    ratings[:, 1] = 2
    found = human_correlations(ratings, ["tone", "length", "truth"])
    assert found["reason"].tolist() == [
        "constant: all 30 items have the same rating on length", None,
        "constant: all 30 items have the same rating on length",
    ]  # fmt: skip
    assert found[["pearson_r", "ci_low", "ci_high", "spearman"]].isna().any(axis=1).tolist() == [True, False, True]


def test_two_items_rated_on_both_are_too_few() -> None:
    row = pair(np.array([1, 2, np.nan, 4]), np.array([2, 1, 3, np.nan]))
    assert (row["items"], row.reason) == (2, "too_few: 2 items rated on both; at least 3 are needed")
    assert math.isnan(row.pearson_r)


def test_no_items_at_all_are_too_few() -> None:
    assert pair(np.array([]), np.array([])).reason == "too_few: 0 items rated on both; at least 3 are needed"


def test_few_items_have_an_estimate_but_no_interval() -> None:
    x, y = correlated(MIN_ITEMS - 1, 0.5, seed=1)
    row = pair(x, y)
    assert row.reason == "no_interval: 9 items rated on both; at least 10 are needed"
    assert row.pearson_r == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert math.isnan(row.ci_low)
    assert math.isnan(row.ci_high)
    assert pair(*correlated(MIN_ITEMS, 0.5, seed=1)).reason is None


def test_a_criterion_on_which_one_item_differs_has_no_interval() -> None:
    x = np.zeros(40)
    x[7] = 1
    row = pair(x, np.arange(40.0))
    # (1 − 1/40)^40 = 36% of the resamples lack that item.
    lost = int(str(row.reason).removeprefix("no_interval: in ").split()[0])
    assert lost == pytest.approx(0.363 * 2000, abs=5 * math.sqrt(2000 * 0.363 * 0.637))
    assert math.isfinite(row.pearson_r)
    assert math.isnan(row.ci_low)


def test_perfect_agreement_has_an_interval_of_no_width() -> None:
    x = np.arange(20.0)
    row = pair(x, 3 * x - 1)
    assert (row.pearson_r, row.ci_low, row.ci_high) == pytest.approx((1, 1, 1), abs=1e-12)


def test_an_outlier_of_any_size_is_no_numeric_accident() -> None:
    x, y = correlated(50, 0.3, seed=2)
    x[0], y[0] = 1e300, -1e300
    row = pair(x, y)
    assert row.pearson_r == pytest.approx(-1, abs=1e-9)


def test_all_pairs_share_the_resamples() -> None:
    x, y = correlated(60, 0.5, seed=4)
    found = human_correlations(np.column_stack([x, y, y]), ["x", "y", "again"])
    assert found.loc[0, ["ci_low", "ci_high"]].tolist() == pytest.approx(found.loc[1, ["ci_low", "ci_high"]].tolist())


def test_the_seed_decides_and_the_confidence_widens() -> None:
    x, y = correlated(60, 0.5, seed=4)
    assert pair(x, y, rng_seed=1).equals(pair(x, y, rng_seed=1))
    assert pair(x, y, rng_seed=1).ci_low != pair(x, y, rng_seed=2).ci_low
    assert pair(x, y, confidence=0.99).ci_low < pair(x, y).ci_low < pair(x, y, confidence=0.8).ci_low


tables = st.lists(st.tuples(*[st.one_of(st.integers(0, 4).map(float), st.just(np.nan))] * 3), max_size=25)


@settings(max_examples=40)
@given(rows=tables, seed=st.integers(0, 99))
def test_neither_the_order_of_items_nor_the_unit_of_a_criterion_matters(
    rows: list[tuple[float, ...]], seed: int
) -> None:
    ratings = np.array(rows).reshape(-1, 3)
    found = human_correlations(ratings, ["a", "b", "c"], resamples=200)
    random.Random(seed).shuffle(rows)
    other = human_correlations(np.array(rows).reshape(-1, 3) * [25, 0.1, 1] + [0, 1, 3], ["a", "b", "c"], resamples=200)
    pd.testing.assert_frame_equal(other, found, atol=1e-9)


@settings(max_examples=40)
@given(rows=tables)
def test_intervals_contain_their_estimate_within_the_possible_and_nulls_have_reasons(
    rows: list[tuple[float, ...]],
) -> None:
    found = human_correlations(np.array(rows).reshape(-1, 3), ["a", "b", "c"], resamples=200)
    for row in found.itertuples():
        known = [math.isfinite(v) for v in (row.pearson_r, row.spearman, row.ci_low, row.ci_high)]
        assert all(known) == (row.reason is None)
        assert known[0] == known[1]
        assert known[2] == known[3] <= known[0]
        if known[2]:
            assert -1 <= row.ci_low <= row.pearson_r <= row.ci_high <= 1


def test_ratings_that_do_not_fit_the_criteria_are_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"\(4, 2\); expected \(items, 3\)"):
        human_correlations(np.zeros((4, 2)), ["a", "b", "c"])
