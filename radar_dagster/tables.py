"""The tables of every audit: column names, types, nullability, shared by lake, CSV and JSON output, and checks.

Column names and order are a public contract: other people's scripts read them. The partition (benchmark, generator,
pair) is not a column: in the lake it is the folder, and DuckDB's views add it back.

Not here: how a table is filled (`stats/`, `models/stages.py`) and stored (`lake.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

_TEXT, _INT, _FLOAT, _BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()


def _schema(columns: Mapping[str, pa.DataType], nullable: str = "") -> pa.Schema:
    optional = set(nullable.split())
    unknown = optional - set(columns)
    assert not unknown, f"nullable names no column: {unknown}"
    return pa.schema([pa.field(name, kind, nullable=name in optional) for name, kind in columns.items()])


#: A row for the rubric, one per criterion, one per task, in the rubric's order; `content` is the whole item as JSON.
RUBRIC = _schema(
    {
        "item": _TEXT, "position": _INT, "id": _TEXT, "label": _TEXT, "text": _TEXT, "kind": _TEXT,
        "weight": _FLOAT, "content": _TEXT, "content_hash": _TEXT,
    },
    nullable="label kind weight",
)  # fmt: skip

_CALL: dict[str, pa.DataType] = {
    "detail": _TEXT, "model": _TEXT, "rule_based": _BOOL, "parameters": _TEXT, "call_key": _TEXT,
    "input_tokens": _INT, "output_tokens": _INT, "usd": _FLOAT,
}  # fmt: skip

#: One row per probe, failures included; `rubric_version` is that of the rubric it was made from.
PROBES = _schema(
    {
        "probe": _TEXT, "task": _TEXT, "target": _TEXT, "direction": _TEXT, "sample": _INT,
        "state": _TEXT, "text": _TEXT, "rubric_version": _TEXT, **_CALL,
    },
    nullable="text detail input_tokens output_tokens usd",
)  # fmt: skip

#: One row per probe × criterion, failures included. `expected` is the expected level where a verifier's scores are read
#: from token probabilities; `score` is then the most probable one. `p` maps `expected`, else `score`, onto [0, 1].
SCORES = _schema(
    {
        "probe": _TEXT, "task": _TEXT, "target": _TEXT, "direction": _TEXT, "sample": _INT, "criterion": _TEXT,
        "state": _TEXT, "score": _INT, "expected": _FLOAT, "p": _FLOAT, "reasoning": _TEXT, "rationale": _TEXT,
        "rubric_version": _TEXT, **_CALL,
    },
    nullable="score expected p reasoning rationale detail call_key input_tokens output_tokens usd",
)  # fmt: skip

SELF_EFFECTS = _schema(
    {
        "criterion": _TEXT, "self_effect": _FLOAT, "ci_low": _FLOAT, "ci_high": _FLOAT, "gate_pass_rate": _FLOAT,
        "reliable": _BOOL, "reason": _TEXT, "tasks_used": _INT,
    },
    nullable="self_effect ci_low ci_high gate_pass_rate reason",
)  # fmt: skip

LEAKAGE = _schema(
    {
        "source": _TEXT, "target": _TEXT, "leakage": _FLOAT, "sigma": _FLOAT, "pooled": _FLOAT, "ci_low": _FLOAT,
        "ci_high": _FLOAT, "gen_coupling": _FLOAT, "reliable": _BOOL, "tasks_used": _INT,
    },
    nullable="leakage sigma pooled ci_low ci_high gen_coupling",
)  # fmt: skip

CRITERION_PAIRS = _schema(
    {
        "criterion_a": _TEXT, "criterion_b": _TEXT, "leakage_ab": _FLOAT, "leakage_ba": _FLOAT,
        "sym": _FLOAT, "sym_low": _FLOAT, "sym_high": _FLOAT, "asym": _FLOAT, "asym_low": _FLOAT, "asym_high": _FLOAT,
        "reading": _TEXT, "upstream": _TEXT, "uncertain": _BOOL, "task_sensitive": _BOOL,
    },
    nullable="leakage_ab leakage_ba sym sym_low sym_high asym asym_low asym_high upstream",
)  # fmt: skip

COUPLING_SUMMARY = _schema(
    {"metric": _TEXT, "value": _FLOAT, "ci_low": _FLOAT, "ci_high": _FLOAT, "detail": _TEXT},
    nullable="value ci_low ci_high",
)

#: What each slice (task) contributes: one row per task × source × target, the self-effect on the diagonal.
TASK_SLICES = _schema(
    {
        "task": _TEXT, "source": _TEXT, "target": _TEXT, "mean_plus": _FLOAT, "mean_minus": _FLOAT,
        "n_plus": _INT, "n_minus": _INT, "gen_coupling": _FLOAT, "self_effect": _FLOAT, "leakage": _FLOAT,
        "passed_gate": _BOOL,
    },
    nullable="mean_plus mean_minus gen_coupling self_effect leakage",
)  # fmt: skip

#: What one unit of intervention on a criterion does to the weighted aggregate.
AGGREGATION_SENSITIVITY = _schema(
    {"criterion": _TEXT, "weight": _FLOAT, "own_effect": _FLOAT, "aggregate_effect": _FLOAT, "amplification": _FLOAT},
    nullable="own_effect aggregate_effect amplification",
)

#: For pairs whose reading is uncertain: what would settle them. `probes_needed` is null beyond a sensible budget.
SETTLING = _schema(
    {
        "criterion_a": _TEXT, "criterion_b": _TEXT, "quantity": _TEXT, "value": _FLOAT, "low": _FLOAT, "high": _FLOAT,
        "threshold": _FLOAT, "other_reading": _TEXT, "probes_now": _INT, "probes_needed": _INT,
    },
    nullable="value low high probes_needed",
)  # fmt: skip

#: What people's ratings say of every pair of criteria. `items` is null for published values, as theirs are not at hand;
#: `reason` says why a number is null.
HUMAN_CORRELATIONS = _schema(
    {
        "criterion_a": _TEXT, "criterion_b": _TEXT, "pearson_r": _FLOAT, "ci_low": _FLOAT, "ci_high": _FLOAT,
        "spearman": _FLOAT, "items": _INT, "raters": _TEXT, "source": _TEXT, "reason": _TEXT,
    },
    nullable="pearson_r ci_low ci_high spearman items reason",
)  # fmt: skip

#: Responses to the bare tasks, nothing intervened upon. `purpose` is the baseline that reads them, as each needs a
#: sample of its own.
PASSIVE_RESPONSES = _schema(
    {
        "response": _TEXT, "task": _TEXT, "purpose": _TEXT, "sample": _INT,
        "state": _TEXT, "text": _TEXT, "rubric_version": _TEXT, **_CALL,
    },
    nullable="text detail input_tokens output_tokens usd",
)  # fmt: skip

#: One row per passive response × criterion, failures included; columns as in SCORES.
PASSIVE_SCORES = _schema(
    {
        "response": _TEXT, "task": _TEXT, "purpose": _TEXT, "sample": _INT, "criterion": _TEXT,
        "state": _TEXT, "score": _INT, "expected": _FLOAT, "p": _FLOAT, "reasoning": _TEXT, "rationale": _TEXT,
        "rubric_version": _TEXT, **_CALL,
    },
    nullable="score expected p reasoning rationale detail call_key input_tokens output_tokens usd",
)  # fmt: skip

#: What a passive method says of every pair; `method` is synthetic_correlation or rrd, `reason` why a value is null.
BASELINES = _schema(
    {
        "method": _TEXT, "criterion_a": _TEXT, "criterion_b": _TEXT, "value": _FLOAT, "responses": _INT,
        "reason": _TEXT,
    },
    nullable="value reason",
)  # fmt: skip

#: The correlation-aware weights that whitening gives the criteria, beside the declared ones; both sum to 1.
BASELINE_WEIGHTS = _schema(
    {"criterion": _TEXT, "declared": _FLOAT, "whitened": _FLOAT, "reason": _TEXT}, nullable="whitened reason"
)

#: Agreement of a method's pair values with people's; `detail` says why a number is null and what bounds a p-value.
VALIDATION = _schema(
    {
        "method": _TEXT, "pearson": _FLOAT, "spearman": _FLOAT, "kendall": _FLOAT, "mae": _FLOAT,
        "p_permutation": _FLOAT, "pairs_used": _INT, "detail": _TEXT,
    },
    nullable="pearson spearman kendall mae p_permutation detail",
)  # fmt: skip

#: Agreement at fewer probes: mean and standard deviation over subsets. `reference` is human or full (all probes).
PROBE_BUDGET = _schema(
    {
        "reference": _TEXT, "probes": _INT, "subsets": _INT, "pearson": _FLOAT, "pearson_sd": _FLOAT,
        "spearman": _FLOAT, "spearman_sd": _FLOAT, "mae": _FLOAT, "mae_sd": _FLOAT, "detail": _TEXT,
    },
    nullable="pearson pearson_sd spearman spearman_sd mae mae_sd detail",
)  # fmt: skip

#: Every pair of criteria over all cells of a benchmark: means and standard deviations of the cells in which the pair is
#: reliable, and the reading of the means.
COUPLING_GRID = _schema(
    {
        "criterion_a": _TEXT, "criterion_b": _TEXT, "cells": _INT, "cells_reliable": _INT,
        "leakage_ab": _FLOAT, "leakage_ab_sd": _FLOAT, "leakage_ba": _FLOAT, "leakage_ba_sd": _FLOAT,
        "sym": _FLOAT, "sym_sd": _FLOAT, "asym": _FLOAT, "asym_sd": _FLOAT, "reading": _TEXT, "upstream": _TEXT,
        "same_reading": _INT,
    },
    nullable="leakage_ab leakage_ab_sd leakage_ba leakage_ba_sd sym sym_sd asym asym_sd upstream",
)  # fmt: skip

#: Agreement with people, cell by cell; what is no cell (a self-pair) and cells not audited are null with a detail.
GRID_AGREEMENT = _schema(
    {
        "generator": _TEXT, "verifier": _TEXT, "pearson": _FLOAT, "spearman": _FLOAT, "kendall": _FLOAT, "mae": _FLOAT,
        "p_permutation": _FLOAT, "pairs_used": _INT, "detail": _TEXT,
    },
    nullable="pearson spearman kendall mae p_permutation pairs_used detail",
)  # fmt: skip

#: One row: the policy's answer. `reasons` is a JSON list of sentences; `settings` a JSON object with the coupling
#: settings and the policy with which stage 3 was computed, and the version of the rubric that it is about.
VERDICT = _schema({"verdict": _TEXT, "exit_code": _INT, "reasons": _TEXT, "settings": _TEXT})

#: One row: where the report was written, relative to the store.
AUDIT_REPORT = _schema({"path": _TEXT, "bytes": _INT, "sha256": _TEXT})

#: Tables by asset name. The order is the order of the pipeline.
SCHEMAS: Mapping[str, pa.Schema] = {
    "rubric": RUBRIC,
    "probes": PROBES,
    "scores": SCORES,
    "self_effects": SELF_EFFECTS,
    "leakage": LEAKAGE,
    "criterion_pairs": CRITERION_PAIRS,
    "coupling_summary": COUPLING_SUMMARY,
    "task_slices": TASK_SLICES,
    "aggregation_sensitivity": AGGREGATION_SENSITIVITY,
    "settling": SETTLING,
    "verdict": VERDICT,
    "human_correlations": HUMAN_CORRELATIONS,
    "passive_responses": PASSIVE_RESPONSES,
    "passive_scores": PASSIVE_SCORES,
    "baselines": BASELINES,
    "baseline_weights": BASELINE_WEIGHTS,
    "validation": VALIDATION,
    "probe_budget": PROBE_BUDGET,
    "coupling_grid": COUPLING_GRID,
    "grid_agreement": GRID_AGREEMENT,
    "audit_report": AUDIT_REPORT,
}

#: What Stage 3 (the coupling statistics) makes of scores.
COUPLING_TABLES = (
    "self_effects", "leakage", "criterion_pairs", "coupling_summary", "task_slices", "aggregation_sensitivity",
    "settling", "verdict",
)  # fmt: skip

#: What passive scores say of the criteria.
BASELINE_TABLES = ("baselines", "baseline_weights")

#: How a cell agrees with people; a report shows them where they are.
VALIDATION_TABLES = ("human_correlations", "validation", "probe_budget")

#: All cells of a benchmark side by side.
GRID_TABLES = ("coupling_grid", "grid_agreement")

#: Tables that may have no row; an empty write of any other is refused.
MAY_BE_EMPTY = frozenset({"settling", "human_correlations", "probe_budget"})
