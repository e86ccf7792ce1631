"""Agreement with a reference: published cells, scipy, and brute force over relabellings."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from radar_dagster.stats import validation
from radar_dagster.stats.correlation import row_pearson, row_spearman
from radar_dagster.stats.validation import agreement, matrix_of, permutation_p, row_mae

Table = Callable[[str], pd.DataFrame]
HALF = 0.005


def published(reference: Table) -> dict[tuple[str, str, str], tuple[np.ndarray, np.ndarray]]:
    """SymCoupling and human correlations of every cell whose leakages are published, as matrices."""
    human = reference("human_correlations")
    found = {}
    for key, cell in reference("published_leakage").groupby(["benchmark", "generator", "verifier"]):
        criteria = list(dict.fromkeys([*cell["criterion_a"], *cell["criterion_b"]]))
        theirs = human[human["benchmark"] == key[0]]
        found[key] = matrix_of(cell, "sym", criteria), matrix_of(theirs, "pearson_r", criteria)
    assert len(found) == 6
    return found


def pairs_of(matrix: np.ndarray) -> np.ndarray:
    return matrix[np.triu_indices(len(matrix), k=1)]


def rounding_of_pearson(x: np.ndarray, y: np.ndarray) -> float:
    """How far r can move when every input moves by up to half a hundredth: Σ|∂r/∂x_k|·0.005, by its derivative."""
    u, v = x - x.mean(), y - y.mean()
    r = u @ v / math.sqrt((u @ u) * (v @ v))
    by_x = v / math.sqrt((u @ u) * (v @ v)) - r * u / (u @ u)
    by_y = u / math.sqrt((u @ u) * (v @ v)) - r * v / (v @ v)
    return float(np.abs(by_x).sum() + np.abs(by_y).sum()) * HALF


def test_the_published_pearson_of_every_published_cell(reference: Table) -> None:
    grid = reference("grid_agreement").set_index(["benchmark", "generator", "verifier"])
    for key, (sym, human) in published(reference).items():
        ours = agreement(sym, human)
        tolerance = rounding_of_pearson(pairs_of(sym), pairs_of(human)) + HALF
        assert tolerance < 0.06, key  # the inputs are sharp enough for the comparison to mean something
        assert ours.pearson == pytest.approx(grid.loc[key, "pearson"], abs=tolerance), key


def test_the_published_mae_of_every_published_cell(reference: Table) -> None:
    maes = reference("published_leakage").groupby(["benchmark", "generator", "verifier"])["cell_mae"].first()
    for key, (sym, human) in published(reference).items():
        # Each difference may be off by half a hundredth on either side, and so may their mean.
        assert agreement(sym, human).mae == pytest.approx(maes[key], abs=2 * HALF + 0.0005), key


def test_the_published_method_comparison_of_radar(reference: Table) -> None:
    table = reference("method_comparison").set_index(["benchmark", "method"])
    cells = published(reference)
    for benchmark in ("helpsteer2", "summeval", "sumpubmed"):
        sym, human = cells[benchmark, "GPT-5.5-R", "Sonnet-4.6"]
        ours, theirs = agreement(sym, human), table.loc[benchmark, "radar"]
        assert ours.pearson == pytest.approx(theirs["pearson"], abs=rounding_of_pearson(pairs_of(sym), pairs_of(human)))
        assert ours.mae == pytest.approx(theirs["mae"], abs=0.001)


def spearmans_within_rounding(x: np.ndarray, y: np.ndarray, draws: int = 20_000) -> np.ndarray:
    """Spearman of inputs as they may have been before they were rounded to two decimals."""
    rng = np.random.default_rng(5)
    unrounded = [side + rng.uniform(-HALF, HALF, (draws, len(side))) for side in (x, y)]
    ranks = [side.argsort(axis=1).argsort(axis=1).astype(float) for side in unrounded]
    left, right = (side - side.mean(axis=1, keepdims=True) for side in ranks)
    return (left * right).sum(axis=1) / np.sqrt((left**2).sum(axis=1) * (right**2).sum(axis=1))


def test_published_spearmans_differ_by_how_ties_of_two_decimals_are_broken_and_by_nothing_else(
    reference: Table,
) -> None:
    """With ties in the rounded inputs our mid-ranks need not give the published value; some unrounded inputs do."""
    grid = reference("grid_agreement").set_index(["benchmark", "generator", "verifier"])
    differing = 0
    for key, (sym, human) in published(reference).items():
        x, y = pairs_of(sym), pairs_of(human)
        ours, theirs = agreement(sym, human).spearman, grid.loc[key, "spearman"]
        assert ours is not None
        near = np.abs(x[:, None] - x) < 2 * HALF + 1e-9, np.abs(y[:, None] - y) < 2 * HALF + 1e-9
        tied = any(side.sum() > len(x) for side in near)
        if abs(ours - theirs) <= HALF:
            continue
        differing += 1
        assert tied, f"{key}: no values are close enough for rounding to explain the difference"
        possible = spearmans_within_rounding(x, y)
        assert np.abs(possible - theirs).min() <= HALF, f"{key}: no unrounded inputs give the published value"
    assert differing  # the test is about something


def test_the_published_helpsteer2_cell_has_a_p_value_of_one_in_120(reference: Table) -> None:
    sym, human = published(reference)["helpsteer2", "GPT-5.5-R", "Sonnet-4.6"]
    found = agreement(sym, human)
    assert found.p_permutation == 1 / 120
    assert found.detail == "5 criteria: no p-value can be below 1/120"


def test_four_criteria_cannot_give_less_than_one_in_24_and_it_is_said(reference: Table) -> None:
    sym, human = published(reference)["summeval", "GPT-5.5-R", "Sonnet-4.6"]
    found = agreement(human, human)
    assert found.p_permutation == 1 / 24
    assert "1/24" in (agreement(sym, human).detail or "")


def symmetric(rng: np.random.Generator, n: int) -> np.ndarray:
    matrix = rng.normal(size=(n, n))
    return (matrix + matrix.T) / 2


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("seed", range(5))
def test_exact_p_values_are_those_of_brute_force(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    reference = symmetric(rng, n)
    values = reference + symmetric(rng, n) * (0.2 + seed / 3)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]

    def r(order: tuple[int, ...]) -> float:
        relabelled = [reference[order[i], order[j]] for i, j in pairs]
        return float(stats.pearsonr([values[i, j] for i, j in pairs], relabelled).statistic)

    observed = r(tuple(range(n)))
    reached = sum(r(order) >= observed - 1e-12 for order in permutations(range(n)))
    assert permutation_p(values, reference)[0] == reached / math.factorial(n)


def test_drawn_relabellings_come_near_the_exact_value(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    reference = symmetric(rng, 6)
    values = reference + 2 * symmetric(rng, 6)
    exact, _ = permutation_p(values, reference)
    monkeypatch.setattr(validation, "EXACT_CRITERIA", 5)
    drawn, detail = permutation_p(values, reference)
    assert 0.02 < exact < 0.98
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / validation.DRAWN_RELABELLINGS))
    assert "drawn" in detail


def test_p_values_are_uniform_when_the_names_mean_nothing() -> None:
    rng = np.random.default_rng(11)
    found = [permutation_p(symmetric(rng, 5), symmetric(rng, 5))[0] for _ in range(400)]
    for level in (0.1, 0.25, 0.5):
        share = np.mean([p <= level + 1e-9 for p in found])
        assert share == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / 400))


def test_a_criterion_without_a_pair_takes_no_part() -> None:
    rng = np.random.default_rng(1)
    sym, human = symmetric(rng, 5), symmetric(rng, 5)
    alone = human.copy()
    alone[4, :] = alone[:, 4] = np.nan
    assert permutation_p(sym, alone) == permutation_p(sym[:4, :4], human[:4, :4])
    assert agreement(sym, alone).pairs_used == 6


def test_an_unreliable_pair_is_left_out_and_an_unknown_relabelling_counts_against_the_result() -> None:
    rng = np.random.default_rng(2)
    sym, human = symmetric(rng, 4), symmetric(rng, 4)
    sym[0, 1] = sym[1, 0] = np.nan
    known = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    x, y = np.array([sym[p] for p in known]), np.array([human[p] for p in known])
    found = agreement(sym, human)
    assert found.pairs_used == 5
    assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic)
    assert found.mae == pytest.approx(np.abs(x - y).mean())

    sparse = np.full((4, 4), np.nan)
    for i, j in ((0, 1), (0, 2), (1, 2), (2, 3)):
        sparse[i, j] = sparse[j, i] = symmetric(rng, 4)[i, j]
    reached = 0
    for order in permutations(range(4)):
        pairs = [(i, j) for i, j in ((0, 2), (0, 3), (1, 2), (1, 3), (2, 3))]
        both = [(sym[p], sparse[order[p[0]], order[p[1]]]) for p in pairs]
        both = [pair for pair in both if np.isfinite(pair).all()]
        observed_pairs = [(sym[p], sparse[p]) for p in pairs if np.isfinite(sparse[p])]
        observed = stats.pearsonr(*zip(*observed_pairs, strict=True)).statistic
        reached += len(both) < 3 or stats.pearsonr(*zip(*both, strict=True)).statistic >= observed - 1e-12
    assert permutation_p(sym, sparse)[0] == reached / 24


@pytest.mark.parametrize("pairs", [0, 1, 2])
def test_fewer_than_three_pairs_is_a_named_state(pairs: int) -> None:
    sym = np.full((4, 4), np.nan)
    for k in range(pairs):
        sym[0, k + 1] = sym[k + 1, 0] = 0.1 * k
    found = agreement(sym, symmetric(np.random.default_rng(0), 4))
    assert (found.pearson, found.spearman, found.kendall, found.mae, found.p_permutation) == (None,) * 5
    assert found.pairs_used == pairs
    assert (found.detail or "").startswith("too_few_pairs")


def test_constant_values_have_a_distance_but_no_correlation() -> None:
    human = symmetric(np.random.default_rng(0), 4)
    thirds = np.full((4, 4), 0.1 + 0.2)
    thirds[0, 1] = thirds[1, 0] = 0.3  # equal but for the last bit
    for found, name in (
        (agreement(thirds, human), "constant_values"),
        (agreement(human, thirds), "constant_reference"),
    ):
        assert (found.pearson, found.spearman, found.kendall, found.p_permutation) == (None,) * 4
        assert found.mae == pytest.approx(np.abs(pairs_of(human) - 0.3).mean())
        assert (found.detail or "").startswith(name)


_level = st.integers(-8, 8).map(lambda k: k / 8)


@given(st.lists(st.tuples(_level, _level), min_size=3, max_size=12))
def test_the_numbers_are_those_of_scipy(points: list[tuple[float, float]]) -> None:
    x, y = np.array(points).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(row_pearson(x[None], y)).all()
        return
    assert row_pearson(x[None], y)[0] == pytest.approx(stats.pearsonr(x, y).statistic)
    assert row_spearman(x[None], y)[0] == pytest.approx(stats.spearmanr(x, y).statistic)
    assert row_mae(x[None], y)[0] == pytest.approx(np.abs(x - y).mean())


@given(st.integers(3, 6), st.integers(0, 2**32 - 1), st.floats(0, 0.6))
def test_nothing_is_ever_nan_and_the_order_of_the_criteria_never_matters(n: int, seed: int, lost: float) -> None:
    rng = np.random.default_rng(seed)
    matrices = [np.round(symmetric(rng, n), 1) for _ in range(2)]
    for matrix in matrices:
        gone = np.triu(rng.random((n, n)) < lost, k=1)
        matrix[gone | gone.T] = np.nan
    found = agreement(*matrices)
    numbers = (found.pearson, found.spearman, found.kendall, found.mae, found.p_permutation)
    assert all(number is None or math.isfinite(number) for number in numbers)
    assert found.detail is not None
    assert found.p_permutation is None or 1 / math.factorial(n) - 1e-12 <= found.p_permutation <= 1
    order = rng.permutation(n)
    again = agreement(*(matrix[np.ix_(order, order)] for matrix in matrices))
    assert again.p_permutation == found.p_permutation
    for name in ("pearson", "spearman", "kendall", "mae"):
        assert getattr(again, name) == pytest.approx(getattr(found, name), abs=1e-12)


def test_a_matrix_is_made_of_pairs_in_either_order_and_a_pair_given_twice_is_refused() -> None:
    frame = pd.DataFrame({"criterion_a": ["b", "a"], "criterion_b": ["a", "x"], "sym": pd.array([0.5, None])})
    matrix = matrix_of(frame, "sym", ["a", "b"])
    assert matrix[0, 1] == matrix[1, 0] == 0.5
    assert np.isnan(np.diagonal(matrix)).all()
    twice = pd.concat([frame, pd.DataFrame({"criterion_a": ["a"], "criterion_b": ["b"], "sym": [0.4]})])
    with pytest.raises(ValueError, match=r"'a', 'b'.* twice"):
        matrix_of(twice, "sym", ["a", "b"])


def test_many_criteria_take_little_memory() -> None:
    """9,999 relabellings of 44,850 pairs at once would be 3.6 GB for a single array."""
    rng = np.random.default_rng(0)
    values = symmetric(rng, 300)
    tracemalloc.start()
    try:
        with_drawn = permutation_p(values[:120, :120], values[:120, :120])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert with_drawn[0] == 1 / 10_000
    assert peak < 300e6
