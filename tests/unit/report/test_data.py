"""What a report is made of: nulls become None, names tell criteria apart, and a missing table is named."""

import itertools
import math

import pandas as pd
import pytest
from made_cells import LABELS, make_cell, make_rubric

from radar_dagster.report.data import (
    Judgement,
    ReportData,
    display_names,
    judgement_of,
    number,
    pairs_of,
    records,
    sorted_pairs,
)
from radar_dagster.stats.settings import Reading


@pytest.mark.parametrize("null", [None, math.nan, pd.NA])
def test_every_kind_of_null_becomes_none(null: object) -> None:
    assert number(null) is None
    frame = pd.DataFrame({"a": pd.Series([null, "x"], dtype=object), "b": [1.5, None]})
    assert list(records(frame)) == [{"a": None, "b": 1.5}, {"a": "x", "b": None}]


def test_criteria_are_shown_by_label_and_by_id_too_where_labels_are_shared() -> None:
    assert display_names(make_rubric(["Tone", "Length", "Tone"], 1)) == {
        "c0": "Tone (c0)", "c1": "Length", "c2": "Tone (c2)",
    }  # fmt: skip


def test_a_report_without_a_table_or_a_column_is_refused_with_its_name() -> None:
    cell = make_cell()
    without = {name: frame for name, frame in cell.tables.items() if name != "settling"}
    with pytest.raises(ValueError, match="'settling'"):
        ReportData(**{**vars_of(cell), "tables": without})
    short = {**cell.tables, "scores": cell.tables["scores"].drop(columns="rationale")}
    with pytest.raises(ValueError, match="'scores' has no column 'rationale'"):
        ReportData(**{**vars_of(cell), "tables": short})


def vars_of(cell: ReportData) -> dict[str, object]:
    return {name: getattr(cell, name) for name in ReportData.__dataclass_fields__}


def test_the_planted_pairs_come_back_with_their_readings_and_directions() -> None:
    pairs = {(pair.a, pair.b): pair for pair in make_cell().pairs}
    assert pairs["c0", "c1"].reading is Reading.CLUSTER
    assert pairs["c0", "c2"].reading is Reading.TRADEOFF
    assert (pairs["c2", "c3"].reading, pairs["c2", "c3"].upstream) == (Reading.DIRECTIONAL, "c2")
    assert pairs["c2", "c3"].downstream == "c3"
    assert pairs["c1", "c2"].reading is Reading.SEPARABLE
    unreliable = pairs["c0", "c4"]
    assert unreliable.reading is Reading.UNRELIABLE
    assert unreliable.leakage_ba is None
    assert unreliable.sym is None


def test_pairs_that_need_a_decision_come_first_and_the_strongest_of_a_reading_before_the_others() -> None:
    ordered = sorted_pairs(make_cell().pairs)
    readings = [pair.reading for pair in ordered]
    assert list(dict.fromkeys(readings)) == ["cluster", "tradeoff", "directional", "unreliable", "separable"]
    for reading, pairs in itertools.groupby(ordered, key=lambda pair: pair.reading):
        strengths = [pair.strength for pair in pairs]
        assert strengths == sorted(strengths, reverse=True), reading


def test_a_pair_holds_what_would_settle_it_and_whether_the_policy_accepts_it() -> None:
    cell = make_cell(noise=0.3, tasks=2, probes=2)
    pairs = pairs_of(cell.tables, [("c1", "c0")])
    assert [(pair.a, pair.b) for pair in pairs if pair.accepted] == [("c0", "c1")]
    settling = cell.tables["settling"]
    assert len(settling) > 0
    for pair in pairs:
        rows = settling[(settling["criterion_a"] == pair.a) & (settling["criterion_b"] == pair.b)]
        assert [one.quantity for one in pair.settling] == rows["quantity"].tolist()


def test_a_judgement_says_its_rationale_or_reasoning_or_why_it_was_lost() -> None:
    row = {"criterion": "c0", "state": "ok", "score": 3.0, "p": 0.75, "call_key": "k", "detail": None}
    scored = {**row, "rationale": "Clear.", "reasoning": "It begins with the point."}
    assert judgement_of(scored, "c0") == Judgement(
        criterion="c0", state="ok", score=3, p=0.75, rationale="Clear.", reasoning="It begins with the point.",
        detail=None, call_key="k",
    )  # fmt: skip
    assert judgement_of(scored, "c0").said == "Clear."
    assert judgement_of({**scored, "rationale": None}, "c0").said == "It begins with the point."
    assert judgement_of({**scored, "score": None, "detail": "found '4/5'"}, "c0").said == "found '4/5'"
    absent = judgement_of(None, "c1")
    assert (absent.criterion, absent.state, absent.score) == ("c1", "missing", None)


def test_models_are_called_rule_based_by_their_provider() -> None:
    assert make_cell().rule_based == ("writer", "judge")
    assert make_cell(generator="elsewhere/large").rule_based == ("judge",)
    assert len(LABELS) == len(make_cell().names)
