"""The call ledger: what was paid for is found again, once, by whoever looks, on SQLite and on PostgreSQL.

RADAR_TEST_POSTGRES holds the URL of a server on which these tests may make and drop schemas.
"""

import asyncio
import gc
import math
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radar_dagster.errors import BadInputError, OperationalError
from radar_dagster.models.ledger import Batch, BatchItem, Entry, Ledger, Spent, Writer, batch_claim
from radar_dagster.models.ledger import writer as writer_module
from radar_dagster.models.ledger.claims import SILENCE_S
from radar_dagster.models.ledger.schema import VERSION
from radar_dagster.models.ledger.store import Store
from radar_dagster.models.replies import State

POSTGRES = "RADAR_TEST_POSTGRES"
NOWHERE = "127.0.0.1:1"  # nothing listens on port 1


class Clock:
    """Time that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def postgres_url() -> str:
    url = os.environ.get(POSTGRES)
    if not url:
        pytest.skip(f"no PostgreSQL: {POSTGRES} is not set")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a new ledger can be kept: a path, or the URL of an empty schema."""
    if request.param == "sqlite":
        yield str(tmp_path / "ledger.sqlite")
        return
    url = sqlalchemy.make_url(postgres_url()).set(drivername="postgresql+psycopg")
    schema = f"radar_test_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.schema.CreateSchema(schema))
    yield f"{url.render_as_string(hide_password=False)}?options=-csearch_path%3D{schema}"
    with engine.begin() as connection:
        connection.execute(sqlalchemy.schema.DropSchema(schema, cascade=True))
    engine.dispose()


@pytest.fixture
def ledger(place: str) -> Iterator[Ledger]:
    with Ledger(place) as ledger:
        yield ledger


def execute(place: str, statement: str) -> list[Any]:
    """Run SQL beside the ledger."""
    url = place.replace("postgres:", "postgresql:") if "://" in place else f"sqlite:///{place}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        result = connection.exec_driver_sql(statement)
        rows = list(result) if result.returns_rows else []
    engine.dispose()
    return rows


def entry(key: str = "k", **changes: Any) -> Entry:
    made = Entry(
        key=key,
        session="s1",
        run_id="r1",
        role="judge",
        endpoint="openai",
        model="m",
        mode="live",
        attempt=1,
        final=True,
        state="ok",
        request='[{"role": "user", "content": "Judge."}]',
        parameters="{}",
        reply='{"score": 4}',
        finished_at="2026-01-01T00:00:00+00:00",
    )
    return replace(made, **changes)


def without_request(row: Entry) -> Entry:
    return replace(row, request=None)


# Rows


def test_every_field_of_a_row_comes_back(ledger: Ledger) -> None:
    full = entry(
        status=200,
        detail="d",
        parsed='{"score": 4}',
        input_tokens=10,
        output_tokens=20,
        cached_input_tokens=3,
        cache_write_tokens=4,
        reasoning_tokens=5,
        usd=0.25,
        usd_at_most=0.5,
        latency_s=1.5,
        served_model="m-2026",
        provider_id="id",
    )
    assert all(getattr(full, field.name) is not None for field in fields(Entry))
    ledger.append([full])
    assert ledger.history("k") == [full]
    assert ledger.answers(["k"]) == {"k": without_request(full)}


def test_what_calls_came_to_is_the_sum_of_all_their_attempts(ledger: Ledger) -> None:
    lost = entry("a", usd=None, usd_at_most=0.5)
    ledger.append([entry("a", usd=0.25), lost, entry("b", usd=None), entry("c", usd=1)])
    assert ledger.spent_on(["a", "b", "a", "nobody"]) == Spent(3, Decimal("0.25"), 2, Decimal("0.5"))
    assert ledger.spent_on([]) == Spent()
    assert Spent.of(ledger.tally()) == ledger.spent_on("abc") == Spent(4, Decimal("1.25"), 2, Decimal("0.5"))


def test_what_is_unknown_stays_unknown(ledger: Ledger) -> None:
    ledger.append([entry(reply=None, state="transport_error", final=False)])
    (row,) = ledger.history("k")
    assert (row.usd, row.input_tokens, row.reply, row.status) == (None, None, None, None)


def test_a_state_of_the_enumeration_is_stored_as_its_value(ledger: Ledger, place: str) -> None:
    ledger.append([entry(state=State.OK)])
    assert execute(place, "SELECT state FROM calls") == [("ok",)]


@pytest.mark.parametrize(
    "text", ["a\x00b", "\ud800", "x\udfffy\x00", "é日🎉", "'; DROP TABLE calls; --", "%s %(key)s :key ?"]
)
def test_no_text_breaks_an_insert(ledger: Ledger, text: str) -> None:
    ledger.append([entry(reply=text, detail=text, request=text, parsed=text)])
    (row,) = ledger.history("k")
    assert row.reply == text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    assert row.reply == row.detail == row.request == row.parsed


