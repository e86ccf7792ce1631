"""Prices: what radar.yaml says, what the library's list says, an unknown price is None, and the bound before a call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import genai_prices
import pytest
from genai_prices.data_snapshot import DataSnapshot, get_snapshot, set_custom_snapshot
from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    Provider,
    StartDateConstraint,
    TimeOfDateConstraint,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import Exchange, Message, Usage
from radar_dagster.models.prices import Price, PriceTable, Quote, most_input_tokens

LOCAL = Endpoint(base_url="http://127.0.0.1:8000")
AZURE = Endpoint(base_url="https://ours.openai.azure.com/openai/v1/", api_key_env="AZURE_KEY")
OPENAI = Endpoint(protocol="openai")
ANTHROPIC = Endpoint(protocol="anthropic")
OFFICIAL = {"openai": OPENAI, "anthropic": ANTHROPIC, "azure": AZURE}
#: The price list of the library, read once: provider -> models.
LISTED = {provider.id: provider.models for provider in get_snapshot().providers if provider.id in OFFICIAL}
#: After every price and variant that today's list knows.
TODAY = datetime.now(UTC)
FREE_TABLE = PriceTable()


@pytest.fixture(autouse=True)
def _official_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)


def exchange(*texts: str, max_tokens: int = 100, **more: Any) -> Exchange:
    return Exchange(messages=tuple(Message("user", text) for text in texts), max_tokens=max_tokens, **more)


# Price


@pytest.mark.parametrize("written", [0.1, "0.1", Decimal("0.1"), " 1e-1"])
def test_a_price_is_the_number_as_it_is_written(written: object) -> None:
    price = Price.model_validate({"input": written, "output": 3})
    assert (price.input, price.output) == (Decimal("0.1"), Decimal(3))
    assert price.batch_discount == Decimal("0.5")


@pytest.mark.parametrize("wrong", [-1, "-0.1", float("nan"), float("inf"), "NaN", "$3", "", True, [1], 1e7, "1e-31"])
def test_what_is_no_price_is_refused_in_words(wrong: object) -> None:
    for field in ("input", "output", "cached_input", "cache_write"):
        with pytest.raises(ValidationError, match="expected US dollars per million tokens|at most 30 decimals"):
            Price.model_validate({"input": 1, "output": 1, field: wrong})


@pytest.mark.parametrize("wrong", [-0.1, 1.5, "half", float("nan"), False])
def test_a_batch_discount_is_a_share(wrong: object) -> None:
    with pytest.raises(ValidationError, match="share that batches take off, a number from 0 to 1"):
        Price.model_validate({"input": 1, "output": 1, "batch_discount": wrong})


def test_both_rates_must_be_given_and_unknown_keys_are_refused() -> None:
    for document in ({"input": 1}, {"output": 1}, {"input": None, "output": 1}, {"input": 1, "output": 1, "cache": 1}):
        with pytest.raises(ValidationError):
            Price.model_validate(document)


# Costs by radar.yaml


def cost(price: Mapping[str, Any], usage: Usage, **more: Any) -> Decimal | None:
    return PriceTable({"local/m": Price.model_validate(price)}).cost("local/m", LOCAL, usage, **more)


def test_a_call_costs_its_tokens_times_their_rates() -> None:
    # By hand: (1,000 − 200 − 300) × 3 + 200 × 0.3 + 300 × 3.75 + 400 × 15 = 8,685 millionths of a dollar.
    price = {"input": 3, "output": 15, "cached_input": 0.3, "cache_write": 3.75}
    used = Usage(1000, 400, cached_input_tokens=200, cache_write_tokens=300, reasoning_tokens=350)
    assert cost(price, used) == Decimal("0.008685")
    assert cost(price, used, batch=True) == Decimal("0.0043425")
    assert cost({**price, "batch_discount": 0.25}, used, batch=True) == Decimal("0.00651375")
    # Without rates of its own, a cache changes nothing: 1,000 × 3 + 400 × 15.
    assert cost({"input": 3, "output": 15}, used) == Decimal("0.009")


def test_products_of_long_numbers_are_exact() -> None:
    rate = Decimal("123456.123456789012345678901234567890")
    discount = Decimal("0.123456789012345678901234567891")
    tokens = 10**15 + 1
    found = cost({"input": rate, "output": 0, "batch_discount": discount}, Usage(tokens, 0), batch=True)
    assert found is not None
    assert Fraction(found) == Fraction(rate) * tokens / 1_000_000 * (1 - Fraction(discount))


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(input_tokens=10),
        Usage(output_tokens=10),
        Usage(10, 10, cached_input_tokens=8, cache_write_tokens=3),  # more from and into the cache than was read
        Usage(10, 10, cached_input_tokens=-1),
        Usage(10, -1),
    ],
)
def test_without_the_counts_that_it_needs_a_cost_is_unknown_and_not_zero(usage: Usage) -> None:
    assert cost({"input": 1, "output": 1}, usage) is None


def test_what_is_free_needs_no_counts() -> None:
    assert cost({"input": 0, "output": 0}, Usage()) == 0
    assert cost({"input": 0, "output": 2}, Usage(output_tokens=10)) == Decimal("0.00002")
    assert cost({"input": 0, "output": 2}, Usage(input_tokens=10)) is None
    assert cost({"input": 2, "output": 0}, Usage(input_tokens=10)) == Decimal("0.00002")
    assert cost({"input": 0, "output": 0, "cache_write": 1}, Usage(output_tokens=10)) is None


# Which price


def test_the_exact_name_wins_then_the_first_pattern_in_the_order_of_the_file() -> None:
    def flat(rate: int) -> Price:
        return Price(input=Decimal(rate), output=Decimal(rate))

    table = PriceTable({"local/*": flat(1), "local/big*": flat(2), "local/big-1": flat(3), "local/big-1@low": flat(4)})
    rates = {
        name: quote.input
        for name in ("local/x", "local/big-2", "local/big-1", "local/big-1@high", "local/big-1@low", "local/BIG")
        if (quote := table.describe(name, LOCAL))
    }
    assert list(rates.values()) == [1, 1, 3, 3, 4, 1]
    assert table.describe("other/big-1", LOCAL) is None


def test_a_pattern_that_names_a_variant_holds_for_it_whatever_the_models_price_is() -> None:
    def flat(rate: int) -> Price:
        return Price(input=Decimal(rate), output=Decimal(rate))

    table = PriceTable(
        {"local/*": flat(1), "local/m": flat(2), "local/*@high": flat(3), "local/m@max": flat(4), "local/m@m*": flat(5)}
    )
    names = ["m", "m@low", "m@high", "other", "other@low", "other@high", "m@max", "m@medium"]
    quotes = [table.describe(f"local/{name}", LOCAL) for name in names]
    assert [quote and quote.input for quote in quotes] == [2, 2, 3, 1, 1, 3, 4, 5]
    assert table.idle(["local/m@high"]) == ["local/m@max", "local/m@m*"]
    assert table.idle(["local/m"]) == ["local/*@high", "local/m@max", "local/m@m*"]


def test_radar_yaml_wins_over_the_price_list() -> None:
    table = PriceTable({"openai/gpt-4o-mini": Price(input=Decimal(7), output=Decimal(9))})
    assert table.describe("openai/gpt-4o-mini", OPENAI) == Quote(Decimal(7), Decimal(9), "radar.yaml")
    assert table.cost("openai/gpt-4o-mini", OPENAI, Usage(1_000_000, 0), sent={"service_tier": "x"}) == 7


def test_a_server_of_ones_own_has_no_price_whatever_its_model_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    used = Usage(10, 10)
    assert FREE_TABLE.cost("openai/gpt-4o", OPENAI, used) is not None
    strangers = [
        LOCAL,
        Endpoint(base_url="http://localhost/x.openai.azure.com/v1"),
        Endpoint(base_url="https://ours.openai.azure.com.example.org/v1"),
        Endpoint(base_url="https://eu.api.openai.com/v1"),  # dearer than the list says
    ]
    for endpoint in strangers:
        assert FREE_TABLE.cost("mine/gpt-4o", endpoint, used) is None
        assert FREE_TABLE.worst_case("mine/gpt-4o", endpoint, exchange("x")) is None
        assert not FREE_TABLE.is_known("mine/gpt-4o", endpoint)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert FREE_TABLE.cost("openai/gpt-4o", OPENAI, used) is None


def test_a_model_that_the_list_does_not_know_has_no_price() -> None:
    nonsense = ["openai/gpt-0-nonsense", "openai/ft:gpt-4o-mini:acme::abc", "anthropic/nonsense"]
    for name in (*nonsense, "azure/deepseek-chat"):  # Azure's price of that differs from its maker's
        endpoint = OFFICIAL[name.partition("/")[0]]
        assert FREE_TABLE.cost(name, endpoint, Usage(1, 1)) is None
        assert FREE_TABLE.worst_case(name, endpoint, exchange("x")) is None
        assert FREE_TABLE.describe(name, endpoint) is None


def test_a_model_that_is_not_sold_by_tokens_read_and_written_has_no_price() -> None:
    for name in ("openai/text-embedding-3-small", "openai/whisper-1", "openai/tts-1", "openai/omni-moderation-latest"):
        assert FREE_TABLE.cost(name, OPENAI, Usage(1, 1)) is None


def test_the_description_names_the_library_and_its_version() -> None:
    listed = genai_prices.calc_price(genai_prices.Usage(), "gpt-4o-mini", provider_id="openai").model_price
    source = f"genai-prices {genai_prices.__version__}"
    quote = FREE_TABLE.describe("openai/gpt-4o-mini@anything", OPENAI)
    assert quote == Quote(listed.input_mtok, listed.output_mtok, source, tiered=False)
    tiered = FREE_TABLE.describe("anthropic/claude-sonnet-4-5", ANTHROPIC)
    assert tiered is not None
    assert tiered.tiered


# The library's list: the same to the last digit as the library itself


def by_library(
    model: str,
    provider: str,
    usage: Usage,
    at: datetime,
    *,
    context: Mapping[str, str] | None = None,
    long_cache: bool = False,
) -> Decimal:
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cache_write_1h_tokens": usage.cache_write_tokens if long_cache else None,
        "output_reasoning_tokens": usage.reasoning_tokens,
    }
    return genai_prices.calc_price(
        genai_prices.Usage(**counts),
        model,
        provider_id=provider,
        genai_request_timestamp=at,
        price_context=context,
    ).total_price


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """Counts around every tier of today's lists (100,000, 200,000, 272,000) and far from them."""
    near = st.sampled_from([0, 1, 99_999, 100_000, 100_001, 200_000, 200_001, 272_000, 272_001])
    reads = draw(near | st.integers(0, 2_000_000))
    cached = draw(st.integers(0, reads))
    written = draw(st.integers(0, reads - cached))
    writes = draw(st.integers(0, 200_000))
    return Usage(reads, writes, cached, written, draw(st.integers(0, writes)))


