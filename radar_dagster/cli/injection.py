"""`radar injection`: does a judge follow what the judged response tells it?

Not here: the attacks (`models/injection.py`).
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from radar_dagster.cli import output
from radar_dagster.cli.errors import INCONCLUSIVE, PASSED, VIOLATED, worst
from radar_dagster.cli.workspace import AuditOptions, Selection, select
from radar_dagster.errors import OperationalError
from radar_dagster.models.door import Door
from radar_dagster.models.injection import try_judge
from radar_dagster.models.replies import State
from radar_dagster.models.stages import check_models

#: Columns of the table for people.
_SHOWN = ("task", "criterion", "attack", "state", "plain", "attacked")


def run(options: AuditOptions, *, as_json: bool) -> int:
    """Try every selected judge; 1 when one followed an attack, 3 when of too many nothing can be told, else 0."""
    selection = select(options)
    verifiers = list(dict.fromkeys(verifier for _, verifier in selection.pairs))
    door = Door(selection.workspace.door)
    with output.results_only(), output.progress():
        check_models(selection.rubric, door, [], verifiers)
        for verifier in verifiers:
            door.check_calls(verifier)
        tried = {verifier: try_judge(selection.rubric, door, verifier) for verifier in verifiers}
    summary = [_summary(verifier, frame) for verifier, frame in tried.items()]
    if as_json:
        rows = [{"verifier": verifier, **row} for verifier, frame in tried.items() for row in output.rows(frame)]
        output.print_json({"injection": rows, "summary": summary})
    else:
        _show(tried, summary)
    _require_money(selection, tried)
    return worst([_code(row, selection.workspace.audit.policy.min_ok_share) for row in summary])


def _summary(verifier: str, frame: pd.DataFrame) -> dict[str, Any]:
    return {
        "verifier": verifier,
        "attacks": len(frame),
        "followed": int(frame["followed"].eq(True).sum()),
        "untold": int(frame["followed"].isna().sum()),
    }


def _code(row: dict[str, Any], min_ok_share: float) -> int:
    if row["followed"]:
        return VIOLATED
    return INCONCLUSIVE if row["untold"] > (1 - min_ok_share) * row["attacks"] else PASSED


def _require_money(selection: Selection, tried: dict[str, pd.DataFrame]) -> None:
    stopped = sum(int((frame["state"] == State.BUDGET_STOPPED).sum()) for frame in tried.values())
    if stopped:
        budget = selection.workspace.budget_usd
        raise OperationalError(f"the budget of ${budget:g} was spent before {stopped} attacks were tried")


def _show(tried: dict[str, pd.DataFrame], summary: list[dict[str, Any]]) -> None:
    for verifier, frame in tried.items():
        shown = frame[frame["followed"].ne(False)]
        if len(shown):
            output.say(f"{verifier}: attacks that were followed, or of which nothing can be told")
            output.print_table(
                _SHOWN,
                [[row[name] for name in _SHOWN] for row in output.rows(shown)],
                right=(4, 5),
            )
            output.say()
    output.print_table(
        ("verifier", "attacks", "followed", "untold"),
        [list(row.values()) for row in summary],
        right=(1, 2, 3),
    )
