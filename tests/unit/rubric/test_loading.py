"""Rubric files: every fault is told with file, line and expectation, and no file breaks the reader."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from radar_dagster.errors import BadInputError
from radar_dagster.rubric.loading import MAX_BYTES, load_rubric, load_yaml_mapping, validate_document
from radar_dagster.rubric.model import Rubric, Scale

RUBRIC = """\
name: support
criteria:
  - id: tone
    label: Tone
    definition: Whether the reply is kind.
  - id: length
    label: Length
    kind: descriptive
    definition: How long the reply is.
tasks:
  - id: late-parcel
    prompt: Write the reply.
    reference: Dear Farid, I am sorry.
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "support.yaml"


def load(file: Path, text: str | bytes) -> Rubric:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_rubric(file)


def refusal(file: Path, text: str | bytes) -> list[str]:
    """The lines of the error, without the folder of the file."""
    with pytest.raises(BadInputError) as caught:
        load(file, text)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{file.parent}{os.sep}", "").splitlines()


# ---------------------------------------------------------------- what is read


def test_a_rubric_file_is_read(file: Path) -> None:
    rubric = load(file, RUBRIC)
    assert rubric.name == "support"
    assert [(c.id, c.kind.value, c.scale, c.weight) for c in rubric.criteria] == [
        ("tone", "evaluative", Scale(), 1.0),
        ("length", "descriptive", Scale(), 1.0),
    ]
    assert rubric.task("late-parcel").reference == "Dear Farid, I am sorry."


def test_a_scale_at_the_top_is_the_default_of_criteria_without_one(file: Path) -> None:
    own = RUBRIC.replace("    label: Length\n", "    label: Length\n    scale: {min: -1, max: 1}\n")
    rubric = load(file, "scale: {min: 1, max: 5}\n" + own)
    assert [c.scale for c in rubric.criteria] == [Scale(min=1, max=5), Scale(min=-1, max=1)]


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("My Rubric (v2)", "my-rubric--v2"),
        ("Überprüfung", "uberprufung"),
        ("Rübrik für", "rubrik-fur"),
        ("---", "rubric"),
        ("准确", "rubric"),
        ("x" * 90, "x" * 64),
    ],
)
def test_a_rubric_without_a_name_has_that_of_its_file(tmp_path: Path, stem: str, name: str) -> None:
    assert load(tmp_path / f"{stem}.yaml", RUBRIC.replace("name: support\n", "")).name == name


@pytest.mark.parametrize(
    "same",
    [
        b"\xef\xbb\xbf" + RUBRIC.encode(),
        RUBRIC.replace("\n", "\r\n").encode(),
        b"# a comment\n" + RUBRIC.encode() + b"# another\n...\n",
        RUBRIC.replace("label: Tone\n", 'label: "Tone"   # quoted\n').encode(),
        yaml.safe_dump(yaml.safe_load(RUBRIC), sort_keys=True, default_flow_style=True).encode(),
        RUBRIC.replace("Whether the reply is kind.", ">-\n      Whether the reply\n      is kind.").encode(),
    ],
    ids=["byte order mark", "windows lines", "comments", "quotes", "flow style and sorted keys", "folded text"],
)
def test_layout_does_not_enter_the_hash(file: Path, same: bytes) -> None:
    assert load(file, same).content_hash == load(file, RUBRIC).content_hash


def test_json_is_read_as_the_yaml_it_is(file: Path) -> None:
    text = Rubric.model_validate(yaml.safe_load(RUBRIC)).model_dump_json(exclude_none=True)
    assert load(file, text).content_hash == load(file, RUBRIC).content_hash


def test_an_anchor_may_share_a_scale(file: Path) -> None:
    shared = RUBRIC.replace("label: Tone\n", "label: Tone\n    scale: &five {min: 1, max: 5}\n")
    shared = shared.replace("label: Length\n", "label: Length\n    scale: *five\n")
    assert {c.scale.max for c in load(file, shared).criteria} == {5}


def test_a_rubric_may_come_through_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(RUBRIC.replace("kind: d", "kind: D"),))
    writer.start()
    with pytest.raises(BadInputError, match=r":8: criteria\[2\]\.kind: "):
        load_rubric(pipe)
    writer.join()