def text_models() -> list[tuple[str, str]]:
    """(provider, model) of everything listed that is sold by tokens read and written."""
    return [
        (provider, model.id)
        for provider, models in LISTED.items()
        for model in models
        if FREE_TABLE.is_known(f"{provider}/{model.id}", OFFICIAL[provider])
    ]


PRICED = text_models()
#: Tiered, dated and flat ones, with and without prices for caches; on Azure also by another provider's list.
MODELS = [
    ("openai", "gpt-4o-mini"),
    ("openai", "gpt-4"),
    ("openai", "o3"),
    ("openai", "gpt-5.4"),
    ("openai", "gpt-6-luna"),
    ("openai", "gpt-5.6-luna"),
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-haiku-5-5"),
    ("anthropic", "claude-opus-4-6"),
    ("azure", "gpt-4o"),
    ("azure", "gpt-5.4"),
    ("azure", "claude-sonnet-4-5"),
    ("azure", "gpt-6-luna"),
    ("azure", "claude-haiku-5-5"),
]
MOMENTS = st.datetimes(datetime(2024, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC)) | st.just(TODAY)


@given(st.sampled_from(MODELS), usages(), MOMENTS)
def test_costs_are_those_of_the_library(model: tuple[str, str], usage: Usage, at: datetime) -> None:
    provider, name = model
    found = FREE_TABLE.cost(f"mine/{name}", OFFICIAL[provider], usage, at=at)
    assert found == by_library(name, provider, usage, at)


