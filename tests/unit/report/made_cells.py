"""Made-up audit cells for the tests of the report: scores around a planted matrix, every table by the real code."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from radar_dagster.config import AuditSection
from radar_dagster.models.naming import ModelSpec
from radar_dagster.report.data import ReportData
from radar_dagster.rubric.model import Criterion, Rubric, Task, content_hash
from radar_dagster.stats.audit import analyse
from radar_dagster.stats.planted import draw_cube, latent_means
from radar_dagster.stats.verdict import decide, verdict_frame
from radar_dagster.tables import COUPLING_TABLES, PROBES, SCORES

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
    for t, i, d, k in np.ndindex(cube.p.shape[:4]):
        direction = "+-"[d]
        probe = f"t{t}/{direction}{k + 1}/c{i}"
        shared = {"probe": probe, "task": f"t{t}", "target": f"c{i}", "direction": direction, "sample": k + 1}
        call = {
            "parameters": "{}", "input_tokens": tokens, "output_tokens": tokens, "rubric_version": rubric.version,
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
