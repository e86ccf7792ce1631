"""People's ratings: the published formats, any wide table, raters, names, gaps, and what is refused with its line."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.errors import BadInputError
from radar_dagster.inputs.ratings import Ratings, read_ratings
from radar_dagster.stats.human import human_correlations

HELPSTEER2 = ["helpfulness", "correctness", "coherence", "complexity", "verbosity"]
SUMMEVAL = ["coherence", "consistency", "fluency", "relevance"]
SUMPUBMED = ["non-redundancy", "coherence", "readability", "informativeness"]


def write(folder: Path, content: str | bytes, name: str = "ratings.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def lines(*objects: object) -> str:
    return "".join(json.dumps(one) + "\n" for one in objects)


def annotation(*ratings: float | None) -> dict[str, float | None]:
    return dict(zip(SUMMEVAL, ratings, strict=True))


def summary(
    experts: list[dict[str, Any]] | None, crowd: list[dict[str, Any]] | None, **changes: object
) -> dict[str, object]:
    """A line of SummEval's file with the keys that the published one has."""
    return {
        "id": "dm-test-1", "model_id": "M0", "decoded": "A summary.", "references": ["A reference."],
        "filepath": "cnndm/stories/1.story", "expert_annotations": experts, "turker_annotations": crowd, **changes,
    }  # fmt: skip


# ---------------------------------------------------------------- the published formats


def test_helpsteer2_lines_read_without_their_texts(tmp_path: Path) -> None:
    first = {"prompt": "Say\n1, 2", "response": "1, 2", **dict(zip(HELPSTEER2, [4, 3, 4, 1, 2], strict=True))}
    second = {**first, "helpfulness": 0, "verbosity": None}
    got = read_ratings(write(tmp_path, lines(first, second), "train.jsonl"))
    assert (got.format, got.raters) == ("HelpSteer2", "all")
    assert list(got.frame) == HELPSTEER2
    assert got.frame.iloc[0].tolist() == [4, 3, 4, 1, 2]
    assert np.isnan(got.frame.loc[1, "verbosity"])
    assert got.notes == ("columns left aside: 'prompt', 'response'", "1 of 10 ratings are missing (empty cells)")


@pytest.mark.parametrize("name", ["train.jsonl.gz", "train.jsonl", "train", "train.csv"])
def test_gzipped_lines_are_told_by_their_content_not_by_their_name(tmp_path: Path, name: str) -> None:
    content = lines(*(dict.fromkeys(HELPSTEER2, k) for k in range(3)))
    got = read_ratings(write(tmp_path, gzip.compress(content.encode()), name))
    assert got.frame["coherence"].tolist() == [0, 1, 2]


def test_a_csv_named_jsonl_and_lines_named_csv_read_all_the_same(tmp_path: Path) -> None:
    assert read_ratings(write(tmp_path, "a,b\n1,2\n", "t.jsonl")).frame.to_numpy().tolist() == [[1, 2]]
    assert read_ratings(write(tmp_path, lines({"a": 1, "b": 2}), "t.csv")).frame.to_numpy().tolist() == [[1, 2]]
    assert read_ratings(write(tmp_path, '[\n{"a": 1, "b": 2}\n]', "t.tsv")).frame.to_numpy().tolist() == [[1, 2]]


SUMMARIES = lines(
    summary([annotation(1, 5, 5, 2)] * 2 + [annotation(2, 5, 5, 3)], [annotation(3, 3, 4, 3)] * 5),
    summary([annotation(5, 5, 5, 5)] * 3, [annotation(1, 2, 3, 4)] * 4 + [annotation(2, 2, 3, None)]),
)


@pytest.mark.parametrize(
    ("raters", "coherence", "relevance"),
    [("expert", [4 / 3, 5], [7 / 3, 5]), ("crowd", [3, 6 / 5], [3, 4]), ("all", [19 / 8, 21 / 8], [22 / 8, 31 / 7])],
)
def test_summeval_averages_the_chosen_raters_and_all_counts_every_single_rating(
    tmp_path: Path, raters: Any, coherence: list[float], relevance: list[float]
) -> None:
    got = read_ratings(write(tmp_path, SUMMARIES, "model_annotations.aligned.jsonl"), raters=raters)
    assert (got.format, got.raters, list(got.frame)) == ("SummEval", raters, SUMMEVAL)
    assert got.frame["coherence"].tolist() == pytest.approx(coherence)
    assert got.frame["relevance"].tolist() == pytest.approx(relevance)
    lost = [note for note in got.notes if "single ratings are missing" in note]
    assert len(lost) == (raters != "expert")
    said = (
        "all is the mean over every single rating of an item, whoever gave it; annotations: 6 by expert and 10 by crowd"
    )
    assert (said in got.notes) == (raters == "all")


