"""Pictures in the metadata of assets: small PNGs inline in Markdown, where people would rather look than read.

Not here: drawing (`report/plots.py`).
"""

from __future__ import annotations

from typing import Any

import dagster as dg

from radar_dagster.report.data import display_names
from radar_dagster.rubric.model import Rubric
from radar_dagster.stats.audit import CouplingTables
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
