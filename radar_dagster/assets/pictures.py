"""Pictures in the metadata of assets: small PNGs inline in Markdown, where people would rather look than read.

Not here: drawing (`report/plots.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg
import pandas as pd

from radar_dagster.report.data import display_names
from radar_dagster.rubric.model import Rubric
from radar_dagster.stats.audit import CouplingTables
from radar_dagster.stats.passive import RRD, SYNTHETIC_CORRELATION
from radar_dagster.stats.settings import CouplingSettings


def coupling_pictures(rubric: Rubric, tables: CouplingTables, settings: CouplingSettings) -> dict[str, dict[str, Any]]:
    """By table: the heatmap of the leakage matrix, the self-effects against the gate, the leakage task by task."""
    # Matplotlib takes a second to import; the code server and `radar --help` draw nothing.
    from radar_dagster.report.plots import leakage_heatmap, picture_markdown, self_effect_bars, task_spread

    names = display_names(rubric)
    heatmap = picture_markdown(leakage_heatmap(tables.leakage, names), "leakage, sources as rows")
    bars = picture_markdown(self_effect_bars(tables.self_effects, names, settings.gate), "self-effects and the gate")
    spread = picture_markdown(task_spread(tables.task_slices, names), "leakage task by task")
    return {
        "leakage": {"heatmap": dg.MetadataValue.md(heatmap)},
        "task_slices": {"spread": dg.MetadataValue.md(spread)},
        "self_effects": {"bars": dg.MetadataValue.md(bars)},
    }


def baseline_pictures(rubric: Rubric, baselines: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """For the table `baselines`: a heatmap for each passive method."""
    from radar_dagster.report.plots import pair_heatmap, picture_markdown

    names = display_names(rubric)
    titles = {SYNTHETIC_CORRELATION: "correlation of scores of passive responses", RRD: "redundancy by whitening"}
    drawn = {
        method: picture_markdown(pair_heatmap(baselines[baselines["method"] == method], names, title), title)
        for method, title in titles.items()
    }
    return {"baselines": {method: dg.MetadataValue.md(picture) for method, picture in drawn.items()}}


def scatter_picture(
    rubric: Rubric, criterion_pairs: pd.DataFrame, human: pd.DataFrame, baselines: pd.DataFrame | None
) -> dict[str, Any]:
    """For the table `validation`: every pair's values against people's; nothing where there are no people."""
    from radar_dagster.report.data import compared_pairs
    from radar_dagster.report.plots import agreement_scatter, picture_markdown

    pairs = compared_pairs(criterion_pairs, human, baselines)
    if not pairs:
        return {}
    picture = picture_markdown(agreement_scatter(pairs, display_names(rubric)), "pair values against people's r")
    return {"scatter": dg.MetadataValue.md(picture)}


def budget_picture(table: pd.DataFrame) -> dict[str, Any]:
    """For the table `probe_budget`: the curve with a band of one sd; nothing where there is no curve."""
    from radar_dagster.report.plots import budget_curve, picture_markdown

    if len(table) < 2:
        return {}
    return {"curve": dg.MetadataValue.md(picture_markdown(budget_curve(table), "agreement at fewer probes"))}


def grid_pictures(rubric: Rubric, tables: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, Any]]:
    """For the tables of the grid: SymCoupling over cells, and Pearson by generator and verifier."""
    from radar_dagster.report.plots import agreement_heatmap, pair_heatmap, picture_markdown

    grid, cells = tables["coupling_grid"], tables["grid_agreement"]
    values = grid.rename(columns={"sym": "value"})
    title = "SymCoupling, mean over the cells that could measure it"
    sym = picture_markdown(pair_heatmap(values, display_names(rubric), title), title)
    by_cell = picture_markdown(agreement_heatmap(cells, "pearson"), "Pearson with people, generators as rows")
    return {
        "coupling_grid": {"heatmap": dg.MetadataValue.md(sym)},
        "grid_agreement": {"heatmap": dg.MetadataValue.md(by_cell)},
    }
