"""The human correlations that the RADAR paper prints for its three benchmarks, shipped with the package.

Here: the figures as printed, to two decimals. Not here: what they were made from; docs/human-reference.md checks that
against ratings.
"""

from __future__ import annotations

from importlib import resources

import pandas as pd

#: Whose ratings stand behind each published vector, as far as ratings at hand show (docs/human-reference.md).
PUBLISHED_RATERS = {"helpsteer2": "all", "summeval": "crowd", "sumpubmed": "all"}


def published_benchmarks() -> tuple[str, ...]:
    """Benchmarks with a published vector, in alphabetical order."""
    return tuple(sorted(_table()["benchmark"].unique()))


def published_correlations(benchmark: str) -> pd.DataFrame | None:
    """Columns criterion_a, criterion_b, pearson_r, one row per pair; None for a benchmark without a published vector.

    >>> published_correlations("sumpubmed").head(1).values.tolist()
    [['non-redundancy', 'coherence', 0.33]]
    """
    table = _table()
    rows = table[table["benchmark"] == benchmark].drop(columns="benchmark")
    return rows.reset_index(drop=True) if len(rows) else None


def _table() -> pd.DataFrame:
    file = resources.files("radar_dagster.rubric") / "benchmarks" / "human_correlations.csv"
    with file.open(encoding="utf-8") as text:
        return pd.read_csv(text)
