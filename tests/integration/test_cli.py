"""`radar` as people run it: its streams, exit codes and files.

Audits, signals, terminals and pipes are tested on real processes. Where a process would only add its imports, the
command is called in this one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from dagster import AssetKey, DagsterInstance

from radar_dagster.cli.main import app
from radar_dagster.config import load_workspace
from radar_dagster.lake import Lake
from radar_dagster.report.escape import terminal
from radar_dagster.tables import COUPLING_TABLES, SCHEMAS

pytestmark = pytest.mark.slow

RADAR = Path(sys.executable).with_name("radar")
COMMANDS = ["init", "audit", "plan", "coupling", "validate", "trace", "report", "check", "sql", "dev"]
PAIR = "editor~reader"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout; anything else there fails."""
        document: dict[str, Any] = json.loads(self.out)
        return document


def environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"RADAR_WORKSPACE", "FORCE_COLOR"}}
    return {**kept, **extra}


def radar(*arguments: str, cwd: Path, **extra: str) -> Outcome:
    done = subprocess.run(
        [RADAR, *arguments], cwd=cwd, env=environment(**extra), capture_output=True, text=True, timeout=300, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def called(*arguments: str, cwd: Path) -> Outcome:
    """The command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.delenv("RADAR_WORKSPACE", raising=False)
        patch.chdir(cwd)
        patch.setattr(sys, "path", [*sys.path])  # the folder of a workspace's models is added to it
        with pytest.raises(SystemExit) as ended:
            app(list(arguments), prog_name="radar")
    assert isinstance(ended.value.code, int)
    return Outcome(ended.value.code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A folder in which `radar init`'s rubric was audited without its radar.yaml, and the outcome."""
    folder = tmp_path_factory.mktemp("audited")
    assert radar("init", "new", cwd=folder).code == 0
    shutil.copy(folder / "new" / "rubrics" / "example.yaml", folder / "desk.yaml")
    text = (folder / "desk.yaml").read_text().replace("name: example", "name: desk")
    (folder / "desk.yaml").write_text(text)
    shutil.rmtree(folder / "new")
    return folder, radar("audit", "desk.yaml", "--probes", "2", "--json", "--out", "out", cwd=folder)


# ---------------------------------------------------------------- help and usage


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from radar_dagster.cli.main import main\n"
        "sys.argv = ['radar', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'dagster', 'duckdb', 'numpy', 'pandas', 'pyarrow', 'pydantic', 'rich', 'scipy', 'yaml'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "HEAVY []"
    assert all(f"  {command} " in done.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_and_knows_json(command: str, tmp_path: Path) -> None:
    outcome = called(command, "--help", cwd=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    assert "--json" in outcome.out


@pytest.mark.parametrize("arguments", [[], ["--nonsense"], ["nonsense"], ["audit"], ["plan", "x", "--probes", "y"]])
def test_wrong_usage_is_exit_2_with_the_message_on_stderr(arguments: list[str], tmp_path: Path) -> None:
    outcome = called(*arguments, cwd=tmp_path)
    assert outcome.code == 2
    assert "Usage: radar" in outcome.err
    assert outcome.out == ""


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    from radar_dagster import __version__

    assert called("--version", cwd=tmp_path).out == f"radar {__version__}\n"


# ---------------------------------------------------------------- bad input


def test_bad_scores_end_with_exit_2_one_message_and_nothing_written(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(
        '\ufefftask,target,direction,probe,criterion,score\nt,a,+,1,a,4\nt,a,+,"1\n2",b,9\n', encoding="utf-8"
    )
    outcome = radar("coupling", "s.csv", "--json", "--out", "out", cwd=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Traceback" not in outcome.err
    assert "s.csv:3: column 'probe': must be one printable line, but contains U+000A" in outcome.err
    assert "s.csv:3: column 'score': expected a number from 0 to 4, found '9'" in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_broken_rubric_is_named_with_its_line_and_no_workspace_is_made(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("criteria:\n  - {id: a, label: A}\ntasks: []\n")
    outcome = called("audit", "r.yaml", cwd=tmp_path)
    assert outcome.code == 2
    assert re.search(r"r\.yaml:2: criteria\[1\]\.definition: required", outcome.err)
    assert [path.name for path in tmp_path.iterdir()] == ["r.yaml"]


@pytest.mark.parametrize(
    "arguments", [["trace", "helpsteer2", PAIR, "a", "b"], ["sql"], ["report", "helpsteer2", PAIR]]
)
def test_what_needs_an_audit_says_so_when_there_was_none(arguments: list[str], tmp_path: Path) -> None:
    outcome = called(*arguments, cwd=tmp_path)
    assert outcome.code == 2
    assert "audit" in outcome.err
    assert outcome.out == ""


# ---------------------------------------------------------------- an audit and what follows


def test_an_audit_prints_one_document_and_exits_with_its_verdict(audited: tuple[Path, Outcome]) -> None:
    _, outcome = audited
    document = outcome.document
    assert outcome.code == document["verdict"][0]["exit_code"]
    assert outcome.code in {0, 1, 3}
    for table in COUPLING_TABLES:
        if table != "verdict":
            assert all(list(row) == SCHEMAS[table].names for row in document[table]), table
    assert {row["criterion"] for row in document["self_effects"]} == {"accuracy", "clarity", "length"}
    assert document["settings"]["probes"] == 2
    assert document["settings"]["rule_based"] == ["editor", "reader"]
    assert document["human_correlations"] == []
    (row,) = document["validation"]
    assert (row["method"], row["pearson"], row["pairs_used"]) == ("radar", None, 0)
    assert row["detail"].startswith("no_human_correlations")
    assert {row["reference"] for row in document["probe_budget"]} == {"full"}
    assert document["data_checks"] == []
    assert document["notes"] == []
    assert "editor writes the probes" in outcome.err
    assert "Warning" not in outcome.err


def test_an_audit_of_ones_own_rubric_is_compared_with_ones_own_ratings(
    audited: tuple[Path, Outcome], tmp_path: Path
) -> None:
    original, outcome = audited
    folder = Path(shutil.copytree(original, tmp_path / "own"))
    ratings = pd.DataFrame({"accuracy": range(1, 13), "clarity": [2, 1] * 6, "Length": [5, 4, 3, 2, 1, 5] * 2})
    ratings.to_csv(folder / "ratings.csv", index=False)
    again = called("audit", "desk.yaml", "--probes", "2", "--human", "ratings.csv", "--json", cwd=folder).document
    human = {(row["criterion_a"], row["criterion_b"]): row["pearson_r"] for row in again["human_correlations"]}
    assert human["accuracy", "length"] == pytest.approx(ratings["accuracy"].corr(ratings["Length"]))
    assert again["notes"] == []
    (row,) = again["validation"]
    assert row["pairs_used"] == sum(pair["sym"] is not None for pair in again["criterion_pairs"])
    assert again["leakage"] == outcome.document["leakage"]  # what people say moves no number of the audit
    assert load_workspace(folder / ".radar" / "radar.yaml").human_section("desk") is not None
    page = Path(again["report"]).read_text()
    assert "ratings.csv" in page
    told = called("report", "desk", PAIR, cwd=folder)  # the source is remembered
    assert told.code == 0
    assert "ratings.csv" in Path(again["report"]).read_text()

    half = ratings.set_axis(["accuracy", "clear", "Length"], axis=1)
    half.to_csv(folder / "half.csv", index=False)
    noted = called("audit", "desk.yaml", "--probes", "2", "--human", "half.csv", "--json", cwd=folder)
    assert noted.document["notes"] == [
        "no ratings for the criteria 'clarity'",
        "columns left aside: 'clear'",
    ]
    assert "'clear'" in noted.err

    strangers = ratings.set_axis(["beauty", "wit", "charm"], axis=1)
    strangers.to_csv(folder / "strangers.csv", index=False)
    refused = called("audit", "desk.yaml", "--human", "strangers.csv", cwd=folder)
    assert refused.code == 2
    for name in ("'accuracy'", "'clarity'", "'length'", "'beauty'", "'wit'", "'charm'"):
        assert name in refused.err
    assert "Traceback" not in refused.err


def test_pairs_of_which_only_some_have_baselines_share_a_document(tmp_path: Path) -> None:
    assert radar("init", cwd=tmp_path).code == 0
    text = (tmp_path / "radar.yaml").read_text()
    strict = "verifiers:\n  strict: {model: offline/reader, options: {strictness: 2}}"
    (tmp_path / "radar.yaml").write_text(text.replace("verifiers:", strict))
    options = ("audit", "example", "--probes", "1", "--tasks", "1")
    assert called(*options, "--verifier", "reader", "--baselines", cwd=tmp_path).code in {0, 1, 3}
    document = called(*options, "--json", cwd=tmp_path).document
    assert {row["pair"] for row in document["baselines"]} == {PAIR}
    assert {row["pair"] for row in document["validation"]} == {PAIR, "editor~strict"}


def test_the_folder_holds_the_page_every_table_and_the_document(audited: tuple[Path, Outcome]) -> None:
    folder, outcome = audited
    out = folder / "out"
    assert outcome.document == json.loads((out / "summary.json").read_text())
    assert (out / "report.html").read_text() == Path(outcome.document["report"]).read_text()
    for table in ("probes", "scores", *COUPLING_TABLES):
        assert len(pd.read_csv(out / f"{table}.csv")) == len(pd.read_parquet(out / f"{table}.parquet"))


def test_the_small_workspace_can_be_opened_and_its_instance_shows_the_runs(audited: tuple[Path, Outcome]) -> None:
    folder, _ = audited
    workspace = load_workspace(folder / ".radar" / "radar.yaml")
    assert workspace.benchmarks["desk"] == "desk.yaml"
    assert workspace.audit.probes == 2
    with DagsterInstance.from_config(str(workspace.dagster_home)) as instance:
        assert all(run.is_success for run in instance.get_runs())
        assert len(instance.get_runs()) >= 3


def test_the_exported_scores_give_the_same_leakage_again(audited: tuple[Path, Outcome]) -> None:
    folder, outcome = audited
    again = called("coupling", "out/scores.csv", "--json", cwd=folder).document
    assert again["notes"] == []
    leakage = [{(row["source"], row["target"]): row for row in d["leakage"]} for d in (outcome.document, again)]
    for key, row in leakage[0].items():
        for column in ("leakage", "sigma", "pooled", "ci_low", "ci_high", "gen_coupling"):
            assert leakage[1][key][column] == pytest.approx(row[column], abs=1e-12)


def test_a_trace_holds_the_rows_that_recompute_the_leakage(audited: tuple[Path, Outcome]) -> None:
    folder, outcome = audited
    trace = called("trace", "desk", PAIR, "accuracy", "clarity", "--json", cwd=folder).document
    rows = [(p["task"], p["direction"], p["on_source"]["p"], p["on_target"]["p"]) for p in trace["probes"]]
    frame = pd.DataFrame(rows, columns=["task", "direction", "own", "other"])
    means = frame.groupby(["task", "direction"]).mean().unstack()
    own = means["own"]["+"] - means["own"]["-"]
    other = means["other"]["+"] - means["other"]["-"]
    passed = own >= trace["gate"]
    expected = (other[passed] / own[passed]).mean() if passed.sum() * 2 >= len(own) else None
    found = next(
        row["leakage"]
        for row in outcome.document["leakage"]
        if (row["source"], row["target"]) == ("accuracy", "clarity")
    )
    assert found == trace["leakage"] == trace["recomputed"]
    assert found == (None if expected is None else pytest.approx(expected))
    assert trace["rule_based"] == ["editor", "reader"]


def test_a_trace_for_people_shows_texts_scores_and_ledger_keys(audited: tuple[Path, Outcome]) -> None:
    folder, _ = audited
    probes = pd.read_parquet(folder / "out" / "probes.parquet")
    shown = called("trace", "desk", PAIR, "accuracy", "clarity", "--limit", "1", cwd=folder).out
    named = next(row for row in probes.itertuples() if row.probe in shown)
    assert named.call_key in shown
    assert terminal(named.text.splitlines()[0])[:50] in shown
    assert "editor (offline/editor) is rule-based, no language model" in shown
    value = re.search(r"^Leakage accuracy → clarity: (.*)$", shown, re.MULTILINE)
    assert value
    assert f"Recomputed from these rows: {value[1]}\n" in shown
    unknown = called("trace", "desk", PAIR, "accuracy", "charm", cwd=folder)
    assert unknown.code == 2
    assert "no criterion 'charm'; there are accuracy, clarity, length" in unknown.err


def test_a_trace_through_tables_of_different_audits_says_that_the_rows_do_not_give_the_value(
    audited: tuple[Path, Outcome], tmp_path: Path
) -> None:
    folder, _ = audited
    shutil.copytree(folder, tmp_path / "copy")
    lake, cell = Lake(str(tmp_path / "copy" / ".radar" / "lake")), {"benchmark": "desk", "pair": PAIR}
    scores = lake.read("scores", **cell)
    lake.write("scores", scores.assign(p=scores["p"].where(scores["criterion"] != "accuracy", 0.5)), **cell)
    shown = called("trace", "desk", PAIR, "accuracy", "clarity", cwd=tmp_path / "copy").out
    assert "Recomputed from these rows: –\nThat is not the stored value" in shown


def test_sql_reads_the_lake_in_three_forms(audited: tuple[Path, Outcome]) -> None:
    folder, outcome = audited
    query = "SELECT criterion, self_effect, pair FROM self_effects ORDER BY criterion"
    rows = called("sql", query, "--json", cwd=folder).document["rows"]
    expected = sorted((row["criterion"], row["self_effect"], PAIR) for row in outcome.document["self_effects"])
    assert [tuple(row.values()) for row in rows] == expected
    shown = called("sql", query, "--csv", cwd=folder).out.splitlines()
    assert shown[0] == "criterion,self_effect,pair"
    assert shown[1].startswith(f"accuracy,{expected[0][1]!r}")
    listed = called("sql", cwd=folder).out
    assert re.search(
        r"^scores +72 ", listed, re.MULTILINE
    )  # 2 tasks × 3 targets × 2 directions × 2 probes × 3 criteria


def test_the_report_is_made_again_byte_for_byte(audited: tuple[Path, Outcome]) -> None:
    folder, _ = audited
    outcome = called("report", "desk", PAIR, "--out", "pages/page.html", "--json", cwd=folder)
    assert outcome.code == 0
    assert outcome.document == {"reports": [{"benchmark": "desk", "pair": PAIR, "report": "pages/page.html"}]}
    assert (folder / "pages" / "page.html").read_bytes() == (folder / "out" / "report.html").read_bytes()


def test_a_page_below_a_file_is_refused_before_the_work(audited: tuple[Path, Outcome]) -> None:
    folder, _ = audited
    outcome = called("report", "desk", PAIR, "--out", "desk.yaml/below.html", cwd=folder)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "Error: --out desk.yaml: desk.yaml is not a folder\n"


def test_probes_are_used_again_unless_fresh_ones_are_asked_for(audited: tuple[Path, Outcome]) -> None:
    folder, first = audited
    again = called("audit", "desk", "--probes", "2", cwd=folder)
    assert "the probes of editor are there and current" in again.err
    assert again.code == first.code
    assert f"Report: {first.document['report']}" in again.out
    assert "\x1b" not in again.out
    assert "editor writes the probes" in called("audit", "desk", "--probes", "2", "--fresh", cwd=folder).err


def test_a_reader_that_goes_away_is_no_error(audited: tuple[Path, Outcome]) -> None:
    folder, _ = audited
    process = subprocess.Popen(
        [RADAR, "sql", "SELECT * FROM range(300000)", "--csv"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"range\n"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141


def on_a_terminal(*arguments: str, cwd: Path, **extra: str) -> str:
    """What the command writes when its stdout is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [RADAR, *arguments],
        cwd=cwd,
        env=environment(TERM="xterm-256color", **extra),
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    written = b""
    try:
        while block := os.read(ours, 65536):
            written += block
    except OSError:
        pass  # Linux says so when the other end is closed
    process.wait(timeout=60)
    os.close(ours)
    return written.decode()


def test_a_terminal_gets_ruled_tables_and_no_colour_where_that_is_not_wished(tmp_path: Path) -> None:
    assert "─" in on_a_terminal("check", cwd=tmp_path)
    plain = on_a_terminal("check", cwd=tmp_path, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain)
    assert "─" not in called("check", cwd=tmp_path).out


def test_a_stdout_that_knows_only_ascii_gets_every_result(audited: tuple[Path, Outcome]) -> None:
    folder, _ = audited
    outcome = radar("trace", "desk", PAIR, "accuracy", "clarity", cwd=folder, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert outcome.code == 0
    assert outcome.out.isascii()


# ---------------------------------------------------------------- a workspace of one's own


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The integration tests' workspace: a writer and four judges, two of which can't be relied on."""
    shutil.copytree(Path(__file__).parent / "workspace", tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_several_pairs_share_a_document_and_the_worst_verdict_is_the_exit_code(own: Path) -> None:
    outcome = called("audit", "letters", "--json", "--out", "out", cwd=own)
    verdicts = {row["pair"]: row["exit_code"] for row in outcome.document["verdict"]}
    assert verdicts == {"writer~careful": 0, "writer~careful-too": 0, "writer~blind": 3, "writer~lossy": 3}
    assert outcome.code == 3
    assert {row["pair"] for row in outcome.document["leakage"]} == set(verdicts)
    assert {path.name for path in (own / "out").iterdir()} == set(verdicts)
    grid = Path(outcome.document["grid"])
    assert grid == own / ".radar" / "lake" / "coupling_grid" / "benchmark=letters" / "grid.html"
    assert "4 audited cells" in grid.read_text(encoding="utf-8")
    lost = [row for row in outcome.document["states"] if row["state"] == "parse_error" and row["n"]]
    assert {(row["pair"], row["criterion"]) for row in lost} == {("writer~lossy", "brevity")}


def test_several_pairs_end_with_the_path_of_the_grid(own: Path) -> None:
    outcome = called("audit", "letters", "--verifier", "careful", "--verifier", "careful-too", cwd=own)
    assert outcome.out.count("Report: ") == 2
    page = Path(outcome.out.strip().splitlines()[-1].removeprefix("Grid: "))
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    with DagsterInstance.from_config(str(load_workspace(own / "radar.yaml").dagster_home)) as instance:
        made = instance.get_latest_materialization_event(AssetKey("coupling_grid"))
    assert made is not None
    assert made.asset_materialization is not None
    assert made.asset_materialization.metadata["page"].value == str(page)


def test_a_warning_about_the_data_is_shown_and_recorded_and_leaves_the_verdict_alone(own: Path) -> None:
    outcome = called("audit", "letters", "--verifier", "careful", "--json", "--out", "out", cwd=own)
    assert outcome.code == outcome.document["verdict"][0]["exit_code"] == 0
    (warning,) = outcome.document["data_checks"]
    assert (warning["severity"], warning["table"], warning["partition"]) == ("warning", "probes", "letters|writer")
    assert f"data check warning: probes of letters|writer: {warning['message']}" in outcome.err
    assert json.loads((own / "out" / "summary.json").read_text())["data_checks"] == [warning]


def test_data_that_break_an_expectation_carry_no_verdict_and_each_folder_names_its_own(own: Path) -> None:
    (own / "moody.py").write_text(
        "import judges\n\ndef write(request):\n"
        "    if request.sample == 2:\n        raise ValueError('not today')\n    return judges.write(request)\n"
    )
    (own / "lax.yaml").write_text(
        "min_ok_share: 0.6\nmin_ok_share_per_direction: 0\n"
        "fail_on: []\nunreliable_is_inconclusive: false\nuncertain_is_inconclusive: false\n"
    )
    outcome = called(
        "audit", "letters", "--generator", "writer", "--generator", "python/moody:write", "--verifier", "careful",
        "--policy", "lax.yaml", "--json", "--out", "out", cwd=own,
    )  # fmt: skip
    errors = [row for row in outcome.document["data_checks"] if row["severity"] == "error"]
    assert outcome.code == 3
    assert [(row["table"], row["partition"]) for row in errors] == [("probes", "letters|write")]
    assert outcome.document["notes"] == [
        "radar.yaml does not list write (python/moody:write): add what `radar dev` should show"
    ]
    for pair, expected in (("writer~careful", []), ("write~careful", errors)):
        written = json.loads((own / "out" / pair / "summary.json").read_text())
        assert [row for row in written["data_checks"] if row["severity"] == "error"] == expected


def test_lost_scores_are_told_in_the_terminal(own: Path) -> None:
    outcome = called("audit", "letters", "--verifier", "lossy", cwd=own)
    assert re.search(r"^  - \d+ of \d+ scores ended as parse_error, for example: .*4/5", outcome.out, re.MULTILINE)
    assert "lossy (python/judges:loses_brevity, your own function) judges" in outcome.out


def test_one_pair_is_chosen_by_alias_and_a_gate_that_stops_it_is_told(own: Path) -> None:
    outcome = called("audit", "letters", "--verifier", "blind", cwd=own)
    assert outcome.code == 3
    assert outcome.out.count("Report: ") == 1
    assert "Grid: " not in outcome.out
    assert "Inconclusive." in outcome.out
    assert "Stopped by a gate: self_effects, for the reasons above\n" in outcome.out


def test_a_model_that_prints_does_not_spoil_the_document(own: Path) -> None:
    (own / "chatty.py").write_text("print('loaded')\n\ndef judge(request):\n    print('judging')\n    return 2\n")
    outcome = radar("audit", "letters", "--verifier", "python/chatty:judge", "--json", cwd=own)
    assert outcome.document["verdict"][0]["verdict"] == "inconclusive"
    assert "judging" in outcome.err
    assert "radar.yaml does not list judge (python/chatty:judge)" in outcome.err


def test_ctrl_c_ends_an_audit_with_130_and_leaves_a_lake_that_reads(own: Path) -> None:
    (own / "slow.py").write_text(
        "import time\n\ndef judge(request):\n    print('asked')\n    time.sleep(0.2)\n    return 2\n"
    )
    process = subprocess.Popen(
        [RADAR, "audit", "letters", "--verifier", "python/slow:judge"],
        cwd=own,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert any(line == "asked\n" for line in process.stderr), "it ended before its first judgement"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert called("sql", "SELECT count(*) n FROM probes", "--json", cwd=own).document["rows"][0]["n"] > 0


def test_dev_on_a_port_that_is_taken_ends_with_exit_2(own: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = called("dev", "--port", str(port), cwd=own)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"Error: port {port} is taken; use --port\n"


def test_dev_serves_this_workspace_and_ends_on_ctrl_c(own: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (own / "dev.log").open("w") as log:
        process = subprocess.Popen(
            [RADAR, "dev", "--port", str(port), "--json"],
            cwd=own, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        url = _wait_for_assets(f"http://127.0.0.1:{port}")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert json.loads(out) == {
        "url": url,
        "workspace": str(own / "radar.yaml"),
        "home": str(own / ".radar" / "dagster"),
    }
    assert process.returncode == 0


def _wait_for_assets(url: str) -> str:
    query = "{ repositoriesOrError { ... on RepositoryConnection { nodes { assetNodes { assetKey { path } } } } } }"
    request = urllib.request.Request(
        f"{url}/graphql", json.dumps({"query": query}).encode(), {"Content-Type": "application/json"}
    )
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                nodes = json.load(answer)["data"]["repositoriesOrError"]["nodes"]
            paths = {tuple(asset["assetKey"]["path"]) for node in nodes for asset in node["assetNodes"]}
            assert ("leakage",) in paths
            return url
        except OSError:
            time.sleep(0.5)
    raise AssertionError("not served in time")


def test_two_audits_of_one_rubric_at_once_each_get_their_own_verdict(tmp_path: Path) -> None:
    """One policy fails on what the other lets pass: whichever ends last, each exit code is its own policy's."""
    shutil.copytree(Path(__file__).parent / "workspace", tmp_path, dirs_exist_ok=True)
    policies = {"strict": (1, "[directional]"), "lax": (0, "[tradeoff]")}
    command = [sys.executable, "-m", "radar_dagster", "audit", "letters", "--verifier", "careful", "--policy"]
    running = {}
    for name, (_, fail_on) in policies.items():
        thresholds = "{directional_leakage: 0.05, asymmetry: 0.05}"
        settings = f"fail_on: {fail_on}\nuncertain_is_inconclusive: false\nthresholds: {thresholds}\n"
        (tmp_path / f"{name}.yaml").write_text(settings)
        running[name] = subprocess.Popen(
            [*command, f"{name}.yaml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    for name, process in running.items():
        _, errors = process.communicate(timeout=300)
        assert process.returncode == policies[name][0], (name, errors.decode())
