"""The page's section on fewer probes as plain values: the same audit from subsets of its own probes.

Not here: drawing the subsets (`stats/probe_budget.py`), how many probes would settle one reading (`words.py`), markup
(`templates/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radar_dagster.report.charts import UNIT, Axis, Mark, spread
from radar_dagster.report.data import Record, ReportData
from radar_dagster.report.words import count, figure, plus_minus

#: Fewer probes would have done when their mean lies this near the whole cell and subsets differ no more than that.
NEAR, STEADY = 0.02, 0.05

_EACH = "per task, criterion and direction"


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """Agreement at so many probes."""

    probes: str
    pearson: Mark
    spearman: str
    mae: Mark
    subsets: str
    note: str | None


@dataclass(frozen=True, slots=True)
class Budget:
    """The section on fewer probes."""

    takeaway: str
    reference: str
    rows: tuple[BudgetRow, ...] = ()
    pearson_axis: Axis = UNIT
    mae_axis: Axis = UNIT
    #: Where the whole cell lies on the two axes; None where it is undefined.
    whole_pearson: str | None = None
    whole_mae: str | None = None


def budget(data: ReportData) -> Budget | None:
    """The same audit from fewer of its probes; None where the table was not made."""
    if "probe_budget" not in data.tables:
        return None
    rows = list(data.rows("probe_budget"))
    against_people = bool(rows) and rows[0]["reference"] == "human"
    reference = "people" if against_people else "the whole cell"
    fewer = [row for row in rows if int(row["probes"]) < data.settings.probes]
    if not fewer:
        drew = count(data.settings.probes, "probe")
        return Budget(f"This audit drew {drew} {_EACH}: there are no fewer to try.", reference)
    # Against itself the whole cell agrees perfectly; against people it is the last row.
    whole = rows[-1] if against_people else {"pearson": 1.0, "mae": 0.0}
    pearson_axis, mae_axis = _spread_axis(rows, "pearson"), _spread_axis(rows, "mae")
    return Budget(
        takeaway=budget_takeaway(fewer, whole["pearson"], data.settings.probes, reference),
        reference=reference,
        rows=tuple(_budget_row(row, pearson_axis, mae_axis, data.settings.probes) for row in rows),
        pearson_axis=pearson_axis,
        mae_axis=mae_axis,
        whole_pearson=None if whole["pearson"] is None else pearson_axis.at(whole["pearson"]),
        whole_mae=None if whole["mae"] is None else mae_axis.at(whole["mae"]),
    )


def budget_takeaway(fewer: Sequence[Record], whole: float | None, probes: int, reference: str) -> str:
    """The smallest number of probes that tells what the whole cell tells, in one sentence.

    It is the first of `fewer` (rows of PROBE_BUDGET below `probes`) whose mean Pearson lies within NEAR of `whole`,
    with a standard deviation of at most STEADY, and which was defined in every subset.
    """
    if whole is None:
        return f"Agreement with {reference} is undefined with all {probes} probes, so fewer have nothing to match."
    enough = next((row for row in fewer if _is_enough(row, whole)), None)
    if enough is None:
        return (
            f"Not by this measure: with fewer than {probes} probes {_EACH}, agreement with {reference} either moves by "
            f"more than {NEAR} or differs by more than {STEADY} from one subset to the next."
        )
    alone = "For the agreement with people alone, " if reference == "people" else ""
    fewer_do = f"{alone}{count(int(enough['probes']), 'probe')} {_EACH} would have told much the same"
    found = (
        f"{fewer_do}: Pearson with {reference} is {figure(enough['pearson'])} ± {figure(enough['pearson_sd'])} "
        f"over {enough['subsets']} random subsets"
    )
    return f"{found}, and {figure(whole)} with all {probes}." if reference == "people" else f"{found} of the {probes}."


def _is_enough(row: Record, whole: float) -> bool:
    if row["pearson"] is None or row["pearson_sd"] is None or row["detail"] is not None:
        return False
    near: bool = abs(row["pearson"] - whole) <= NEAR
    return near and bool(row["pearson_sd"] <= STEADY)


def _spread_axis(rows: Sequence[Record], name: str) -> Axis:
    known = [row[name] + way * (row[f"{name}_sd"] or 0.0) for row in rows if row[name] is not None for way in (-1, 1)]
    if name == "mae":
        return Axis(0.0, max([0.1, *known]))
    return Axis(min([0.0, *known]), 1.0)


def _budget_row(row: Record, pearson_axis: Axis, mae_axis: Axis, probes: int) -> BudgetRow:
    part = int(row["probes"]) < probes
    return BudgetRow(
        probes=str(row["probes"]) if part else f"all {row['probes']}",
        pearson=spread(pearson_axis, row["pearson"], row["pearson_sd"], "undefined"),
        spearman=plus_minus(row["spearman"], row["spearman_sd"], "undefined"),
        mae=spread(mae_axis, row["mae"], row["mae_sd"], "undefined"),
        subsets=str(row["subsets"]) if part else "–",
        note=f"{count(int(row['probes']), 'probe')}: {row['detail']}" if row["detail"] else None,
    )
