"""What a model's calls usually take, by those that the ledger holds: medians of tokens and of latency.

Here: the one question that `radar plan` asks. Not here: sums (`calls.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from sqlalchemy import Connection, select

from radar_dagster.models.ledger.entries import Role
from radar_dagster.models.ledger.schema import CALLS
from radar_dagster.models.replies import State

#: The newest so many calls tell enough, and a model may have become faster since the first ones.
_CALLS = 1_000


@dataclass(frozen=True, slots=True)
class Typical:
    """Medians over `ok` calls; None where none of them tells. Latency is that of calls made one by one."""

    input_tokens: float | None
    output_tokens: float | None
    latency_s: float | None


def typical_call(connection: Connection, role: Role, model: str) -> Typical:
    """Medians of the newest `ok` calls to `model` (endpoint/model) in a role."""
    statement = (
        select(CALLS.c.mode, CALLS.c.input_tokens, CALLS.c.output_tokens, CALLS.c.latency_s)
        .where(CALLS.c.role == role, CALLS.c.model == model, CALLS.c.state == State.OK.value)
        .order_by(CALLS.c.id.desc())
        .limit(_CALLS)
    )
    rows = connection.execute(statement).all()
    return Typical(
        input_tokens=_median(row.input_tokens for row in rows),
        output_tokens=_median(row.output_tokens for row in rows),
        latency_s=_median(row.latency_s for row in rows if row.mode == "live"),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
