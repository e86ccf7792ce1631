"""How often judgements ended in which state (ok, refused, parse_error, …), overall and where.

Losses are seldom random, so they are counted by criterion and direction. Not here: what share is acceptable.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

#: The only state with a score.
OK = "ok"


def state_rates(scores: pd.DataFrame, by: Sequence[str] = ("criterion", "direction")) -> pd.DataFrame:
    """Counts and shares of every state per place: per scored criterion and direction, unless `by` says otherwise.

    `scores` needs the columns `by` and state. Columns of the result: those of `by`, state, n, share (of the judgements
    of that place). Every state that occurs anywhere, and `ok`, has a row for every place, with n = 0 where it did not
    occur. The first of `by`, the criteria, keeps its order of first appearance.
    """
    _require(scores, *by, "state")
    place = list(by)
    counts = scores.groupby([*place, "state"], sort=False, observed=True).size().reset_index(name="n")
    places = scores[place].drop_duplicates()
    first = {value: k for k, value in enumerate(places[place[0]].unique())}
    places = places.sort_values(place, key=lambda column: column.map(first) if column.name == place[0] else column)
    rates = places.merge(pd.DataFrame({"state": _states(scores)}), how="cross").merge(counts, how="left")
    rates["n"] = rates["n"].fillna(0).astype("int64")
    rates["share"] = rates["n"] / rates.groupby(place, sort=False, observed=True)["n"].transform("sum")
    return rates


def overall_rates(scores: pd.DataFrame) -> pd.DataFrame:
    """Counts and shares of every state over all judgements: columns state, n, share; `ok` first, then the commonest."""
    _require(scores, "state")
    counts = scores["state"].value_counts().reindex(_states(scores), fill_value=0)
    others = counts.drop(OK).sort_values(ascending=False, kind="stable")
    n = pd.concat([counts[[OK]], others])
    return pd.DataFrame({"state": list(n.index), "n": n.to_numpy(), "share": n.to_numpy() / max(len(scores), 1)})


def ok_share(scores: pd.DataFrame) -> float | None:
    """Share of judgements with a score; None when there are no judgements."""
    _require(scores, "state")
    return float((scores["state"] == OK).mean()) if len(scores) else None


def _states(scores: pd.DataFrame) -> list[str]:
    found = scores["state"].unique()
    if pd.isna(found).any():
        raise ValueError("column state has empty cells; every judgement needs a state")
    return [OK, *sorted(set(found) - {OK})]


def _require(scores: pd.DataFrame, *columns: str) -> None:
    missing = [column for column in columns if column not in scores.columns]
    if missing:
        raise ValueError(f"scores lack the column {', '.join(missing)}")
