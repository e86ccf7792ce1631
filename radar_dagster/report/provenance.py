"""What was run: models, probes, calls, tokens, cost, settings, rubric, and the calls that were lost.

Here: values for the page's last sections. Nothing is guessed: what nobody counted is called unknown.

Not here: the scores' results (`page.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from radar_dagster.models.naming import ModelSpec, is_rule_based
from radar_dagster.models.replies import State
from radar_dagster.report.data import Record, ReportData, records
from radar_dagster.report.words import cost_words, count, figure, listed, model_kind, tokens_words
from radar_dagster.stats.settings import CouplingSettings, Estimator, Interval, Policy, ReadingThresholds
from radar_dagster.stats.states import state_rates


@dataclass(frozen=True, slots=True)
class Role:
    """One of the two models and what it was asked."""

    role: str
    alias: str
    model: str
    kind: str | None
    options: str
    parameters: str
    calls: str
    tokens: str
    cost: str


def roles(data: ReportData) -> tuple[Role, Role]:
    """Generator and verifier."""
    return (
        _role("Generator", data.generator_alias, data.generator, data.tables["probes"], "generation"),
        _role("Verifier", data.verifier_alias, data.verifier, data.tables["scores"], "judgement"),
    )


def _role(role: str, alias: str, spec: ModelSpec, frame: pd.DataFrame, noun: str) -> Role:
    called = frame.loc[frame["call_key"].notna(), ["parameters", "input_tokens", "output_tokens", "usd"]]
    rows = list(records(called))
    sent = sorted({row["parameters"] for row in rows if row["parameters"] not in (None, "{}")})
    return Role(
        role=role,
        alias=alias,
        model=spec.model,
        kind="rule-based, not a language model" if is_rule_based(spec) else model_kind(spec),
        options=json.dumps(spec.options, sort_keys=True, ensure_ascii=False) if spec.options else "none",
        parameters=listed(sent) if sent else "none were sent",
        calls=count(len(rows), noun),
        tokens=tokens_words(rows, is_rule_based(spec)) if rows else "none: no call was made",
        cost=cost_words(spec, [row["usd"] for row in rows]),
    )


def probe_facts(data: ReportData) -> list[tuple[str, str]]:
    """(term, value) about the size of the audit."""
    probes, scores = data.tables["probes"], data.tables["scores"]
    tasks, criteria, each = len(data.rubric.tasks), len(data.rubric.criteria), data.settings.probes
    return [
        ("Probes", f"{each} per task, criterion and direction: {tasks} × {criteria} × 2 × {each}"),
        ("Texts obtained", _share(probes)),
        ("Scores obtained", _share(scores)),
    ]


def _share(frame: pd.DataFrame) -> str:
    return f"{int((frame['state'] == State.OK).sum()):,} of {len(frame):,}"


def setting_facts(coupling: CouplingSettings, probes: int) -> list[tuple[str, str]]:
    """(term, value) of the statistics."""
    estimator = {
        Estimator.MEAN_OF_TASKS: "mean over tasks of each task's ratio",
        Estimator.POOLED: "ratio of the means over tasks (pooled)",
    }[coupling.estimator]
    interval = {
        Interval.T: "t interval on the linearised ratio (delta method)",
        Interval.BOOTSTRAP: f"percentile bootstrap, {coupling.resamples:,} resamples",
    }[coupling.interval]
    if probes == 1:
        interval = "t interval over tasks, because one probe per stratum has no spread of its own"
    return [
        ("Gate τ", figure(coupling.gate)),
        ("Leakage", estimator),
        ("Intervals", f"{coupling.confidence:.0%}, {interval}"),
        ("Global summaries", f"bootstrap, {coupling.resamples:,} resamples"),
        ("Seed", str(coupling.seed)),
        *_thresholds(coupling.thresholds),
    ]


def _thresholds(at: ReadingThresholds) -> Iterable[tuple[str, str]]:
    yield (
        "“pulls against”",
        f"mean of both ≤ {figure(at.tradeoff_sym)}, or one direction ≤ {figure(at.tradeoff_leakage)}",
    )
    yield "“counted twice”", f"mean of both ≥ {figure(at.cluster_sym)} and difference < {figure(at.asymmetry)}"
    yield "“rides on”", f"one direction ≥ {figure(at.directional_leakage)} and difference ≥ {figure(at.asymmetry)}"
    yield (
        "“depends on the task”",
        f"spread ≥ {figure(at.task_sensitive_sigma)} where the leakage is at least {figure(at.task_sensitive_leakage)} "
        "either way",
    )


def policy_facts(policy: Policy, names: Mapping[str, str], words: Mapping[str, str]) -> list[tuple[str, str]]:
    """(term, value) of the policy behind the verdict."""
    accepted = [f"{names.get(a, a)} with {names.get(b, b)}" for a, b in policy.accepted_pairs]
    return [
        (
            "Violated by",
            listed([f"“{words[reading]}”" for reading in policy.fail_on], 5) if policy.fail_on else "nothing",
        ),
        ("Accepted pairs", listed(accepted, 20) if accepted else "none"),
        ("Scores needed", f"{policy.min_ok_share:.0%} overall, {policy.min_ok_share_per_direction:.0%} per direction"),
        ("Unmeasured criteria", "leave it inconclusive" if policy.unreliable_is_inconclusive else "are only reported"),
        ("Uncertain readings", "leave it inconclusive" if policy.uncertain_is_inconclusive else "are only reported"),
    ]


@dataclass(frozen=True, slots=True)
class Loss:
    """How many answers were lost for one criterion and direction, and in which states."""

    criterion: str
    direction: str
    lost: int
    total: int
    share: str
    states: str


def losses(frame: pd.DataFrame, by: str, names: Mapping[str, str]) -> list[Loss]:
    """Losses per criterion (the column `by` of probes or scores) and direction, only where there are any."""
    calls = pd.DataFrame({"criterion": frame[by], "direction": frame["direction"], "state": frame["state"]})
    lost: dict[tuple[str, str], list[Record]] = {}
    for row in records(state_rates(calls)):
        lost.setdefault((row["criterion"], row["direction"]), []).append(row)
    found = [_loss(names[criterion], direction, rows) for (criterion, direction), rows in lost.items()]
    return [loss for loss in found if loss.lost]


def _loss(name: str, direction: str, rows: Sequence[Record]) -> Loss:
    total = sum(row["n"] for row in rows)
    gone = [row for row in rows if row["state"] != State.OK and row["n"]]
    lost = sum(row["n"] for row in gone)
    return Loss(
        criterion=name,
        direction=direction.replace("-", "−"),
        lost=lost,
        total=total,
        share=f"{lost / total:.1%}",
        states=", ".join(f"{row['state']} {row['n']}" for row in gone),
    )
