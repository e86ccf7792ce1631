"""Whole audits on hosted models: counted as the server counted, in batches, in Dagster, and looked at afterwards."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from hosted_workspace import (
    BRAIN,
    CRITERIA,
    KEY,
    KEY_VARIABLE,
    PRICES,
    TASKS,
    Processes,
    environment,
    ledger_of,
    result_tables,
    rows_of,
    write_workspace,
)
from stub_server import BatchPlan, ModelFacts, Rule, Script, StubServer
from stub_server.asks import Ask
from stub_server.brains import brain_from
from stub_server.log import Record

from radar_dagster import jobs
from radar_dagster.config import Workspace, load_workspace
from radar_dagster.definitions import build_definitions
from radar_dagster.lake import Lake
from radar_dagster.partitions import multi_key

pytestmark = pytest.mark.slow

ENDPOINTS = {"openai": "oai", "anthropic": "ant"}


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path / "output") as processes:
        yield processes


@pytest.fixture
def server(stub: StubServer) -> StubServer:
    stub.settings.keys = {KEY}
    stub.settings.brain = brain_from(BRAIN)
    return stub


# Every fault there is


def first(count: int) -> Callable[[Ask], bool]:
    """The first so many calls that come this far, in all their attempts."""
    chosen: set[str] = set()

    def when(ask: Ask) -> bool:
        if len(chosen) < count:
            chosen.add(str(ask.sample))
        return ask.sample in chosen

    return when


def is_no_repair(ask: Ask) -> bool:
    """Whether a call is none that states what was wrong with an earlier reply."""
    return "An earlier reply to this message" not in ask.text


def every_fault() -> Script:
    """The rates of a bad day; and each kind of fault at least once on each protocol, whatever chance has in store."""
    rules: list[Rule] = []
    for protocol in ENDPOINTS:
        for kind in ("rate_limited", "server_error", "overloaded", "dropped"):
            rules.append(Rule(kind, protocol=protocol, attempts=1, when=first(1), seconds=0.1))
        for kind in ("out_of_range", "truncated", "refusal", "fenced"):
            rules.append(Rule(kind, protocol=protocol, schema=True, when=first(1)))
    rates = {
        "rate_limited": 0.05, "server_error": 0.02, "overloaded": 0.01, "dropped": 0.01,
        "fenced": 0.02, "truncated": 0.01, "refusal": 0.01, "out_of_range": 0.01,
    }  # fmt: skip
    return Script([*rules, *(Rule(kind, share=share, seconds=0.1) for kind, share in rates.items())], seed=11)


#: What an attempt leaves in the ledger when the server does this to it: the HTTP status of an error, and the state.
EXPECTED: dict[str | None, tuple[int | None, str]] = {
    None: (None, "ok"),
    "fenced": (None, "ok"),
    "rate_limited": (429, "transport_error"),
    "server_error": (500, "transport_error"),
    "dropped": (None, "transport_error"),
    "truncated": (None, "truncated"),
    "refusal": (None, "refused"),
    "out_of_range": (None, "parse_error"),
}


def expected_of(record: Record) -> tuple[str, int | None, str]:
    """Endpoint, status and state that the ledger should tell of what the server did."""
    endpoint = ENDPOINTS[str(record.protocol)]
    if record.fault == "overloaded":
        return endpoint, {"oai": 503, "ant": 529}[endpoint], "transport_error"
    return endpoint, *EXPECTED[record.fault]


def told_by(row: dict[str, Any]) -> tuple[str, int | None, str]:
    """The same of a row; a status is that of an error."""
    return row["endpoint"], row["status"] if row["status"] != 200 else None, row["state"]


def score_in(reply: str) -> int:
    """The level in a reply of the stub, which says it once."""
    (level,) = re.findall(r'"score": (\d+)', reply)
    return int(level)


def run_for_real(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`radar …` in a process that nobody has prepared."""
    command = [sys.executable, "-m", "radar_dagster", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )


class Told:
    """What the server and the ledger have to say of the same calls."""

    def __init__(self, server: StubServer, folder: Path) -> None:
        self.records = server.log.calls
        self.rows = rows_of(ledger_of(folder))
        self.attempts: dict[str, list[Record]] = defaultdict(list)
        for record in self.records:
            self.attempts[str(record.sample)].append(record)
        self.chains: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in self.rows:
            self.chains[row["key"]].append(row)

    def check_attempts(self) -> None:
        """Every attempt is a row: by endpoint, status and state, in all and of every single call."""
        assert Counter(map(told_by, self.rows)) == Counter(map(expected_of, self.records))
        assert self.attempts.keys() == {key[:40] for key in self.chains}
        for key, chain in self.chains.items():
            expected = [expected_of(record) for record in self.attempts[key[:40]]]
            assert [told_by(row) for row in chain] == expected
            assert [row["attempt"] for row in chain] == list(range(1, len(chain) + 1))
            assert [row["final"] for row in chain] == [0] * (len(chain) - 1) + [1]
            assert "ok" not in [state for _, _, state in expected[:-1]]  # never called again

    def check_money(self, server: StubServer) -> None:
        """What was paid is what was billed."""
        billed = server.log.tokens()
        assert sum(row["input_tokens"] or 0 for row in self.rows) == billed["prompt_tokens"]
        assert sum(row["output_tokens"] or 0 for row in self.rows) == billed["completion_tokens"]
        assert math.fsum(row["usd"] or 0 for row in self.rows) == pytest.approx(cost(self.records), rel=1e-12)

    def check_probes(self, probes: pd.DataFrame) -> None:
        """A state for every probe, a text for those that are ok."""
        assert probes["state"].tolist() == [self.chains[key][-1]["state"] for key in probes["call_key"]]
        assert (probes["text"].notna() == (probes["state"] == "ok")).all()

    def check_scores(self, probes: pd.DataFrame, scores: pd.DataFrame) -> None:
        """A state for every probe and criterion; a score for those that are ok, and it is the one in the reply."""
        assert len(scores) == len(probes) * len(CRITERIA)
        for column in ("score", "p"):
            assert (scores[column].notna() == (scores["state"] == "ok")).all()
        lost = set(probes.loc[probes["state"] != "ok", "probe"])
        assert ((scores["state"] == "no_probe") == scores["probe"].isin(lost)).all()
        assert (scores["call_key"].isna() == scores["probe"].isin(lost)).all()
        replies = {record.number: record.reply for record in self.records}
        for row in scores[scores["state"] != "no_probe"].to_dict("records"):
            answer = self.chains[row["call_key"]][-1]
            assert row["state"] == answer["state"]
            if row["state"] == "ok":
                assert row["score"] == score_in(replies[int(answer["provider_id"][-6:])] or "")


def test_every_attempt_and_every_state_is_counted_as_the_server_counted_it(server: StubServer, tmp_path: Path) -> None:
    server.settings.script = every_fault()
    folder = write_workspace(
        tmp_path / "workspace", server.openai_url, server.anthropic_url, generators=["ant-writer"], audit={"probes": 3}
    )
    audit = run_for_real(folder, "audit", "letters", "--json")
    assert audit.returncode in (0, 1, 3), audit.stderr
    seen = Counter(map(expected_of, server.log.calls))
    for endpoint, overloaded in (("oai", 503), ("ant", 529)):
        for status, state in [*EXPECTED.values(), (overloaded, "transport_error")]:
            assert seen[endpoint, status, state] > 0
    told = Told(server, folder)
    told.check_attempts()
    told.check_money(server)

    lake = Lake(str(folder / ".radar" / "lake"))
    probes = lake.read("probes", benchmark="letters", generator="ant-writer")
    assert len(probes) == len(TASKS) * len(CRITERIA) * 2 * 3
    told.check_probes(probes)
    states = pd.DataFrame(json.loads(audit.stdout)["states"])
    for pair in ("ant-writer~oai-judge", "ant-writer~ant-judge"):
        scores = lake.read("scores", benchmark="letters", pair=pair)
        told.check_scores(probes, scores)
        shown = states[states["pair"] == pair].groupby("state")["n"].sum()
        assert shown[shown > 0].to_dict() == Counter(scores["state"])
        assert {"ok", "parse_error", "truncated", "refused"} <= set(scores["state"])


def cost(records: list[Record]) -> float:
    """US dollars, by the server's own count of tokens."""
    prices = [(record, PRICES[ENDPOINTS[str(record.protocol)]]) for record in records if record.billed]
    return math.fsum(each.prompt_tokens * price[0] + each.completion_tokens * price[1] for each, price in prices) / 1e6


