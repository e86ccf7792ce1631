"""The policy's answer to an audit: passed, violated or inconclusive, with reasons a product manager can read.

Here: which numbers violate a policy and which leave it open. Not here: how readings come about (`readings.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from radar_dagster.stats.audit import CouplingTables
from radar_dagster.stats.intervals import Bounds
from radar_dagster.stats.readings import QUANTITIES, find_crossings, read_pairs
from radar_dagster.stats.settings import CouplingSettings, Policy, Reading, ReadingThresholds
from radar_dagster.stats.states import OK, ok_share, overall_rates, state_rates
from radar_dagster.stats.summaries import MIN_RELIABLE

Outcome = Literal["passed", "violated", "inconclusive"]

EXIT_CODES: dict[Outcome, int] = {"passed": 0, "violated": 1, "inconclusive": 3}


@dataclass(frozen=True)
class Verdict:
    """The answer, the exit code of the command line, and the reasons, the deciding ones first."""

    verdict: Outcome
    exit_code: int
    reasons: tuple[str, ...]


def verdict_frame(
    verdict: Verdict, settings: CouplingSettings, policy: Policy, rubric_version: str | None = None
) -> pd.DataFrame:
    """The verdict as its one-row table, with the settings that it stands on; columns as in `tables.VERDICT`.

    `rubric_version` is that of the scores, where they were judged by a rubric that is at hand.
    """
    used: dict[str, object] = {"coupling": settings.model_dump(mode="json"), "policy": policy.model_dump(mode="json")}
    if rubric_version is not None:
        used["rubric_version"] = rubric_version
    return pd.DataFrame(
        [[verdict.verdict, verdict.exit_code, json.dumps(verdict.reasons, ensure_ascii=False), json.dumps(used)]],
        columns=["verdict", "exit_code", "reasons", "settings"],
    )


def decide(
    tables: CouplingTables, scores: pd.DataFrame, policy: Policy, thresholds: ReadingThresholds | None = None
) -> Verdict:
    """Apply a policy to the tables of a cell.

    `scores` needs the columns criterion, direction and state. `thresholds` must be those with which the tables were
    made (the defaults if absent): they tell what an uncertain pair could turn into. ValueError when the readings in
    the tables contradict them.

    1. Too few judgements with a score, overall or for a criterion and direction: inconclusive, whatever else.
    2. Fewer than two criteria passed the gate: inconclusive.
    3. A pair whose reading the policy fails on, that is not accepted and not uncertain: violated.
    4. A criterion or pair that could not be measured, or an uncertain pair that is or could be a violation:
       inconclusive if the policy says so, else only reported.
    5. Else passed.
    """
    found = _find(tables, policy, thresholds or ReadingThresholds())
    losses = ok_shortfalls(scores, policy)
    if losses:
        return _verdict("inconclusive", losses, found.violations, found.unmeasured, found.open_pairs, found.notes)
    too_few = _too_few(tables.self_effects)
    if too_few:
        return _verdict("inconclusive", too_few, found.unmeasured, found.notes)
    if found.violations:
        return _verdict("violated", found.violations, found.unmeasured, found.open_pairs, found.notes)
    undecided = found.unmeasured if policy.unreliable_is_inconclusive else []
    if policy.uncertain_is_inconclusive:
        undecided = [*undecided, *found.open_pairs]
    reported = [reason for reason in (*found.unmeasured, *found.open_pairs) if reason not in undecided]
    if undecided:
        return _verdict("inconclusive", undecided, reported, found.notes)
    return _verdict("passed", [_all_clear(policy, found)], _not_counted(tables, policy), reported, found.notes)


def _verdict(outcome: Outcome, *reasons: Iterable[str]) -> Verdict:
    return Verdict(outcome, EXIT_CODES[outcome], tuple(sentence for group in reasons for sentence in group))


def ok_shortfalls(scores: pd.DataFrame, policy: Policy) -> list[str]:
    """Where the share of judgements with a score lies below the policy, in words; empty when it does nowhere."""
    share = ok_share(scores)
    if share is None:
        return ["There are no judgements at all."]
    reasons = []
    if share < policy.min_ok_share:
        overall = overall_rates(scores)
        lost = overall[(overall["state"] != OK) & (overall["n"] > 0)]
        states = ", ".join(f"{n} {state}" for state, n in zip(lost["state"], lost["n"], strict=True))
        reasons.append(
            f"Only {_percent(share)} of the judgements have a score; the policy asks for "
            f"{_percent(policy.min_ok_share)}. The others: {states}."
        )
    rates = state_rates(scores)
    low = rates[(rates["state"] == OK) & (rates["share"] < policy.min_ok_share_per_direction)]
    for criterion, direction, part in zip(low["criterion"], low["direction"], low["share"], strict=True):
        side = "raise" if direction == "+" else "lower"
        reasons.append(
            f"Only {_percent(part)} of the judgements on {criterion} have a score for responses written to {side} a "
            f"criterion; the policy asks for {_percent(policy.min_ok_share_per_direction)}."
        )
    return reasons


def _percent(share: float) -> str:
    """Rounded down, so that a share below a limit never looks as if it reached it."""
    return f"{np.floor(share * 1000 + 1e-9) / 10:g}%"


@dataclass(frozen=True)
class _Findings:
    """What the tables say, as sentences by kind."""

    violations: list[str]
    open_pairs: list[str]  #: uncertain pairs that are or could be violations
    unmeasured: list[str]
    notes: list[str]  #: what was let pass, and exceptions that match nothing


def _find(tables: CouplingTables, policy: Policy, thresholds: ReadingThresholds) -> _Findings:
    fail_on = {reading.value for reading in policy.fail_on}
    accepted = {frozenset(pair) for pair in policy.accepted_pairs}
    effects = tables.self_effects
    reliable = dict(zip(effects["criterion"], effects["reliable"].astype(bool), strict=True))
    findings = _Findings([], [], _unreliable_criteria(effects), _strangers(policy, list(reliable)))

    pairs: list[dict[Any, Any]] = tables.criterion_pairs.to_dict("records")
    for pair, others in zip(pairs, _possible_readings(tables, thresholds), strict=True):
        a, b = pair["criterion_a"], pair["criterion_b"]
        at_stake = fail_on & {pair["reading"], *others}
        if frozenset((a, b)) in accepted:
            if at_stake:
                findings.notes.append(f"Accepted by the policy: {_sentence(pair)}")
        elif pair["reading"] == Reading.UNRELIABLE.value:
            if reliable[a] and reliable[b]:
                findings.unmeasured.append(f"The coupling of {a} and {b} could not be measured: scores are missing.")
        elif pair["reading"] in fail_on and not pair["uncertain"]:
            findings.violations.append(_sentence(pair))
        elif at_stake:
            findings.open_pairs.append(_open_sentence(pair, others))
    return findings


def _too_few(effects: pd.DataFrame) -> list[str]:
    reliable = int(effects["reliable"].sum())
    if reliable >= MIN_RELIABLE:
        return []
    return [f"Only {reliable} of {len(effects)} criteria could be moved reliably; coupling needs {MIN_RELIABLE}."]


def _all_clear(policy: Policy, findings: _Findings) -> str:
    words = [noun for reading, noun in _NOUNS.items() if reading in policy.fail_on]
    if not words:
        return "The policy fails on no reading, so nothing can violate it."
    certainly = "certain to be " if findings.open_pairs else ""
    return f"No pair of criteria is {certainly}{' or '.join(words)}, beyond those that the policy accepts."


_CLAUSES = {
    Reading.CLUSTER: "the criteria are counted twice",
    Reading.TRADEOFF: "the criteria pull against each other",
    Reading.DIRECTIONAL: "one criterion rides on the other",
}


def _not_counted(tables: CouplingTables, policy: Policy) -> list[str]:
    """Couplings that pass because the policy does not fail on their reading: "passed" alone would hide them."""
    accepted = {frozenset(pair) for pair in policy.accepted_pairs}
    pairs = tables.criterion_pairs
    found = [
        reading
        for a, b, reading in zip(pairs["criterion_a"], pairs["criterion_b"], pairs["reading"], strict=True)
        if frozenset((a, b)) not in accepted
    ]
    counts = [
        (found.count(reading.value), words) for reading, words in _CLAUSES.items() if reading not in policy.fail_on
    ]
    return [
        f"In {'one pair' if n == 1 else f'{n} pairs'} {words}; this policy does not count that."
        for n, words in counts
        if n
    ]


_NOUNS = {
    Reading.CLUSTER: "counted twice",
    Reading.TRADEOFF: "pulling against each other",
    Reading.DIRECTIONAL: "riding on one another",
    Reading.SEPARABLE: "independent of each other",
}


def _sentence(pair: dict[Any, Any]) -> str:
    """What a pair does, with the number that says so."""
    a, b, sym = pair["criterion_a"], pair["criterion_b"], pair["sym"]
    span = f"symmetric coupling {_minus(sym)}" + (
        f", interval {_minus(pair['sym_low'])} to {_minus(pair['sym_high'])}" if pd.notna(pair["sym_low"]) else ""
    )
    there, back = pair["leakage_ab"], pair["leakage_ba"]
    if pair["reading"] == Reading.CLUSTER.value:
        return f"{a} and {b} are counted twice: the judge moves them together ({span})."
    if pair["reading"] == Reading.TRADEOFF.value:
        return (
            f"{a} and {b} pull against each other: for every point that {a} is moved, {b} moves by {_signed(there)}, "
            f"and the other way round by {_signed(back)} ({span})."
        )
    if pair["reading"] == Reading.DIRECTIONAL.value and pd.notna(pair["upstream"]):
        up, down = (a, b) if pair["upstream"] == a else (b, a)
        with_it, without = (there, back) if up == a else (back, there)
        return (
            f"{down} rides on {up}: for every point that {up} is moved, {down} moves by {_signed(with_it)}, "
            f"the other way round only by {_signed(without)}."
        )
    return f"{a} and {b} look {_NOUNS[Reading(pair['reading'])]} ({span})."


def _minus(value: float) -> str:
    """Two decimals with the typographic minus, as in the report."""
    return f"{value:.2f}".replace("-", "−")


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _open_sentence(pair: dict[Any, Any], others: set[str]) -> str:
    why = "within their intervals" if pd.notna(pair["sym_low"]) else "as no interval could be computed"
    could = " or ".join(noun for reading, noun in _NOUNS.items() if reading.value in others)
    looks = _NOUNS[Reading(pair["reading"])]
    return f"{pair['criterion_a']} and {pair['criterion_b']} look {looks}, but {why} they could also be {could}."


_WHY = {
    "weak": "probes aimed at it moved its own score too little",
    "negative": "probes aimed at raising it lowered its own score",
    "too_few_tasks": "probes aimed at it moved its own score enough in fewer than half of the tasks",
    "missing_scores": "too many of its own scores are missing",
}


def _unreliable_criteria(effects: pd.DataFrame) -> list[str]:
    failed = effects[~effects["reliable"].astype(bool)]
    return [
        f"Nothing can be said about what {criterion} moves: {_WHY[reason]}"
        + (f" (self-effect {effect:.2f})." if pd.notna(effect) else ".")
        for criterion, reason, effect in zip(failed["criterion"], failed["reason"], failed["self_effect"], strict=True)
    ]


def _strangers(policy: Policy, criteria: list[str]) -> list[str]:
    """Accepted pairs that can't match: a misspelt exception must not look like one that is in force."""
    known = set(criteria)
    return [
        f"The policy accepts the pair {a} / {b}, but this rubric has no pair of that name; it has "
        f"{', '.join(criteria)}."
        for a, b in policy.accepted_pairs
        if a not in known or b not in known or a == b
    ]


