"""Global summaries of bare matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radar_dagster.stats.summaries import (
    effective_criteria,
    global_positive,
    global_tension,
    max_coupling,
    reliable_rows,
)

MATRIX = np.array([[1.0, 0.6, -0.3], [0.2, 1.0, 0.0], [-0.1, 1.4, 1.0]])


def matrices(n_max: int = 6) -> st.SearchStrategy[np.ndarray]:
    def build(n: int, seed: int) -> np.ndarray:
        matrix = np.random.default_rng(seed).uniform(-1, 1.5, (n, n))
        np.fill_diagonal(matrix, 1.0)
        return matrix

    return st.builds(build, st.integers(2, n_max), st.integers(0, 2**32))


def test_positive_and_tension_average_over_all_directed_pairs() -> None:
    assert global_positive(MATRIX) == pytest.approx((0.6 + 0.2 + 1.4) / 6)
    assert global_tension(MATRIX) == pytest.approx((0.3 + 0.1) / 6)


def test_the_maximum_comes_with_its_source_and_target() -> None:
    found = max_coupling(MATRIX)
    assert (float(found.value), int(found.source), int(found.target)) == (1.4, 2, 1)


def test_the_maximum_may_be_negative() -> None:
    assert max_coupling(np.array([[1.0, -0.4], [-0.2, 1.0]])).value == -0.2


def test_unreliable_rows_are_left_out_but_may_still_be_targets() -> None:
    matrix = MATRIX.copy()
    matrix[0] = np.nan
    assert reliable_rows(matrix).tolist() == [False, True, True]
    assert global_positive(matrix) == pytest.approx((0.2 + 0.0 + 0.0 + 1.4) / 4)
    assert max_coupling(matrix).source == 2


def test_fewer_than_two_reliable_rows_give_nothing() -> None:
    matrix = MATRIX.copy()
    matrix[:2] = np.nan
    assert np.isnan([global_positive(matrix), global_tension(matrix), max_coupling(matrix).value]).all()
    assert max_coupling(matrix).source == -1
    assert np.isnan(effective_criteria(matrix))
    assert np.isnan(effective_criteria(np.ones((1, 1))))


def test_one_missing_value_leaves_the_means_and_undoes_the_eigenvalues() -> None:
    matrix = MATRIX.copy()
    matrix[0, 1] = np.nan
    assert global_positive(matrix) == pytest.approx((0.2 + 1.4) / 5)
    assert np.isnan(effective_criteria(matrix))


def test_two_blocks_of_identical_criteria_count_as_two() -> None:
    block = np.kron(np.eye(2), np.ones((3, 3)))
    assert effective_criteria(block) == pytest.approx(2.0)


def test_two_criteria_have_a_closed_form() -> None:
    """Eigenvalues 1 ± c with c = sym, so (Σλ)²/Σλ² = 4/(2 + 2c²)."""
    matrix = np.array([[1.0, 0.9], [0.3, 1.0]])
    assert effective_criteria(matrix) == pytest.approx(4 / (2 + 2 * 0.6**2))


@given(matrices())
def test_effective_criteria_lie_between_one_and_n_and_do_not_depend_on_order(matrix: np.ndarray) -> None:
    n = len(matrix)
    value = float(effective_criteria(matrix))
    assert 1 - 1e-9 <= value <= n + 1e-9
    order = np.random.default_rng(0).permutation(n)
    turned = matrix[np.ix_(order, order)]
    assert effective_criteria(turned) == pytest.approx(value)
    assert global_positive(turned) == pytest.approx(float(global_positive(matrix)))
    assert global_tension(turned) == pytest.approx(float(global_tension(matrix)))
    assert max_coupling(turned).value == max_coupling(matrix).value


@given(matrices(4))
def test_a_stack_of_matrices_gives_what_each_gives(matrix: np.ndarray) -> None:
    other = np.where(np.arange(len(matrix))[:, None] == 0, np.nan, matrix)
    stack = np.stack([matrix, other, matrix.T])
    for statistic in (global_positive, global_tension, effective_criteria, lambda m: max_coupling(m).value):
        np.testing.assert_allclose(statistic(stack), [float(statistic(m)) for m in stack])
