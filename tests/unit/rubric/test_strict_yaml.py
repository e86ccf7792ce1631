"""YAML that would pass in silence is refused with its line, and nothing in a file can be costly."""

from __future__ import annotations

import contextlib
import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.rubric.strict_yaml import MAX_DEPTH, StrictYamlError, YamlMapping, line_of, parse_yaml


def refusal(text: str) -> StrictYamlError:
    with pytest.raises(StrictYamlError) as caught:
        parse_yaml(text)
    return caught.value


def test_a_mapping_comes_back_with_its_lines() -> None:
    value = parse_yaml("a: 1\n\nb:\n  - x\n  - {c: 2,\n     d: 3}\n")
    assert isinstance(value, YamlMapping)
    assert value == {"a": 1, "b": ["x", {"c": 2, "d": 3}]}
    places: list[tuple[int | str, ...]] = [(), ("b",), ("b", 0), ("b", 1), ("b", 1, "c"), ("b", 1, "d")]
    assert [line_of(value.root, place) for place in places] == [1, 3, 4, 5, 5, 6]


def test_a_place_that_is_not_there_has_the_line_of_what_is_above_it() -> None:
    value = parse_yaml("a:\n- 1\nb:\n  c: 2\n")
    assert isinstance(value, YamlMapping)
    assert line_of(value.root, ("b", "missing")) == 3
    assert line_of(value.root, ("a", 7)) == 1
    assert line_of(value.root, ("b", "c", "deeper", 0)) == 4


@pytest.mark.parametrize("text", ["", "# only a comment\n", "- a\n", "text", "5"])
def test_what_is_no_mapping_is_returned_plain(text: str) -> None:
    assert parse_yaml(text) == yaml.safe_load(text)


def test_a_key_given_twice_is_refused_where_the_second_stands() -> None:
    error = refusal("a: 1\nb:\n  c: 1\n  c: 2\n")
    assert (error.line, error.column) == (4, 3)
    assert "key 'c' given twice" in error.problem


def test_two_keys_that_python_takes_for_one_are_given_twice() -> None:
    assert "given twice" in refusal("1: a\ntrue: b\n").problem


@pytest.mark.parametrize("text", ["? [a]\n: b\n", "? {a: b}\n: c\n", "? !!set {a}\n: c\n"])
def test_a_container_is_no_key(text: str) -> None:
    assert "plain value" in refusal(text).problem


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a:\n\t- b\n", "spaces, not tabs"),
        ("a: b: c\n", "quotes, or >-"),
        ("a: 1\n---\nb: 2\n", "one document"),
        ("x: &x {a: 1}\ny: {<<: *x}\n", "merge keys"),
    ],
)
def test_a_common_mistake_is_explained(text: str, hint: str) -> None:
    assert hint in refusal(text).problem


@pytest.mark.parametrize(
    "tagged",
    ["!!timestamp soon", "!!bool maybe", "!!int ''", "!!int x", "!!float x", "2021-13-45", "1" * 5000],
)
def test_a_value_that_does_not_fit_its_tag_is_refused_with_its_line(tagged: str) -> None:
    assert refusal(f"a: 1\nb: {tagged}\n").line == 2


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system [ls]", "!!python/name:os.system ''", "!own x"])
def test_a_tag_that_would_build_an_object_is_refused(tag: str) -> None:
    assert "could not determine a constructor" in refusal(f"a: {tag}\n").problem


@pytest.mark.parametrize("character", ["\0", "\x1b", "\x7f", "\ufffe"])
def test_a_control_character_is_named_with_its_line(character: str) -> None:
    error = refusal(f"a: 1\nb: x{character}\n")
    assert error.line == 2
    assert f"U+{ord(character):04X}" in error.problem


def test_half_a_surrogate_pair_is_refused() -> None:
    error = refusal('a: "ok"\nb: "\\ud83d"\n')
    assert (error.line, error.problem) == (2, "half a surrogate pair is not text")


def test_both_halves_of_a_pair_are_the_character_as_in_json() -> None:
    text = json.dumps({"face": "\U0001f600 and \U0001f4a1"}, ensure_ascii=True)
    assert "\\ud83d" in text
    assert parse_yaml(text) == {"face": "\U0001f600 and \U0001f4a1"}


def test_an_alias_may_share_a_value() -> None:
    assert parse_yaml("a: &s {min: 0}\nb: *s\n") == {"a": {"min": 0}, "b": {"min": 0}}


@pytest.mark.parametrize("text", ["a: &x [*x]\n", "a: &x {b: {c: *x}}\n", "&x a: *y\n"])
def test_an_alias_inside_of_what_it_names_or_of_nothing_is_refused(text: str) -> None:
    assert "alias" in refusal(text).problem


def bomb(levels: int, width: int, leaf: str = "[x]") -> str:
    lines = [f"a0: &a0 {leaf}"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (bomb(levels=12, width=10), "values"),
        (bomb(levels=3, width=40, leaf="x" * 10_000), "characters"),
        (bomb(levels=MAX_DEPTH + 5, width=1), "levels deep"),
    ],
    ids=["wide", "long", "deep"],
)
def test_a_bomb_of_aliases_is_refused_before_it_is_built(text: str, limit: str) -> None:
    assert limit in refusal(text).problem


@pytest.mark.parametrize(
    "text", ["a: " + "[" * 100_000, "a: " + "{b: " * 100_000, "- " * 100_000 + "a", "? " * 50_000 + "a"]
)
def test_deep_nesting_is_refused_on_the_way_down(text: str) -> None:
    assert f"nested deeper than {MAX_DEPTH}" in refusal(text).problem


def test_as_much_nesting_as_is_allowed_is_read() -> None:
    depth = MAX_DEPTH - 1  # the mapping itself is the first level
    assert parse_yaml("a: " + "[" * (depth - 1) + "x" + "]" * (depth - 1))


#: PyYAML's own writer loses the line breaks that only Unicode knows.
texts = st.text(st.characters(exclude_characters="\x85\u2028\u2029", exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(json_values, st.booleans(), st.sampled_from([True, False, None]))
def test_what_a_yaml_writer_wrote_is_read_back(value: object, unicode: bool, flow: bool | None) -> None:
    text = yaml.safe_dump(value, allow_unicode=unicode, default_flow_style=flow, sort_keys=False)
    assert parse_yaml(text) == value


@settings(deadline=None)
@given(st.text(st.sampled_from("ab:-?[]{}&*!|>'\"%@`#,\n\t 01.<=~\\u\ud800é\U0001f600\x00\x85\u2028"), max_size=60))
def test_any_text_is_read_or_refused_and_never_breaks(text: str) -> None:
    with contextlib.suppress(StrictYamlError):
        parse_yaml(text)
