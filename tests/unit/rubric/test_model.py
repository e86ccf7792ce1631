"""What makes a rubric valid, and what enters its content hashes."""

from __future__ import annotations

import hashlib
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from radar_dagster.rubric.model import Criterion, Kind, Rubric, Scale, Task, content_hash
from radar_dagster.rubric.rows import rubric_frame, rubric_from_frame


def criterion(**changes: Any) -> Criterion:
    values: dict[str, Any] = {"id": "tone", "label": "Tone", "definition": "Whether the reply is kind."}
    return Criterion.model_validate(values | changes)


def task(**changes: Any) -> Task:
    values: dict[str, Any] = {"id": "late-parcel", "prompt": "Write the reply.", "reference": "Dear Farid, …"}
    return Task.model_validate(values | changes)


def rubric(**changes: Any) -> Rubric:
    values: dict[str, Any] = {
        "name": "support",
        "criteria": [criterion(), criterion(id="clarity", label="Clarity", definition="Whether it is clear.")],
        "tasks": [task(), task(id="refund")],
    }
    return Rubric.model_validate(values | changes)


# ---------------------------------------------------------------- scale


def test_the_default_scale_is_0_to_4() -> None:
    assert Scale().levels == (0, 1, 2, 3, 4)


@settings(deadline=None)
@given(st.integers(-1000, 1000), st.integers(1, 100))
def test_proportions_run_from_0_to_1_in_equal_steps(low: int, span: int) -> None:
    scale = Scale(min=low, max=low + span)
    steps = [scale.proportion(level) for level in scale.levels]
    assert steps == pytest.approx([i / span for i in range(span + 1)])


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (4, 4, "must be below"),
        (4, 0, "must be below"),
        (0, 101, "at most 101 levels"),
        (0, 4.0, "integer"),
        (False, True, "integer"),
    ],
)
def test_a_scale_needs_whole_numbers_in_order_and_few_enough(low: Any, high: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Scale(min=low, max=high)


# ---------------------------------------------------------------- ids, labels, texts


@pytest.mark.parametrize(
    "name", ["Tone / voice", "non-redundancy", "Kürze & Würze", "准确性", "v1.2 [draft]", "می‌خواهم"]
)
def test_a_criterion_may_have_any_name_that_is_one_printable_line(name: str) -> None:
    assert criterion(id=name, label=name).id == name


@pytest.mark.parametrize(
    "name", ["", "   ", "a\nb", "a\x1b[31m", "a\u2028b", "a\u202eb", "zero\u200bwidth", "x" * 201, "half \ud800"]
)
def test_a_name_that_can_not_be_shown_on_one_line_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        criterion(id=name)


def test_a_refused_character_is_named_by_its_code() -> None:
    with pytest.raises(ValidationError, match=r"contains U\+001B, U\+202E"):
        criterion(label="a\x1b[31m\u202e")


@pytest.mark.parametrize("slug", ["a", "0", "refund-reply", "a.b_c-d", "x" * 64])
def test_a_task_id_may_be_a_slug(slug: str) -> None:
    assert task(id=slug).id == slug


@pytest.mark.parametrize(
    "text", ["", "A", "a b", "-a", ".a", "..", "a/b", "a|b", "a~b", "a,b", "[a]", "é", "²", "٣", "a\n", "x" * 65]
)
def test_a_task_id_that_is_no_slug_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="letter or digit first"):
        task(id=text)


def test_surrounding_space_does_not_count() -> None:
    padded = criterion(id=" tone ", label="\tTone", definition="\n Whether the reply is kind. \n")
    assert padded == criterion()
    assert padded.content_hash == criterion().content_hash


