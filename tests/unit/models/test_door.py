"""The door, with a stub behind it: which calls are made, which are answered from the ledger, and what records tell."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from stub_server import AuditBrain, DefaultBrain, Rule, Script, StubServer

from radar_dagster.errors import BadInputError, OperationalError
from radar_dagster.models import budget
from radar_dagster.models.capabilities import Overrides
from radar_dagster.models.door import Door
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.ledger import Batch, BatchItem
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.prices import Price
from radar_dagster.models.providers import Generator, Verifier
from radar_dagster.models.requests import JudgementRequest
from radar_dagster.models.settings import DoorSettings
from radar_dagster.models.stages import (
    judge_passive,
    judge_probes,
    judgement_requests,
    make_passive,
    make_probes,
    probe_requests,
)
from radar_dagster.rubric.model import Criterion, Rubric, Scale, Task

KEY, VARIABLE = "sk-test-door-0123456789", "RADAR_TEST_KEY"
TRUTH, BREVITY = "Every statement is true.", "It says it in few words."
RUBRIC = Rubric(
    name="r",
    criteria=(
        Criterion(id="truth", label="Truth", definition=TRUTH),
        Criterion(id="brevity", label="Brevity", definition=BREVITY),
    ),
    tasks=(Task(id="t", prompt="Write a letter."),),
)
LEVELS = (0, 1, 2, 3, 4)
#: 1 task × 2 criteria × 2 directions × 2 samples.
PROBES = 8


class House:
    """A ledger, and doors that open on a stub: `writer` and `judge` are models of one endpoint."""

    def __init__(self, stub: StubServer, folder: Path, protocol: str) -> None:
        self.stub = stub
        self.folder = folder
        self.protocol = protocol
        self._doors: list[Door] = []

    def close(self) -> None:
        for door in self._doors:
            door.close()

    def door(
        self,
        options: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, Overrides] | None = None,
        prices: Mapping[str, Price] | None = None,
        budget_usd: float | None = None,
        **door: Any,
    ) -> Door:
        endpoint = Endpoint(
            protocol=self.protocol,
            base_url=self.stub.openai_url if self.protocol == "openai" else self.stub.anthropic_url,
            api_key_env=VARIABLE,
            timeout_s=20,
            capabilities=dict(capabilities or {}),
        )
        models = {
            "writer": ModelSpec(model="there/writer"),
            "judge": ModelSpec(model="there/judge", options=dict(options or {})),
            "other": ModelSpec(model="there/other-judge"),
        }
        known = {"there/*": Price(input=1, output=4)} if prices is None else dict(prices)
        ledger = str(self.folder / "ledger.sqlite")
        settings = DoorSettings(
            models=models, endpoints={"there": endpoint}, prices=known, ledger=ledger, budget_usd=budget_usd
        )
        self._doors.append(Door(settings, **door))
        return self._doors[-1]

    def seen(self) -> int:
        """Calls that the server saw since the last time this was asked."""
        count = len(self.stub.log.calls)
        self.stub.reset()
        return count

    def bodies(self, model: str) -> list[dict[str, Any]]:
        """What the server got for a model, refused calls included."""
        return [record.body for record in self.stub.log.calls if record.body and record.body["model"] == model]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.delenv("RADAR_LEDGER", raising=False)


@pytest.fixture(params=["openai", "anthropic"])
def house(request: pytest.FixtureRequest, stub: StubServer, tmp_path: Path) -> Iterator[House]:
    stub.settings.keys = {KEY}
    stub.settings.brain = AuditBrain(
        {TRUTH: "truth", BREVITY: "brevity"}, ["strongly satisfies the criterion"], ["clearly fails the criterion"]
    )
    house = House(stub, tmp_path, request.param)
    yield house
    house.close()


@pytest.fixture
def openai_house(stub: StubServer, tmp_path: Path) -> Iterator[House]:
    stub.settings.keys = {KEY}
    house = House(stub, tmp_path, "openai")
    yield house
    house.close()


def parameters(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The different records of parameters in a table."""
    return [json.loads(text) for text in frame["parameters"].drop_duplicates()]


# One call for each draw, and only one


