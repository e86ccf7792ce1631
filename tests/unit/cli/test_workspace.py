"""Options to a workspace: what is selected, what the small workspace under .radar remembers, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from radar_dagster.cli.workspace import AuditOptions, configured_cell, load_policy, select
from radar_dagster.config import load_workspace
from radar_dagster.errors import BadInputError
from radar_dagster.stats.settings import Reading

RUBRIC = """\
criteria:
  - {id: a, label: A, definition: About a.}
  - {id: b, label: B, definition: About b.}
tasks:
  - {id: one, prompt: Say one., reference: One.}
  - {id: two, prompt: Say two., reference: Two.}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RADAR_WORKSPACE", raising=False)
    (tmp_path / "mine.yaml").write_text(RUBRIC)
    return tmp_path


def own_workspace(here: Path, **extra: object) -> None:
    document = {
        "benchmarks": ["mine.yaml"],
        "models": {"editor": "offline/editor", "reader": "offline/reader", "other": "python/judges:other"},
        "verifiers": ["reader"],
        **extra,
    }
    (here / "radar.yaml").write_text(yaml.safe_dump(document))


def test_without_a_workspace_the_offline_models_audit_a_shipped_benchmark_in_a_small_one(here: Path) -> None:
    selection = select(AuditOptions("helpsteer2"))
    assert selection.pairs == (("editor", "reader"),)
    assert selection.workspace.root == here
    assert selection.implicit_file == here / ".radar" / "radar.yaml"
    assert not (here / ".radar").exists()  # selecting writes nothing


def test_the_small_workspace_reads_back_as_what_was_selected(here: Path) -> None:
    (here / "policy.yaml").write_text("fail_on: [cluster]\nthresholds: {cluster_sym: 0.5}\n")
    policy, judge = Path("policy.yaml"), "python/judges:strict@v2"
    options = AuditOptions("mine.yaml", verifiers=[judge], probes=5, gate=0.3, policy=policy)
    selection = select(options)
    selection.save()
    loaded = load_workspace(here / ".radar" / "radar.yaml")
    assert loaded == selection.workspace
    assert loaded.benchmarks["mine"] == "mine.yaml"
    assert loaded.models["strict-v2"].model == "python/judges:strict@v2"
    assert loaded.audit.probes == 5
    assert loaded.audit.coupling.gate == 0.3
    assert loaded.audit.coupling.thresholds.cluster_sym == 0.5
    assert loaded.audit.policy.fail_on == (Reading.CLUSTER,)


def test_every_audit_adds_its_rubric_and_models_but_its_settings_are_its_own(here: Path) -> None:
    select(AuditOptions("mine.yaml", verifiers=["python/judges:strict"], probes=7)).save()
    selection = select(AuditOptions("helpsteer2"))
    assert set(selection.workspace.benchmarks) >= {"mine", "helpsteer2"}
    assert selection.workspace.verifiers == ("reader", "strict")
    assert selection.pairs == (("editor", "reader"),)
    assert selection.workspace.audit.probes == 3


def test_a_rubric_that_is_gone_does_not_break_the_small_workspace(here: Path) -> None:
    (here / "ratings.csv").write_text("a,b\n1,2\n")
    select(AuditOptions("mine.yaml", human="ratings.csv")).save()
    (here / "mine.yaml").unlink()
    workspace = select(AuditOptions("helpsteer2")).workspace
    assert "mine" not in workspace.benchmarks
    assert workspace.human == {}


def test_task_ids_of_one_benchmark_are_not_written_where_others_would_trip_over_them(here: Path) -> None:
    selection = select(AuditOptions("mine.yaml", tasks="two"))
    assert [task.id for task in selection.rubric.tasks] == ["two"]
    selection.save()
    assert load_workspace(here / ".radar" / "radar.yaml").rubric("helpsteer2").tasks


@pytest.mark.parametrize(("tasks", "expected"), [("1", ["one"]), ("two,", ["two"]), (" two , one ", ["one", "two"])])
def test_tasks_are_a_number_or_ids(here: Path, tasks: str, expected: list[str]) -> None:
    assert [task.id for task in select(AuditOptions("mine.yaml", tasks=tasks)).rubric.tasks] == expected