def _possible_readings(tables: CouplingTables, thresholds: ReadingThresholds) -> list[set[str]]:
    """What else every pair could be read as, given its intervals (sets, empty for pairs that are certain)."""
    pairs = tables.criterion_pairs
    ends = tables.leakage.set_index(["source", "target"])[["ci_low", "ci_high"]]
    a, b = list(pairs["criterion_a"]), list(pairs["criterion_b"])

    def numbers(column: str) -> Any:
        return pairs[column].to_numpy(dtype=np.float64, na_value=np.nan)

    def leakage_bounds(source: list[str], target: list[str]) -> Bounds:
        found = ends.reindex(pd.MultiIndex.from_arrays([source, target]))
        return Bounds(*(found[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in ("ci_low", "ci_high")))

    values = {quantity: numbers(quantity) for quantity in QUANTITIES}
    bounds = {
        "sym": Bounds(numbers("sym_low"), numbers("sym_high")),
        "asym": Bounds(numbers("asym_low"), numbers("asym_high")),
        "leakage_ab": leakage_bounds(a, b),
        "leakage_ba": leakage_bounds(b, a),
    }
    crossings = find_crossings(values, bounds, thresholds)
    base = read_pairs(values["sym"], values["asym"], values["leakage_ab"], values["leakage_ba"], thresholds).reading
    for k, (expected, found) in enumerate(zip(pairs["reading"], base, strict=True)):
        if expected != found:
            raise ValueError(
                f"the pair {a[k]} / {b[k]} is listed as {expected}, but the thresholds make it {found}: "
                "pass the thresholds with which the tables were made"
            )
    return [set(crossings.other[crossings.possible[:, k], k]) for k in range(len(pairs))]
