"""Agreement of a method's pair values with a reference, above all with people: correlations, distance, and how often
chance would do as well.

Here: pair values as matrices, and one method or several against a reference. Not here: correlations as such
(`correlation.py`), where people's come from (`human.py`), and what the pair values are (`coupling.py`, `passive.py`).

A pair value belongs to two criteria, so pairs that share a criterion are not independent and the usual p-value of a
correlation is wrong. The one given here relabels the criteria: under the hypothesis that the names mean nothing, every
relabelling is as likely as the one observed (Mantel, "The detection of disease clustering and a generalized regression
approach", 1967).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import permutations
from math import factorial

import numpy as np
import pandas as pd

from radar_dagster.stats.cell import FloatArray, IntArray
from radar_dagster.stats.correlation import MIN_PAIRS, correlate, levels, row_pearson
from radar_dagster.stats.numbers import TOLERANCE, nanmean

#: How the audit's own method is called in the tables; those of the baselines are in `passive.py`.
RADAR = "radar"

#: All n! relabellings are tried up to this many criteria (8! = 40,320); beyond, so many drawn ones.
EXACT_CRITERIA = 8
DRAWN_RELABELLINGS = 9_999

#: Relabellings are evaluated so many at once that their pair values are about this many numbers.
_CHUNK_NUMBERS = 1_000_000


@dataclass(frozen=True)
class Agreement:
    """How one vector of pair values agrees with a reference; a number that is undefined is None, `detail` says why."""

    pearson: float | None  #: in [−1, 1]
    spearman: float | None  #: in [−1, 1], mid-ranks
    kendall: float | None  #: τ_b, in [−1, 1]
    mae: float | None  #: mean absolute difference, ≥ 0
    p_permutation: float | None  #: in (0, 1]: share of relabellings that agree at least as well, the given one included
    pairs_used: int
    detail: str | None


#: The fields of an Agreement that may be unknown.
NUMBERS = ("pearson", "spearman", "kendall", "mae", "p_permutation")


def agreement(values: FloatArray, reference: FloatArray, rng: np.random.Generator | None = None) -> Agreement:
    """Compare two symmetric matrices (n, n) over the pairs i < j in which both have a number (NaN where not).

    Needs `MIN_PAIRS` such pairs, else every number is None with `too_few_pairs`. When one side is the same for all
    pairs the correlations are None with `constant_values` or `constant_reference`, and the MAE is still given.
    `rng` draws relabellings where there are too many criteria to try all.

    >>> values = np.array([[1, 0.9, 0.2], [0.9, 1, 0.1], [0.2, 0.1, 1]])
    >>> found = agreement(values, np.array([[1, 0.8, 0.3], [0.8, 1, 0.2], [0.3, 0.2, 1]]))
    >>> round(found.pearson, 3), found.spearman, round(found.mae, 3), found.p_permutation
    (0.999, 1.0, 0.1, 0.16666666666666666)
    """
    a, b = np.triu_indices(len(values), k=1)
    used = np.isfinite(values[a, b]) & np.isfinite(reference[a, b])
    pairs = int(used.sum())
    if pairs < MIN_PAIRS:
        why = f"too_few_pairs: {pairs} with a number on both sides, at least {MIN_PAIRS} are needed"
        return Agreement(None, None, None, None, None, pairs, why)
    x, y = values[a, b][used], reference[a, b][used]
    mae = float(np.abs(x - y).mean())
    for name, side in (("constant_values", x), ("constant_reference", y)):
        if levels(side).max() == 0:
            return Agreement(None, None, None, mae, None, pairs, f"{name}: {side[0]:g} for all {pairs} pairs")
    found = correlate(x, y)
    p, detail = permutation_p(values, reference, rng)
    return Agreement(
        pearson=found.pearson,
        spearman=found.spearman,
        kendall=found.kendall,
        mae=mae,
        p_permutation=p,
        pairs_used=pairs,
        detail=detail,
    )


def permutation_p(
    values: FloatArray, reference: FloatArray, rng: np.random.Generator | None = None
) -> tuple[float, str]:
    """One-sided p-value of the Pearson correlation over relabellings of the criteria, and how it was come by.

    The criteria that take part are those with at least one pair used. The share counts relabellings whose correlation
    reaches the observed one, the identity included, so the smallest possible value is 1/n!. A relabelling that leaves
    too few pairs, or constant ones, counts as reaching it: an unknown must not make a result look rarer. Up to
    `EXACT_CRITERIA` criteria all relabellings are tried, beyond that `DRAWN_RELABELLINGS` are drawn and the value is
    (1 + reached)/(1 + drawn).
    """
    taking_part = _criteria_used(values, reference)
    v, r = (matrix[np.ix_(taking_part, taking_part)] for matrix in (values, reference))
    n = len(taking_part)
    a, b = np.triu_indices(n, k=1)
    observed = row_pearson(r[a, b][None], v[a, b])[0]
    exact = n <= EXACT_CRITERIA
    orders = _all_orders(n) if exact else _drawn_orders(n, rng or np.random.default_rng(0))
    reached = 0
    step = max(1, _CHUNK_NUMBERS // len(a))
    for start in range(0, len(orders), step):
        order = orders[start : start + step]
        relabelled = r[order[:, a], order[:, b]]
        found = row_pearson(relabelled, v[a, b])
        reached += int((np.isnan(found) | (found >= observed - TOLERANCE)).sum())
    if exact:
        return reached / len(orders), f"{n} criteria: no p-value can be below 1/{factorial(n):,}"
    return (1 + reached) / (1 + len(orders)), f"{n} criteria: {len(orders):,} of their {n}! relabellings were drawn"


def _criteria_used(values: FloatArray, reference: FloatArray) -> IntArray:
    used = np.isfinite(values) & np.isfinite(reference)
    np.fill_diagonal(used, False)
    return np.flatnonzero(used.any(axis=0))


def _all_orders(n: int) -> IntArray:
    return np.array(list(permutations(range(n))), dtype=np.int64).reshape(-1, n)


def _drawn_orders(n: int, rng: np.random.Generator) -> IntArray:
    return rng.permuted(np.tile(np.arange(n), (DRAWN_RELABELLINGS, 1)), axis=1)


def row_mae(rows: FloatArray, reference: FloatArray) -> FloatArray:
    """Mean absolute difference of every row (m, pairs) to `reference` over the pairs that both have; NaN below three.

    Three, as for the correlations: a mean over one pair would stand beside means over all of them.
    """
    both = np.isfinite(rows) & np.isfinite(reference)
    mean = nanmean(np.where(both, np.abs(rows - reference), np.nan), axis=1)
    return np.where(both.sum(axis=1) >= MIN_PAIRS, mean, np.nan)


def validation_table(
    values: Mapping[str, FloatArray], reference: FloatArray, rng: np.random.Generator | None = None
) -> pd.DataFrame:
    """One row per method: the agreement of its matrix (n, n) with the reference; columns as in VALIDATION."""
    columns = ["method", *(field.name for field in fields(Agreement))]
    if not np.isfinite(reference[np.triu_indices(len(reference), k=1)]).any():
        why = "no_human_correlations: there are none for these criteria"
        nothing = Agreement(None, None, None, None, None, 0, why)
        rows = [(method, *astuple(nothing)) for method in values]
    else:
        rows = [(method, *astuple(agreement(matrix, reference, rng))) for method, matrix in values.items()]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(NUMBERS, np.float64)).astype({"detail": object})


def matrix_of(frame: pd.DataFrame, value: str, criteria: Sequence[str]) -> FloatArray:
    """A symmetric matrix (n, n) from rows with criterion_a, criterion_b (in either order) and a value; else NaN.

    Rows about criteria that are not asked for are left out. ValueError when two rows give one pair.
    """
    position = {criterion: k for k, criterion in enumerate(criteria)}
    matrix = np.full((len(position), len(position)), np.nan)
    seen: set[frozenset[str]] = set()
    numbers = frame[value].to_numpy(dtype=np.float64, na_value=np.nan)
    for one, other, number in zip(frame["criterion_a"], frame["criterion_b"], numbers, strict=True):
        if one not in position or other not in position:
            continue
        if frozenset((one, other)) in seen:
            raise ValueError(f"the pair {one!r}, {other!r} is given twice")
        seen.add(frozenset((one, other)))
        matrix[position[one], position[other]] = matrix[position[other], position[one]] = number
    return matrix
