"""The published leakages give the published couplings, summaries and readings.

The published figures are rounded to two decimals, so a value that is computed from them may be off by the roundings
that went into it: half a hundredth of its own, and up to half a hundredth per leakage, weighted as in its formula.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from radar_dagster.stats.coupling import asymmetry, symmetric_coupling
from radar_dagster.stats.readings import read_pairs
from radar_dagster.stats.summaries import effective_criteria, global_positive, global_tension, max_coupling

HALF = 0.005 + 1e-9
Table = Callable[[str], pd.DataFrame]


def matrix_of(cell: pd.DataFrame) -> tuple[np.ndarray, list[str]]:
    names = list(dict.fromkeys([*cell["criterion_a"], *cell["criterion_b"]]))
    matrix = np.eye(len(names))
    for row in cell.itertuples():
        a, b = names.index(row.criterion_a), names.index(row.criterion_b)
        matrix[a, b], matrix[b, a] = row.leakage_ab, row.leakage_ba
    return matrix, names


def cells(reference: Table) -> list[tuple[tuple[str, str, str], pd.DataFrame]]:
    found = list(reference("published_leakage").groupby(["benchmark", "generator", "verifier"]))
    assert len(found) == 6
    return found


def test_sym_and_asym_of_every_published_pair(reference: Table) -> None:
    for _, cell in cells(reference):
        matrix, names = matrix_of(cell)
        sym, asym = symmetric_coupling(matrix), asymmetry(matrix)
        for row in cell.itertuples():
            a, b = names.index(row.criterion_a), names.index(row.criterion_b)
            assert sym[a, b] == pytest.approx(row.sym, abs=2 * HALF)
            assert asym[a, b] == pytest.approx(row.asym, abs=3 * HALF)


def test_the_published_global_summaries(reference: Table) -> None:
    published = reference("global_summaries").set_index("benchmark")
    best = {key[0]: cell for key, cell in cells(reference) if key[1:] == ("GPT-5.5-R", "Sonnet-4.6")}
    assert set(best) == set(published.index)
    for benchmark, cell in best.items():
        matrix, _ = matrix_of(cell)
        row = published.loc[benchmark]
        assert global_positive(matrix) == pytest.approx(row["global_positive"], abs=2 * HALF)
        assert global_tension(matrix) == pytest.approx(row["global_tension"], abs=2 * HALF)
        assert max_coupling(matrix).value == pytest.approx(row["max_coupling"], abs=2 * HALF)
        assert 1 < effective_criteria(matrix) < len(matrix)


def test_the_published_maximum_is_attained_where_the_paper_says(reference: Table) -> None:
    matrix, names = matrix_of(dict(cells(reference))["helpsteer2", "GPT-5.5-R", "Sonnet-4.6"])
    found = max_coupling(matrix)
    assert (names[int(found.source)], names[int(found.target)]) == ("helpfulness", "correctness")


def test_the_published_readings_of_the_diagnostic_pairs(reference: Table) -> None:
    pairs = reference("diagnostic_pairs")
    found = read_pairs(pairs["sym"], pairs["asym"], pairs["leakage_ab"], pairs["leakage_ba"])
    assert list(found.reading) == list(pairs["reading"])
    for side, row in zip(found.upstream, pairs.itertuples(), strict=True):
        expected = None if pd.isna(row.upstream) else row.upstream
        assert {None: None, "a": row.criterion_a, "b": row.criterion_b}[side] == expected