@pytest.mark.parametrize("key", ["definition", "label", "id"])
def test_a_criterion_without_words_is_refused(key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        criterion(**{key: " \n "})


@pytest.mark.parametrize("weight", [0, -1, float("inf"), float("nan"), "2", True])
def test_a_weight_is_a_positive_number(weight: Any) -> None:
    with pytest.raises(ValidationError, match="weight"):
        criterion(weight=weight)


def test_an_anchor_belongs_to_a_level_of_the_scale() -> None:
    assert criterion(anchors={0: "rude", 4: "kind"}).anchors == {0: "rude", 4: "kind"}
    with pytest.raises(ValidationError, match=r"anchors \[-1, 5\] are not levels of the scale 0..4"):
        criterion(anchors={5: "saintly", -1: "hostile", 2: "neutral"})


def test_an_anchor_can_not_be_lost_to_its_twin_in_quotes() -> None:
    with pytest.raises(ValidationError, match="1 is there twice"):
        criterion(anchors={1: "cool", "1": "warm"})


# ---------------------------------------------------------------- rubric


def test_a_rubric_has_two_criteria_and_a_task_at_least() -> None:
    with pytest.raises(ValidationError, match="criteria"):
        rubric(criteria=[criterion()])
    with pytest.raises(ValidationError, match="tasks"):
        rubric(tasks=[])


def test_ids_are_unique_and_the_message_says_where_they_are_not() -> None:
    with pytest.raises(ValidationError, match="'tone' is the id of numbers 1, 3"):
        rubric(criteria=[criterion(), criterion(id="other"), criterion()])
    with pytest.raises(ValidationError, match="'refund' is the id of numbers 1, 2"):
        rubric(tasks=[task(id="refund"), task(id="refund")])


def test_two_spellings_of_one_accent_are_one_id() -> None:
    composed, decomposed = "clarté", unicodedata.normalize("NFD", "clarté")
    assert composed != decomposed
    assert criterion(id=decomposed).id == composed
    with pytest.raises(ValidationError, match="unique"):
        rubric(criteria=[criterion(id=composed), criterion(id=decomposed)])


def test_a_criterion_and_a_task_are_found_by_id_or_the_known_ids_are_told() -> None:
    assert rubric().criterion("clarity").label == "Clarity"
    assert rubric().task("refund").id == "refund"
    with pytest.raises(KeyError, match="no criterion 'Tone'; there are 'tone', 'clarity'"):
        rubric().criterion("Tone")


def test_a_selection_of_tasks_keeps_the_order_of_the_rubric() -> None:
    three = rubric(tasks=[task(id="a"), task(id="b"), task(id="c")])
    assert [t.id for t in three.with_tasks(["c", "a"]).tasks] == ["a", "c"]
    with pytest.raises(KeyError, match="no task 'd'"):
        three.with_tasks(["a", "d"])


def test_a_rubric_can_not_be_changed_once_it_is_made() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        rubric().name = "other"  # type: ignore[misc]


# ---------------------------------------------------------------- hashes


def test_a_content_hash_is_the_sha256_of_compact_sorted_json() -> None:
    document = '{"a":[1,null],"b":"\\u00e9"}'
    assert content_hash({"b": "é", "a": [1, None]}) == hashlib.sha256(document.encode()).hexdigest()


SHOWN_TO_MODELS = {
    "id": "manner",
    "label": "Manners",
    "definition": "Whether the reply is polite.",
    "kind": "descriptive",
    "scale": {"min": 1, "max": 5},
    "anchors": {0: "rude"},
}


@pytest.mark.parametrize("key", SHOWN_TO_MODELS)
def test_whatever_a_model_is_shown_of_a_criterion_enters_its_hash(key: str) -> None:
    changed = criterion(**{key: SHOWN_TO_MODELS[key]})
    assert changed.content_hash != criterion().content_hash
    assert rubric(criteria=[changed, criterion(id="clarity")]).content_hash != rubric().content_hash


def test_a_weight_changes_the_rubric_but_not_the_criterion() -> None:
    heavier = criterion(weight=2)
    assert heavier.content_hash == criterion().content_hash
    assert rubric(criteria=[heavier, rubric().criteria[1]]).content_hash != rubric().content_hash


def test_an_edit_of_one_criterion_leaves_the_hash_of_the_others_alone() -> None:
    edited = rubric(criteria=[criterion(definition="Whether the reply is warm."), rubric().criteria[1]])
    same = [a.content_hash == b.content_hash for a, b in zip(edited.criteria, rubric().criteria, strict=True)]
    assert same == [False, True]
    assert [t.content_hash for t in edited.tasks] == [t.content_hash for t in rubric().tasks]


@pytest.mark.parametrize("key", ["id", "prompt", "source", "reference"])
def test_every_part_of_a_task_enters_its_hash(key: str) -> None:
    changed = task(**{key: "another"})
    assert changed.content_hash != task().content_hash
    assert rubric(tasks=[changed, task(id="refund")]).content_hash != rubric().content_hash


@pytest.mark.parametrize("changes", [{"title": "Support replies"}, {"description": "Ours."}, {"name": "renamed"}])
def test_a_title_a_description_and_a_name_enter_no_hash(changes: dict[str, str]) -> None:
    assert rubric(**changes).content_hash == rubric().content_hash


@pytest.mark.parametrize("part", ["criteria", "tasks"])
def test_the_order_of_criteria_and_of_tasks_enters_the_hash(part: str) -> None:
    turned = {part: tuple(reversed(getattr(rubric(), part)))}
    assert rubric(**turned).content_hash != rubric().content_hash


def test_a_default_written_out_is_the_default() -> None:
    explicit = criterion(kind="evaluative", scale={"min": 0, "max": 4}, anchors={}, weight=1)
    assert explicit.content_hash == criterion().content_hash


def test_the_order_of_anchors_does_not_enter_the_hash() -> None:
    assert criterion(anchors={0: "a", 4: "b"}).content_hash == criterion(anchors={4: "b", 0: "a"}).content_hash


# ---------------------------------------------------------------- round trips

names = st.text(st.characters(categories=["L", "N", "P", "S", "M"]), min_size=1, max_size=30)
slugs = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True)
texts = st.text(min_size=1, max_size=80).filter(str.strip)
scales = st.builds(lambda low, span: Scale(min=low, max=low + span), st.integers(-5, 5), st.integers(1, 10))


