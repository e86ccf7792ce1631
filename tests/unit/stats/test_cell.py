"""From a frame of scores to a cube, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.stats.cell import ScoreCube, cube_from_scores, scores_from_cube


def frame(*rows: tuple[str, str, str, str, str, float | None]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["task", "target", "direction", "probe", "criterion", "p"])


GOOD = (
    ("t", "a", "+", "1", "a", 1.0),
    ("t", "a", "+", "1", "b", 0.5),
    ("t", "a", "-", "1", "a", 0.25),
    ("t", "a", "-", "1", "b", None),
    ("t", "b", "+", "1", "b", 0.75),
)


def test_every_score_lands_at_its_task_target_direction_probe_and_criterion() -> None:
    cube = cube_from_scores(frame(*GOOD), criteria=("b", "a"), tasks=("t", "u"))
    assert cube.p.shape == (2, 2, 2, 1, 2)
    assert cube.p[0, 1, 0, 0].tolist() == [0.5, 1.0]
    assert cube.p[0, 1, 1, 0, 1] == 0.25
    assert np.isnan(cube.p[0, 1, 1, 0, 0])
    assert cube.probes[0].tolist() == [[1, 0], [1, 1]]
    assert cube.probes[1].sum() == 0


def test_without_a_rubric_the_ids_are_sorted_and_include_targets_that_were_never_scored() -> None:
    cube = cube_from_scores(frame(("t", "z", "+", "1", "b", 1.0), ("s", "b", "+", "1", "b", 1.0)))
    assert cube.criteria == ("b", "z")
    assert cube.tasks == ("s", "t")


def test_strata_may_differ_in_their_number_of_probes() -> None:
    cube = cube_from_scores(frame(*GOOD, ("t", "a", "+", "2", "a", 0.0)), criteria=("a", "b"))
    assert cube.probes[0, 0].tolist() == [2, 1]
    assert np.isnan(cube.p[0, 0, 1, 1]).all()


def test_the_same_probe_id_may_be_used_in_different_strata() -> None:
    cube = cube_from_scores(frame(*GOOD))
    assert cube.probes.max() == 1


def test_a_duplicate_row_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"task 't', target 'a', direction '\+', probe '1', criterion 'b' has 2 rows"):
        cube_from_scores(frame(*GOOD, GOOD[1]))


@pytest.mark.parametrize("p", [-0.01, 1.01, np.inf])
def test_a_proportion_outside_zero_to_one_is_an_error_that_names_its_row(p: float) -> None:
    with pytest.raises(ValueError, match=r"p = .* task 'u', target 'a', .* outside \[0, 1\]"):
        cube_from_scores(frame(*GOOD, ("u", "a", "+", "9", "a", p)))


def test_an_unknown_criterion_task_or_direction_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"unknown criterion 'b'.*expected one of a"):
        cube_from_scores(frame(*GOOD[:2]), criteria=("a",))
    with pytest.raises(ValueError, match="unknown task 't'"):
        cube_from_scores(frame(*GOOD), tasks=("u",))
    with pytest.raises(ValueError, match="unknown direction 'high'"):
        cube_from_scores(frame(("t", "a", "high", "1", "a", 1.0)))


def test_a_missing_column_an_empty_frame_and_an_empty_probe_id_are_errors() -> None:
    with pytest.raises(ValueError, match="lack the column probe, p"):
        cube_from_scores(frame(*GOOD).drop(columns=["probe", "p"]))
    with pytest.raises(ValueError, match="no scores"):
        cube_from_scores(frame())
    with pytest.raises(ValueError, match="probe has empty cells"):
        cube_from_scores(frame(*GOOD).assign(probe=None))
    with pytest.raises(ValueError, match="must hold numbers"):
        cube_from_scores(frame(*GOOD).assign(p="much"))


def test_a_task_id_that_is_null_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown task"):
        cube_from_scores(frame(*GOOD, (None, "a", "+", "7", "a", 1.0)))


def test_a_rubric_that_names_a_criterion_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="'a' twice"):
        cube_from_scores(frame(*GOOD), criteria=("a", "b", "a"))


def test_shapes_that_contradict_the_names_are_refused() -> None:
    with pytest.raises(ValueError, match="p has shape"):
        ScoreCube(("t",), ("a",), np.zeros((1, 1, 2, 3, 2)), np.ones((1, 1, 2), dtype=np.int64))
    with pytest.raises(ValueError, match="probes has shape"):
        ScoreCube(("t",), ("a",), np.zeros((1, 1, 2, 3, 1)), np.ones((1, 1), dtype=np.int64))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_cube_survives_the_way_through_a_shuffled_frame(data: st.DataObject) -> None:
    T, n, N = (data.draw(st.integers(1, 3)) for _ in range(3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    probes = rng.integers(0, N + 1, (T, n, 2))
    probes[0, 0, 0] = N
    p = rng.random((T, n, 2, N, n))
    p[rng.random(p.shape) < 0.2] = np.nan
    p[~(np.arange(N) < probes[..., None])] = np.nan
    cube = ScoreCube(tuple(f"t{t}" for t in range(T)), tuple(f"c{i}" for i in range(n)), p, probes)
    rows = scores_from_cube(cube)
    again = cube_from_scores(rows.sample(frac=1, random_state=1), cube.criteria, cube.tasks)
    np.testing.assert_array_equal(again.p, cube.p)
    np.testing.assert_array_equal(again.probes, cube.probes)
