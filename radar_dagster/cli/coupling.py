"""`radar coupling`: Stage 3 of the coupling audit on somebody's own scores.

Not here: reading the file (`inputs/scores.py`), and how findings are shown (`findings.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from radar_dagster.cli import findings as shown
from radar_dagster.cli import output
from radar_dagster.cli.workspace import coupling_settings, load_policy
from radar_dagster.errors import BadInputError
from radar_dagster.inputs.human import human_table, named_source
from radar_dagster.inputs.ratings import Raters
from radar_dagster.inputs.scores import read_scores
from radar_dagster.rubric.model import Scale
from radar_dagster.stats.audit import CouplingTables, analyse_cube
from radar_dagster.stats.cell import ScoreCube, cube_from_scores
from radar_dagster.stats.probe_budget import probe_budget
from radar_dagster.stats.settings import CouplingSettings, Policy
from radar_dagster.stats.states import state_rates
from radar_dagster.stats.validation import RADAR, matrix_of, validation_table
from radar_dagster.stats.verdict import decide, verdict_frame


def run(
    file: Path,
    *,
    scale: str,
    given: Mapping[str, Any],
    policy_file: Path | None,
    human: str | None,
    raters: Raters,
    out: Path | None,
    as_json: bool,
) -> int:
    """Read, analyse, decide, show; the exit code is the verdict's. `given` holds the options of the statistics."""
    levels = parse_scale(scale)
    policy_given = None if policy_file is None else load_policy(policy_file)
    settings = coupling_settings(given, policy_given)
    policy = Policy() if policy_given is None else Policy(**policy_given.model_dump(exclude={"thresholds"}))
    if out is not None:
        output.check_folder(out)
    if human is None and raters != "all":
        raise BadInputError("--raters needs --human FILE: it chooses among the raters of that file")
    source = None if human is None else named_source(human, raters)
    scores, notes = read_scores(file, levels)
    # The file's order of rows must not show, not even in the order of the states.
    scores = scores.sort_values("criterion", kind="stable")
    cube = cube_from_scores(scores)
    people = None
    if source is not None:
        people, remarks = human_table(source, cube.criteria, rng_seed=settings.seed, confidence=settings.confidence)
        notes = (*notes, *remarks)
    tables = analyse_cube(cube, settings)
    compared = {} if people is None else _compared(tables.criterion_pairs, people, cube, settings)
    found = _findings(scores, tables, compared, settings, policy)
    document = {
        **shown.document(found),
        "settings": _settings(file, levels, human, settings, policy),
        "notes": list(notes),
    }
    if out is not None:
        output.write_tables(out, {**found.tables, "states": found.states})
        output.write_summary(out, document)
    if as_json:
        output.print_json(document)
    else:
        shown.show(found)
        output.say()
        output.say(
            f"Scores were read on a scale from {levels.min} to {levels.max} (--scale {levels.min}:{levels.max})."
        )
    for sentence in notes:
        output.note(sentence)
    if out is not None:
        output.on_stderr(f"wrote {out}")
    return found.exit_code


def _compared(
    pairs: pd.DataFrame, human: pd.DataFrame, cube: ScoreCube, settings: CouplingSettings
) -> dict[str, pd.DataFrame]:
    """`tables.VALIDATION_TABLES` of a cell."""
    people = matrix_of(human, "pearson_r", cube.criteria)
    values = {RADAR: matrix_of(pairs, "sym", cube.criteria)}
    return {
        "human_correlations": human,
        "validation": validation_table(values, people, np.random.default_rng(settings.seed)),
        "probe_budget": probe_budget(cube, settings, people),
    }


def _findings(
    scores: pd.DataFrame,
    tables: CouplingTables,
    compared: Mapping[str, pd.DataFrame],
    settings: CouplingSettings,
    policy: Policy,
) -> shown.Findings:
    verdict = decide(tables, scores, policy, settings.thresholds)
    frames = {name: getattr(tables, name) for name in shown.TABLES if name != "verdict"}
    return shown.Findings(
        tables={**frames, "verdict": verdict_frame(verdict, settings, policy), **compared},
        states=state_rates(scores),
        names={criterion: criterion for criterion in tables.self_effects["criterion"]},
        gate=settings.gate,
    )


def parse_scale(text: str) -> Scale:
    """`0:4`: the lowest and the highest level."""
    found = re.fullmatch(r"\s*(-?\d{1,6})\s*:\s*(-?\d{1,6})\s*", text, re.ASCII)
    if found is None:
        raise BadInputError(f"--scale: expected the lowest and the highest level as 0:4, found {text!r:.60}")
    try:
        return Scale(min=int(found[1]), max=int(found[2]))
    except ValidationError as error:
        reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise BadInputError(f"--scale {text}: {reason}") from None


def _settings(
    file: Path, scale: Scale, human: str | None, settings: CouplingSettings, policy: Policy
) -> dict[str, Any]:
    return {
        "scores": str(file),
        "scale": f"{scale.min}:{scale.max}",
        "human": human,
        **settings.model_dump(mode="json"),
        "policy": policy.model_dump(mode="json"),
    }