@pytest.mark.parametrize("number", [10**30, -(10**30), math.nan, math.inf])
def test_numbers_that_nobody_can_have_counted_are_unknown(ledger: Ledger, number: float) -> None:
    ledger.append([entry(usd=float(number), latency_s=float(number) if math.isnan(number) else 1.0)])
    ledger.append([entry("i", input_tokens=number if isinstance(number, int) else 1)])
    (row,) = ledger.history("k")
    assert row.usd is None or math.isfinite(row.usd)
    assert ledger.history("i")[0].input_tokens in (1, None)


def test_the_newest_ok_row_answers_a_key(ledger: Ledger) -> None:
    ledger.append([entry(reply="old"), entry(reply="new"), entry(state="refused", reply="no"), entry("other")])
    assert ledger.answers(["k", "absent"])["k"].reply == "new"
    assert set(ledger.answers(["k", "absent"])) == {"k"}


def test_failed_rows_answer_nothing(ledger: Ledger) -> None:
    ledger.append([entry(state=state) for state in State if state is not State.OK])
    assert ledger.answers(["k"]) == {}


def test_a_session_sees_its_own_answers_only_and_deletes_none(ledger: Ledger) -> None:
    ledger.append([entry(session="old", reply="old")])
    assert ledger.answers(["k"], session="fresh") == {}
    ledger.append([entry(session="fresh", reply="fresh")])
    ledger.append([entry(session="later", reply="later")])
    assert ledger.answers(["k"], session="fresh")["k"].reply == "fresh"
    assert ledger.answers(["k"])["k"].reply == "later"
    assert [row.session for row in ledger.history("k")] == ["old", "fresh", "later"]


def test_thousands_of_keys_are_found_at_once(ledger: Ledger) -> None:
    keys = [f"{i:05}" for i in range(2_500)]
    ledger.append([entry(key) for key in keys])
    assert set(ledger.answers([*keys, *keys, "absent"])) == set(keys)
    assert ledger.answers([]) == ledger.interrupted([]) == {}


def test_a_transaction_is_all_or_nothing(ledger: Ledger) -> None:
    with pytest.raises(sqlalchemy.exc.IntegrityError):
        ledger.append([entry("a"), entry("b", request=None)])
    assert ledger.answers(["a", "b"]) == {}


def test_a_ledger_stays_when_it_is_closed(place: str) -> None:
    with Ledger(place) as first:
        first.append([entry()])
    with Ledger(place) as second:
        assert set(second.answers(["k"])) == {"k"}


# Interrupted chains


def parse_error(**changes: Any) -> Entry:
    return entry(**{"state": "parse_error", "final": False, "reply": "4/5", **changes})


TRANSPORT = {"state": "transport_error", "final": False, "reply": None}


@pytest.mark.parametrize("state", ["parse_error", "truncated"])
def test_a_paid_row_that_awaits_its_repair_is_interrupted(ledger: Ledger, state: str) -> None:
    row = parse_error(state=state)
    ledger.append([row])
    assert ledger.interrupted(["k"]) == {"k": without_request(row)}


def test_failures_of_transport_after_it_do_not_hide_an_interrupted_chain(ledger: Ledger) -> None:
    ledger.append([parse_error(reply="mine"), entry(attempt=2, status=429, **TRANSPORT), entry(attempt=3, **TRANSPORT)])
    assert ledger.interrupted(["k"])["k"].reply == "mine"


def test_a_final_row_ends_a_chain_whatever_came_of_it(ledger: Ledger) -> None:
    for state in ("ok", "parse_error", "refused", "transport_error"):
        ledger.append([parse_error(key=state), entry(state, attempt=2, state=state)])
        assert ledger.interrupted([state]) == {}


def test_a_new_chain_after_a_failed_one_can_be_interrupted_too(ledger: Ledger) -> None:
    ledger.append([parse_error(reply="1"), entry(state="refused"), parse_error(reply="2")])
    assert ledger.interrupted(["k"])["k"].reply == "2"


def test_the_chain_of_another_session_is_no_concern_of_a_fresh_one(ledger: Ledger) -> None:
    ledger.append([parse_error(session="old"), entry(session="other")])
    assert set(ledger.interrupted(["k"], session="old")) == {"k"}
    assert ledger.interrupted(["k"], session="other") == {}
    assert ledger.interrupted(["k"]) == {}


