"""Settings of the coupling statistics and the policy that turns them into a verdict.

Plain pydantic data: radar.yaml, the command line and the statistics share these, and a report prints them.

Not here: the file in which people write them (`config.py`), and applying them (`readings.py`, `verdict.py`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Proportion = Annotated[float, Field(ge=0, le=1)]


class Reading(StrEnum):
    """What a pair of criteria does under this judge."""

    UNRELIABLE = "unreliable"
    TRADEOFF = "tradeoff"
    CLUSTER = "cluster"
    DIRECTIONAL = "directional"
    SEPARABLE = "separable"


class Interval(StrEnum):
    """How intervals are computed: the delta method's t interval, or the paper's percentile bootstrap."""

    T = "t"
    BOOTSTRAP = "bootstrap"


class Estimator(StrEnum):
    """How leakage is averaged over tasks: the mean of the slices' ratios, or the ratio of the slices' means."""

    MEAN_OF_TASKS = "mean_of_tasks"
    POOLED = "pooled"


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ReadingThresholds(_Settings):
    """Thresholds of the readings; the defaults reproduce the RADAR paper's table of diagnostic pairs."""

    tradeoff_sym: float = -0.15
    tradeoff_leakage: float = -0.20
    cluster_sym: float = 0.40
    directional_leakage: float = 0.40
    asymmetry: float = 0.25
    task_sensitive_sigma: float = 0.30
    task_sensitive_leakage: float = 0.20


class CouplingSettings(_Settings):
    """Everything that determines Stage 3 apart from the scores and the weights."""

    gate: Annotated[float, Field(gt=0, lt=1)] = 0.40
    estimator: Estimator = Estimator.MEAN_OF_TASKS
    interval: Interval = Interval.T
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    resamples: Annotated[int, Field(ge=100, le=100_000)] = 500
    seed: Annotated[int, Field(ge=0)] = 20260
    thresholds: ReadingThresholds = ReadingThresholds()


class Policy(_Settings):
    """When an audit passes. A pair that is known and accepted is listed under `accepted_pairs`."""

    #: Readings that violate the policy.
    fail_on: tuple[Reading, ...] = (Reading.CLUSTER, Reading.TRADEOFF)
    accepted_pairs: tuple[tuple[str, str], ...] = ()
    #: The audit is inconclusive below these shares of `ok` scores.
    min_ok_share: Proportion = 0.98
    min_ok_share_per_direction: Proportion = 0.90
    #: Whether a criterion that fails the gate, or a reading that more probes could turn into a violation, leaves the
    #: audit inconclusive (exit 3) or is only reported.
    unreliable_is_inconclusive: bool = True
    uncertain_is_inconclusive: bool = True

    @model_validator(mode="after")
    def _no_policy_on_unreliable(self) -> Self:
        if Reading.UNRELIABLE in self.fail_on:
            raise ValueError(
                "fail_on can't hold 'unreliable': what could not be measured is inconclusive, not violated"
            )
        return self