@st.composite
def criteria(draw: st.DrawFn, criterion_id: str) -> Criterion:
    scale = draw(scales)
    return Criterion(
        id=criterion_id,
        label=draw(names),
        definition=draw(texts),
        kind=draw(st.sampled_from(Kind)),
        scale=scale,
        anchors=draw(st.dictionaries(st.sampled_from(scale.levels), texts, max_size=3)),
        weight=draw(st.floats(1e-3, 1e3)),
    )


@st.composite
def rubrics(draw: st.DrawFn) -> Rubric:
    ids = draw(st.lists(names, min_size=2, max_size=4, unique_by=lambda n: unicodedata.normalize("NFC", n)))
    optional = st.none() | texts
    return Rubric(
        name=draw(slugs),
        criteria=tuple(draw(criteria(criterion_id)) for criterion_id in ids),
        tasks=tuple(
            Task(id=task_id, prompt=draw(texts), source=draw(optional), reference=draw(optional))
            for task_id in draw(st.lists(slugs, min_size=1, max_size=3, unique=True))
        ),
    )


@settings(deadline=None)
@given(rubrics())
def test_a_rubric_survives_json_with_its_hash(made: Rubric) -> None:
    again = Rubric.model_validate_json(made.model_dump_json())
    assert again == made
    assert again.content_hash == made.content_hash


@settings(deadline=None)
@given(rubrics())
def test_a_rubric_survives_the_rows_of_the_lake_with_its_hash(made: Rubric) -> None:
    again = rubric_from_frame(made.name, rubric_frame(made).iloc[::-1])
    assert again == made
    assert again.content_hash == made.content_hash
