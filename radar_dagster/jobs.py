"""Jobs: which assets and checks run together. https://docs.dagster.io/guides/build/jobs

Assets with different partitions can't share a job, so an audit is three runs: the rubric of a benchmark, the probes of
a generator, and everything of a pair from the scores on. The passive baselines take two more.

Not here: when they run (`schedules.py`, `sensors.py`), and running them from a terminal (`runs.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from radar_dagster.tables import BASELINE_TABLES, COUPLING_TABLES, GRID_TABLES

if TYPE_CHECKING:  # what `define_asset_job` returns has no public name
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

OBSERVE_RUBRICS, LOAD_RUBRICS, GENERATE_PROBES, JUDGE, ANALYSE, FULL_AUDIT = (
    "observe_rubrics", "load_rubrics", "generate_probes", "judge", "analyse", "full_audit",
)  # fmt: skip

#: What the audit is compared with, and with what other cells say.
LOAD_HUMAN, GENERATE_PASSIVE, JUDGE_PASSIVE, COMPARE_CELLS = (
    "load_human", "generate_passive", "judge_passive", "compare_cells",
)  # fmt: skip

#: What the command line runs: the same assets with the gates, before the slower expectations (`jobs.CHECK_*`).
AUDIT_PROBES, AUDIT_PAIR, ANALYSE_UNGATED = "audit_probes", "audit_pair", "analyse_ungated"
CHECK_PROBES, CHECK_SCORES, CHECK_COUPLING = "check_probes", "check_scores", "check_coupling"

_ANALYSIS = dg.AssetSelection.assets(*COUPLING_TABLES, "validation", "probe_budget", "audit_report")
_EXPECTATIONS = {
    "probes": dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("probes"), "probes_expectations")),
    "scores": dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("scores"), "scores_expectations")),
}
_COUPLING_CHECKS = dg.AssetSelection.checks_for_assets(dg.AssetKey("self_effects"), dg.AssetKey("leakage"))


def build_jobs() -> list[UnresolvedAssetJobDefinition]:
    """Every job of the project."""
    probes, scores = dg.AssetSelection.assets("probes"), dg.AssetSelection.assets("scores")
    passive = dg.AssetSelection.assets("passive_responses")
    baselines = dg.AssetSelection.assets("passive_scores", *BASELINE_TABLES)
    loaded, human = dg.AssetSelection.assets("rubric_file", "rubric"), dg.AssetSelection.assets("human_correlations")
    jobs = [
        (OBSERVE_RUBRICS, dg.AssetSelection.assets("rubric_file"), "See which rubric files changed. Makes nothing."),
        # Observed first: without an observation from before, Dagster takes no later one for a change.
        (LOAD_RUBRICS, loaded | human, "Read and validate a benchmark's rubric, and what people say of its criteria."),
        (LOAD_HUMAN, human, "What people say of a benchmark's criteria, from its source. Free."),
        (GENERATE_PROBES, probes, "Stage 1: a generator's probes for a benchmark. Costs model calls."),
        (JUDGE, scores, "Stage 2: a verifier's scores of a generator's probes. Costs model calls."),
        (ANALYSE, _ANALYSIS, "Stage 3 and the report, from scores that exist. Free."),
        (FULL_AUDIT, scores | _ANALYSIS, "Stages 2 and 3 and the report, every check between them."),
        (GENERATE_PASSIVE, passive, "Responses to the bare tasks, for the passive baselines. Costs model calls."),
        (JUDGE_PASSIVE, baselines, "Scores of the passive responses and the baselines from them. Costs model calls."),
        (COMPARE_CELLS, dg.AssetSelection.assets(*GRID_TABLES), "All audited cells of a benchmark side by side. Free."),
        (AUDIT_PROBES, probes - _EXPECTATIONS["probes"], "As generate_probes, expectations left to later."),
        (AUDIT_PAIR, (scores | _ANALYSIS) - _EXPECTATIONS["scores"], "As full_audit, expectations left to later."),
        (ANALYSE_UNGATED, _ANALYSIS.without_checks(), "Stage 3 and the report of a cell that a gate stopped."),
        (CHECK_PROBES, _EXPECTATIONS["probes"], "The expectation suite of probes that exist."),
        (CHECK_SCORES, _EXPECTATIONS["scores"], "The expectation suite of scores that exist."),
        (CHECK_COUPLING, _COUPLING_CHECKS, "The gates of stage 3 on tables that exist."),
    ]
    return [
        dg.define_asset_job(name, selection=selection, description=description) for name, selection, description in jobs
    ]
