"""radar.yaml: shorthands, errors with their line, and how a workspace is found."""

from pathlib import Path

import pytest

from radar_dagster.config import WORKSPACE_VARIABLE, Workspace, current_workspace, find_workspace_file, load_workspace
from radar_dagster.errors import BadInputError
from radar_dagster.rubric.loading import shipped_benchmarks
from radar_dagster.stats.settings import Reading

RUBRIC = """\
criteria:
  - {id: a, label: A, definition: First.}
  - {id: b, label: B, definition: Second.}
tasks:
  - {id: one, prompt: Write.}
  - {id: two, prompt: Write again.}
"""


def write(folder: Path, text: str, name: str = "radar.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_the_shipped_benchmarks_run_on_the_offline_models() -> None:
    workspace = Workspace()
    assert tuple(workspace.benchmarks) == shipped_benchmarks()
    assert workspace.pairs() == [("editor", "reader")]


def test_benchmarks_and_models_have_shorthands(tmp_path: Path) -> None:
    write(tmp_path, RUBRIC, "rubrics/Mine.yaml")
    workspace = load_workspace(
        write(
            tmp_path,
            "benchmarks: [helpsteer2, rubrics/Mine.yaml]\n"
            "models: {e: offline/editor, r: {model: offline/reader}}\ngenerators: [e]\nverifiers: [r]\n",
        )
    )
    assert workspace.benchmarks == {"helpsteer2": None, "mine": "rubrics/Mine.yaml"}
    assert workspace.rubric("mine").name == "mine"
    assert workspace.pairs() == [("e", "r")]


def test_a_judge_is_one_line_where_it_is_used(tmp_path: Path) -> None:
    text = "generators: {e: offline/editor}\nverifiers:\n  r: offline/reader\n  ours: {model: python/judges:score}\n"
    workspace = load_workspace(write(tmp_path, text))
    assert workspace.pairs() == [("e", "r"), ("e", "ours")]
    assert workspace.models["ours"].model == "python/judges:score"


def test_a_judge_alone_is_paired_with_the_generator_that_comes_with_the_project(tmp_path: Path) -> None:
    workspace = load_workspace(write(tmp_path, "verifiers:\n  reader: python/judges:score\n"))
    assert workspace.pairs() == [("editor", "reader")]
    assert workspace.models["reader"].model == "python/judges:score"


def test_the_folder_of_a_workspace_is_not_the_files_to_set(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="root: unknown key"):
        load_workspace(write(tmp_path, "root: elsewhere\n"))


ENDPOINT_KEYS = "; known are protocol, base_url, api_key_env, "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nonsense: 1\n", "nonsense: unknown key; known are store, benchmarks, "),
        ("audit:\n  probs: 3\n", "audit.probs: unknown key; known are probes, "),
        ("endpoints:\n  mine: {url: x}\n", f"endpoints.mine.url: unknown key{ENDPOINT_KEYS}"),
        ("endpoints:\n  protocol: {url: x}\n", f"endpoints.protocol.url: unknown key{ENDPOINT_KEYS}"),
        ("endpoints:\n  mine: {capabilities: {a*: {json: true}}}\n", "json: unknown key; known are temperature, "),
        ("prices:\n  a/b: {input: 1, output: 1, cache: 1}\n", "cache: unknown key; known are input, output, "),
        ("models:\n  m: {model: offline/reader, option: {}}\n", "option: unknown key; known are model, "),
        ("verifiers:\n  m: {model: offline/reader, option: {}}\n", ":2: verifiers.m.option: unknown key; known are "),
    ],
)
def test_an_unknown_key_is_told_with_those_of_its_level(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(BadInputError) as error:
        load_workspace(write(tmp_path, text))
    assert expected in str(error.value)
    assert "root" not in str(error.value).partition("known are")[2]


def test_an_alias_can_not_stand_for_two_models(tmp_path: Path) -> None:
    text = "models: {r: offline/planted}\ngenerators: {e: offline/editor}\nverifiers: {r: offline/reader}\n"
    with pytest.raises(BadInputError, match="verifiers and models give 'r' two different models"):
        load_workspace(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("audit:\n  probs: 3\n", 2, "audit.probs: unknown key"),
        ("audit:\n  probes: 0\n", 2, "greater than or equal to 1"),
        ("audit:\n  coupling:\n    gate: 1.5\n", 3, "less than 1"),
        ("models:\n  e: {model: editor}\n", 2, "is not a model: expected provider/model"),
        ("benchmarks: [helpsteer2, helpsteer2]\n", 1, "listed twice"),
        ("benchmarks: [3]\n", 1, "a shipped name or the path of a rubric file"),
        ("audit:\n  coupling:\n    thresholds: {cluster_sym: .nan}\n", 3, "finite number"),
        ("audit:\n  tasks: 0\n", 2, "greater than or equal to 1"),
        ("audit:\n  tasks: true\n", 2, "audit.tasks"),
        ("schedule:\n  cron: nonsense\n", 2, "expected five cron fields"),
        ("schedule:\n  timezone: Mars/Phobos\n", 2, "expected an IANA time zone"),
        ("audit:\n  policy:\n    fail_on: [unreliable]\n", 2, "inconclusive, not violated"),
    ],
)
def test_a_fault_names_file_line_place_and_expectation(tmp_path: Path, text: str, line: int, expected: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(BadInputError) as error:
        load_workspace(path)
    assert expected in str(error.value)
    assert str(error.value).startswith(f"{path}:{line}: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("generators: [nobody]\n", "generators names 'nobody', but models has only editor, reader"),
        ("verifiers: []\n", "verifiers must name at least one model"),
        ("generators: [editor, editor]\n", "generators lists an alias twice"),
        ("verifiers: [editor]\n", "every pair is a self-pair"),
        ("benchmarks: []\n", "benchmarks must name at least one rubric"),
        ("schedule: {production_pairs: [editor~nobody]}\n", "but the pairs are editor~reader"),
    ],
)
def test_aliases_that_do_not_fit_together_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(BadInputError, match=expected):
        load_workspace(write(tmp_path, text))


