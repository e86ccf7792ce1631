"""How many probes an audit needs: the same cell with fewer of its probes, drawn at random, against a reference.

Here: subsets of probes that exist, and how much agreement varies over them; no model is called. Not here: agreement
itself (`validation.py`), and how many probes would settle one reading (`settling.py`).
"""

from __future__ import annotations

import zlib

import numpy as np
import pandas as pd

from radar_dagster.stats.cell import FloatArray, IntArray, ScoreCube
from radar_dagster.stats.correlation import row_pearson, row_spearman
from radar_dagster.stats.coupling import (
    average_over_tasks,
    slices_from_means,
    stratum_means,
    symmetric_coupling,
    weighted_stratum_means,
)
from radar_dagster.stats.settings import CouplingSettings
from radar_dagster.stats.validation import row_mae

#: The paper's values of N'; those below the cell's N are tried.
BUDGETS = (1, 2, 3, 4, 5, 10)
SUBSETS = 30

_COLUMNS = [
    "reference", "probes", "subsets", "pearson", "pearson_sd", "spearman", "spearman_sd", "mae", "mae_sd", "detail",
]  # fmt: skip

#: Criteria are handled in blocks of targets whose arrays stay below about this many bytes.
_BLOCK_BYTES = 128_000_000


def probe_budget(
    cube: ScoreCube,
    settings: CouplingSettings,
    human: FloatArray | None = None,
    *,
    budgets: tuple[int, ...] = BUDGETS,
    subsets: int = SUBSETS,
) -> pd.DataFrame:
    """Agreement of SymCoupling at N' probes per stratum, mean ± sd over random subsets; columns as in PROBE_BUDGET.

    The reference is `human`, a symmetric matrix (n, n) of people's correlations with NaN where there is none; where
    there is no number in it at all, it is the cell's own matrix from all N probes (`full`). Subsets are drawn without
    replacement within each stratum (task, target, direction), independently for every N'. A subset in which agreement
    is undefined is left out of mean and sd, which `detail` says; `subsets` counts those that are in. The standard
    deviation has ddof = 1. Against people the last row is the whole cell, which has no sd; an empty frame is what a
    cell with one probe per stratum and no human correlations gives.

    Subsets of the same N probes overlap, so their sd is smaller than that of fresh audits with N' probes, by a factor
    √(1 − N'/N): near N it says little.

    A stratum with fewer than N' probes gives all that it has. A probe counts with its missing scores, as in an audit
    that had drawn no more.
    """
    n = len(cube.criteria)
    a, b = np.triu_indices(n, k=1)
    N = int(cube.probes.max(initial=0))
    full = _sym_of_means(stratum_means(cube)[None], settings)[0]
    against_people = human is not None and np.isfinite(human[a, b]).any()
    reference = human[a, b] if human is not None and against_people else full
    rows = []
    for size in (budget for budget in budgets if budget < N):
        rows.append(_row(size, subsets, _sym_of_subsets(cube, settings, size, subsets), reference))
    if against_people:
        rows.append(_row(N, 1, full[None], reference))
    name = "human" if against_people else "full"
    return pd.DataFrame([{"reference": name, **row} for row in rows], columns=_COLUMNS)


def _row(size: int, drawn: int, sym: FloatArray, reference: FloatArray) -> dict[str, object]:
    row: dict[str, object] = {"probes": size}
    found = {
        "pearson": row_pearson(sym, reference),
        "spearman": row_spearman(sym, reference),
        "mae": row_mae(sym, reference),
    }
    defined = np.isfinite(found["pearson"])
    row["subsets"] = int(defined.sum())
    for name, values in found.items():
        kept = values[np.isfinite(values)]
        row[name] = float(kept.mean()) if len(kept) else np.nan
        row[f"{name}_sd"] = float(kept.std(ddof=1)) if len(kept) > 1 else np.nan
    lost = drawn - int(defined.sum())
    row["detail"] = (
        f"undefined in {lost} of {drawn} subsets: fewer than three reliable pairs, or all of them equal"
        if lost
        else None
    )
    return row


def _sym_of_subsets(cube: ScoreCube, settings: CouplingSettings, size: int, subsets: int) -> FloatArray:
    """SymCoupling (subsets, pairs) of random subsets with `size` probes per stratum."""
    T, n, _, N, _ = cube.p.shape
    means = np.empty((subsets, T, n, 2, n))
    per_target = 8 * subsets * T * 2 * (2 * n + 3 * N)
    step = max(1, _BLOCK_BYTES // per_target)
    for start in range(0, n, step):
        block = np.arange(start, min(start + step, n))
        weights = _choose(cube, block, settings.seed, size, subsets)
        means[:, :, block] = np.moveaxis(weighted_stratum_means(cube.p[:, block], weights), 3, 0)
    return _sym_of_means(means, settings)


def _choose(cube: ScoreCube, block: IntArray, seed: int, size: int, subsets: int) -> FloatArray:
    """1 for the probes that a subset holds, else 0; shape (T, block, 2, subsets, N).

    The `size` smallest of as many random numbers as there are probes. As in the bootstrap, what is drawn for a stratum
    depends on the ids of its task and target only.
    """
    T, N = len(cube.tasks), cube.p.shape[3]
    ticket = np.empty((T, len(block), 2, subsets, N))
    for t, task in enumerate(cube.tasks):
        for k, target in enumerate(block):
            names = (zlib.crc32(str(name).encode("utf-8", "surrogatepass")) for name in (task, cube.criteria[target]))
            ticket[t, k] = np.random.default_rng([seed, size, *names]).random((2, subsets, N))
    exists = np.arange(N) < cube.probes[:, block, :, None, None]
    ticket = np.where(exists, ticket, np.inf)
    rank = ticket.argsort(axis=-1).argsort(axis=-1)
    return ((rank < size) & exists).astype(np.float64)


def _sym_of_means(means: FloatArray, settings: CouplingSettings) -> FloatArray:
    """SymCoupling (B, pairs) from stratum means (B, T, n, 2, n), with the gate applied."""
    a, b = np.triu_indices(means.shape[-1], k=1)
    leakage = average_over_tasks(slices_from_means(means, settings.gate), settings.gate, settings.estimator).leakage
    return symmetric_coupling(leakage)[..., a, b]
