"""Made-up audit cells for the tests of the report: scores around a planted matrix, every table by the real code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from radar_dagster.config import AuditSection
from radar_dagster.models.naming import ModelSpec
from radar_dagster.report.data import ReportData
from radar_dagster.report.grid import GridData
from radar_dagster.rubric.model import Criterion, Rubric, Task, content_hash
from radar_dagster.stats.audit import analyse
from radar_dagster.stats.cell import cube_from_scores
from radar_dagster.stats.grid import average_over_cells
from radar_dagster.stats.passive import PURPOSES, baseline_tables
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.stats.probe_budget import probe_budget
from radar_dagster.stats.settings import ReadingThresholds
from radar_dagster.stats.validation import matrix_of, validation_table
from radar_dagster.stats.verdict import decide, verdict_frame
from radar_dagster.tables import COUPLING_TABLES, GRID_AGREEMENT, HUMAN_CORRELATIONS, PROBES, SCORES

#: A rubric with one pair of every kind: a–b counted twice, d rides on c, c pulls against a, e does not pass the gate.
LEAKAGE = np.array(
    [
        [1.0, 0.9, -0.4, 0.0, 0.0],
        [0.9, 1.0, 0.0, 0.0, 0.0],
        [-0.4, 0.0, 1.0, 0.9, 0.0],
        [0.0, 0.0, 0.1, 1.0, 0.0],
        [0.0, 0.5, 0.0, 0.0, 1.0],
    ]
)
SELF_EFFECTS = np.array([0.8, 0.8, 0.8, 0.8, 0.2])
LABELS = ("Accuracy", "Factuality", "Brevity", "Clarity", "Humour")


def make_rubric(labels: Sequence[str], tasks: int) -> Rubric:
    """Criteria c0, c1, … and tasks t0, t1, …"""
    return Rubric(
        name="made-up",
        title="A made-up rubric",
        criteria=tuple(
            Criterion(id=f"c{i}", label=label, definition=f"What {label} means.") for i, label in enumerate(labels)
        ),
        tasks=tuple(Task(id=f"t{t}", prompt=f"Do task {t}.") for t in range(tasks)),
    )


def plain_text(probe: str) -> str:
    return f"The response of {probe}."


def make_cell(
    leakage: np.ndarray = LEAKAGE,
    self_effects: np.ndarray = SELF_EFFECTS,
    labels: Sequence[str] = LABELS,
    *,
    tasks: int = 3,
    probes: int = 4,
    noise: float = 0.1,
    failure_rate: float = 0.0,
    seed: int = 0,
    text: Callable[[str], str] = plain_text,
    rationale: Callable[[str], str] = plain_text,
    settings: AuditSection | None = None,
    generator: str = "offline/editor",
    verifier: str = "offline/reader",
    tokens: int | None = None,
) -> ReportData:
    """A whole cell: scores 0 to 4 drawn around the planted matrix."""
    rubric = make_rubric(labels, tasks)
    cube = draw_cube(
        latent_means(leakage, self_effects),
        noise=noise,
        tasks=tasks,
        probes=probes,
        rng=np.random.default_rng(seed),
        failure_rate=failure_rate,
    )
    probe_rows, score_rows = [], []
    version = rubric.version  # a hash of the whole rubric: once, not for every score
    for t, i, d, k in np.ndindex(cube.p.shape[:4]):
        direction = "+-"[d]
        probe = f"t{t}/{direction}{k + 1}/c{i}"
        shared = {"probe": probe, "task": f"t{t}", "target": f"c{i}", "direction": direction, "sample": k + 1}
        call = {
            "parameters": "{}", "input_tokens": tokens, "output_tokens": tokens, "rubric_version": version,
        }  # fmt: skip
        probe_rows.append(
            {
                **shared, **call, "state": "ok", "text": text(probe), "detail": None, "model": generator,
                "rule_based": True, "call_key": content_hash(probe),
            }
        )  # fmt: skip
        for j, p in enumerate(cube.p[t, i, d, k]):
            lost = bool(np.isnan(p))
            score_rows.append(
                {
                    **shared, **call, "criterion": f"c{j}", "state": "parse_error" if lost else "ok",
                    "score": None if lost else int(4 * p), "p": None if lost else float(p), "reasoning": None,
                    "rationale": None if lost else rationale(f"{probe} on c{j}"),
                    "detail": "expected an integer level 0..4, found '4/5'" if lost else None, "model": verifier,
                    "rule_based": True, "call_key": content_hash([probe, j]),
                }
            )  # fmt: skip
    probe_frame = pd.DataFrame(probe_rows, columns=PROBES.names)
    scores = pd.DataFrame(score_rows, columns=SCORES.names)
    models = (ModelSpec(model=generator), ModelSpec(model=verifier))
    return make_report(rubric, probe_frame, scores, settings or AuditSection(probes=probes), models)


def make_report(
    rubric: Rubric,
    probes: pd.DataFrame,
    scores: pd.DataFrame,
    settings: AuditSection,
    models: tuple[ModelSpec, ModelSpec],
) -> ReportData:
    """Stage 3 and the verdict on given probes and scores."""
    coupling = analyse(
        scores,
        settings=settings.coupling,
        criteria=[c.id for c in rubric.criteria],
        tasks=[t.id for t in rubric.tasks],
        weights={c.id: c.weight for c in rubric.criteria},
    )
    verdict = decide(coupling, scores, settings.policy, settings.coupling.thresholds)
    tables = {name: getattr(coupling, name) for name in COUPLING_TABLES if name != "verdict"}
    tables["verdict"] = verdict_frame(verdict, settings.coupling, settings.policy)
    return ReportData(
        rubric=rubric,
        benchmark=rubric.name,
        pair="writer~judge",
        generator=models[0],
        verifier=models[1],
        settings=settings,
        tables={**tables, "probes": probes, "scores": scores},
    )


#: What people say of the pairs of LEAKAGE; nobody rated Humour.
PEOPLE = {
    ("c0", "c1"): 0.8, ("c0", "c2"): 0.1, ("c0", "c3"): 0.3, ("c1", "c2"): 0.0, ("c1", "c3"): 0.2, ("c2", "c3"): 0.4,
}  # fmt: skip


def human_frame(
    said: Mapping[tuple[str, str], float | None], *, source: str = "published", raters: str = "all", width: float = 0.0
) -> pd.DataFrame:
    """human_correlations with these r; with a `width`, as if from 50 items, intervals reach so far to both sides."""
    rows = [
        {
            "criterion_a": a, "criterion_b": b, "pearson_r": r, "raters": raters, "source": source,
            "ci_low": r - width if r is not None and width else None,
            "ci_high": r + width if r is not None and width else None,
            "spearman": r, "items": 50 if width else None, "reason": "too_few: 2 items" if r is None else None,
        }
        for (a, b), r in said.items()
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=HUMAN_CORRELATIONS.names)
    numbers = ["pearson_r", "ci_low", "ci_high", "spearman"]
    return frame.astype(dict.fromkeys(numbers, float)).astype({"items": "Int64"})


def compared(
    cell: ReportData,
    said: Mapping[tuple[str, str], float | None] = PEOPLE,
    *,
    baselines: bool = True,
    human: pd.DataFrame | None = None,
) -> ReportData:
    """The cell with people's correlations, and what the real code makes of them: agreement, probe budget, baselines."""
    criteria = [criterion.id for criterion in cell.rubric.criteria]
    theirs = human_frame(said) if human is None else human
    reference = matrix_of(theirs, "pearson_r", criteria)
    matrices = {"radar": matrix_of(cell.tables["criterion_pairs"], "sym", criteria)}
    tables = {**cell.tables, "human_correlations": theirs}
    if baselines:
        pairs, weights = baseline_tables(passive_scores(criteria), criteria)
        tables |= {"baselines": pairs, "baseline_weights": weights}
        for method, rows in pairs.groupby("method", sort=False):
            matrices[str(method)] = matrix_of(rows, "value", criteria)
    tables["validation"] = validation_table(matrices, reference, np.random.default_rng(0))
    cube = cube_from_scores(cell.tables["scores"], criteria, [task.id for task in cell.rubric.tasks])
    tables["probe_budget"] = probe_budget(cube, cell.settings.coupling, reference)
    return replace(cell, tables=tables)