def test_in_a_workspace_of_ones_own_all_its_pairs_are_audited_and_nothing_is_written(here: Path) -> None:
    own_workspace(here, verifiers=["reader", "other"])
    selection = select(AuditOptions("mine"))
    assert selection.pairs == (("editor", "reader"), ("editor", "other"))
    assert selection.implicit_file is None
    assert selection.notes == ()
    before = (here / "radar.yaml").read_bytes()
    selection.save()
    assert (here / "radar.yaml").read_bytes() == before


def test_a_file_is_recognised_as_the_benchmark_that_it_is(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_workspace(here)
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    assert select(AuditOptions("../mine.yaml")).benchmark == "mine"


def test_what_radar_yaml_does_not_list_is_audited_with_a_note(here: Path) -> None:
    own_workspace(here)
    selection = select(AuditOptions("helpsteer2", verifiers=["other", "python/judges:third"]))
    assert selection.pairs == (("editor", "other"), ("editor", "third"))
    assert selection.notes == (
        "radar.yaml does not list the rubric helpsteer2, third (python/judges:third), other: "
        "add what `radar dev` should show",
    )


def test_a_provider_name_that_has_an_alias_is_that_alias(here: Path) -> None:
    assert select(AuditOptions("helpsteer2", verifiers=["offline/reader"])).pairs == (("editor", "reader"),)


def test_two_models_of_one_name_get_different_aliases(here: Path) -> None:
    selection = select(AuditOptions("mine.yaml", verifiers=["python/a:judge", "python/b:judge"]))
    assert selection.pairs == (("editor", "judge"), ("editor", "judge-2"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rubric": "nothing.yaml"}, "neither a rubric file nor a benchmark"),
        ({"verifiers": ["gpt"]}, "no model 'gpt'; give provider/model or one of editor, reader"),
        ({"verifiers": ["a b/c"]}, "is not a model"),
        ({"probes": 0}, "--probes: Input should be greater than or equal to 1, found 0"),
        ({"gate": 1.5}, "--gate: Input should be less than 1, found 1.5"),
        ({"gate": float("nan")}, "--gate"),
        ({"tasks": "0"}, "--tasks 0: expected at least one task"),
        ({"tasks": " , "}, "--tasks is empty"),
        ({"tasks": "three"}, "no task 'three'; there are one, two"),
        ({"policy": Path("none.yaml")}, "none.yaml: cannot be read"),
        ({"verifiers": ["editor"]}, "editor would only judge its own text"),
    ],
)
def test_bad_options_are_named(here: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        select(AuditOptions(**{"rubric": "mine.yaml", **options}))  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_a_rubric_with_the_name_of_a_shipped_one_is_refused_rather_than_mixed_up_with_it(here: Path) -> None:
    (here / "helpsteer2.yaml").write_text(RUBRIC)
    with pytest.raises(BadInputError, match="the name 'helpsteer2' is taken by a shipped benchmark"):
        select(AuditOptions("helpsteer2.yaml"))


def test_a_policy_file_with_an_unknown_key_is_refused_with_its_line(here: Path) -> None:
    (here / "p.yaml").write_text("fail_on: [cluster]\nfail_of: []\n")
    with pytest.raises(BadInputError, match=r"p\.yaml:2: fail_of: unknown key; known are fail_on, accepted_pairs, "):
        load_policy(Path("p.yaml"))
    (here / "p.yaml").write_text("thresholds: {cluster: 0.5}\n")
    with pytest.raises(BadInputError, match=r"thresholds\.cluster: unknown key; known are tradeoff_sym, .*cluster_sym"):
        load_policy(Path("p.yaml"))


def test_a_cell_that_is_not_configured_is_refused_with_the_ones_that_are(here: Path) -> None:
    own_workspace(here)
    with pytest.raises(BadInputError, match="no pair 'editor~gpt' in this workspace; there are editor~reader"):
        configured_cell("mine", "editor~gpt")
    with pytest.raises(BadInputError, match="no benchmark 'yours'"):
        configured_cell("yours", "editor~reader")


def test_radar_workspace_names_the_workspace_from_anywhere(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_workspace(here)
    elsewhere = here / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("RADAR_WORKSPACE", str(here))
    assert select(AuditOptions("mine")).workspace.root == here
    monkeypatch.setenv("RADAR_WORKSPACE", str(here / "gone"))
    with pytest.raises(BadInputError, match="which does not exist"):
        select(AuditOptions("mine"))