def test_samples_of_one_prompt_are_calls_of_their_own(house: House) -> None:
    requests = probe_requests(RUBRIC, 3)[:3]
    calls = house.door().generate("writer", requests)
    said = {json.dumps(body["messages"]) for body in house.bodies("writer")}
    assert len(said) == 1
    assert house.seen() == 3
    assert len({call.key for call in calls}) == len({call.reply.text for call in calls}) == 3


def test_a_second_opinion_is_a_second_call(house: House) -> None:
    first = JudgementRequest(task=RUBRIC.tasks[0], criterion=RUBRIC.criteria[0], response="A letter.")
    second = first.model_copy(update={"repeat": 2})
    door = house.door()
    (one,) = door.judge("judge", [first])
    assert house.seen() == 1
    again, two = door.judge("judge", [first, second])
    assert house.seen() == 1
    assert again == one
    assert two.key != one.key


def test_a_request_that_is_there_twice_is_made_once(house: House) -> None:
    request = probe_requests(RUBRIC, 1)[0]
    first, second = house.door().generate("writer", [request, request])
    assert first == second
    assert house.seen() == 1


def test_what_was_asked_before_is_answered_from_the_ledger_and_tells_the_same(house: House) -> None:
    probes = make_probes(RUBRIC, house.door(), "writer", 2)
    scores = judge_probes(RUBRIC, probes, house.door(), "judge")
    assert house.seen() == PROBES + 2 * PROBES
    again = make_probes(RUBRIC, house.door(), "writer", 2)
    pd.testing.assert_frame_equal(again, probes)
    pd.testing.assert_frame_equal(judge_probes(RUBRIC, again, house.door(), "judge"), scores)
    assert house.seen() == 0


def test_keys_are_known_without_asking(house: House) -> None:
    door, requests = house.door(), probe_requests(RUBRIC, 2)
    assert door.keys("writer", requests) == [call.key for call in house.door().generate("writer", requests)]
    assert door.answered("writer", requests) == PROBES
    assert door.answered("other", judgement_requests(RUBRIC, make_probes(RUBRIC, door, "writer", 2))) == 0


def test_bare_responses_are_calls_of_their_own_that_name_no_criterion_and_are_made_once(house: House) -> None:
    responses = make_passive(RUBRIC, house.door(), "writer", 2)
    (said,) = {json.dumps(body["messages"]) for body in house.bodies("writer")}
    assert "Write a letter." in said
    assert not any(text in said.lower() for text in ("criteri", "truth", "brevity"))
    assert house.seen() == responses["call_key"].nunique() == responses["text"].nunique() == 4
    more = make_passive(RUBRIC, house.door(), "writer", 3)
    assert house.seen() == 2
    assert set(responses["call_key"]) < set(more["call_key"])
    scores = judge_passive(RUBRIC, more, house.door(), "judge")
    assert house.seen() == len(scores) == 6 * 2
    assert set(scores["state"]) == {"ok"}


def test_requests_that_one_row_answers_are_all_answered(house: House) -> None:
    request = JudgementRequest(task=RUBRIC.tasks[0], criterion=RUBRIC.criteria[0], response="A letter.")
    house.door().judge("judge", [request])
    assert house.seen() == 1
    assert house.door().answered("judge", [request, request]) == 2


def test_asking_what_is_known_makes_no_ledger(house: House) -> None:
    assert house.door().answered("writer", probe_requests(RUBRIC, 2)) == 0
    assert list(house.folder.iterdir()) == []


def test_an_edited_criterion_pays_for_what_it_changed_and_nothing_else(house: House) -> None:
    probes = make_probes(RUBRIC, house.door(), "writer", 2)
    judge_probes(RUBRIC, probes, house.door(), "judge")
    house.seen()
    edited = Rubric(
        name="r",
        criteria=(RUBRIC.criteria[0], RUBRIC.criteria[1].model_copy(update={"definition": "Few words say it."})),
        tasks=RUBRIC.tasks,
    )
    changed = make_probes(edited, house.door(), "writer", 2)
    # The P = T·2·N = 4 probes that push brevity are asked for in other words; those that push truth are not.
    assert house.seen() == 4
    assert (changed["text"] == probes["text"]).tolist() == (probes["target"] == "truth").tolist()
    judge_probes(edited, changed, house.door(), "judge")
    # The 4 new probes are judged on both criteria, the 4 old ones anew on brevity: (2n − 1)·P of n·n·P = 16.
    assert house.seen() == 4 * 2 + 4