@pytest.mark.parametrize("model", MODELS)
def test_a_tier_begins_where_the_library_lets_it_begin(model: tuple[str, str]) -> None:
    provider, name = model
    for reads in (99_999, 100_000, 100_001, 200_000, 200_001, 272_000, 272_001):
        found = FREE_TABLE.cost(f"mine/{name}", OFFICIAL[provider], Usage(reads, 100), at=TODAY)
        assert found == by_library(name, provider, Usage(reads, 100), TODAY)


@given(usages(), st.sampled_from(["claude-sonnet-4-5", "claude-haiku-5-5", "claude-opus-4-6"]), st.booleans())
def test_a_cache_that_is_kept_for_an_hour_has_the_librarys_price_for_that(usage: Usage, name: str, long: bool) -> None:
    sent = {"cache_control": {"type": "ephemeral", "ttl": "1h" if long else "5m"}}
    found = FREE_TABLE.cost(f"anthropic/{name}", ANTHROPIC, usage, sent=sent, at=TODAY)
    assert found == by_library(name, "anthropic", usage, TODAY, long_cache=long)


def test_every_listed_model_is_priced_as_the_library_does_or_not_at_all() -> None:
    usage = Usage(150_000, 1000, 2000, 3000, 500)
    assert len(PRICED) > 100
    for provider, name in PRICED:
        expected = by_library(name, provider, usage, TODAY)
        assert FREE_TABLE.cost(f"mine/{name}", OFFICIAL[provider], usage, at=TODAY) == expected, name


