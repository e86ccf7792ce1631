"""The scores of one cell (benchmark, generator, verifier) as one dense array.

Here: the array and how a frame of scores becomes one. Not here: any statistic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

#: Index 0 of the direction axis is the intervention that raises the target, index 1 the one that lowers it.
DIRECTIONS = ("+", "-")

_COLUMNS = ("task", "target", "direction", "probe", "criterion", "p")


@dataclass(frozen=True)
class ScoreCube:
    """Every score of a cell; T tasks, n criteria, at most N probes per stratum (task, target, direction).

    `p` has shape (T, n, 2, N, n): task, target, direction (+ first), probe, scored criterion. Values lie in [0, 1]; NaN
    is a score that could not be obtained, or padding. `probes` (T, n, 2) says how many probes each stratum has: the
    entries of `p` beyond it are padding.
    """

    tasks: tuple[str, ...]
    criteria: tuple[str, ...]
    p: FloatArray
    probes: IntArray

    def __post_init__(self) -> None:
        """Refuse arrays whose shapes contradict the names."""
        T, n = len(self.tasks), len(self.criteria)
        if self.p.ndim != 5 or self.p.shape[:3] != (T, n, 2) or self.p.shape[4] != n:
            raise ValueError(f"p has shape {self.p.shape}; expected ({T}, {n}, 2, N, {n})")
        if self.probes.shape != (T, n, 2):
            raise ValueError(f"probes has shape {self.probes.shape}; expected ({T}, {n}, 2)")


def cube_from_scores(
    scores: pd.DataFrame, criteria: Sequence[str] | None = None, tasks: Sequence[str] | None = None
) -> ScoreCube:
    """Arrange a frame of scores (columns task, target, direction, probe, criterion, p) as a cube.

    A null `p` is a missing score, and so is a (probe, criterion) without a row. Probe ids need only be unique within
    their (task, target, direction). Without `criteria` (or `tasks`) the ids of the frame are used in sorted order, so
    that the order of rows never matters; strata may differ in their number of probes.

    ValueError: a missing column, an unknown id, a direction other than + and -, a `p` outside [0, 1], or two rows for
    one (task, target, direction, probe, criterion). The message names the row's ids.
    """
    missing = [column for column in _COLUMNS if column not in scores.columns]
    if missing:
        raise ValueError(f"scores lack the column {', '.join(missing)}; expected {', '.join(_COLUMNS)}")
    if criteria is None:
        criteria = _ids(scores, "target", "criterion")
    if tasks is None:
        tasks = _ids(scores, "task")
    if not criteria or not tasks:
        raise ValueError("there are no scores: at least one task and one criterion are needed")

    p = _proportions(scores)
    n = len(criteria)
    task = _codes(scores["task"], tasks, "task")
    target = _codes(scores["target"], criteria, "target")
    direction = _codes(scores["direction"], DIRECTIONS, "direction")
    scored = _codes(scores["criterion"], criteria, "criterion")
    stratum = (task * n + target) * 2 + direction
    position, counts = _positions(stratum, scores["probe"], len(tasks) * n * 2)

    width = max(int(counts.max(initial=0)), 1)
    flat = (stratum * width + position) * n + scored
    _refuse_duplicates(flat, scores)
    values = np.full(len(tasks) * n * 2 * width * n, np.nan)
    values[flat] = p
    return ScoreCube(
        tasks=tuple(tasks),
        criteria=tuple(criteria),
        p=values.reshape(len(tasks), n, 2, width, n),
        probes=counts.reshape(len(tasks), n, 2),
    )


def scores_from_cube(cube: ScoreCube) -> pd.DataFrame:
    """The inverse of `cube_from_scores`: one row per probe and criterion, missing scores included; probes are p0, p1, …

    >>> from radar_dagster.stats.planted import draw_cube, latent_means
    >>> means = latent_means(np.eye(2), np.array([0.8, 0.8]))
    >>> cube = draw_cube(means, noise=0.1, tasks=1, probes=2, rng=np.random.default_rng(0))
    >>> scores = scores_from_cube(cube)
    >>> len(scores), list(scores.columns)
    (16, ['task', 'target', 'direction', 'probe', 'criterion', 'p'])
    """
    width = cube.p.shape[3]
    keys = pd.MultiIndex.from_product(
        [cube.tasks, cube.criteria, DIRECTIONS, [f"p{k}" for k in range(width)], cube.criteria],
        names=list(_COLUMNS[:-1]),
    )
    rows = keys.to_frame(index=False).assign(p=cube.p.ravel())
    exists = np.arange(width) < cube.probes[..., None]
    return rows[np.repeat(exists.ravel(), len(cube.criteria))].reset_index(drop=True)


def _ids(scores: pd.DataFrame, *columns: str) -> list[str]:
    found: set[str] = set()
    for column in columns:
        found.update(scores[column].dropna().unique())
    return sorted(found)


def _proportions(scores: pd.DataFrame) -> FloatArray:
    try:
        p = scores["p"].to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column p must hold numbers: {error}") from None
    outside = np.flatnonzero((p < 0) | (p > 1))
    if outside.size:
        raise ValueError(
            f"p = {p[outside[0]]:g} for {_describe(scores, outside[0])} lies outside [0, 1]{_others(outside.size)}"
        )
    return p


def _codes(column: pd.Series, known: Sequence[str], what: str) -> IntArray:
    """The position of every value in `known`."""
    index = pd.Index(known)
    if not index.is_unique:
        raise ValueError(f"the {what} ids contain {index[index.duplicated()][0]!r} twice")
    codes = index.get_indexer(pd.Index(column)).astype(np.int64)
    if (codes < 0).any():
        strangers = sorted({str(value) for value in column[codes < 0].unique()})
        shown = ", ".join(repr(value) for value in strangers[:5])
        raise ValueError(f"unknown {what} {shown}{_others(len(strangers), 5)}; expected one of {', '.join(known)}")
    return codes


def _positions(stratum: IntArray, probe: pd.Series, strata: int) -> tuple[IntArray, IntArray]:
    """Rank of every row's probe within its stratum, by probe id, and the number of probes of every stratum.

    Ranking by id rather than by first appearance makes the cube independent of the order of the rows.
    """
    codes, ids = pd.factorize(probe)
    if (codes < 0).any():
        raise ValueError("column probe has empty cells; every score needs the id of its probe")
    rank = np.empty(len(ids), dtype=np.int64)
    rank[np.argsort(np.asarray(ids).astype(str), kind="stable")] = np.arange(len(ids))
    row, pairs = pd.factorize(stratum * max(len(ids), 1) + rank[codes], sort=True)
    owner = pairs // max(len(ids), 1)
    counts = np.bincount(owner, minlength=strata)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return (np.arange(len(pairs)) - first[owner])[row], counts


def _refuse_duplicates(flat: IntArray, scores: pd.DataFrame) -> None:
    if not flat.size:
        return
    counts = np.bincount(flat)
    twice = np.flatnonzero(counts > 1)
    if twice.size:
        row = int(np.flatnonzero(flat == twice[0])[0])
        times = int(counts[twice[0]])
        raise ValueError(f"{_describe(scores, row)} has {times} rows; expected one{_others(twice.size)}")


def _describe(scores: pd.DataFrame, row: int) -> str:
    """The ids of a row, for messages."""
    return ", ".join(f"{column} {scores[column].iloc[row]!r}" for column in _COLUMNS[:-1])


def _others(total: int, shown: int = 1) -> str:
    return f" (and {total - shown} more)" if total > shown else ""