def test_another_verifier_reads_the_same_probes(house: House) -> None:
    probes = make_probes(RUBRIC, house.door(), "writer", 2)
    judge_probes(RUBRIC, probes, house.door(), "judge")
    house.seen()
    same = make_probes(RUBRIC, house.door(), "writer", 2)
    assert house.seen() == 0
    judge_probes(RUBRIC, same, house.door(), "other")
    assert Counter(body["model"] for body in house.bodies("other-judge")) == {"other-judge": 2 * PROBES}
    assert house.seen() == 2 * PROBES


def test_fresh_pays_again_once_per_session_and_deletes_nothing(house: House) -> None:
    requests = probe_requests(RUBRIC, 2)
    old = house.door().generate("writer", requests)
    assert house.seen() == PROBES
    fresh = house.door(fresh=True, session="fresh").generate("writer", requests)
    assert house.seen() == PROBES
    assert house.door(fresh=True, session="fresh").generate("writer", requests) == fresh
    assert house.door().generate("writer", requests) == fresh
    assert house.seen() == 0
    for call in old:
        assert call.key is not None
        rows = house.door().ledger.history(call.key)
        assert [(row.state, row.final) for row in rows] == [("ok", True)] * 2
        assert rows[1].session == "fresh" != rows[0].session


def test_calls_in_a_batch_that_is_under_way_are_not_made_one_by_one(house: House) -> None:
    requests = probe_requests(RUBRIC, 2)
    door = house.door()
    keys = door.keys("writer", requests)
    known = door.generate("writer", requests[:1])
    house.seen()
    handed_in = tuple(BatchItem(custom_id=f"c{place}", key=keys[place], request="{}") for place in (0, 3, 5))
    batch = Batch(token="b", endpoint="there", model="there/writer", session="s", created=10.0, items=handed_in)
    door.ledger.record_batch(batch)
    with pytest.raises(BadInputError, match=r"2 calls to there/writer are in a batch .*--fresh"):
        door.generate("writer", requests)
    assert house.seen() == 0
    # What is answered, or in no batch, is not held up.
    assert door.generate("writer", requests[:3])[0] == known[0]
    assert house.seen() == 2
    house.door(fresh=True, session="fresh").generate("writer", requests)
    assert house.seen() == PROBES


def test_failures_are_asked_for_again(house: House) -> None:
    requests = probe_requests(RUBRIC, 1)
    house.stub.settings.brain = lambda ask: "" if "clearly fails the criterion" in ask.text else "A letter."
    states = [call.reply.state for call in house.door().generate("writer", requests)]
    assert states == ["ok", "parse_error", "ok", "parse_error"]
    assert house.seen() == 2 + 2 * 2  # each unusable reply is asked for anew once
    house.stub.settings.brain = DefaultBrain()
    assert {call.reply.state for call in house.door().generate("writer", requests)} == {"ok"}
    assert house.seen() == 2


def test_it_works_inside_a_running_event_loop(house: House) -> None:
    async def ask() -> list[Any]:
        return house.door().generate("writer", probe_requests(RUBRIC, 2))

    assert [call.reply.state for call in asyncio.run(ask())] == ["ok"] * PROBES
    assert house.seen() == PROBES


# Who can play which role


def test_a_hosted_model_plays_both_roles(house: House) -> None:
    house.door().check("writer", Generator, RUBRIC)
    house.door().check("writer", Verifier, RUBRIC)


def test_an_unknown_alias_is_told_with_those_that_exist(house: House) -> None:
    with pytest.raises(BadInputError, match=r"no model 'who'; models has writer, judge, other"):
        house.door().generate("who", [])


def test_hosted_calls_need_a_ledger(house: House) -> None:
    settings = house.door()._settings.model_copy(update={"ledger": None})
    with pytest.raises(ValueError, match="need a ledger"):
        Door(settings).generate("writer", probe_requests(RUBRIC, 1))
    assert house.seen() == 0


