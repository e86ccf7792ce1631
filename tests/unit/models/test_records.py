"""What is read back from the ledger is what the call itself gave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radar_dagster.models.ledger import Entry, Ledger
from radar_dagster.models.records import parsed_of, reply_of
from radar_dagster.models.replies import Generation, Judgement, State, storable

TEXTS = st.text(max_size=60).map(storable)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
COUNTS = st.none() | st.integers(0, 2**40)
COMMON: dict[str, Any] = {
    "detail": st.none() | TEXTS,
    "parameters": st.dictionaries(TEXTS, JSON, max_size=3),
    "input_tokens": COUNTS,
    "output_tokens": COUNTS,
    "usd": st.none() | st.floats(0, 1e6),
}
LOST = st.sampled_from([state for state in State if state is not State.OK])
REPLIES = st.one_of(
    st.builds(Generation, state=st.just(State.OK), text=TEXTS, **COMMON),
    st.builds(
        Judgement,
        state=st.just(State.OK),
        score=st.integers(-9, 99),
        expected=st.none() | st.floats(0, 10),
        reasoning=st.none() | TEXTS,
        rationale=st.none() | TEXTS,
        **COMMON,
    ),
    st.builds(Generation, state=LOST, **COMMON),
    st.builds(Judgement, state=LOST, **COMMON),
)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with Ledger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite") as ledger:
        yield ledger


def row_of(key: str, reply: Generation | Judgement) -> Entry:
    return Entry(
        key=key, session="s", run_id="r", role="judge", endpoint="e", model="e/m", mode="live", attempt=1, final=True,
        state=reply.state.value, detail=reply.detail, request="{}", parameters=json.dumps(reply.parameters),
        parsed=parsed_of(reply), input_tokens=reply.input_tokens, output_tokens=reply.output_tokens, usd=reply.usd,
        finished_at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


numbers = iter(range(10**9))


@given(reply=REPLIES)
def test_a_reply_comes_back_from_its_row_as_it_was(ledger: Ledger, reply: Generation | Judgement) -> None:
    key = str(next(numbers))
    ledger.append([row_of(key, reply)])
    (row,) = ledger.history(key)
    assert reply_of(row, type(reply)) == reply
    assert ledger.answers([key]).keys() == ({key} if reply.state is State.OK else set())


@given(reply=REPLIES)
def test_only_an_ok_reply_has_anything_that_was_read(reply: Generation | Judgement) -> None:
    assert (parsed_of(reply) is not None) == (reply.state is State.OK)
