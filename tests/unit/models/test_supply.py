"""Works on their way to calls, with a real ledger and another one that stands for another process."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from radar_dagster.models.chains import Chain, Origin, Work
from radar_dagster.models.exchange import Completion, Exchange, Message, Stop, Usage
from radar_dagster.models.ledger import Ledger, Writer
from radar_dagster.models.progress import Counts
from radar_dagster.models.records import reply_of
from radar_dagster.models.replies import Generation, State
from radar_dagster.models.supply import Supply

ORIGIN = Origin("session", "run", "local", "local/m")


@pytest.fixture
def ledgers(tmp_path: Path) -> Iterator[tuple[Ledger, Ledger]]:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as one, Ledger(path) as other:
        yield one, other


def read(completion: Completion) -> Generation:
    return Generation(state=State.OK, text=completion.text)


def work(key: str) -> Work[Generation]:
    return Work(key, "generate", Exchange((Message("user", key),), 100), read, Generation.failed)


def answer(ledger: Ledger, *keys: str) -> None:
    """Leave a reply to each key in the ledger, as another run does."""
    reply = Completion("said before", Stop.END, {}, Usage(1, 1))
    origin = replace(ORIGIN, run_id="another")
    ledger.append([Chain(work(key), origin, 1).completed(reply, 0.1, None).entry for key in keys])


def supply_of(ledger: Ledger, keys: str, counts: Counts) -> Supply[Generation]:
    return Supply(
        map(work, keys),
        origin=ORIGIN,
        max_attempts=1,
        ledger=ledger,
        from_entry=lambda entry: reply_of(entry, Generation),
        counts=counts,
    )


def keys_of(chains: list[Chain[Generation]]) -> str:
    return "".join(chain.work.key for chain in chains)


def test_what_the_ledger_answers_and_what_others_hold_becomes_no_call(ledgers: tuple[Ledger, Ledger]) -> None:
    ledger, other = ledgers
    answer(other, "b")
    other.claim("cd")
    counts = Counts("local/m", 7)
    supply = supply_of(ledger, "abcadbe", counts)

    async def go() -> None:
        async with Writer(ledger) as writer:
            await supply.take()
            assert (supply.unclaimed, supply.has_parked, counts.from_ledger) == (4, False, 2)
            answer(other, "e")  # between the look and the claim
            assert keys_of(await supply.claim(writer)) == "a"
            assert (supply.unclaimed, supply.has_parked, counts.from_ledger) == (0, True, 3)
            answer(other, "c")  # which gives back the key
            other.release("d")
            assert keys_of(await supply.claim_parked(writer)) == "d"
            assert not supply.has_parked
            for key in "ad":
                assert not supply.is_over
                supply.deliver(key, Generation(state=State.OK, text=f"said of {key}"))
            assert supply.is_over

    asyncio.run(go())
    of_a, of_d, before = "said of a", "said of d", "said before"
    said = [reply.text for reply in supply.results()]
    assert said == [of_a, before, before, of_a, of_d, before, before]
    assert (counts.done, counts.from_ledger) == (7, 4)


def test_claims_are_given_back_where_no_call_follows(ledgers: tuple[Ledger, Ledger]) -> None:
    ledger, other = ledgers
    supply = supply_of(ledger, "abc", Counts("local/m", 3))

    async def go() -> None:
        async with Writer(ledger) as writer:
            await supply.take()
            answer(other, "a")
            assert keys_of(await supply.claim(writer)) == "bc"
            assert other.claim("bc") == set()
            supply.let_go(writer)

    asyncio.run(go())
    assert other.claim("abc") == {"a", "b", "c"}


def test_what_is_given_up_is_neither_claimed_nor_parked(ledgers: tuple[Ledger, Ledger]) -> None:
    ledger, other = ledgers
    other.claim("a")
    supply = supply_of(ledger, "ab", Counts("local/m", 2))

    async def go() -> None:
        async with Writer(ledger) as writer:
            await supply.take()
            supply.give_up(State.TRANSPORT_ERROR, "too late")
            assert (supply.unclaimed, supply.is_over) == (0, True)
            assert await supply.claim(writer) == await supply.claim_parked(writer) == []

    asyncio.run(go())
    assert [reply.detail for reply in supply.results()] == ["too late"] * 2
    assert other.claim("b") == {"b"}
