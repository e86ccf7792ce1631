"""What all checks share: the resource that runs suites, and how outcomes become a check result.

Not here: any expectation (a module per step), and the process itself (`worker.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg
import pandas as pd

from radar_dagster.assets.common import table_metadata
from radar_dagster.checks.expectations import Outcome, Suite
from radar_dagster.checks.worker import SHARED


class ExpectationRunner(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Runs suites in the process that holds Great Expectations, which starts when a run that needs it starts."""

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - Dagster's signature
        """Let the import run beside the run's first steps."""
        SHARED.start()

    def check(self, suites: Sequence[Suite], **metadata: Any) -> dg.AssetCheckResult:
        """Evaluate the suites: an ERROR if anything blocking failed, a WARN if anything else did."""
        return check_result([outcome for suite in suites for outcome in SHARED.validate(suite)], **metadata)


def check_result(outcomes: Sequence[Outcome], **metadata: Any) -> dg.AssetCheckResult:
    """Outcomes as a check result, failures first in its table."""
    failed = [outcome for outcome in outcomes if not outcome.success]
    ordered = sorted(outcomes, key=lambda outcome: outcome.success)
    severity = dg.AssetCheckSeverity.ERROR if any(o.blocking for o in failed) else dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(
        passed=not failed,
        severity=severity,
        description="; ".join(f"{o.expectation}: {o.observed}" for o in failed) or f"{len(outcomes)} expectations hold",
        metadata={"expectations": table_metadata(pd.DataFrame(ordered)), "failed": len(failed), **metadata},
    )