def test_a_summary_without_annotations_is_missing_and_the_others_are_not(tmp_path: Path) -> None:
    content = lines(summary([], None), summary([annotation(1, 2, 3, 4)], []))
    got = read_ratings(write(tmp_path, content), raters="expert")
    assert got.frame["coherence"].isna().tolist() == [True, False]
    assert "4 of 8 ratings are missing (empty cells)" in got.notes


def test_raters_that_summeval_lacks_are_named_with_those_it_has(tmp_path: Path) -> None:
    path = write(tmp_path, lines(summary([annotation(1, 2, 3, 4)], [])))
    with pytest.raises(BadInputError, match=r"annotations by 'expert' only, found 'crowd'"):
        read_ratings(path, raters="crowd")
    assert read_ratings(path).frame["fluency"].tolist() == [3]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (
            summary([annotation(1, 2, 3, 4)], "none"),
            r":2: turker_annotations: expected a list of objects, found \"none",
        ),  # type: ignore[arg-type]
        (summary(["5"], []), r":2: expert_annotations: expected a list of objects"),  # type: ignore[list-item]
        (
            summary([{**annotation(1, 2, 3, 4), "fluency": "3"}], []),
            r":2: expert_annotations: 'fluency': expected a fin",
        ),
        (summary([annotation(1, 2, True, 4)], []), r":2: expert_annotations: 'fluency': .*found true"),
        (summary([annotation(1, 2, float("nan"), 4)], []), r":2: expert_annotations: 'fluency': .*found NaN"),
        (summary([annotation(1, 2, 10**400, 4)], []), r":2: expert_annotations: 'fluency': .*found 1000"),
    ],
)
def test_a_bad_annotation_is_named_with_its_line(tmp_path: Path, broken: object, said: str) -> None:
    path = write(tmp_path, lines(summary([annotation(1, 2, 3, 4)], []), broken))
    with pytest.raises(BadInputError, match=said):
        read_ratings(path)


def test_a_columns_mapping_reaches_into_annotations(tmp_path: Path) -> None:
    path = write(tmp_path, SUMMARIES)
    got = read_ratings(
        path, raters="expert", columns={"faithfulness": "consistency"}, criteria=["fluency", "faithfulness"]
    )
    assert got.frame.iloc[0].to_dict() == {"fluency": 5, "faithfulness": 5}
    with pytest.raises(BadInputError, match=r"columns: 'factuality' is no column of the file; found 'coherence'"):
        read_ratings(path, columns={"fluency": "factuality"})


def test_sumpubmeds_short_names_mean_its_criteria(tmp_path: Path) -> None:
    path = write(tmp_path, "FN\tNon-Re\tCoh\tRead\tIOF\n917\t7.33\t5.67\t6\t7.67\n", "human.tsv")
    got = read_ratings(path, criteria=["coherence", "coverage", "non-redundancy"])
    assert got.format == "SumPubMed"
    assert got.frame.iloc[0].to_dict() == {"coherence": 5.67, "non-redundancy": 7.33}
    assert got.notes == ("no ratings for the criteria 'coverage'", "columns left aside: 'FN', 'Read', 'IOF'")
    assert list(read_ratings(path).frame) == SUMPUBMED


WIDE = "id,expert_mean_tone,expert_mean_clarity,crowd_mode_tone,crowd_mode_clarity\nx,1,2,3,4\n"


def test_columns_by_raters_give_the_chosen_ones(tmp_path: Path) -> None:
    path = write(tmp_path, WIDE)
    expert = read_ratings(path, raters="expert")
    crowd = read_ratings(path, raters="crowd", criteria=["clarity", "tone"])
    assert (expert.format, expert.frame.iloc[0].to_dict()) == ("columns by raters", {"tone": 1, "clarity": 2})
    assert crowd.frame.iloc[0].to_dict() == {"clarity": 4, "tone": 3}
    assert "the file holds the mode of the raters, not their mean" in crowd.notes
    assert not any("mode of" in note for note in expert.notes)


def test_of_two_summaries_no_mean_over_all_raters_follows(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"ratings\.csv: raters: .*expected expert or crowd"):
        read_ratings(write(tmp_path, WIDE))
    only = write(tmp_path, "expert_mean_tone,expert_mean_clarity\n1,2\n")
    assert read_ratings(only).frame.iloc[0].tolist() == [1, 2]
    with pytest.raises(BadInputError, match=r"those of 'expert' only, found 'crowd'"):
        read_ratings(only, raters="crowd")


