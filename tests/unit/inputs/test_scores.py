"""Somebody's own scores: what reads, what is refused with its line, what is filled in or left out with a note."""

from __future__ import annotations

import itertools
import random
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.errors import BadInputError
from radar_dagster.inputs.scores import SCORE_COLUMNS, ScoreFile, read_scores
from radar_dagster.rubric.model import Scale

SCALE = Scale()


def design(tasks: int = 2, criteria: tuple[str, ...] = ("a", "b"), probes: int = 2, seed: int = 0) -> pd.DataFrame:
    """A complete design with random levels."""
    rng = random.Random(seed)
    strata = itertools.product([f"t{i}" for i in range(tasks)], criteria, "+-", range(probes), criteria)
    return pd.DataFrame([(*key, rng.randint(0, 4)) for key in strata], columns=list(SCORE_COLUMNS))


def read(tmp_path: Path, frame: pd.DataFrame | str, name: str = "scores.csv", scale: Scale = SCALE) -> ScoreFile:
    path = tmp_path / name
    if isinstance(frame, str):
        path.write_text(frame, encoding="utf-8")
    else:
        frame.to_csv(path, index=False)
    return read_scores(path, scale)


def sorted_rows(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    return sorted(frame[[*SCORE_COLUMNS, "state"]].itertuples(index=False, name=None), key=str)


def test_a_complete_design_reads_back_with_proportions_and_no_notes(tmp_path: Path) -> None:
    frame = design()
    scores, notes = read(tmp_path, frame)
    assert notes == ()
    assert list(scores.columns) == ["task", "target", "direction", "probe", "criterion", "state", "score", "p"]
    assert scores["score"].tolist() == frame["score"].tolist()
    assert scores["p"].tolist() == [level / 4 for level in frame["score"]]
    assert scores["probe"].tolist() == frame["probe"].astype(str).tolist()
    assert set(scores["state"]) == {"ok"}


names = (
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=12)
    .map(lambda text: unicodedata.normalize("NFC", text))
    .filter(lambda text: text == text.strip() != "")
)


