"""What the assets that call models share: a table of calls as an output that tells states, tokens and money.

Not here: calling (`models/stages.py`), and what all assets share (`common.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pandas as pd

from radar_dagster.assets.common import table_version
from radar_dagster.models.door import Door
from radar_dagster.resources.models import call_metadata

#: What determines a table of texts, and one of scores: what was asked, how it ended, and the answer.
TEXTS, SCORES = ("call_key", "state", "text"), ("call_key", "state", "score", "expected")


def output_of_calls(
    frame: pd.DataFrame, door: Door, alias: str, answers: Sequence[str], states: Mapping[str, Any], **told: Any
) -> dg.Output[pd.DataFrame]:
    """The table with its model, `told`, its `states` and what the door's calls came to; versioned by `answers`."""
    metadata = {"model": door.spec(alias).model, **told, **states, **call_metadata(door)}
    return dg.Output(frame, metadata=metadata, data_version=table_version(frame, answers))
