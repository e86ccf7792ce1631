"""The shipped benchmarks: what the published ratings and the offline models need them to be."""

from __future__ import annotations

import csv
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.rubric.loading import benchmark_path, load_rubric, shipped_benchmarks
from radar_dagster.rubric.model import Kind, Rubric, Task

CRITERIA = {
    "helpsteer2": ["helpfulness", "correctness", "coherence", "complexity", "verbosity"],
    "summeval": ["coherence", "consistency", "fluency", "relevance"],
    "sumpubmed": ["non-redundancy", "coherence", "readability", "informativeness", "coverage"],
}
SUMMARIES = ("summeval", "sumpubmed")
REFERENCE_FIGURES = Path(__file__).parents[2] / "data" / "reference"


def shipped(name: str) -> Rubric:
    return load_rubric(benchmark_path(name))


def tasks_of(*names: str) -> list[Any]:
    return [pytest.param(task, id=f"{name}-{task.id}") for name in names for task in shipped(name).tasks]


def sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])[\"')]*\s+|\n+", text) if part.strip()]


def figures(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def test_three_benchmarks_are_shipped() -> None:
    assert shipped_benchmarks() == tuple(sorted(CRITERIA))


def test_an_unknown_benchmark_is_refused_with_the_known_names() -> None:
    with pytest.raises(BadInputError, match=r"'helpsteer' is neither .* \(helpsteer2, summeval, sumpubmed\)"):
        benchmark_path("helpsteer")


@pytest.mark.parametrize("name", CRITERIA)
def test_criteria_are_those_of_the_published_ratings_in_their_order(name: str) -> None:
    rubric = shipped(name)
    assert rubric.name == name
    assert [criterion.id for criterion in rubric.criteria] == CRITERIA[name]


@pytest.mark.parametrize("file", ["human_correlations.csv", "self_effects.csv"])
def test_criteria_match_the_reference_figures(file: str) -> None:
    columns = ("criterion", "criterion_a", "criterion_b")
    named: dict[str, set[str]] = {}
    with (REFERENCE_FIGURES / file).open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle):
            named.setdefault(row["benchmark"], set()).update(row[column] for column in columns if column in row)
    assert named == {name: set(ids) - {"coverage"} for name, ids in CRITERIA.items()}


@pytest.mark.parametrize("name", CRITERIA)
def test_only_complexity_and_verbosity_are_descriptive(name: str) -> None:
    descriptive = {criterion.id for criterion in shipped(name).criteria if criterion.kind is Kind.DESCRIPTIVE}
    assert descriptive == ({"complexity", "verbosity"} if name == "helpsteer2" else set())


@pytest.mark.parametrize("name", CRITERIA)
def test_every_criterion_is_scored_from_0_to_4_with_equal_weight(name: str) -> None:
    assert {c.scale.levels for c in shipped(name).criteria} == {(0, 1, 2, 3, 4)}
    assert {c.weight for c in shipped(name).criteria} == {1.0}


@pytest.mark.parametrize("name", CRITERIA)
def test_every_benchmark_has_five_tasks_with_a_reference_each(name: str) -> None:
    tasks = shipped(name).tasks
    assert len(tasks) == 5
    assert all(task.reference for task in tasks)


@pytest.mark.parametrize("name", CRITERIA)
def test_only_the_summarisation_benchmarks_have_sources(name: str) -> None:
    has_source = {task.source is not None for task in shipped(name).tasks}
    assert has_source == {name in SUMMARIES}


def test_no_sentence_is_shared_between_benchmarks() -> None:
    def said(rubric: Rubric) -> set[str]:
        texts = [c.definition for c in rubric.criteria]
        texts += [t for task in rubric.tasks for t in (task.prompt, task.source, task.reference) if t]
        return {sentence.casefold() for text in texts for sentence in sentences(text)}

    for one, other in itertools.combinations(CRITERIA, 2):
        assert said(shipped(one)) & said(shipped(other)) == set()


@pytest.mark.parametrize("task", tasks_of(*SUMMARIES))
def test_a_reference_summary_states_no_figure_that_its_source_does_not(task: Task) -> None:
    assert task.source
    assert task.reference
    assert figures(task.reference) <= figures(task.source)
    assert figures(task.reference), "a summary without figures gives the offline models little to alter"