ROWS = st.lists(
    st.builds(
        lambda key, session, state, final, replied: (key, session, state, final, replied),
        st.sampled_from("ab"),
        st.sampled_from(["s", "t"]),
        st.sampled_from(["ok", "parse_error", "truncated", "refused", "transport_error"]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
)


def expected_chain(rows: list[Entry]) -> Entry | None:
    """Read a key's rows backwards: a final row first means that nothing is open."""
    for row in reversed(rows):
        if row.final:
            return None
        if row.state in ("parse_error", "truncated") and row.reply is not None:
            return row
    return None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=ROWS, session=st.sampled_from([None, "s", "t"]))
def test_answers_and_open_chains_are_those_that_reading_row_by_row_finds(
    ledger: Ledger, drawn: list[tuple[str, str, str, bool, bool]], session: str | None
) -> None:
    prefix = uuid.uuid4().hex
    rows = [
        entry(prefix + key, session=where, state=state, final=final, reply="r" if replied else None, attempt=i)
        for i, (key, where, state, final, replied) in enumerate(drawn)
    ]
    ledger.append(rows)
    keys = [prefix + "a", prefix + "b"]
    chains, answers = {}, {}
    for key in keys:
        mine = [row for row in rows if row.key == key and session in (None, row.session)]
        if (chain := expected_chain(mine)) is not None:
            chains[key] = without_request(chain)
        for row in mine:
            if row.state == "ok":
                answers[key] = without_request(row)
    assert ledger.interrupted(keys, session=session) == chains
    assert ledger.answers(keys, session=session) == answers


# Tally


def test_the_tally_adds_up_what_is_known_and_counts_what_has_no_price(ledger: Ledger) -> None:
    ledger.append(
        [
            entry(usd=0.5, input_tokens=10, output_tokens=1, cached_input_tokens=2),
            entry(usd=0.25, input_tokens=20, output_tokens=2, reasoning_tokens=1),
            entry(usd=None, input_tokens=30),
            entry(usd=None, reply=None, state="transport_error"),
            entry(role="generate", model="g", mode="batch", run_id="r2", session="s2"),
        ]
    )
    generated, judged, failed = ledger.tally()
    assert (judged.calls, judged.input_tokens, judged.output_tokens, judged.usd) == (3, 60, 3, 0.75)
    assert (judged.cached_input_tokens, judged.reasoning_tokens, judged.unpriced) == (2, 1, 1)
    assert (failed.state, failed.calls, failed.input_tokens, failed.usd, failed.unpriced) == (
        "transport_error", 1, None, None, 1,
    )  # fmt: skip
    assert (generated.role, generated.model, generated.mode, generated.unpriced) == ("generate", "g", "batch", 1)
    assert all(isinstance(value, int) for value in (judged.calls, judged.input_tokens, judged.unpriced))


def test_the_tally_can_be_of_a_session_a_run_or_a_role(ledger: Ledger) -> None:
    ledger.append([entry(), entry(session="s2"), entry(run_id="r2"), entry(role="generate")])
    assert [row.calls for row in ledger.tally(session="s2")] == [1]
    assert [row.calls for row in ledger.tally(run_id="r1")] == [1, 2]
    assert [row.calls for row in ledger.tally(run_id="r1", role="judge")] == [2]
    assert ledger.tally(session="none") == []


# Claims


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pair(place: str, clock: Clock) -> Iterator[tuple[Ledger, Ledger]]:
    """Two ledgers that are one in the database, as two processes have them."""
    with Ledger(place, clock=clock) as one, Ledger(place, clock=clock) as other:
        yield one, other


Pair = tuple[Ledger, Ledger]


def test_a_key_is_claimed_once(pair: Pair) -> None:
    one, other = pair
    assert one.claim(["a", "b", "b"]) == {"a", "b"}
    assert other.claim(["b", "c"]) == {"c"}
    assert one.claim(["a", "c", "d"]) == {"d"}
    assert one.claim([]) == set()


def test_a_released_key_is_free_and_only_its_holder_can_release_it(pair: Pair) -> None:
    one, other = pair
    one.claim(["a", "b"])
    other.release(["a", "b"])
    assert other.claim(["a", "b"]) == set()
    one.release(["a", "never claimed"])
    assert other.claim(["a", "b"]) == {"a"}


def test_a_final_row_gives_its_key_back_and_no_other_row_does(pair: Pair) -> None:
    one, other = pair
    one.claim(["a", "b", "c"])
    one.append([entry("a"), entry("b", final=False, state="parse_error")])
    assert other.claim(["a", "b", "c"]) == {"a"}


def test_closing_gives_everything_back_and_the_ledger_can_be_used_again(pair: Pair) -> None:
    one, other = pair
    one.claim([f"{i}" for i in range(2_500)])
    one.close()
    assert len(other.claim([f"{i}" for i in range(2_500)])) == 2_500
    assert one.claim(["x", "1"]) == {"x"}


def test_who_is_silent_for_too_long_elsewhere_loses_his_claims(pair: Pair, clock: Clock, place: str) -> None:
    one, other = pair
    one.claim(["a"])
    move_elsewhere(place)
    clock.now += SILENCE_S
    assert other.claim(["a"]) == set()
    clock.now += 0.5
    assert other.claim(["a", "b"]) == {"a", "b"}
    one.release(["a"])
    assert one.claim(["a"]) == set()


def test_heartbeats_keep_claims(pair: Pair, clock: Clock, place: str) -> None:
    one, other = pair
    one.claim(["a"])
    move_elsewhere(place)
    for _ in range(5):
        clock.now += SILENCE_S * 0.9
        one.heartbeat()
    assert other.claim(["a"]) == set()


def test_the_dead_are_buried_and_can_come_back(pair: Pair, clock: Clock, place: str) -> None:
    one, other = pair
    one.claim(["a", "b"])
    move_elsewhere(place)
    clock.now += SILENCE_S + 1
    other.claim(["a"])
    assert execute(place, "SELECT count(*) FROM workers") == [(1,)]
    assert execute(place, "SELECT key FROM claims") == [("a",)]
    assert one.claim(["a", "b"]) == {"b"}
    assert execute(place, "SELECT count(*) FROM workers") == [(2,)]


def test_a_process_of_this_machine_that_has_gone_loses_its_claims_at_once(pair: Pair, place: str) -> None:
    one, other = pair
    one.claim(["a"])
    execute(place, f"UPDATE workers SET pid = {pid_of_nobody()}")
    assert other.claim(["a"]) == {"a"}


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")


@needs_proc
def test_a_later_process_with_the_same_id_is_not_mistaken_for_the_holder(pair: Pair, place: str) -> None:
    one, other = pair
    one.claim(["a"])
    execute(place, "UPDATE workers SET started = started - 1")
    assert other.claim(["a"]) == {"a"}


def test_of_a_process_elsewhere_only_its_silence_tells(pair: Pair, clock: Clock, place: str) -> None:
    one, other = pair
    one.claim(["a"])
    execute(place, f"UPDATE workers SET host = 'elsewhere', pid = {pid_of_nobody()}")
    assert other.claim(["a"]) == set()
    clock.now += SILENCE_S + 1
    assert other.claim(["a"]) == {"a"}


@pytest.mark.parametrize("signum", [None, signal.SIGSTOP])
@needs_proc
def test_a_process_that_is_seen_to_run_keeps_its_claims_however_silent(
    pair: Pair, clock: Clock, place: str, signum: int | None
) -> None:
    one, other = pair
    one.claim(["a"])
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        execute(place, f"UPDATE workers SET pid = {process.pid}, started = {started}")
        if signum is not None:
            process.send_signal(signum)  # a closed lid, a paused container, a debugger
        clock.now += 100 * SILENCE_S
        assert other.claim(["a"]) == set()
        process.kill()
        process.wait()
        assert other.claim(["a"]) == {"a"}


@needs_proc
def test_a_process_whose_start_is_unknown_is_dead_after_its_silence(pair: Pair, clock: Clock, place: str) -> None:
    one, other = pair
    one.claim(["a"])
    execute(place, f"UPDATE workers SET pid = {os.getppid()}, started = NULL")
    assert other.claim(["a"]) == set()
    clock.now += SILENCE_S + 1
    assert other.claim(["a"]) == {"a"}


def test_a_clock_that_jumps_frees_nothing_of_this_process(pair: Pair, clock: Clock) -> None:
    one, other = pair
    one.claim(["a"])
    clock.now += 100 * SILENCE_S
    assert other.claim(["a"]) == set()


def test_a_ledger_of_this_process_that_was_dropped_unclosed_holds_nothing(place: str) -> None:
    with Ledger(place) as other:
        dropped = Ledger(place)
        dropped.claim(["a"])
        assert other.claim(["a"]) == set()
        del dropped
        gc.collect()
        assert other.claim(["a"]) == {"a"}


def move_elsewhere(place: str) -> None:
    """Let all workers so far be of another machine."""
    execute(place, "UPDATE workers SET host = 'elsewhere'")


def pid_of_nobody() -> int:
    """A process id above all that systems give out, yet within their type."""
    return 2**31 - 2


def test_threads_can_share_a_ledger(ledger: Ledger) -> None:
    keys = [f"{i:03}" for i in range(200)]

    def work(thread: int) -> list[str]:
        mine: list[str] = []
        for start in range(0, len(keys), 20):
            taken = ledger.claim(keys[start : start + 20])
            ledger.append([entry(key, final=False, reply=str(thread)) for key in taken])
            mine += taken
        return mine

    with ThreadPoolExecutor(8) as pool:
        taken = [key for mine in pool.map(work, range(8)) for key in mine]
    assert sorted(taken) == keys
    assert set(ledger.answers(keys)) == set(keys)


# Batches


def batch(token: str = "t1", *keys: str, **changes: Any) -> Batch:
    items = tuple(BatchItem(custom_id=f"c{i}", key=key, request="{}") for i, key in enumerate(keys or ("k",)))
    return replace(Batch(token=token, endpoint="openai", model="m", session="s", created=10.0, items=items), **changes)


def test_a_batch_is_known_before_and_after_the_provider_has_named_it(ledger: Ledger) -> None:
    ledger.record_batch(batch("t1", "a", "b"))
    assert ledger.open_batches("openai", "m") == [batch("t1", "a", "b")]
    ledger.batch_submitted("t1", "batch_123")
    assert ledger.open_batches("openai", "m") == [batch("t1", "a", "b", state="submitted", provider_id="batch_123")]
    assert ledger.open_batches("openai", "other") == ledger.open_batches("other", "m") == []


def test_whether_any_batch_is_open_is_known(ledger: Ledger) -> None:
    assert not ledger.has_open_batches()
    ledger.record_batch(batch("t"))
    assert ledger.has_open_batches()
    ledger.abandon_batch("t")
    assert not ledger.has_open_batches()


def test_batches_come_oldest_first_and_say_which_keys_are_in_them(ledger: Ledger) -> None:
    ledger.record_batch(batch("new", "b", "c", created=20.0))
    ledger.record_batch(batch("old", "a", "b", created=10.0))
    ledger.record_batch(batch("empty", items=(), created=5.0))
    assert [found.token for found in ledger.open_batches("openai", "m")] == ["empty", "old", "new"]
    assert ledger.open_batch_keys(["a", "b", "c", "d"]) == {"a": "old", "b": "new", "c": "new"}


def test_a_batch_ends_with_its_results_once(pair: Pair) -> None:
    one, other = pair
    one.record_batch(batch("t1", "a"))
    one.claim(["a", batch_claim("t1")])
    assert batch("t1").claim == batch_claim("t1")
    assert one.append([entry("a", mode="batch")], closes="t1")
    assert one.open_batches("openai", "m") == []
    assert one.open_batch_keys(["a"]) == {}
    assert not other.append([entry("a", mode="batch")], closes="t1")
    assert len(one.history("a")) == 1
    assert other.claim(["a", batch_claim("t1")]) == {"a", batch_claim("t1")}


def test_a_batch_without_results_can_end_too(ledger: Ledger) -> None:
    ledger.record_batch(batch())
    assert ledger.append([], closes="t1")
    assert ledger.open_batches("openai", "m") == []


def test_an_abandoned_batch_is_closed(pair: Pair) -> None:
    one, other = pair
    one.record_batch(batch())
    one.claim([batch_claim("t1")])
    assert one.abandon_batch("t1")
    assert not one.abandon_batch("t1")
    assert one.open_batches("openai", "m") == []
    assert other.claim([batch_claim("t1")]) == {batch_claim("t1")}
    one.batch_submitted("t1", "too late")
    assert one.open_batches("openai", "m") == []


def test_a_batch_may_hold_thousands_of_calls(ledger: Ledger) -> None:
    keys = [f"{i:05}" for i in range(2_500)]
    ledger.record_batch(batch("t1", *keys))
    assert ledger.open_batch_keys(keys) == dict.fromkeys(keys, "t1")
    assert {item.key for item in ledger.open_batches("openai", "m")[0].items} == set(keys)


# Files and servers


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_the_owner_alone_can_read_the_files(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with Ledger(tmp_path / "l.sqlite") as ledger:
            ledger.append([entry()])
            assert modes(tmp_path) == {"l.sqlite": 0o600, "l.sqlite-wal": 0o600, "l.sqlite-shm": 0o600}
    finally:
        os.umask(before)
    assert modes(tmp_path) == {"l.sqlite": 0o600}


def test_rows_are_safe_when_the_power_fails(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.sqlite") as ledger:
        settings = ledger._store.read(
            lambda c: [c.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        )
    assert settings == ["wal", 2]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_was_deleted_or_replaced_is_written_no_more(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        ledger.append([entry("a")])
        for file in tmp_path.iterdir():
            file.unlink()
        if replaced:
            Ledger(path).close()
        for use in (lambda: ledger.append([entry("b")]), lambda: ledger.claim(["b"]), lambda: ledger.answers(["a"])):
            with pytest.raises(OperationalError, match="ledger.sqlite: its file was deleted, moved or replaced"):
                use()
    assert list(tmp_path.iterdir()) == ([path] if replaced else [])  # nothing was put in its place
    with Ledger(path) as ledger:
        assert ledger.answers(["a", "b"]) == {}


def test_a_transaction_during_which_the_file_goes_is_not_taken_for_committed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    store = Store(path)
    with pytest.raises(OperationalError, match="its file was deleted"):
        store.write(lambda _: path.unlink())
    store.close()
    with pytest.raises(OperationalError, match="its file is gone"):
        store.read(lambda _: None)
    Store(path).close()
    store.read(lambda _: None)  # closed, and opened anew
    store.close()


def test_missing_folders_are_made(tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path}/a/b/l.sqlite") as ledger:
        assert ledger.name == str(tmp_path / "a" / "b" / "l.sqlite")
        assert repr(ledger) == f"Ledger('{ledger.name}')"


def test_a_path_may_hold_anything(tmp_path: Path) -> None:
    path = tmp_path / "a b%41?c@d#e" / "é.sqlite"
    Ledger(path).close()
    assert path.exists()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", ":memory:", ""])
def test_a_ledger_that_would_vanish_is_refused(url: str) -> None:
    with pytest.raises(BadInputError, match="outlive"):
        Ledger(url)


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/d", "postgresql+psycopg2://u:hunter2@h/d", "duckdb:///x", "https://h"]
)
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(BadInputError, match="expected a path, sqlite:/// or postgresql://") as caught:
        Ledger(url)
    assert "hunter2" not in str(caught.value)


def test_options_of_sqlite_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="without options"):
        Ledger(f"sqlite:///{tmp_path}/l.sqlite?mode=ro")


PASSWORDS = [
    "hunter2",
    "hun@ter2",
    "hun/ter2",
    "hun:ter2",
    "hun?ter2",
    "hun#ter2",
    "hun%40ter2",
    "hun%ter2",
    "hunter2@",
]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize(
    "form",
    [
        f"postgresql://user:{{}}@{NOWHERE}/db",
        f"postgres://user:{{}}@{NOWHERE}/db",
        f"postgresql+psycopg://us/er:{{}}@{NOWHERE}/db",
        f"postgresql://user@{NOWHERE}/db?password={{}}",
        f"postgresql://user:{{}}@{NOWHERE}/db?sslmode=nonsense",
        "postgresql://user:{}@no.such.host.invalid:port/db",
        "postgresql://user@/db?host=/nowhere&password={}",
    ],
)
def test_no_message_shows_a_password(form: str, password: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises((BadInputError, OperationalError)) as caught:
        Ledger(form.replace("{}", password))
    shown = "".join(traceback.format_exception(caught.value))
    assert "hun" not in shown
    assert "ter2" not in shown


def test_a_server_that_is_not_there_is_named_with_what_to_set() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(OperationalError, match=r"\+psycopg://user:\*\*\*@127.0.0.1:1/db.*set the ledger's URL"):
        Ledger(f"postgresql://user:hunter2@{NOWHERE}/db?connect_timeout=3")


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 100)
    with pytest.raises(OperationalError, match="notes.txt: file is not a database"):
        Ledger(path)
    assert path.read_text() == "Dear diary, " * 100


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match=str(tmp_path)):
        Ledger(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OperationalError, match="file/l.sqlite"):
        Ledger(tmp_path / "file" / "l.sqlite")


def test_the_ledger_of_a_newer_version_is_refused(place: str) -> None:
    Ledger(place).close()
    execute(place, f"UPDATE meta SET value = '{VERSION + 1}'")
    with pytest.raises(OperationalError, match="newer radar .*upgrade radar-dagster"):
        Ledger(place)


def test_a_ledger_of_the_first_version_is_taken_over_with_its_rows(place: str) -> None:
    with Ledger(place) as ledger:
        ledger.append([entry("old", usd=None)])
    execute(place, "ALTER TABLE calls DROP COLUMN usd_at_most")
    execute(place, "UPDATE meta SET value = '1'")
    for _ in range(2):
        with Ledger(place) as ledger:
            ledger.append([entry("new", usd=None, usd_at_most=0.25)])
            assert [entry.usd_at_most for entry in ledger.history("old")] == [None]
    assert [tuple(found) for found in execute(place, "SELECT value FROM meta")] == [(str(VERSION),)]
    with Ledger(place) as ledger:
        assert sum(each.most_usd for each in ledger.tally()) == Decimal("0.5")


def test_the_tables_of_another_program_are_refused_and_left_alone(place: str) -> None:
    execute(place, "CREATE TABLE calls (caller TEXT)")
    with pytest.raises(OperationalError, match=r"tables of another program \(calls\)"):
        Ledger(place)
    assert execute(place, "SELECT * FROM calls") == []
    execute(place, "DROP TABLE calls")
    Ledger(place).close()
    execute(place, "UPDATE meta SET value = 'blue'")
    with pytest.raises(OperationalError, match="tables of another program"):
        Ledger(place)


def test_texts_of_a_call_stay_out_of_errors(ledger: Ledger, place: str) -> None:
    execute(place, "DROP TABLE calls")
    with pytest.raises(OperationalError, match=r"calls") as caught:
        ledger.append([entry(request="what the user wrote")])
    assert "what the user wrote" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_ledger_that_is_kept_locked_says_so_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "l.sqlite"
    Ledger(path).close()
    monkeypatch.setattr("radar_dagster.models.ledger.store.BUSY_S", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match=r"l.sqlite: database is locked; another process"):
            Ledger(path)


# Writer


def run(ledger: Ledger, work: Callable[[Writer], Any], **options: float) -> Any:
    async def main() -> Any:
        async with Writer(ledger, **options) as writer:
            return await work(writer)

    return asyncio.run(main())


def test_a_commit_returns_when_others_can_read_the_row(pair: Pair) -> None:
    one, other = pair

    async def work(writer: Writer) -> None:
        for i in range(20):
            await writer.commit(entry(f"{i}"))
            assert f"{i}" in other.answers([f"{i}"])

    run(one, work)


def test_commits_of_many_tasks_share_transactions(place: str, ledger: Ledger) -> None:
    transactions: list[None] = []
    sqlalchemy.event.listen(ledger._store._connected(), "commit", lambda connection: transactions.append(None))

    async def work(writer: Writer) -> None:
        await asyncio.gather(*(writer.commit(entry(f"{i}")) for i in range(500)))

    run(ledger, work)
    assert len(ledger.answers(f"{i}" for i in range(500))) == 500
    assert len(transactions) < 50


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row waits for others longer than any test takes."""
    monkeypatch.setattr(writer_module, "_TOGETHER_S", 60.0)


async def rows_that_wait(writer: Writer) -> list[asyncio.Task[None]]:
    """Commits of 0, 1, … 4, one after the other; none is written yet."""
    rows = []
    for i in range(5):
        rows.append(asyncio.create_task(writer.commit(entry(f"{i}"))))
        await asyncio.sleep(0.02)
    assert not any(row.done() for row in rows)
    return rows


def test_commits_that_come_one_after_the_other_share_a_transaction_too(ledger: Ledger, patient: None) -> None:
    transactions: list[None] = []
    sqlalchemy.event.listen(ledger._store._connected(), "commit", lambda connection: transactions.append(None))

    async def work(writer: Writer) -> None:
        rows = await rows_that_wait(writer)
        assert not transactions
        await asyncio.wait_for(asyncio.gather(writer.commit(entry("last"), at_once=True), *rows), 10)
        assert len(transactions) == 1

    run(ledger, work)
    assert len(ledger.answers(["last", *(f"{i}" for i in range(5))])) == 6


@pytest.mark.parametrize(
    "hurry",
    [lambda writer: writer.claim(["another"]), lambda writer: writer.close()],
    ids=["a claim", "the end"],
)
def test_what_waits_for_no_others_takes_the_rows_before_it_along(
    ledger: Ledger, patient: None, hurry: Callable[[Writer], Coroutine[Any, Any, Any]]
) -> None:
    async def work(writer: Writer) -> None:
        rows = await rows_that_wait(writer)
        await asyncio.wait_for(asyncio.gather(hurry(writer), *rows), 10)

    run(ledger, work)
    assert len(ledger.answers(f"{i}" for i in range(5))) == 5


def test_the_end_does_not_wait_for_others_with_a_row_that_has_only_just_come(ledger: Ledger, patient: None) -> None:
    async def work(writer: Writer) -> None:
        row = asyncio.create_task(writer.commit(entry("k")))
        await asyncio.sleep(0)
        await asyncio.wait_for(writer.close(), 10)
        await row

    run(ledger, work)
    assert ledger.answers(["k"]).keys() == {"k"}


def test_of_tasks_that_claim_a_key_together_one_gets_it(ledger: Ledger) -> None:
    async def work(writer: Writer) -> list[set[str]]:
        return await asyncio.gather(*(writer.claim(["same", f"{i}"]) for i in range(20)))

    taken = run(ledger, work)
    counts = Counter(key for keys in taken for key in keys)
    assert counts == {"same": 1, **{f"{i}": 1 for i in range(20)}}


def test_released_claims_can_be_claimed_again(pair: Pair) -> None:
    one, other = pair

    async def work(writer: Writer) -> None:
        assert await writer.claim(["a", "b"]) == {"a", "b"}
        writer.release(["a"])
        await writer.commit(entry("b"))
        assert other.claim(["a", "b"]) == {"a", "b"}

    run(one, work)


def test_a_cancelled_task_loses_no_row_and_keeps_no_claim(pair: Pair) -> None:
    one, other = pair

    async def work(writer: Writer) -> None:
        tasks = [asyncio.create_task(writer.commit(entry("a"))), asyncio.create_task(writer.claim(["b"]))]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        while other.claim(["b"]) != {"b"}:
            await asyncio.sleep(0.01)

    run(one, work)
    assert set(other.answers(["a"])) == {"a"}


def test_leaving_the_block_writes_what_is_waiting(ledger: Ledger) -> None:
    async def work(writer: Writer) -> None:
        tasks = [asyncio.create_task(writer.commit(entry(f"{i}"))) for i in range(100)]
        await asyncio.sleep(0)
        work.tasks = tasks  # type: ignore[attr-defined]  # keeps them from being collected

    run(ledger, work)
    assert len(ledger.answers(f"{i}" for i in range(100))) == 100


def test_after_the_block_nothing_is_taken(ledger: Ledger) -> None:
    async def main() -> None:
        async with Writer(ledger) as writer:
            await writer.commit(entry())
        with pytest.raises(RuntimeError, match="closed"):
            await writer.commit(entry())

    asyncio.run(main())


def test_before_the_block_nothing_is_taken(ledger: Ledger) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(Writer(ledger).commit(entry()))


def test_an_error_reaches_everybody_who_waits_and_everybody_who_comes(ledger: Ledger, place: str) -> None:
    async def work(writer: Writer) -> None:
        await writer.commit(entry("before"))
        execute(place, "DROP TABLE calls")
        failed = await asyncio.gather(*(writer.commit(entry(f"{i}")) for i in range(10)), return_exceptions=True)
        assert [type(error) for error in failed] == [OperationalError] * 10
        assert len({id(error) for error in failed}) == 10
        for late in (writer.commit(entry("late")), writer.claim(["late"])):
            with pytest.raises(OperationalError, match="calls"):
                await late

    with pytest.raises(OperationalError, match="calls"):
        run(ledger, work)


def test_an_error_of_the_body_is_not_hidden_by_one_of_the_ledger(ledger: Ledger, place: str) -> None:
    async def work(writer: Writer) -> None:
        execute(place, "DROP TABLE calls")
        with pytest.raises(OperationalError):
            await writer.commit(entry())
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(ledger, work)


def test_a_bug_reaches_the_tasks_as_well(ledger: Ledger) -> None:
    async def work(writer: Writer) -> None:
        with pytest.raises(sqlalchemy.exc.IntegrityError):
            await writer.commit(entry(request=None))

    with pytest.raises(sqlalchemy.exc.IntegrityError):
        run(ledger, work)


def test_a_writer_gives_signs_of_life_while_there_are_claims(pair: Pair, clock: Clock, place: str) -> None:
    one, other = pair

    async def work(writer: Writer) -> None:
        await writer.claim(["a"])
        for _ in range(3):
            clock.now += SILENCE_S * 0.9
            async with asyncio.timeout(30):
                while execute(place, "SELECT heartbeat FROM workers") != [(clock.now,)]:
                    await asyncio.sleep(0.01)
        assert other.claim(["a"]) == set()

    run(one, work, heartbeat_s=0.05)


def test_the_loop_runs_on_while_the_database_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"

    async def work(writer: Writer) -> int:
        ticks = 0
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(writer.commit(entry()))
            for _ in range(20):
                await asyncio.sleep(0.005)
                ticks += 1
            assert not waiting.done()
            other.execute("ROLLBACK")
        await waiting
        return ticks

    with Ledger(path) as ledger:
        assert run(ledger, work) == 20


def test_a_key_is_found_by_its_first_digits(ledger: Ledger) -> None:
    keys = ["0123456789ab" + "0" * 52, "0123456789ac" + "f" * 52, "ff" + "0" * 62]
    ledger.append([entry(key=key) for key in (*keys, keys[0])])
    assert ledger.keys_from("0123456789") == keys[:2]
    assert ledger.keys_from("0123456789ac") == ledger.keys_from(keys[1]) == [keys[1]]
    assert ledger.keys_from("f") == [keys[2]]
    assert ledger.keys_from("", most=2) == keys[:2]
    assert ledger.keys_from("e") == []