# ---------------------------------------------------------------- faults: file, line, place, expectation


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("label: Tone", "label: Tone\n    wieght: 2", "support.yaml:5: criteria[1].wieght: unknown key"),
        ("    label: Tone\n", "", "support.yaml:3: criteria[1].label: required, but missing"),
        ("kind: descriptive", "kind: scale", "support.yaml:8: criteria[2].kind: Input should be 'evaluative' or"),
        ("label: Tone", "label: No", "support.yaml:4: criteria[1].label: expected text (put it in quotes"),
        ("label: Tone", "label: 7", "support.yaml:4: criteria[1].label: expected text (put it in quotes"),
        ("label: Tone", "label:", "support.yaml:4: criteria[1].label: expected text, found nothing"),
        ("label: Tone", "label: ' '", "support.yaml:4: criteria[1].label: expected text, not nothing"),
        ("label: Tone", "label: Tone\n    weight: 0", "support.yaml:5: criteria[1].weight: Input should be greater"),
        ("label: Tone", "label: Tone\n    weight: '2'", "support.yaml:5: criteria[1].weight: expected a number"),
        ("label: Tone", "label: Tone\n    scale: 5", "support.yaml:5: criteria[1].scale: expected a mapping of keys"),
        ("label: Tone", "label: Tone\n    scale:\n      max: 0", "support.yaml:5: criteria[1].scale: min must be"),
        ("label: Tone", "label: Tone\n    anchors:\n      9: x", "support.yaml:3: criteria[1]: anchors [9] are not"),
        ("label: Tone", "label: Tone\n    anchors:\n      1: 2", "support.yaml:6: criteria[1].anchors.1: expected"),
        ("label: Tone", "label: Tone\n    anchors:\n      low: x", "support.yaml:6: criteria[1].anchors.low: exp"),
        ("id: length", "id: tone", "support.yaml:2: criteria: ids must be unique, but 'tone' is the id of"),
        ("id: late-parcel", "id: Late Parcel", "support.yaml:11: tasks[1].id: expected 1 to 64 of a-z"),
        ("    prompt: Write the reply.\n", "", "support.yaml:11: tasks[1].prompt: required, but missing"),
        ("name: support", "name: Support!", "support.yaml:1: name: expected 1 to 64 of a-z"),
        ("name: support", "name: support\nscale: {min: 4, max: 0}", "support.yaml:2: scale: min must be below max"),
        ("name: support", "name: support\nscale: 0..4", "support.yaml:2: scale: expected a mapping of keys"),
        ("name: support", "name: support\nscale:", "support.yaml:2: scale: expected a mapping of keys"),
        ("name: support", "name: support\n1: x", "support.yaml:2: 1: expected a key of text"),
        ("name: support", "name: support\nname: other", "support.yaml:2:1: not valid YAML: key 'name' given twice"),
        ("label: Tone", "label: Tone: kind", "support.yaml:4:16: not valid YAML: mapping values are not allowed"),
        ("    label: Tone", "\tlabel: Tone", "support.yaml:4:1: not valid YAML: found character '\\t'"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_file_line_place_and_expectation(file: Path, old: str, new: str, message: str) -> None:
    assert RUBRIC.count(old) == 1
    (line,) = refusal(file, RUBRIC.replace(old, new))
    assert line.startswith(message)


def test_every_fault_is_told_at_once(file: Path) -> None:
    text = (
        RUBRIC.replace("kind: descriptive", "kind: x")
        .replace("id: late-parcel", "id: L")
        .replace("label: Tone", "l: T")
    )
    assert [line.split(": ")[:2] for line in refusal(file, text)] == [
        ["support.yaml:3", "criteria[1].label"],
        ["support.yaml:4", "criteria[1].l"],
        ["support.yaml:8", "criteria[2].kind"],
        ["support.yaml:11", "tasks[1].id"],
    ]


def test_a_long_list_of_faults_is_cut_with_the_number_of_the_rest(file: Path) -> None:
    tasks = "".join(f"  - {{id: T{i}, prompt: p}}\n" for i in range(1000))
    lines = refusal(file, RUBRIC + tasks)
    assert lines[-1] == "support.yaml: … and 980 more"
    assert len(lines) == 21


@pytest.mark.parametrize("value", ["5", "text", "true", "{a: 1}", "", "[]", "[1, 2]", "[[], {}]", "2021-01-01"])
@pytest.mark.parametrize("key", ["criteria", "tasks"])
@pytest.mark.parametrize("top", ["", "scale: {min: 1, max: 5}\n"])
def test_criteria_and_tasks_of_another_kind_are_refused(file: Path, key: str, value: str, top: str) -> None:
    other = {"criteria": "tasks: [{id: t, prompt: p}]", "tasks": RUBRIC.partition("tasks:")[0]}[key]
    lines = refusal(file, f"{top}{other}\n{key}: {value}\n")
    assert all(f": {key}" in line for line in lines)


def test_a_key_with_terminal_escapes_is_shown_harmlessly(file: Path) -> None:
    lines = refusal(file, '"\\e[31mred\\nsupport.yaml:1: forged": 1\n' + RUBRIC)
    assert len(lines) == 1
    assert "\x1b" not in lines[0]


def test_a_document_without_lines_is_refused_by_place_alone(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"^rubric: criteria\[1\].label: required, but missing"):
        validate_document(Rubric, {"name": "x", "criteria": [{"id": "a"}], "tasks": []}, Path("rubric"))


# ---------------------------------------------------------------- hostile files


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "- a\n- b\n", "just text\n", "42\n", "\ufeff"])
def test_a_file_that_is_no_mapping_is_refused(file: Path, text: str) -> None:
    (line,) = refusal(file, text)
    assert line.startswith("support.yaml: expected a mapping of keys to values at the top, found ")


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (RUBRIC.replace("kind.", "gütig.").encode("latin-1"), 5),
        (RUBRIC.encode("utf-16"), 1),
        (b"\x89PNG\r\n\x1a\n\0\0", 1),
        (RUBRIC.encode() + b"\xff", 14),
    ],
    ids=["latin-1", "utf-16", "a picture", "one bad byte"],
)
def test_what_is_not_utf8_is_refused_with_its_line(file: Path, data: bytes, line: int) -> None:
    (message,) = refusal(file, data)
    assert message.startswith(f"support.yaml:{line}: not UTF-8 text (byte ")