@pytest.mark.parametrize("content", ["tone,clarity\n1,2\n", ",".join(HELPSTEER2) + "\n1,1,1,1,1\n"])
def test_a_file_that_does_not_tell_raters_apart_says_so(tmp_path: Path, content: str) -> None:
    with pytest.raises(BadInputError, match=r"doesn't tell experts and crowd apart; expected all"):
        read_ratings(write(tmp_path, content), raters="expert")


# ---------------------------------------------------------------- any table


def test_names_match_but_for_case_spaces_hyphens_and_underscores(tmp_path: Path) -> None:
    path = write(tmp_path, "Item,Non Redundancy,TONE_of-voice\na,1,2\n")
    got = read_ratings(path, criteria=["tone-of-voice", "non-redundancy"])
    assert got.frame.iloc[0].to_dict() == {"tone-of-voice": 2, "non-redundancy": 1}
    assert got.notes == ("columns left aside: 'Item'",)


def test_criteria_that_differ_only_by_a_hyphen_are_told_apart_by_spelling(tmp_path: Path) -> None:
    path = write(tmp_path, "re-sort,resort\n1,2\n")
    assert read_ratings(path, criteria=["resort", "re-sort"]).frame.iloc[0].to_dict() == {"resort": 2, "re-sort": 1}


def test_two_columns_for_one_criterion_are_refused_unless_one_is_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, "tone,Tone,clarity\n1,2,3\n")
    with pytest.raises(BadInputError, match=r"the columns 'tone', 'Tone' all match the criterion 'tone'"):
        read_ratings(path, criteria=["tone", "clarity"])
    got = read_ratings(path, columns={"tone": "Tone"}, criteria=["tone", "clarity"])
    assert got.frame.iloc[0].to_dict() == {"tone": 2, "clarity": 3}


@pytest.mark.parametrize("criteria", [None, ["tone", "clarity"]])
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, criteria: list[str] | None) -> None:
    with pytest.raises(BadInputError, match=r"ratings\.csv: .*'tone'"):
        read_ratings(write(tmp_path, "tone,clarity,tone\n1,2,3\n"), criteria=criteria)