def test_counts_are_those_that_the_library_reads_out_of_a_reply() -> None:
    """Anthropic reports cached tokens beside the input tokens, OpenAI within them; ours hold all tokens read."""
    usage = {"input_tokens": 100, "cache_creation_input_tokens": 50, "cache_read_input_tokens": 30, "output_tokens": 7}
    reply: dict[str, Any] = {"model": "claude-haiku-5-5", "usage": usage}
    theirs = get_snapshot().extract_usage(reply, provider_id="anthropic").calc_price().total_price
    ours = FREE_TABLE.cost("anthropic/claude-haiku-5-5", ANTHROPIC, Usage(180, 7, 30, 50))
    assert ours == theirs
    usage = {"prompt_tokens": 180, "completion_tokens": 7}
    details = {"prompt_tokens_details": {"cached_tokens": 30}, "completion_tokens_details": {"reasoning_tokens": 5}}
    reply = {"model": "gpt-6-luna", "usage": {**usage, **details}}
    theirs = get_snapshot().extract_usage(reply, provider_id="openai", api_flavor="chat").calc_price().total_price
    assert FREE_TABLE.cost("openai/gpt-6-luna", OPENAI, Usage(180, 7, 30, None, 5)) == theirs


# Batches and service tiers


def variants(model: ModelInfo) -> set[tuple[str, str]]:
    """(parameter, value) that select a price of their own today."""
    return {
        item
        for variant in model.price_variants or ()
        if variant.constraint is None or variant.constraint.active(TODAY)
        for item in variant.when.items()
    }


def tiers(*, told: bool, selector: tuple[str, str]) -> list[tuple[str, str]]:
    """(provider, model) whose price for the selector the list tells today, or does not."""
    return [
        (provider, model.id)
        for provider in ("openai", "anthropic")
        for model in LISTED[provider]
        if (provider, model.id) in PRICED and (selector in variants(model)) is told
    ]


BATCH = ("processing", "batch")


@given(st.sampled_from(tiers(told=True, selector=BATCH)), usages())
def test_a_batch_has_the_lists_own_rates(model: tuple[str, str], usage: Usage) -> None:
    provider, name = model
    found = FREE_TABLE.cost(f"{provider}/{name}", OFFICIAL[provider], usage, batch=True, at=TODAY)
    assert found == by_library(name, provider, usage, TODAY, context=dict([BATCH]))


@given(st.sampled_from([*tiers(told=False, selector=BATCH), ("azure", "gpt-5.4"), ("azure", "gpt-4o")]), usages())
def test_a_batch_without_rates_of_its_own_costs_half(model: tuple[str, str], usage: Usage) -> None:
    provider, name = model
    found = FREE_TABLE.cost(f"{provider}/{name}", OFFICIAL[provider], usage, batch=True, at=TODAY)
    assert found == by_library(name, provider, usage, TODAY) / 2


def test_before_the_list_knew_rates_for_batches_they_cost_half() -> None:
    before = datetime(2026, 1, 1, tzinfo=UTC)
    single = FREE_TABLE.cost("openai/gpt-4.1", OPENAI, Usage(100, 10, 50), at=before)
    assert single is not None
    assert FREE_TABLE.cost("openai/gpt-4.1", OPENAI, Usage(100, 10, 50), batch=True, at=before) == single / 2


@pytest.mark.parametrize("tier", ["priority", "flex", "fast"])
def test_a_service_tier_has_the_lists_price_for_it_or_none(tier: str) -> None:
    usage = Usage(300_000, 1000, 2000, 3000)
    selector = ("service_tier", tier)
    for provider, name in tiers(told=True, selector=selector):
        found = FREE_TABLE.cost(f"{provider}/{name}", OFFICIAL[provider], usage, sent=dict([selector]), at=TODAY)
        assert found == by_library(name, provider, usage, TODAY, context=dict([selector]))
    for provider, name in [*tiers(told=False, selector=selector), ("azure", "gpt-5.4")]:
        assert FREE_TABLE.cost(f"{provider}/{name}", OFFICIAL[provider], usage, sent=dict([selector])) is None


