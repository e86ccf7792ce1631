"""People's word on a rubric: the same table from published vectors, ratings and pair files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.inputs.human import HumanSource, human_table
from radar_dagster.inputs.published import PUBLISHED_RATERS, published_benchmarks, published_correlations
from radar_dagster.lake import frame_of, table_of
from radar_dagster.rubric.loading import benchmark_path, load_rubric, shipped_benchmarks
from radar_dagster.tables import HUMAN_CORRELATIONS

SUMPUBMED = ["non-redundancy", "coherence", "readability", "informativeness", "coverage"]
REFERENCE = Path(__file__).parents[2] / "data" / "reference" / "human_correlations.csv"


def write(folder: Path, content: str, name: str = "human.csv") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_the_published_vectors_are_the_reference_figures() -> None:
    reference = pd.read_csv(REFERENCE)
    assert set(published_benchmarks()) == set(reference["benchmark"]) == set(PUBLISHED_RATERS)
    for benchmark, rows in reference.groupby("benchmark"):
        published = published_correlations(str(benchmark))
        assert published is not None
        assert published.to_numpy().tolist() == rows.drop(columns="benchmark").to_numpy().tolist()
    assert published_correlations("mine") is None


@pytest.mark.parametrize("name", shipped_benchmarks())
def test_every_shipped_benchmark_has_a_published_value_for_all_pairs_of_rated_criteria(name: str) -> None:
    criteria = [criterion.id for criterion in load_rubric(benchmark_path(name)).criteria]
    table, notes = human_table(HumanSource(published=name), criteria)
    rated = [criterion for criterion in criteria if criterion != "coverage"]
    assert len(table) == len(rated) * (len(rated) - 1) // 2
    assert notes == (("no human correlations for the criteria 'coverage'",) if "coverage" in criteria else ())


def test_published_values_have_no_interval_and_say_why() -> None:
    table, _ = human_table(HumanSource(published="summeval"), ["fluency", "coherence"])
    assert list(table.columns) == HUMAN_CORRELATIONS.names
    row = table.iloc[0]
    assert (row.criterion_a, row.criterion_b, row.pearson_r, row.raters, row.source) == (
        "fluency", "coherence", 0.67, "crowd", "published",
    )  # fmt: skip
    assert row[["ci_low", "ci_high", "spearman", "items"]].isna().all()
    assert row.reason == "only the correlation is known, not the ratings: neither items nor intervals nor ranks"


def test_ratings_give_intervals_items_and_raters(tmp_path: Path) -> None:
    rows = "".join(f"{k % 5},{(k * k) % 5},{k % 3}\n" for k in range(30))
    path = write(tmp_path, "expert_tone,expert_wit,expert_pace\n" + rows)
    table, notes = human_table(HumanSource(file=path, raters="expert"), ["pace", "tone", "style"])
    assert table[["criterion_a", "criterion_b", "items", "raters", "source"]].to_numpy().tolist() == [
        ["pace", "tone", 30, "expert", str(path)]
    ]
    assert table.loc[0, "ci_low"] <= table.loc[0, "pearson_r"] <= table.loc[0, "ci_high"]
    assert notes == ("no ratings for the criteria 'style'", "columns left aside: 'expert_wit'")


def test_a_pair_file_states_no_raters_and_unknown_pairs_say_so(tmp_path: Path) -> None:
    path = write(tmp_path, "criterion_a,criterion_b,pearson_r\nwit,tone,0.5\ntone,pace,\n")
    table, notes = human_table(HumanSource(file=path), ["tone", "wit", "pace", "style"])
    assert set(table["raters"]) == {"not stated"}
    assert table["reason"].tolist()[1] == "no value is given for this pair"
    assert notes == (
        "no human correlations for the criteria 'style'",
        "no human correlation for 1 of the other pairs",
    )


def test_every_kind_of_table_fits_the_lake(tmp_path: Path) -> None:
    ratings = write(tmp_path, "tone,wit\n1,2\n2,1\n3,3\n", "ratings.csv")
    pairs = write(tmp_path, "criterion_a,criterion_b,pearson_r\nwit,tone,0.5\n", "pairs.csv")
    for source in (HumanSource(file=ratings), HumanSource(file=pairs)):
        table, _ = human_table(source, ["tone", "wit"])
        pd.testing.assert_frame_equal(
            frame_of(table_of("human_correlations", table)), table, check_dtype=False, check_index_type=False
        )
    assert len(table_of("human_correlations", human_table(HumanSource(published="sumpubmed"), SUMPUBMED)[0])) == 6


def test_one_rated_criterion_makes_an_empty_table_that_fits_the_lake(tmp_path: Path) -> None:
    table, notes = human_table(HumanSource(file=write(tmp_path, "tone,x\n1,2\n2,1\n")), ["tone", "wit"])
    assert len(table_of("human_correlations", table)) == 0
    assert "only one criterion has ratings, so there is no correlation" in notes


def test_no_common_criterion_lists_both_sides(tmp_path: Path) -> None:
    pairs = write(tmp_path, "criterion_a,criterion_b,pearson_r\na,b,0.5\n", "pairs.csv")
    ratings = write(tmp_path, "a,b\n1,2\n", "ratings.csv")
    for source, there in (
        (HumanSource(file=pairs), "'a', 'b'"),
        (HumanSource(file=ratings), "'a', 'b'"),
        (HumanSource(published="summeval"), "'coherence', 'consistency', 'fluency', 'relevance'"),
    ):
        with pytest.raises(BadInputError, match=rf"'tone', 'wit',.*{there}"):
            human_table(source, ["tone", "wit"])


def test_an_unknown_benchmark_names_those_with_published_values() -> None:
    with pytest.raises(BadInputError, match="'mine' has no published ones; expected one of 'helpsteer2', 'summeval'"):
        human_table(HumanSource(published="mine"), ["a", "b"])


def test_a_source_is_published_or_a_file() -> None:
    for given in ({}, {"published": "summeval", "file": Path("x.csv")}):
        with pytest.raises(ValueError, match="either a published benchmark or a file"):
            HumanSource(**given)  # type: ignore[arg-type]


def test_the_real_file_of_sumpubmed_gives_the_published_vector_to_two_decimals(shared_data: Path) -> None:
    measured, _ = human_table(HumanSource(file=shared_data / "sumpubmed_human_annotation.tsv"), SUMPUBMED)
    published, _ = human_table(HumanSource(published="sumpubmed"), SUMPUBMED)
    assert measured["pearson_r"].round(2).tolist() == published["pearson_r"].tolist()
    assert measured[["criterion_a", "criterion_b"]].equals(published[["criterion_a", "criterion_b"]])