# The provider's batches


def test_batches_come_to_the_tables_of_live_calls_at_half_the_price(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    server.settings.batch = BatchPlan(polls=1)
    folders = {mode: tmp_path / mode for mode in ("live", "batch")}
    for mode, folder in folders.items():
        models = {
            "oai-writer": {"model": "oai/writer-1", "mode": mode}, "ant-judge": {"model": "ant/judge-1", "mode": mode}
        }  # fmt: skip
        endpoint = {"batch_poll_s": 0.05, "capabilities": {"*": {"batch": True}}}
        write_workspace(
            folder, server.openai_url, server.anthropic_url, models=models, generators=["oai-writer"],
            verifiers=["ant-judge"], endpoint=endpoint,
        )  # fmt: skip
        audit = processes.radar(folder, "audit", "letters", "--json")
        assert audit.code in (0, 1, 3), audit.err
        if mode == "live":
            assert len(server.log.calls) == 24 + 72
            server.reset()
    assert server.log.calls == []
    assert len(server.log.items) == 24 + 72

    live, batch = (result_tables(folder) for folder in folders.values())
    assert live.keys() == batch.keys()
    assert {path for path in live if live[path] != batch[path]} <= {
        path for path in live if path[:6] in ("probes", "scores")
    }
    for table, dims in (("probes", {"generator": "oai-writer"}), ("scores", {"pair": "oai-writer~ant-judge"})):
        lakes = [Lake(str(folder / ".radar" / "lake")) for folder in folders.values()]
        first_, second = (lake.read(table, benchmark="letters", **dims) for lake in lakes)
        pd.testing.assert_frame_equal(first_.drop(columns="usd"), second.drop(columns="usd"))
        assert second["usd"].tolist() == pytest.approx((first_["usd"] / 2).tolist(), rel=1e-12)
    rows = rows_of(ledger_of(folders["batch"]))
    assert {(row["mode"], row["state"]) for row in rows} == {("batch", "ok")}
    assert math.fsum(row["usd"] for row in rows) == pytest.approx(
        math.fsum(row["usd"] for row in rows_of(ledger_of(folders["live"]))) / 2
    )


# In Dagster


@pytest.fixture
def dagster_workspace(server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.delenv("RADAR_LEDGER", raising=False)
    folder = write_workspace(tmp_path / "workspace", server.openai_url, server.anthropic_url, audit={"probes": 1})
    return load_workspace(folder / "radar.yaml")


def test_runs_in_dagster_tell_what_they_cost_and_take_a_budget_from_the_launchpad(
    server: StubServer, dagster_workspace: Workspace
) -> None:
    workspace, definitions = dagster_workspace, build_definitions(dagster_workspace)
    probes_key = multi_key(benchmark="letters", generator="oai-writer")
    with dg.DagsterInstance.ephemeral() as instance:

        def run(job: str, key: str, tags: dict[str, str] | None = None, **models: Any) -> dg.ExecuteInProcessResult:
            server.reset()
            return definitions.resolve_job_def(job).execute_in_process(
                partition_key=key,
                instance=instance,
                raise_on_error=False,
                run_config={"resources": {"models": {"config": models}}} if models else None,
                tags=tags or {},
            )

        def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
            (event,) = result.asset_materializations_for_node(asset)
            return {name: value.value for name, value in event.metadata.items()}

        assert run(jobs.LOAD_RUBRICS, "letters").success
        written = run(jobs.GENERATE_PROBES, probes_key)
        assert written.success
        told = metadata(written, "probes")
        billed = server.log.tokens()
        assert told["calls_made"] == len(server.log.calls) == 12
        assert told["state/ok"] == 12
        assert told["input_tokens_spent"] == billed["prompt_tokens"]
        assert told["output_tokens_spent"] == billed["completion_tokens"]
        assert told["usd_spent"] == pytest.approx(cost(server.log.calls))

        # The same again is free and says so; fresh is not.
        again = metadata(run(jobs.GENERATE_PROBES, probes_key), "probes")
        assert (again["calls_made"], again["usd_spent"], again["state/ok"]) == (0, 0, 12)
        settings = workspace.door.model_dump(mode="json", exclude={"budget_usd"})
        fresh = metadata(run(jobs.GENERATE_PROBES, probes_key, settings=settings, fresh=True), "probes")
        assert fresh["calls_made"] == len(server.log.calls) == 12
        tagged = metadata(run(jobs.GENERATE_PROBES, probes_key, {"radar/fresh": "true"}), "probes")
        assert tagged["calls_made"] == 12

        # A budget, in the launchpad or as a tag, is a hard stop.
        pair = multi_key(benchmark="letters", pair="oai-writer~ant-judge")
        for how in ({"settings": settings, "budget_usd": 0.012}, {"tags": {"radar/budget_usd": "0.012"}}):
            stopped = metadata(run(jobs.JUDGE, pair, **how), "scores")
            assert stopped["state/budget_stopped"] > 0
            assert cost(server.log.calls) <= 0.012
            assert stopped["usd_spent"] == pytest.approx(cost(server.log.calls))
        audit = run(jobs.FULL_AUDIT, pair)
        assert metadata(audit, "scores")["state/ok"] == 36
        assert {event.asset_key.path[-1] for event in audit.get_asset_materialization_events() if event.asset_key} >= {
            "scores", "leakage", "verdict",
        }  # fmt: skip


# Looking at models and calls


def models_of(child: Any) -> dict[str, dict[str, Any]]:
    return {row["alias"]: row for row in child.document["models"]}


def test_models_tells_what_can_be_used_and_what_each_endpoint_lists(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    folder = write_workspace(tmp_path / "w", server.openai_url, server.anthropic_url)
    retiring = ModelFacts(shutdown_date="2027-03-01", retires_at="2027-03-01T00:00:00Z", lifecycle="deprecated")
    server.settings.models = {"writer-1": retiring, "judge-1": ModelFacts(effort=False)}
    child = processes.radar(folder, "models", "--json")
    assert child.code == 0, child.err
    rows = models_of(child)
    assert list(rows["oai-writer"]) == [
        "alias", "model", "kind", "mode", "url", "key_variable", "reachable", "listed", "capabilities", "price",
        "lifecycle", "retires", "error",
    ]  # fmt: skip
    for alias, row in rows.items():
        assert (row["kind"], row["mode"], row["key_variable"]) == ("hosted", "live", KEY_VARIABLE)
        assert (row["reachable"], row["listed"], row["error"]) == (True, True, None)
        assert row["url"] == (server.openai_url if alias.startswith("oai") else server.anthropic_url)
        assert row["retires"] == ("2027-03-01" if alias.endswith("writer") else None)
        assert (row["price"]["input"], row["price"]["output"]) == PRICES[alias[:3]]
    assert rows["ant-writer"]["lifecycle"] == "deprecated"
    assert (rows["ant-writer"]["capabilities"]["effort"], rows["ant-judge"]["capabilities"]["effort"]) == (True, False)
    shown = processes.radar(folder, "models")
    assert shown.code == 0
    assert shown.out.count("2027-03-01") == 2
    assert server.log.calls == []


def test_models_that_cannot_be_used_are_told_with_what_is_wrong(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    folder = write_workspace(tmp_path / "w", server.openai_url, server.anthropic_url)
    server.settings.models = ["writer-1"]
    child = processes.radar(folder, "models", "--json")
    assert child.code == 4
    rows = models_of(child)
    for alias in ("oai-judge", "ant-judge"):
        assert (rows[alias]["reachable"], rows[alias]["listed"]) == (True, False)
        assert "the endpoint does not know the model judge-1" in rows[alias]["error"]
        assert f"Error: {alias}: {rows[alias]['error']}" in child.err
    assert rows["oai-writer"]["error"] is None

    keyless = {name: value for name, value in environment().items() if name != KEY_VARIABLE}
    for row in models_of(processes.radar(folder, "models", "--json", env=keyless)).values():
        assert row["error"].endswith(f"no key; set the environment variable {KEY_VARIABLE}")
    for row in models_of(
        processes.radar(folder, "models", "--json", env=environment(**{KEY_VARIABLE: "sk-no"}))
    ).values():
        assert row["reachable"] is False
        assert "HTTP 401" in row["error"]
    server.stop()
    for row in models_of(processes.radar(folder, "models", "--json")).values():
        assert row["reachable"] is False
        assert "no connection to" in row["error"]


def test_models_tells_reachable_from_not_listed_and_from_not_reachable(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    server.settings.models = ["writer-1"]
    folder = write_workspace(tmp_path / "w", server.openai_url, server.anthropic_url)
    shown = processes.radar(folder, "models")
    reach = {line.split()[0]: line.split()[2] for line in shown.out.splitlines()[1:]}
    assert (shown.code, reach) == (
        4, {"oai-writer": "yes", "oai-judge": "no", "ant-writer": "yes", "ant-judge": "no"}
    )  # fmt: skip
    server.settings.models = None  # it answers to every name, and lists none
    shown = processes.radar(folder, "models")
    assert shown.code == 0, shown.err
    assert shown.out.count("not listed") == 4
    assert shown.err.count("note: ") == 4
    assert "oai-judge: " in shown.err


def test_a_plan_tells_what_the_ledger_holds_already_and_what_the_others_cost(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    folder = write_workspace(tmp_path / "w", server.openai_url, server.anthropic_url, audit={"probes": 1})
    plan = ("plan", "letters", "--generator", "oai-writer", "--verifier", "ant-judge", "--verifier", "oai-judge")

    def told(*more: str) -> tuple[int, int, float, float]:
        document = processes.radar(folder, *plan, *more, "--json").document
        there = document["in_ledger"]
        return there["calls"], there["answered"], there["usd_left"], document["total"]["usd"]

    calls, answered, left, total = told()
    assert (calls, answered) == (12 + 2 * 36, 0)
    assert left == pytest.approx(total)
    assert not ledger_of(folder).exists()
    assert processes.start_stages(folder, "oai-writer", "ant-judge").wait() == 0
    calls, answered, left, total = told()
    assert (calls, answered) == (84, 12 + 36)
    judge = processes.radar(folder, *plan[:4], "--verifier", "oai-judge", "--json").document["plan"][1]
    assert left == pytest.approx(judge["usd"])  # only the other judge is left
    assert told("--probes", "2")[:2] == (168, 12 + 36)
    shown = processes.radar(folder, *plan).out
    assert "48 of 84 calls to hosted models are in the ledger already and cost nothing; the others: $" in shown
    assert len(server.log.calls) == 48


@pytest.mark.parametrize("pair", [("oai-writer", "ant-judge"), ("ant-writer", "oai-judge")])
def test_a_call_is_shown_attempt_by_attempt(
    server: StubServer, tmp_path: Path, processes: Processes, pair: tuple[str, str]
) -> None:
    writer, judge = pair
    server.settings.script = Script(
        [
            Rule("server_error", schema=True, when=first(1), attempts=1),
            Rule("out_of_range", schema=True, when=is_no_repair, times=1),
        ]
    )
    folder = write_workspace(tmp_path / "w", server.openai_url, server.anthropic_url, audit={"probes": 1})
    assert processes.start_stages(folder, writer, judge).wait() == 0
    chains: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(ledger_of(folder)):
        chains[row["key"]].append(row)
    key = max(chains, key=lambda each: sum(row["state"] == "parse_error" for row in chains[each]))
    child = processes.radar(folder, "call", key, "--json")
    assert child.code == 0, child.err
    document = child.document
    assert document["key"] == key
    attempts = document["attempts"]
    assert len(attempts) == len(chains[key])
    assert attempts[-1]["state"] == "ok"
    assert "parse_error" in [attempt["state"] for attempt in attempts]
    asked = next(record for record in server.log.calls if str(record.sample) == key[:40])
    assert attempts[0]["request"][-1] == asked.body["messages"][-1]
    assert attempts[-1]["reply"] == [record.reply for record in server.log.calls if record.sample == key[:40]][-1]
    assert attempts[-1]["parsed"]["score"] == score_in(attempts[-1]["reply"])
    assert attempts[-1]["parameters"]["max_tokens"] == 1000
    shown = processes.radar(folder, "call", key)
    assert shown.code == 0
    assert shown.out.startswith(f"Call {key}: judge by {judge[:3]}/judge-1")
    assert shown.out.count("Attempt ") == len(attempts)
    assert "An earlier reply to this message could not be used" in shown.out
    stranger = processes.radar(folder, "call", "f" * 64)
    assert (stranger.code, stranger.out) == (2, "")
    assert "has no call" in stranger.err
