"""Rates of the states of judgements."""

from __future__ import annotations

import pandas as pd
import pytest

from radar_dagster.stats.states import ok_share, overall_rates, state_rates

SCORES = pd.DataFrame(
    [
        ("z", "-", "ok"),
        ("z", "+", "refused"),
        ("z", "+", "ok"),
        ("a", "+", "parse_error"),
        ("a", "+", "parse_error"),
        ("a", "+", "ok"),
        ("a", "+", "ok"),
    ],
    columns=["criterion", "direction", "state"],
)


def test_shares_are_of_the_judgements_of_a_criterion_and_direction() -> None:
    rates = state_rates(SCORES).set_index(["criterion", "direction", "state"])
    assert rates.loc[("z", "+", "ok"), "share"] == 0.5
    assert rates.loc[("a", "+", "parse_error"), "n"] == 2
    assert rates.groupby(["criterion", "direction"])["share"].sum().tolist() == [1.0] * 3


def test_every_state_is_listed_everywhere_with_zero_where_it_did_not_occur() -> None:
    rates = state_rates(SCORES)
    assert list(rates.columns) == ["criterion", "direction", "state", "n", "share"]
    assert list(rates["criterion"].unique()) == ["z", "a"]
    assert rates["state"].tolist() == ["ok", "parse_error", "refused"] * 3
    assert rates["n"].tolist() == [1, 0, 1, 1, 0, 0, 2, 2, 0]


def test_ok_is_listed_even_if_nothing_is() -> None:
    rates = state_rates(SCORES[SCORES["state"] == "refused"])
    assert rates["state"].tolist() == ["ok", "refused"]
    assert rates["share"].tolist() == [0.0, 1.0]


def test_overall_rates_put_ok_first_and_then_the_commonest() -> None:
    rates = overall_rates(SCORES)
    assert rates["state"].tolist() == ["ok", "parse_error", "refused"]
    assert rates["n"].tolist() == [4, 2, 1]
    assert rates["share"].sum() == pytest.approx(1.0)
    assert ok_share(SCORES) == pytest.approx(4 / 7)


def test_no_judgements_have_no_share() -> None:
    assert ok_share(SCORES.head(0)) is None
    assert state_rates(SCORES.head(0)).empty


def test_a_missing_state_or_column_is_an_error() -> None:
    with pytest.raises(ValueError, match="column state has empty cells"):
        overall_rates(SCORES.assign(state=None))
    with pytest.raises(ValueError, match="lack the column direction"):
        state_rates(SCORES.drop(columns="direction"))