def test_two_aliases_of_one_model_are_a_self_pair_unless_allowed() -> None:
    models = {
        "a": {"model": "offline/planted"},
        "b": {"model": "offline/planted"},
        "reader": {"model": "offline/reader"},
    }
    config = {"models": models, "generators": ["a"], "verifiers": ["b", "reader"]}
    assert Workspace.model_validate(config).pairs() == [("a", "reader")]
    assert Workspace.model_validate({**config, "allow_self_pairs": True}).pairs() == [("a", "b"), ("a", "reader")]


@pytest.mark.parametrize(("selection", "ids"), [("1", ["one"]), ("[two]", ["two"]), ("[two, one]", ["one", "two"])])
def test_tasks_are_selected_by_number_or_by_id(tmp_path: Path, selection: str, ids: list[str]) -> None:
    write(tmp_path, RUBRIC, "r.yaml")
    workspace = load_workspace(write(tmp_path, f"benchmarks: [r.yaml]\naudit: {{tasks: {selection}}}\n"))
    assert [task.id for task in workspace.rubric("r").tasks] == ids


def test_an_unknown_task_is_named_with_the_known_ones(tmp_path: Path) -> None:
    write(tmp_path, RUBRIC, "r.yaml")
    workspace = load_workspace(write(tmp_path, "benchmarks: [r.yaml]\naudit: {tasks: [three]}\n"))
    with pytest.raises(BadInputError, match="no task 'three'; there are one, two"):
        workspace.rubric("r")


def test_the_nearest_file_above_is_the_workspace(tmp_path: Path) -> None:
    outer = write(tmp_path, "store: outer\n")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_workspace_file(deep) == outer
    inner = write(tmp_path / "a", "store: inner\n")
    assert find_workspace_file(deep) == inner


def test_an_implicit_workspace_has_its_paths_beside_the_folder_it_lies_in(tmp_path: Path) -> None:
    path = write(tmp_path, "store: .radar/lake\n", ".radar/radar.yaml")
    assert find_workspace_file(tmp_path) == path
    assert load_workspace(path).store_url == str(tmp_path / ".radar" / "lake")


def test_a_workspace_named_in_the_environment_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(BadInputError, match="RADAR_WORKSPACE is .*gone, which does not exist"):
        current_workspace()


def test_policy_and_thresholds_are_configuration(tmp_path: Path) -> None:
    text = "audit: {coupling: {gate: 0.3, thresholds: {cluster_sym: 0.6}}, policy: {fail_on: [tradeoff]}}\n"
    audit = load_workspace(write(tmp_path, text)).audit
    assert audit.coupling.gate == 0.3
    assert audit.coupling.thresholds.cluster_sym == 0.6
    assert audit.policy.fail_on == (Reading.TRADEOFF,)
