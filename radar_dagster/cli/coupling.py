"""`radar coupling`: Stage 3 of the coupling audit on somebody's own scores.

Not here: reading the file (`inputs/scores.py`), and how findings are shown (`findings.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from radar_dagster.cli import findings as shown
from radar_dagster.cli import output
from radar_dagster.cli.workspace import coupling_settings, load_policy
from radar_dagster.errors import BadInputError
from radar_dagster.inputs.scores import read_scores
from radar_dagster.rubric.model import Scale
from radar_dagster.stats.audit import analyse
from radar_dagster.stats.settings import CouplingSettings, Policy
from radar_dagster.stats.states import state_rates
from radar_dagster.stats.verdict import decide, verdict_frame


def run(
    file: Path, *, scale: str, given: Mapping[str, Any], policy_file: Path | None, out: Path | None, as_json: bool
) -> int:
    """Read, analyse, decide, show; the exit code is the verdict's. `given` holds the options of the statistics."""
    levels = parse_scale(scale)
    policy_given = None if policy_file is None else load_policy(policy_file)
    settings = coupling_settings(given, policy_given)
    policy = Policy() if policy_given is None else Policy(**policy_given.model_dump(exclude={"thresholds"}))
    if out is not None:
        output.check_folder(out)
    scores, notes = read_scores(file, levels)
    # The file's order of rows must not show, not even in the order of the states.
    scores = scores.sort_values("criterion", kind="stable")
    tables = analyse(scores, settings=settings)
    verdict = decide(tables, scores, policy, settings.thresholds)
    frames = {name: getattr(tables, name) for name in shown.TABLES if name != "verdict"}
    criteria = tables.self_effects["criterion"].tolist()
    found = shown.Findings(
        tables={**frames, "verdict": verdict_frame(verdict, settings, policy)},
        states=state_rates(scores),
        names={criterion: criterion for criterion in criteria},
        gate=settings.gate,
    )
    document = {
        **shown.document(found),
        "settings": _settings(file, levels, settings, policy),
        "notes": list(notes),
    }
    if out is not None:
        output.write_tables(out, {**found.tables, "states": found.states})
        output.write_file(out / "summary.json", (output.as_json(document) + "\n").encode("ascii"))
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


def _settings(file: Path, scale: Scale, settings: CouplingSettings, policy: Policy) -> dict[str, Any]:
    return {
        "scores": str(file),
        "scale": f"{scale.min}:{scale.max}",
        **settings.model_dump(mode="json"),
        "policy": policy.model_dump(mode="json"),
    }