def test_priority_costs_more_and_the_ordinary_tiers_do_not() -> None:
    def paid(tier: str | None) -> Decimal:
        found = FREE_TABLE.cost("openai/gpt-5-mini", OPENAI, Usage(1000, 100), sent={"service_tier": tier})
        assert found is not None
        return found

    assert paid("flex") < paid(None) == paid("auto") == paid("default") < paid("priority")
    assert FREE_TABLE.cost("openai/gpt-5-mini", OPENAI, Usage(1, 1), sent={"service_tier": "scale"}) is None


# The bound before a call

TEXTS = st.text(max_size=60) | st.text(alphabet="ﷺ㍿é😀a", max_size=60)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Exchange, Usage]:
    """A call, and what the most wasteful tokenizer could make of it: one token a byte of what is sent."""
    factor = draw(st.sampled_from([1, 1, 1, 4000]))  # some calls reach the tiers
    texts = [text * factor for text in draw(st.lists(TEXTS, min_size=1, max_size=3))]
    schema = draw(st.none() | st.just({"type": "object", "properties": {"score": {"enum": [1, 2, 3]}}}))
    call = exchange(*texts, max_tokens=draw(st.integers(1, 2000)), schema=schema)
    reads = draw(st.just(sum(len(text.encode(errors="backslashreplace")) for text in texts)) | st.integers(0, 300))
    reads = min(reads, sum(len(text.encode(errors="backslashreplace")) for text in texts))
    cached = draw(st.integers(0, reads))
    written = draw(st.integers(0, reads - cached))
    return call, Usage(reads, draw(st.integers(0, call.max_tokens)), cached, written)


@given(st.sampled_from(MODELS), calls(), st.booleans(), st.floats(0, 24))
def test_no_call_costs_more_than_its_bound(
    model: tuple[str, str], call: tuple[Exchange, Usage], batch: bool, hours: float
) -> None:
    provider, name = model
    asked, used = call
    worst = FREE_TABLE.worst_case(f"mine/{name}", OFFICIAL[provider], asked, batch=batch)
    later = datetime.now(UTC) + timedelta(hours=hours)
    actual = FREE_TABLE.cost(f"mine/{name}", OFFICIAL[provider], used, batch=batch, at=later)
    assert worst is not None
    assert actual is not None
    assert actual <= worst


@given(calls(), st.booleans())
def test_no_call_costs_more_than_its_bound_by_radar_yaml(call: tuple[Exchange, Usage], batch: bool) -> None:
    asked, used = call
    for price in ({"input": 1, "output": 2, "cached_input": 3}, {"input": 1, "output": 2, "cache_write": 4}):
        table = PriceTable({"local/*": Price.model_validate(price)})
        worst = table.worst_case("local/m", LOCAL, asked, batch=batch)
        actual = table.cost("local/m", LOCAL, used, batch=batch)
        assert worst is not None
        assert actual is not None
        assert actual <= worst


def test_the_bound_is_bytes_and_a_fixed_margin_times_the_dearest_rate() -> None:
    table = PriceTable({"local/m": Price.model_validate({"input": 1, "output": 10, "cache_write": 2})})
    plain = table.worst_case("local/m", LOCAL, exchange("x" * 1000, max_tokens=500))
    assert plain is not None
    # 1,000 bytes × 2 + 500 × 10 = 7,000 millionths, and no more than 100 tokens on top.
    assert Decimal("0.007") <= plain <= Decimal("0.0072")
    # 1,000 letters of two bytes each.
    accented = table.worst_case("local/m", LOCAL, exchange("é" * 1000, max_tokens=500))
    assert accented == plain + Decimal("0.002")


def test_the_bound_counts_text_that_grows_when_a_tokenizer_normalises_it() -> None:
    # U+FDFA is 3 bytes of UTF-8; its compatibility form is 18 letters, 33 bytes.
    assert most_input_tokens(exchange("ﷺ" * 10)) >= 330


def test_the_bound_counts_what_extra_asks_for() -> None:
    table = PriceTable({"local/m": Price.model_validate({"input": 0, "output": 1})})

    def bound(**extra: Any) -> Decimal | None:
        return table.worst_case("local/m", LOCAL, exchange("x", max_tokens=1_000_000, extra=extra))

    assert bound() == 1
    assert bound(n=3) == 3
    assert bound(max_tokens=2_000_000) == 2
    assert bound(max_completion_tokens=5, n=0, stop=None) == 1
    assert most_input_tokens(exchange("x", extra={"tools": ["y" * 500]})) > 500