def test_a_given_column_wins_over_the_one_of_that_name(tmp_path: Path) -> None:
    path = write(tmp_path, "tone,clarity,warmth\n1,2,3\n")
    got = read_ratings(path, columns={"tone": "warmth"}, criteria=["tone", "clarity"])
    assert got.frame.iloc[0].to_dict() == {"tone": 3, "clarity": 2}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"tone": "warmth"}, r"columns: 'warmth' is no column of the file; found 'tone', 'clarity'"),
        ({"wit": "tone"}, r"columns: 'wit' is no criterion of the rubric; expected one of 'tone', 'clarity'"),
        ({"tone": "clarity", "clarity": "clarity"}, r"columns: 'clarity' is given to two criteria"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(tmp_path: Path, columns: dict[str, str], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        read_ratings(write(tmp_path, "tone,clarity\n1,2\n"), columns=columns, criteria=["tone", "clarity"])


def test_no_criterion_in_the_file_lists_both_sides(tmp_path: Path) -> None:
    with pytest.raises(
        BadInputError, match=r"the rubric's criteria are 'wit', 'pace', the file's columns 'id', 'tone'"
    ):
        read_ratings(write(tmp_path, "id,tone\na,1\n"), criteria=["wit", "pace"])


def test_without_criteria_columns_of_numbers_are_ratings_and_others_are_left_aside(tmp_path: Path) -> None:
    got = read_ratings(write(tmp_path, "id;text;tone;clarity;empty\na;so, so;1;2.5;\nb;12;;3;\nc;no;2;3;\n"))
    assert list(got.frame) == ["tone", "clarity"]
    assert got.notes[0] == "columns left aside: 'id', 'text', 'empty'"


def test_a_slip_in_a_column_of_numbers_is_a_slip_and_no_reason_to_leave_it_aside(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"ratings\.csv:4: column 'tone': .*found '4,'"):
        read_ratings(write(tmp_path, "tone;clarity\n1;2\n3;4\n4,;5\n"))


def test_a_table_without_a_number_has_no_ratings(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"expected a column of ratings; none of 'id', 'text' holds numbers"):
        read_ratings(write(tmp_path, "id,text\na,b\n"))


def test_a_parquet_table_reads_with_its_nulls(tmp_path: Path) -> None:
    path = tmp_path / "ratings.parquet"
    pd.DataFrame({"id": ["a", "b"], "tone": [1.5, None], "clarity": pd.array([1, 2], "Int64")}).to_parquet(path)
    got = read_ratings(path)
    assert got.frame["clarity"].tolist() == [1, 2]
    assert got.frame["tone"].isna().tolist() == [False, True]


@pytest.mark.parametrize("cell", ["good", "NaN", "nan", "inf", "-Infinity", "1e999", "1,5", "NA", "0x10", "1_0", "٣"])
def test_a_cell_that_is_no_finite_number_is_named_with_line_and_column(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path, f"tone\tclarity\n1\t2\n3\t{cell}\n")
    with pytest.raises(
        BadInputError, match=r"ratings\.csv:3: column 'clarity': expected a finite number or an empty cell"
    ):
        read_ratings(path, criteria=["tone", "clarity"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", r"ratings\.csv: is empty"),
        ("\n\n", r"ratings\.csv: is empty"),
        ("tone,clarity\n", r"ratings\.csv: holds no rows"),
        ("tone,clarity\n1,2\n1,2,3\n", r"ratings\.csv:3: expected 2 cells as in the header, found 3"),
        ('tone,clarity\n1,"2\n', r"ratings\.csv:2: not valid CSV"),
        ('{"tone": 1, "clarity": 2}\n{"tone": 1,\n', r"ratings\.csv:2: not valid JSON"),
        ('{"tone": 1, "clarity": 2}\n[1, 2]\n', r"ratings\.csv:2: expected a JSON object"),
        ('{"tone": 1, "clarity": 2}\n{"tone": 1, "tone": 2}\n', r"ratings\.csv:2: .*the key 'tone' is given twice"),
        ("[1, 2]", r"ratings\.csv: row 1: expected a JSON object"),
        (b"tone,clarity\n1,2\n1,\xff\n", r"ratings\.csv:3: not UTF-8 text"),
        (b'{"tone": 1, "clarity": 2}\n\xff', r"ratings\.csv:2: not UTF-8 text"),
        (gzip.compress(b"tone,clarity\n1,2\n" * 99, mtime=0)[:-12], r"ratings\.csv: a damaged gzip file"),
        (b"\x1f\x8bnonsense", r"ratings\.csv: "),
        (b"PAR1nonsense", r"ratings\.csv: not a readable Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(tmp_path: Path, content: str | bytes, said: str) -> None:
    for criteria in (None, ["tone", "clarity"]):
        with pytest.raises(BadInputError, match=said):
            read_ratings(write(tmp_path, content), criteria=criteria)


def test_a_list_in_place_of_a_rating_is_named_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, lines({"tone": 1, "clarity": 2}, {"tone": 1, "clarity": [2]}))
    with pytest.raises(
        BadInputError, match=r"ratings\.csv:2: column 'clarity': expected text or a number, found \[2\]"
    ):
        read_ratings(path, criteria=["tone", "clarity"])


def test_a_missing_file_and_a_folder_are_bad_input(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(BadInputError, match="cannot be read"):
            read_ratings(path)


# ---------------------------------------------------------------- anything at all


def ratings_or_message(path: Path, **options: Any) -> Ratings | str:
    try:
        return read_ratings(path, **options)
    except BadInputError as error:
        return str(error)


_heads = st.sampled_from(
    [b"", b"tone,clarity\n", b"tone\tclarity\n1\t2\n", b'{"tone": 1}\n', b"PAR1", b"\x1f\x8b\x08", b"[", b"\xff\xfe",
     ",".join(HELPSTEER2).encode() + b"\n1,1,1,1,1\n", b"Non-Re,Coh,Read,IOF\n", b"expert_mean_tone,crowd_tone\n1,",
     b'{"expert_annotations": [{"tone": 1}]}\n', b'{"turker_annotations": ']
)  # fmt: skip


@settings(max_examples=200)
@given(
    head=_heads,
    tail=st.one_of(st.binary(max_size=40), st.text('0123456789.,;\t\n"[]{}:eE-naN ', max_size=40).map(str.encode)),
    zipped=st.booleans(),
    criteria=st.sampled_from([None, ["tone", "clarity"]]),
    raters=st.sampled_from(["all", "expert", "crowd"]),
)
def test_any_bytes_give_ratings_or_a_bad_input_error_that_names_the_file(
    head: bytes, tail: bytes, zipped: bool, criteria: list[str] | None, raters: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        content = gzip.compress(head + tail) if zipped else head + tail
        path = write(Path(folder), content)
        got = ratings_or_message(path, criteria=criteria, raters=raters)
        if isinstance(got, str):
            assert str(path) in got
            return
        values = got.frame.to_numpy()
        assert values.dtype == float
        assert values.shape[1] >= 1
        assert not np.isinf(values).any()


@settings(max_examples=80)
@given(data=st.data())
def test_a_damaged_parquet_file_gives_ratings_or_a_bad_input_error(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings"
        pd.DataFrame({"id": ["a", "b"], "tone": [1.5, None], "clarity": [1, 2]}).to_parquet(path)
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
        got = ratings_or_message(path, criteria=data.draw(st.sampled_from([None, ["tone", "clarity"]])))
        assert str(path) in got if isinstance(got, str) else got.frame.shape[1] >= 1


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(SUMMEVAL), inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=150)
@given(
    objects=st.lists(
        st.dictionaries(st.sampled_from(["expert_annotations", "turker_annotations", *SUMMEVAL]), _json), max_size=4
    ),
    criteria=st.sampled_from([None, SUMMEVAL]),
)
def test_any_objects_give_ratings_or_a_bad_input_error(
    objects: list[dict[str, object]], criteria: list[str] | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), lines(*objects), "t.jsonl")
        got = ratings_or_message(path, criteria=criteria)
        assert str(path) in got if isinstance(got, str) else len(got.frame) == len(objects)


_cells = st.one_of(st.integers(-10, 100).map(float), st.floats(-1e9, 1e9), st.just(np.nan))


@settings(max_examples=100)
@given(
    rows=st.lists(st.tuples(_cells, _cells, _cells), min_size=1, max_size=8),
    separator=st.sampled_from([",", ";", "\t", "jsonl", "json", "parquet"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_a_written_table_reads_back_to_the_last_bit(
    rows: list[tuple[float, float, float]], separator: str, encoding: str
) -> None:
    frame = pd.DataFrame(rows, columns=["tone", "non-redundancy", "clarity"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings"
        out = frame.assign(id=[f"i{k}" for k in range(len(rows))])
        if separator == "parquet":
            out.to_parquet(path)
        elif separator in ("json", "jsonl"):
            records = out.astype(object).where(out.notna(), None).to_dict("records")
            path.write_text(json.dumps(records) if separator == "json" else lines(*records), encoding="utf-8")
        else:
            out.to_csv(path, sep=separator, index=False, encoding=encoding)
        got = read_ratings(path, criteria=["clarity", "non-redundancy", "tone"])
        pd.testing.assert_frame_equal(got.frame, frame[["clarity", "non-redundancy", "tone"]], check_exact=True)


# ---------------------------------------------------------------- the real files

REAL: list[tuple[str, Any, list[str], list[str]]] = [
    ("sumpubmed_human_annotation.tsv", "all", SUMPUBMED, ["Non-Re", "Coh", "Read", "IOF"]),
    ("helpsteer2_validation_ratings.csv", "all", HELPSTEER2, HELPSTEER2),
    ("summeval_ratings_1600.csv", "expert", SUMMEVAL, [f"expert_mean_{name}" for name in SUMMEVAL]),
    ("summeval_ratings_1600.csv", "crowd", SUMMEVAL, [f"crowd_mode_{name}" for name in SUMMEVAL]),
]


@pytest.mark.parametrize(("name", "raters", "criteria", "columns"), REAL)
def test_the_real_files_read_as_pandas_reads_them(
    shared_data: Path, name: str, raters: Any, criteria: list[str], columns: list[str]
) -> None:
    got = read_ratings(shared_data / name, raters=raters, criteria=criteria)
    plain = pd.read_csv(shared_data / name, sep="\t" if name.endswith("tsv") else ",")
    assert list(got.frame) == criteria
    assert np.array_equal(got.frame.to_numpy(), plain[columns].to_numpy(float))


def test_items_rebuilt_from_the_experts_of_summeval_give_the_known_correlations(
    shared_data: Path, tmp_path: Path
) -> None:
    means = pd.read_csv(shared_data / "summeval_ratings_1600.csv")[[f"expert_mean_{name}" for name in SUMMEVAL]]
    # Three whole ratings with these sums, in SummEval's own layout.
    sums = (means * 3).round().astype(int).to_numpy()
    summaries = [
        summary([annotation(*((row + k) // 3 for row in map(int, item))) for k in range(3)], []) for item in sums
    ]
    got = read_ratings(write(tmp_path, gzip.compress(lines(*summaries).encode())), raters="expert")
    known = [0.315, 0.384, 0.660, 0.488, 0.413, 0.370]
    found = human_correlations(got.frame.to_numpy(), SUMMEVAL, resamples=60)
    assert found["pearson_r"].round(3).tolist() == known