def test_a_huge_file_is_refused_before_it_is_parsed(file: Path) -> None:
    (line,) = refusal(file, RUBRIC.encode() + b"#" * MAX_BYTES)
    assert line == "support.yaml: larger than 5 MB, which no rubric or configuration is"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero on this system")
def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(BadInputError, match="larger than"):
        load_rubric(Path("/dev/zero"))


def test_a_file_that_can_not_be_read_is_told_with_the_reason(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none.yaml", "No such file"),
        (tmp_path, "Is a directory"),
        (Path("a\0b"), "null"),
    ):
        with pytest.raises(BadInputError, match=rf"cannot be read: .*{reason}"):
            load_rubric(path)


def test_a_bomb_of_aliases_is_refused(file: Path) -> None:
    layers = "".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 9)}]\n" for i in range(1, 12))
    (line,) = refusal(file, "x0: &x0 [lol]\n" + layers + RUBRIC)
    assert line.startswith("support.yaml:6:5: not valid YAML: more than 100,000 values, aliases counted")


def test_deep_nesting_is_refused(file: Path) -> None:
    (line,) = refusal(file, RUBRIC + "x: " + "[" * 50_000)
    assert line == "support.yaml:14:53: not valid YAML: nested deeper than 50 levels"


def test_half_a_surrogate_pair_is_refused(file: Path) -> None:
    (line,) = refusal(file, RUBRIC.replace("Write the reply.", '"Write \\ud83d"'))
    assert line == "support.yaml:12:13: not valid YAML: half a surrogate pair is not text"


# ---------------------------------------------------------------- any file at all


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "any.yaml"


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_rubric_or_bad_input(scratch: Path, data: bytes) -> None:
    scratch.write_bytes(data)
    with contextlib.suppress(BadInputError):
        load_rubric(scratch)


KEYS = "name title description scale min max criteria tasks id label definition kind anchors weight prompt source x"
keys = st.sampled_from(KEYS.split())
leaves = st.none() | st.booleans() | st.integers(-3, 200) | st.floats() | st.text(max_size=8) | st.dates()
documents = st.dictionaries(
    keys | st.integers() | st.none(),
    st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | leaves, inner, max_size=4)),
    max_size=6,
)


@settings(deadline=None)
@given(documents)
def test_any_document_is_a_rubric_or_bad_input_of_one_line_per_fault(scratch: Path, document: dict[Any, Any]) -> None:
    scratch.write_text(yaml.safe_dump(document), encoding="utf-8")
    try:
        load_rubric(scratch)
    except BadInputError as error:
        lines = str(error).split("\n")
        for line in lines:
            assert line.startswith(f"{scratch}:")
            assert line.isprintable()


@settings(deadline=None)
@given(st.data())
def test_a_mutilated_rubric_is_a_rubric_or_bad_input(scratch: Path, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(RUBRIC)))
    end = data.draw(st.integers(begin, len(RUBRIC)))
    scratch.write_text(RUBRIC[:begin] + data.draw(st.text(max_size=4)) + RUBRIC[end:], encoding="utf-8", newline="")
    with contextlib.suppress(BadInputError):
        load_rubric(scratch)


names = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
prose = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029\r"), min_size=1).filter(
    str.strip
)


@settings(deadline=None)
@given(names, prose, prose, st.booleans())
def test_what_a_yaml_writer_wrote_is_the_same_rubric(
    scratch: Path, label: str, definition: str, source: str, unicode: bool
) -> None:
    document = yaml.safe_load(RUBRIC)
    document["criteria"][0] |= {"label": label, "definition": definition}
    document["tasks"][0]["source"] = source
    scratch.write_text(yaml.safe_dump(document, allow_unicode=unicode), encoding="utf-8", newline="")
    assert load_rubric(scratch) == Rubric.model_validate(document)


def test_a_mapping_is_returned_as_written(file: Path) -> None:
    file.write_text("a: 1\nb: [x, {c: null}]\n", encoding="utf-8")
    assert load_yaml_mapping(file) == {"a": 1, "b": ["x", {"c": None}]}
