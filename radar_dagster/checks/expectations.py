"""Great Expectations suites as data, and their evaluation. Imports Great Expectations only where it is evaluated.

Not here: which expectations a table must meet (a module per step), and where they are evaluated (`worker.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Expectation:
    """A class name of `great_expectations.expectations`, its arguments, and whether failing it blocks."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    blocking: bool = True


@dataclass(frozen=True)
class Outcome:
    """What became of one expectation; `unexpected` counts rows and `examples` shows a few of their values."""

    expectation: str
    success: bool
    blocking: bool
    observed: str
    unexpected: int
    examples: str


@dataclass(frozen=True)
class Suite:
    """Expectations on one frame. The frame holds only the columns that they look at: it is sent to another process."""

    frame: pd.DataFrame
    expectations: Sequence[Expectation]


def evaluate(suite: Suite) -> list[Outcome]:
    """Validate a suite with Great Expectations in an ephemeral context, in the order of the expectations.

    Raises RuntimeError when an expectation could not be evaluated at all (a missing column, say): that is a fault of
    the suite, never a passed check.
    """
    import great_expectations as gx  # seconds of CPU: see worker.py

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]
    asset = context.data_sources.add_pandas("lake").add_dataframe_asset("partition")
    batch = asset.add_batch_definition_whole_dataframe("whole").get_batch({"dataframe": suite.frame})
    outcomes = []
    for expectation in suite.expectations:
        instance = getattr(gx.expectations, expectation.name)(**expectation.arguments)
        result = batch.validate(instance, result_format="SUMMARY").to_json_dict()
        _raise_if_not_evaluated(expectation, result.get("exception_info") or {})
        outcomes.append(_outcome(expectation, result))
    return outcomes


def _raise_if_not_evaluated(expectation: Expectation, info: Mapping[str, Any]) -> None:
    """Great Expectations files exceptions under the metric that raised them, or at the top."""
    for entry in (info, *info.values()):
        if isinstance(entry, Mapping) and entry.get("raised_exception"):
            raise RuntimeError(f"{expectation.name} could not be evaluated: {entry.get('exception_message')}")


def _outcome(expectation: Expectation, result: Mapping[str, Any]) -> Outcome:
    details = result["result"]
    observed = details.get("observed_value", f"{details.get('unexpected_percent', 0.0) or 0.0:.3g}% unexpected")
    subject = expectation.arguments.get("column") or expectation.arguments.get("column_list") or "table"
    return Outcome(
        expectation=f"{expectation.name}: {subject}",
        success=bool(result["success"]),
        blocking=expectation.blocking,
        observed=f"{observed:.6g}" if isinstance(observed, float) else str(observed)[:200],
        unexpected=int(details.get("unexpected_count") or 0),
        examples=", ".join(map(repr, (details.get("partial_unexpected_list") or [])[:3]))[:200],
    )