def make_grid(
    cells: Sequence[ReportData], agreement: pd.DataFrame, rule_based: tuple[str, ...] = ("writer", "judge")
) -> GridData:
    """The grid of cells of one rubric, with any rows of grid_agreement."""
    grid = average_over_cells([cell.tables["criterion_pairs"] for cell in cells], ReadingThresholds())
    rubric = cells[0].rubric
    return GridData(rubric, rubric.name, {"coupling_grid": grid, "grid_agreement": agreement}, rule_based)


def agreement_frame(*rows: tuple[str, str, float | None, str | None]) -> pd.DataFrame:
    """grid_agreement from (generator, verifier, Pearson, detail); the other numbers follow from Pearson."""
    found = [
        {
            "generator": generator, "verifier": verifier, "pearson": r, "detail": detail,
            "spearman": None if r is None else r - 0.1, "kendall": None if r is None else r - 0.2,
            "mae": None if r is None else 1 - r, "p_permutation": None if r is None else 0.025,
            "pairs_used": None if r is None else 6,
        }
        for generator, verifier, r, detail in rows
    ]  # fmt: skip
    frame = pd.DataFrame(found, columns=GRID_AGREEMENT.names)
    numbers = ["pearson", "spearman", "kendall", "mae", "p_permutation"]
    return frame.astype(dict.fromkeys(numbers, float)).astype({"pairs_used": "Int64"})


def passive_scores(criteria: Sequence[str], responses: int = 40, seed: int = 0) -> pd.DataFrame:
    """Scores of plain responses: one cause moves all criteria, and the last one always scores the same."""
    rng = np.random.default_rng(seed)
    rows = []
    for purpose in PURPOSES:
        cause = rng.normal(0.5, 0.2, responses)
        for place, criterion in enumerate(criteria):
            noisy = cause + rng.normal(0, 0.1 * (place + 1), responses)
            p = np.ones(responses) if place == len(criteria) - 1 else noisy
            rows.append(
                pd.DataFrame(
                    {
                        "response": [f"{purpose}/{k}" for k in range(responses)],
                        "purpose": purpose,
                        "criterion": criterion,
                        "p": p,
                    }
                )
            )
    return pd.concat(rows, ignore_index=True)