@pytest.mark.parametrize("task", tasks_of(*SUMMARIES))
def test_a_reference_summary_names_nobody_that_its_source_does_not(task: Task) -> None:
    assert task.source
    assert task.reference
    inside = re.findall(r"(?<=[a-z,] )[A-Z]\w+", task.reference)
    assert inside
    assert set(inside) <= set(re.findall(r"[A-Z]\w+", task.source))


@pytest.mark.parametrize("task", tasks_of(*SUMMARIES))
def test_a_reference_summary_is_as_long_as_its_prompt_asks(task: Task) -> None:
    asked = re.search(r"(\d) to (\d) sentences", task.prompt)
    assert asked
    assert task.reference
    assert int(asked[1]) <= len(sentences(task.reference)) <= int(asked[2])


@pytest.mark.parametrize("task", tasks_of(*SUMMARIES))
def test_a_source_is_much_longer_than_its_summary(task: Task) -> None:
    assert task.source
    assert task.reference
    assert 220 <= len(task.source.split()) <= 320
    assert len(task.reference.split()) < 0.55 * len(task.source.split())


@pytest.mark.parametrize("task", tasks_of("helpsteer2"))
def test_an_answer_is_long_enough_to_be_edited(task: Task) -> None:
    assert task.reference
    assert 120 <= len(task.reference.split()) <= 220
    assert len(sentences(task.reference)) >= 7


@pytest.mark.parametrize("task", tasks_of("helpsteer2"))
def test_an_answer_has_connectives_to_lose(task: Task) -> None:
    assert task.reference
    assert re.search(r"\b(because|therefore|however|then|but|so|although)\b", task.reference, re.IGNORECASE)


def test_the_refund_adds_up() -> None:
    reference = shipped("helpsteer2").task("refund-reply").reference
    assert reference
    assert f"£{129.00 + 4.95:.2f}" in reference


def test_the_sum_comes_out_right() -> None:
    reference = shipped("helpsteer2").task("maths-bakery").reference
    assert reference
    loaves, rolls = 120 * 3 // 4, 400 * 85 // 100
    before_noon = loaves * 420 + rolls * 65
    afternoon = (120 - loaves - 6) * 294 + (400 - rolls) * 40
    takings = before_noon + afternoon
    for pence in (before_noon, afternoon, takings, takings - 21_250):
        assert f"£{pence / 100:.2f}" in reference
    assert f"{100 * before_noon / takings:.1f}%" in reference


def test_the_code_finds_exactly_the_minutes_that_no_booking_covers() -> None:
    reference = shipped("helpsteer2").task("code-free-slots").reference
    assert reference
    code = re.search(r"```python\n(.*?)```", reference, re.DOTALL)
    assert code
    scope: dict[str, Any] = {}
    exec(code[1], scope)  # our own text, shipped with the package
    call = re.search(r"`(free_slots\(.*?\))` returns `(.*?)`", reference)
    assert call
    assert repr(eval(call[1], scope)) == call[2]

    pairs = list(itertools.combinations(range(8), 2))
    for bookings in itertools.product(pairs, repeat=2):
        free = scope["free_slots"](list(bookings), 2, 6)
        minutes = [minute for start, end in free for minute in range(start, end)]
        assert minutes == [m for m in range(2, 6) if not any(start <= m < end for start, end in bookings)]


def test_the_poem_has_four_stanzas_of_four_lines() -> None:
    reference = shipped("helpsteer2").task("poem-lighthouse").reference
    assert reference
    assert [len(stanza.splitlines()) for stanza in reference.split("\n\n")] == [4, 4, 4, 4]


def test_the_example_rubric_is_one_of_four_criteria_and_two_tasks() -> None:
    path = Path(__file__).parents[3] / "examples" / "rubrics" / "support-reply.yaml"
    rubric = load_rubric(path)
    assert (len(rubric.criteria), len(rubric.tasks)) == (4, 2)
    assert all(task.source and task.reference for task in rubric.tasks)