def test_the_bound_of_a_call_covers_the_tier_that_it_may_reach() -> None:
    """A long text may be more than 272,000 tokens, so all of it counts with the rate of long ones."""
    listed = genai_prices.calc_price(genai_prices.Usage(), "gpt-6-luna", provider_id="openai").model_price
    (tier,) = listed.cache_write_mtok.tiers  # type: ignore[union-attr]
    (output_tier,) = listed.output_mtok.tiers  # type: ignore[union-attr]
    call = exchange("x" * 300_000, max_tokens=1000)
    expected = (most_input_tokens(call) * tier.price + 1000 * output_tier.price) / 1_000_000
    assert FREE_TABLE.worst_case("openai/gpt-6-luna", OPENAI, call) == expected


def test_the_bound_of_an_unpriced_service_tier_is_unknown() -> None:
    call = exchange("x", extra={"service_tier": "scale"})
    assert FREE_TABLE.worst_case("openai/gpt-6-luna", OPENAI, call) is None


# Lists as they may be one day


@pytest.fixture
def one_day() -> Iterator[None]:
    """A list with a dear time of day, a dearer price from tomorrow on, and a fee for every request."""

    def flat(rate: int, **more: Decimal) -> ModelPrice:
        return ModelPrice(input_mtok=Decimal(rate), output_mtok=Decimal(rate), **more)

    soon = TODAY + timedelta(hours=5)
    window = TimeOfDateConstraint(soon.time(), (soon + timedelta(minutes=10)).time())
    tomorrow = StartDateConstraint(TODAY.date() + timedelta(days=1))
    models = [
        ModelInfo("by-the-hour", ClauseEquals("by-the-hour"), prices=[condition(flat(1)), condition(flat(9), window)]),
        ModelInfo("by-the-day", ClauseEquals("by-the-day"), prices=[condition(flat(1)), condition(flat(9), tomorrow)]),
        ModelInfo("by-the-call", ClauseEquals("by-the-call"), prices=flat(1, requests_kcount=Decimal(5))),
        ModelInfo("aloud", ClauseEquals("aloud"), prices=flat(1, output_audio_mtok=Decimal(5))),
    ]
    set_custom_snapshot(DataSnapshot([Provider("openai", "OpenAI", "x", models=models)], from_auto_update=False))
    yield
    set_custom_snapshot(None)


def condition(prices: ModelPrice, constraint: Any = None) -> ConditionalPrice:
    return ConditionalPrice(constraint, prices=prices)


@pytest.mark.usefixtures("one_day")
@pytest.mark.parametrize("name", ["openai/by-the-hour", "openai/by-the-day"])
def test_the_bound_covers_prices_that_begin_while_the_call_runs(name: str) -> None:
    call = exchange("x", max_tokens=1_000_000)
    worst = FREE_TABLE.worst_case(name, OPENAI, call)
    assert worst is not None
    costs = [
        FREE_TABLE.cost(name, OPENAI, Usage(1, 1_000_000), at=TODAY + timedelta(minutes=minutes))
        for minutes in range(0, 24 * 60, 5)
    ]
    dearest = max(cost for cost in costs if cost is not None)
    assert 9 < dearest <= worst < dearest + Decimal("0.001")


@pytest.mark.usefixtures("one_day")
def test_a_price_that_our_counts_do_not_cover_is_unknown_unless_text_never_meets_it() -> None:
    assert FREE_TABLE.cost("openai/by-the-call", OPENAI, Usage(1, 1)) is None
    assert FREE_TABLE.cost("openai/aloud", OPENAI, Usage(500_000, 500_000)) == 1


# Manners


def test_prices_need_no_network_and_load_the_list_only_when_it_is_asked() -> None:
    script = """
import sys
sys.addaudithook(lambda event, args: event.startswith("socket.") and sys.exit(f"touched the network: {event}"))
from radar_dagster.models.endpoints import BUILT_IN
from radar_dagster.models.exchange import Usage
from radar_dagster.models.prices import Price, PriceTable
table = PriceTable({"openai/mine": Price(input=1, output=1)})
assert table.cost("openai/mine", BUILT_IN["openai"], Usage(1, 1))
assert "genai_prices" not in sys.modules
assert table.cost("openai/gpt-4o-mini", BUILT_IN["openai"], Usage(1, 1))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