def test_a_key_and_under_a_budget_a_price_are_asked_for_before_any_call(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.door(prices={}).check_calls("writer")
    house.door(budget_usd=1).check_calls("writer")
    with pytest.raises(OperationalError, match=r"price of there/writer is unknown.*prices"):
        house.door(prices={}, budget_usd=1).check_calls("writer")
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(OperationalError, match=rf"endpoint there: no key; set the environment variable {VARIABLE}"):
        house.door().check_calls("writer")
    assert house.seen() == 0


# Money


def test_what_calls_cost_is_what_the_server_billed(house: House) -> None:
    frame = make_probes(RUBRIC, house.door(), "writer", 2)
    billed = house.stub.log.tokens()
    assert frame["input_tokens"].sum() == billed["prompt_tokens"]
    assert frame["output_tokens"].sum() == billed["completion_tokens"]
    exact = (billed["prompt_tokens"] * 1 + billed["completion_tokens"] * 4) / 1e6
    assert math.fsum(frame["usd"]) == pytest.approx(exact, rel=1e-12)


def test_an_unknown_price_is_no_price(house: House) -> None:
    frame = make_probes(RUBRIC, house.door(prices={}), "writer", 1)
    assert frame["usd"].isna().all()
    assert (frame["state"] == "ok").all()


def test_the_doors_of_a_session_share_its_budget(house: House) -> None:
    requests = probe_requests(RUBRIC, 2)
    house.door(budget_usd=0.01, session=f"{house.protocol}-money").generate("writer", requests)
    spent = house.stub.log.tokens()
    assert house.seen() > 0
    # A call may cost 0.0032 for its 800 tokens alone, and less than one such sum is left of what the first door had.
    left = house.door(budget_usd=0.01, session=f"{house.protocol}-money")
    assert float(left.budget.spent) == pytest.approx((spent["prompt_tokens"] + 4 * spent["completion_tokens"]) / 1e6)
    (stopped,) = house.door(budget_usd=0.003, session=f"{house.protocol}-less").judge(
        "judge", [JudgementRequest(task=RUBRIC.tasks[0], criterion=RUBRIC.criteria[0], response="A letter.")]
    )
    assert stopped.reply.state == "budget_stopped"
    assert house.seen() == 0


def test_a_new_process_counts_what_lost_replies_of_its_session_may_have_cost(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.stub.settings.script = Script([Rule("reply_lost", share=0.6, attempts=None, redraw=True)], seed=3)
    limit, spent = 0.05, 0.0
    for _ in range(3):
        monkeypatch.setattr(budget, "_shared", {})  # as a new process has it
        door = house.door(budget_usd=limit, session="goes on")
        assert float(door.budget.spent) >= spent
        door.generate("writer", probe_requests(RUBRIC, 2))
        billed = house.stub.log.tokens()
        spent = (billed["prompt_tokens"] + 4 * billed["completion_tokens"]) / 1e6
        assert spent <= float(door.budget.spent) <= limit
    assert house.stub.log.faults["reply_lost"] > 0  # which ones are lost hangs on the server's port


@pytest.mark.parametrize("told", [10**12, -5, 10**30])
def test_counts_that_no_call_can_have_are_no_money(house: House, told: int) -> None:
    house.stub.settings.script = Script([Rule("wild_usage", value=told)])
    door = house.door(budget_usd=1, session=f"wild {house.protocol} {told}")
    calls = door.generate("writer", probe_requests(RUBRIC, 2))
    assert [(call.reply.state, call.reply.usd, call.reply.output_tokens) for call in calls] == [("ok", None, None)] * 8
    # What they cost nobody knows: at most what was set aside, 0.0032 for the 800 tokens of a reply and a little.
    assert 8 * 0.0032 < float(door.budget.spent) < 8 * 0.006
    assert not door.budget.exceeded


# What was sent is what the record says


def test_the_record_tells_what_was_sent(house: House) -> None:
    probes = make_probes(RUBRIC, house.door(), "writer", 1)
    scores = judge_probes(RUBRIC, probes, house.door(), "judge")
    assert parameters(probes) == [{"max_tokens": 800, "temperature": 0.9}]
    form = (
        {"response_format": "json_schema"}
        if house.protocol == "openai"
        else {"output_config": {"format": "json_schema"}}
    )
    assert parameters(scores) == [{"max_tokens": 1000, "temperature": 0.0, **form}]
    assert {body["temperature"] for body in house.bodies("judge")} == {0.0}


def test_a_refused_temperature_is_left_out_and_never_claimed(house: House) -> None:
    house.stub.settings.rejects = {"*": ["temperature"]}
    probes = make_probes(RUBRIC, house.door(), "writer", 2)
    assert (probes["state"] == "ok").all()
    assert parameters(probes) == [{"max_tokens": 800, "temperature": "provider default"}]
    bodies = house.bodies("writer")
    assert sum("temperature" in body for body in bodies) == house.stub.log.statuses[400] <= PROBES
    assert sum("temperature" not in body for body in bodies) == house.stub.log.ok == PROBES
    again = make_probes(RUBRIC, house.door(), "writer", 2)
    assert parameters(again) == parameters(probes)


def test_the_first_refusal_teaches_the_calls_that_come_after_it(house: House) -> None:
    house.stub.settings.rejects = {"*": ["temperature"]}
    house.stub.settings.max_in_flight = 1
    door = house.door()
    door.generate("writer", probe_requests(RUBRIC, 1)[:1])
    assert [("temperature" in body) for body in house.bodies("writer")] == [True, False]


def test_a_temperature_that_is_known_to_be_refused_is_never_sent(house: House) -> None:
    house.stub.settings.rejects = {"*": ["temperature", "top_p", "top_k"]}
    door = house.door(capabilities={"writer": Overrides(temperature=False)})
    probes = make_probes(RUBRIC, door, "writer", 1)
    assert parameters(probes) == [{"max_tokens": 800, "temperature": "provider default"}]
    assert not any({"temperature", "top_p", "top_k"} & body.keys() for body in house.bodies("writer"))
    assert house.stub.log.statuses == {200: 4}


def test_structured_output_that_is_refused_is_done_without(house: House) -> None:
    refused = "response_format" if house.protocol == "openai" else "output_config.format"
    house.stub.settings.rejects = {"*": [refused]}
    house.stub.settings.brain = lambda ask: '{"reasoning": "none", "score": 3, "rationale": "so"}'
    request = JudgementRequest(task=RUBRIC.tasks[0], criterion=RUBRIC.criteria[0], response="A letter.")
    (call,) = house.door().judge("judge", [request])
    assert (call.reply.state, call.reply.score) == ("ok", 3)
    assert json.loads(call.record()["parameters"]) == {"max_tokens": 1000, "temperature": 0.0}


@pytest.mark.parametrize("known", [True, False], ids=["by radar.yaml", "by the first refusal"])
def test_models_that_reason_get_their_own_name_for_the_limit(openai_house: House, known: bool) -> None:
    openai_house.stub.settings.rejects = {"*": ["max_tokens"]}
    overrides = {"wri*": Overrides(max_tokens_field="max_completion_tokens")} if known else {}
    probes = make_probes(RUBRIC, openai_house.door(capabilities=overrides), "writer", 1)
    assert parameters(probes) == [{"max_completion_tokens": 800, "temperature": 0.9}]
    limits = Counter(next(name for name in body if name.startswith("max_")) for body in openai_house.bodies("writer"))
    assert limits["max_completion_tokens"] == 4
    assert (limits["max_tokens"] == 0) == known


# Scores from token probabilities


class Certain(DefaultBrain):
    """Says 3, and gives the same probabilities always."""

    PROBABILITIES: Mapping[int, float] = {0: 0.02, 1: 0.08, 2: 0.2, 3: 0.4, 4: 0.25}

    def level(self, ask: Any, levels: Any) -> int:
        return 3

    def probabilities(self, ask: Any, levels: Any) -> dict[int, float]:
        return dict(self.PROBABILITIES)


LOGPROBS: Mapping[str, Any] = {"score_from": "logprobs"}


@pytest.fixture
def probes(openai_house: House) -> Iterator[pd.DataFrame]:
    openai_house.stub.settings.brain = Certain(levels=LEVELS)
    made = make_probes(RUBRIC, openai_house.door(), "writer", 1)
    openai_house.stub.reset()
    yield made
    methods = {json.loads(text).get("score_from") for text in made["parameters"]}
    assert methods == {None}


def test_a_score_can_be_the_expected_level_over_token_probabilities(openai_house: House, probes: pd.DataFrame) -> None:
    scores = judge_probes(RUBRIC, probes, openai_house.door(LOGPROBS), "judge")
    # (1·0.08 + 2·0.2 + 3·0.4 + 4·0.25) / 0.95
    assert scores["expected"].tolist() == pytest.approx([2.68 / 0.95] * 8)
    assert scores["p"].tolist() == pytest.approx([2.68 / 0.95 / 4] * 8)
    assert set(scores["score"]) == {3}
    assert scores["reasoning"].isna().all()
    sent = {"logprobs": True, "max_tokens": 1, "score_from": "logprobs", "temperature": 0.0, "top_logprobs": 20}
    assert parameters(scores) == [sent]
    assert openai_house.seen() == 8
    door = openai_house.door(LOGPROBS)
    pd.testing.assert_frame_equal(judge_probes(RUBRIC, probes, door, "judge"), scores)
    assert openai_house.seen() == 0
    assert door.keys("judge", judgement_requests(RUBRIC, probes)) == scores["call_key"].tolist()


@pytest.mark.parametrize("how", ["off", "rejected"])
def test_without_token_probabilities_the_whole_cell_is_scored_by_text(
    openai_house: House, probes: pd.DataFrame, how: Any
) -> None:
    openai_house.stub.settings.logprobs = how
    scores = judge_probes(RUBRIC, probes, openai_house.door(LOGPROBS), "judge")
    assert (scores["state"] == "ok").all()
    assert scores["expected"].isna().all()
    assert set(scores["score"]) == {3}
    (told,) = parameters(scores)
    assert told["score_from"] == "text"
    assert told["score_from_reason"] == "there/judge sent no token probabilities"
    assert told["response_format"] == "json_schema"
    tried = sum(body["max_tokens"] == 1 for body in openai_house.bodies("judge"))
    assert 1 <= tried <= 3
    assert openai_house.seen() == tried + 8


@pytest.mark.parametrize("how", ["off", "rejected"])
def test_that_there_are_no_probabilities_is_paid_for_once(openai_house: House, probes: pd.DataFrame, how: Any) -> None:
    openai_house.stub.settings.logprobs = how
    scores = judge_probes(RUBRIC, probes, openai_house.door(LOGPROBS), "judge")
    openai_house.seen()
    door = openai_house.door(LOGPROBS)
    assert door.keys("judge", judgement_requests(RUBRIC, probes)) == scores["call_key"].tolist()
    pd.testing.assert_frame_equal(judge_probes(RUBRIC, probes, door, "judge"), scores)
    assert openai_house.seen() == 0


def test_levels_of_two_digits_are_scored_by_text_without_a_try(openai_house: House) -> None:
    wide = Rubric(
        name="r",
        criteria=(
            Criterion(id="wide", label="Wide", definition="W.", scale=Scale(min=1, max=10)),
            Criterion(id="narrow", label="Narrow", definition="N."),
        ),
        tasks=RUBRIC.tasks,
    )
    made = make_probes(wide, openai_house.door(), "writer", 1)
    openai_house.seen()
    door = openai_house.door(LOGPROBS)
    scores = judge_probes(wide, made, door, "judge")
    (told,) = parameters(scores)
    assert told["score_from_reason"] == "token probabilities need levels of one digit, but the scale is 1..10"
    assert (scores["state"] == "ok").all()
    assert openai_house.seen() == 8
    assert door.keys("judge", judgement_requests(wide, made)) == scores["call_key"].tolist()


def test_a_model_that_is_known_to_give_no_probabilities_is_not_tried(openai_house: House, probes: pd.DataFrame) -> None:
    door = openai_house.door(LOGPROBS, capabilities={"*": Overrides(logprobs=False)})
    scores = judge_probes(RUBRIC, probes, door, "judge")
    (told,) = parameters(scores)
    assert told["score_from_reason"] == "there/judge gives no token probabilities"
    assert openai_house.seen() == 8
    assert door.keys("judge", judgement_requests(RUBRIC, probes)) == scores["call_key"].tolist()