@settings(max_examples=60, deadline=None)
@given(
    criteria=st.lists(names, min_size=2, max_size=4, unique=True),
    seed=st.integers(0, 99),
    options=st.fixed_dictionaries({"sep": st.sampled_from([",", ";", "\t"]), "quoting": st.sampled_from([0, 1, 2])}),
    suffix=st.sampled_from([".csv", ".jsonl", ".parquet"]),
)
def test_every_format_gives_the_same_scores_for_any_criterion_names(
    criteria: list[str], seed: int, options: dict[str, object], suffix: str
) -> None:
    frame = design(1, tuple(criteria), 1, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"scores{suffix}"
        if suffix == ".csv":
            frame.to_csv(path, index=False, encoding="utf-8-sig", **options)  # type: ignore[call-overload]
        elif suffix == ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        else:
            frame.to_parquet(path)
        scores, notes = read_scores(path, SCALE)
    assert notes == ()
    expected = frame.astype({"probe": str, "score": float}).assign(state="ok")
    assert sorted_rows(scores) == sorted_rows(expected)


def test_a_spreadsheets_export_reads_bom_quoted_commas_unicode_names_and_string_scores(tmp_path: Path) -> None:
    rows = ["\ufefftask,target,direction,probe,criterion,score,comment"]
    names = ["Klarheit/Stil v1.0", "Fluency, overall"]
    for target, direction, criterion in itertools.product(names, ["High", "low"], names):
        rows.append(f'"t 1","{target}",{direction},1,"{criterion}"," 3.0 ","=cmd(), with ""quotes"""')
    scores, _ = read(tmp_path, "\r\n".join(rows))
    assert set(scores["criterion"]) == {"Klarheit/Stil v1.0", "Fluency, overall"}
    assert set(scores["direction"]) == {"+", "-"}
    assert set(scores["score"]) == {3.0}


def test_averaged_scores_within_the_scale_are_accepted(tmp_path: Path) -> None:
    frame = design().assign(score=2.25)
    assert set(read(tmp_path, frame).scores["p"]) == {2.25 / 4}


def test_another_scale_maps_its_ends_to_0_and_1(tmp_path: Path) -> None:
    frame = design()
    frame["score"] = np.where(frame["direction"] == "+", 5, 1)
    scores, _ = read(tmp_path, frame, scale=Scale(min=1, max=5))
    assert set(scores.loc[scores["direction"] == "+", "p"]) == {1.0}
    assert set(scores.loc[scores["direction"] == "-", "p"]) == {0.0}


@pytest.mark.parametrize("found", ["5", "-1", "4/5", "three", "inf", "1e9", "0x1", "2,5", "٣", "True"])
def test_a_bad_score_is_named_with_line_column_finding_and_expectation(tmp_path: Path, found: str) -> None:
    frame = design().astype({"score": str})
    frame.loc[3, "score"] = found
    with pytest.raises(BadInputError) as caught:
        read(tmp_path, frame)
    expected = f"{tmp_path}/scores.csv:5: column 'score': expected a number from 0 to 4, found {found!r}"
    assert str(caught.value) == expected


def test_scores_on_another_common_scale_are_refused_with_a_question(tmp_path: Path) -> None:
    frame = design()
    for low, high in ((1, 5), (0, 5), (1, 10), (0, 100)):
        levels = itertools.cycle([low, high, (low + high) // 2])
        with pytest.raises(BadInputError) as caught:
            read(tmp_path, frame.assign(score=[next(levels) for _ in range(len(frame))]))
        last = str(caught.value).splitlines()[-1]
        assert last == f"{tmp_path}/scores.csv: is the scale {low}:{high}? give --scale {low}:{high}"
    for stray in ([5] + [2] * (len(frame) - 1), [4.5, 5] * (len(frame) // 2), [1, 13] * (len(frame) // 2)):
        with pytest.raises(BadInputError) as caught:
            read(tmp_path, frame.assign(score=stray))
        assert "is the scale" not in str(caught.value)


def test_the_line_of_a_bad_row_is_right_after_cells_with_line_breaks(tmp_path: Path) -> None:
    frame = design().astype({"score": str}).assign(comment="one\ntwo\r\nthree")
    frame.loc[2, "score"] = "x"
    with pytest.raises(BadInputError, match=r"scores\.csv:8: column 'score'"):
        read(tmp_path, frame)


def test_many_bad_cells_show_the_first_five_in_the_files_order_and_count_the_rest(tmp_path: Path) -> None:
    frame = design().astype({"score": str})
    frame["score"] = "x"
    frame.loc[1, "direction"] = "up"
    with pytest.raises(BadInputError) as caught:
        read(tmp_path, frame)
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines[:5]] == ["2", "3", "3", "4", "5"]
    assert lines[5] == f"… and {len(frame) + 1 - 5} more cells that can't be read"


def test_a_hundred_thousand_bad_cells_are_reported_without_delay(tmp_path: Path) -> None:
    body = "".join(f"t,a,+,{i},a,word{i}\n" for i in range(100_000))
    with pytest.raises(BadInputError, match="99,995 more"):
        read(tmp_path, "task,target,direction,probe,criterion,score\n" + body)


@pytest.mark.parametrize("column", ["task", "target", "direction", "probe", "criterion"])
def test_an_empty_cell_is_only_allowed_where_a_score_could_stand(tmp_path: Path, column: str) -> None:
    frame = design().astype(str)
    frame.loc[0, column] = ""
    with pytest.raises(BadInputError, match=rf"scores\.csv:2: column '{column}': expected .*, found ''"):
        read(tmp_path, frame)


def test_control_characters_in_a_name_are_refused_and_shown_escaped(tmp_path: Path) -> None:
    frame = design().replace({"target": {"a": "a\x1b[31m"}, "criterion": {"a": "a\x1b[31m"}})
    with pytest.raises(BadInputError) as caught:
        read(tmp_path, frame)
    assert "\x1b" not in str(caught.value)
    assert "one printable line" in str(caught.value)


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\ufeff"])
def test_characters_that_hide_something_in_a_name_are_refused_as_in_a_rubric(tmp_path: Path, hidden: str) -> None:
    frame = design().replace({"target": {"a": f"a{hidden}b"}, "criterion": {"a": f"a{hidden}b"}})
    with pytest.raises(BadInputError, match=rf"s\.csv:2: column 'target': .* contains U\+{ord(hidden):04X}"):
        read(tmp_path, frame, "s.csv")


def test_names_that_look_the_same_are_the_same_however_they_are_composed(tmp_path: Path) -> None:
    composed, decomposed = "clart\u00e9", "clarte\u0301"
    frame = design().replace({"target": {"a": decomposed}, "criterion": {"a": composed}})
    scores, notes = read(tmp_path, frame)
    assert set(scores["target"]) == set(scores["criterion"]) == {composed, "b"}
    assert notes == ()


@pytest.mark.parametrize("empty", ["", "NA", "n/a", "NaN", "null", "None", "  "])
def test_an_empty_score_is_the_state_missing_and_is_counted(tmp_path: Path, empty: str) -> None:
    frame = design().astype({"score": str})
    frame.loc[[0, 5], "score"] = empty
    scores, notes = read(tmp_path, frame)
    assert scores["state"].tolist().count("missing") == 2
    assert scores.loc[scores["state"] == "missing", ["score", "p"]].isna().all(axis=None)
    assert notes == ("2 of 32 scores are missing (empty cells)",)


def test_a_row_that_the_design_lacks_counts_as_missing_too(tmp_path: Path) -> None:
    scores, notes = read(tmp_path, design().drop(index=[3]))
    assert len(scores) == 32
    absent = scores[scores["state"] == "missing"].iloc[0]
    assert (absent["task"], absent["target"], absent["direction"], absent["probe"], absent["criterion"]) == (
        "t0", "a", "+", "1", "b",
    )  # fmt: skip
    assert notes == (
        "1 of 32 scores have no row and count as missing; "
        "the first is task 't0', target 'a', direction '+', probe '1', criterion 'b'",
    )


def test_a_repeated_row_is_refused_with_both_lines(tmp_path: Path) -> None:
    frame = design()
    again = pd.concat([frame, frame.iloc[[4]].assign(score=0)])
    with pytest.raises(BadInputError, match=r"scores\.csv:34: repeats line 6: the same task, target, direction"):
        read(tmp_path, again)


def test_repeats_are_found_after_spelling_is_settled(tmp_path: Path) -> None:
    frame = design()
    again = pd.concat([frame, frame.iloc[[0]].assign(direction="HIGH", task=" t0 ")])
    with pytest.raises(BadInputError, match="repeats line 2"):
        read(tmp_path, again)


def test_states_are_kept_and_rows_without_one_get_theirs_from_the_score(tmp_path: Path) -> None:
    frame = design().astype({"score": object}).assign(state="")
    frame.loc[0, ["state", "score"]] = ["Refused", None]
    frame.loc[1, "score"] = None
    scores, _ = read(tmp_path, frame)
    assert scores["state"].tolist()[:3] == ["refused", "missing", "ok"]


@pytest.mark.parametrize(
    ("state", "score", "message"),
    [
        ("refused", "0", "scores.csv:2: column 'score': expected an empty cell beside the state 'refused'"),
        ("ok", "", "scores.csv:2: column 'score': expected a number beside the state 'ok'"),
        ("timeout", "", "scores.csv:2: column 'state': expected one of budget_stopped, "),
    ],
)
def test_a_score_that_contradicts_its_state_is_refused(tmp_path: Path, state: str, score: str, message: str) -> None:
    frame = design().astype({"score": str}).assign(state="ok")
    frame.loc[0, ["state", "score"]] = [state, score]
    with pytest.raises(BadInputError) as caught:
        read(tmp_path, frame)
    assert message in str(caught.value)


def test_a_criterion_that_is_never_targeted_is_left_out_with_a_note(tmp_path: Path) -> None:
    frame = design()
    extra = frame[frame["criterion"] == "a"].assign(criterion="overall")
    scores, notes = read(tmp_path, pd.concat([frame, extra]))
    assert set(scores["criterion"]) == {"a", "b"}
    assert notes == ("left out, because no probe targets it: 'overall' (16 scores)",)


def test_a_target_that_is_never_scored_is_refused_with_the_criteria_that_are(tmp_path: Path) -> None:
    frame = design().replace({"target": {"a": "A"}})
    with pytest.raises(BadInputError, match=r"scores\.csv:2: column 'target': 'A' is never scored; .* are 'a', 'b'"):
        read(tmp_path, frame)


def test_a_target_with_one_direction_only_is_refused_by_name(tmp_path: Path) -> None:
    frame = design()
    frame = frame[(frame["target"] != "b") | (frame["direction"] == "+")]
    with pytest.raises(BadInputError, match=r"target 'b' has only '\+' probes \(line 10 is the first\); expected '-'"):
        read(tmp_path, frame)


def test_a_slice_with_one_direction_is_named_in_a_note(tmp_path: Path) -> None:
    frame = design()
    frame = frame[(frame["task"] != "t1") | (frame["target"] != "b") | (frame["direction"] == "+")]
    _, notes = read(tmp_path, frame)
    assert notes == ("no estimate from 1 slices (task × target) that lack '+' or '-' probes: 't1' × 'b'",)


def test_one_criterion_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="coupling needs two targets or more"):
        read(tmp_path, design(criteria=("a",)))


def test_a_table_of_mostly_absent_cells_is_taken_for_a_misread_one(tmp_path: Path) -> None:
    frame = design(criteria=tuple("abcdef"))
    with pytest.raises(BadInputError, match="48 probes × 6 criteria, but only 48 scores"):
        read(tmp_path, frame[frame["target"] == frame["criterion"]])


def test_parquet_names_rows_instead_of_lines(tmp_path: Path) -> None:
    frame = design().astype({"score": float})
    frame.loc[4, "score"] = 7.5
    frame.to_parquet(tmp_path / "s.parquet")
    with pytest.raises(BadInputError, match=r"s\.parquet: row 5: column 'score': .*, found '7\.5'"):
        read_scores(tmp_path / "s.parquet", SCALE)


tokens = st.sampled_from(["t", "a", "b", "+", "-", "1", "2", "", "NaN", '"', "\n", "é"])


def as_csv(rows: list[list[str]]) -> bytes:
    return "\n".join(",".join(row) for row in [list(SCORE_COLUMNS), *rows]).encode()


@settings(max_examples=200, deadline=None)
@given(
    content=st.binary(max_size=200) | st.lists(st.lists(tokens, min_size=6, max_size=6), max_size=8).map(as_csv),
    suffix=st.sampled_from([".csv", ".jsonl", ".parquet"]),
)
def test_any_bytes_give_scores_or_a_bad_input_error_that_names_the_file(content: bytes, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"scores{suffix}"
        path.write_bytes(content)
        try:
            got = str(read_scores(path, SCALE).scores["p"].dropna().between(0, 1).all())
        except BadInputError as error:
            got = str(error)
    assert got == "True" or str(path) in got
