"""What an audit has cost: the line at its end, however it ends.

Here: which sums are told, and in which words. Not here: the sums (`models/ledger/`), keeping to a limit
(`models/budget.py`).
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from radar_dagster.models.progress import dollars

if TYPE_CHECKING:
    from radar_dagster.models.ledger import Spent


def spending(this_time: Spent, session: Spent, in_all: Spent, budget_usd: float | None) -> str:
    """The line: spent now, by the ledger on this audit in all, and what its session has left of the budget.

    >>> from radar_dagster.models.ledger import Spent
    >>> now, ever = Spent(9, Decimal("0.25")), Spent(40, Decimal("1.5"), 2, Decimal("0.02"))
    >>> spending(now, now, ever, 2)
    'Spent: $0.2500 this time, $1.50 and at most $0.0200 more (2 calls do not tell) on this audit in all; $1.75 of
    the budget of $2 is left.'
    """
    line = f"Spent: {_sum(this_time)} this time, {_sum(in_all)} on this audit in all"
    if budget_usd is None:
        return f"{line}."
    left = max(Decimal(0), Decimal(str(budget_usd)) - session.usd - session.usd_at_most)
    return f"{line}; {dollars(left)} of the budget of ${budget_usd:g} is left."


def _sum(spent: Spent) -> str:
    if not spent.unpriced:
        return dollars(spent.usd)
    calls = "1 call does" if spent.unpriced == 1 else f"{spent.unpriced:,} calls do"
    if spent.usd_at_most:
        return f"{dollars(spent.usd)} and at most {dollars(spent.usd_at_most)} more ({calls} not tell)"
    return f"{dollars(spent.usd)} and what nobody can tell ({calls} not)"
