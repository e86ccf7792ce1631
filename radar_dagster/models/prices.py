"""What calls cost: the `prices:` of radar.yaml first, then the price list of the genai-prices library.

Here: US dollars from token counts, and an upper bound before a call is made. A price that is not known is None and
never 0. The library's list holds for the providers themselves and for Azure only: a server of one's own may call its
model `gpt-4o` too. Nothing here reaches for the network.

Not here: keeping to a limit (`budget.py`), token counts of an audit before it is made (`stats/cost.py`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Context, Decimal, InvalidOperation, localcontext
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.exchange import Exchange, Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

#: Wide enough for every product and sum of money here to be exact: prices have at most 36 digits (see `Price`),
#: discounts 30, token counts fewer than 20.
EXACT = Context(prec=100)

_MOST_USD = 1_000_000
_MOST_DECIMALS = 30
_FREE = Decimal(0)
_HALF = Decimal("0.5")


class Price(BaseModel):
    """What radar.yaml says of a model's price: US dollars per million tokens, and what a batch takes off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Decimal = Field(description="tokens read")
    output: Decimal = Field(description="tokens written, those of reasoning included")
    cached_input: Decimal | None = Field(default=None, description="tokens read from a cache; as `input` if absent")
    cache_write: Decimal | None = Field(default=None, description="tokens put into a cache; as `input` if absent")
    batch_discount: Decimal = Field(default=_HALF, description="share that batches take off, 0..1")

    @field_validator("input", "output", "cached_input", "cache_write", mode="before")
    @classmethod
    def _dollars(cls, value: object) -> Decimal | None:
        if value is None:  # `input` and `output` have no None: pydantic says so
            return None
        return _number(value, _MOST_USD, f"US dollars per million tokens, a number from 0 to {_MOST_USD:,}")

    @field_validator("batch_discount", mode="before")
    @classmethod
    def _share(cls, value: object) -> Decimal:
        return _number(value, 1, "the share that batches take off, a number from 0 to 1")


def _number(value: object, most: int, expectation: str) -> Decimal:
    """The number as it is written: 0.1 is a tenth. ValueError for all that is not a finite number in range."""
    problem = ValueError(f"expected {expectation}, found {value!r:.40}")
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise problem
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise problem from None
    if not number.is_finite() or not 0 <= number <= most:
        raise problem
    if number and int(number.normalize(EXACT).as_tuple().exponent) < -_MOST_DECIMALS:
        raise ValueError(f"expected at most {_MOST_DECIMALS} decimals, found {value!r:.40}")
    return number


class Quote(NamedTuple):
    """A model's price, US dollars per million tokens, and who says so: `radar.yaml` or `genai-prices <version>`.

    `tiered` is true where long inputs cost more; the numbers are then those of short ones.
    """

    input: Decimal
    output: Decimal
    source: str
    tiered: bool = False


class PriceTable:
    """Prices of the models of a workspace.

    `overrides` maps names or patterns (`local/*`) to prices: the exact name wins, then the first pattern that fits. A
    model's variant (`openai/gpt-6-luna@low`) has the price of the model unless the variant is named itself, or a
    pattern names it (`openai/*@low`).
    """

    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self._overrides = dict(overrides or {})

    def cost(
        self,
        name: str,
        endpoint: Endpoint,
        usage: Usage,
        *,
        batch: bool = False,
        sent: Mapping[str, Any] | None = None,
        at: datetime | None = None,
    ) -> Decimal | None:
        """US dollars of a call to `name` (endpoint/model, as configured) that used so many tokens.

        None where the price is unknown, or a token count that it needs; a cache's share that the endpoint does not
        tell is taken as none. `sent` are the parameters of the call: some (`service_tier`) select another price. `at`
        is when the call was made, with a time zone; now if absent.
        """
        rates = self._rates(name, endpoint, _terms(batch, sent), at or datetime.now(UTC))
        return None if rates is None else rates.cost(usage)

    def worst_case(self, name: str, endpoint: Endpoint, exchange: Exchange, *, batch: bool = False) -> Decimal | None:
        """US dollars that the call costs at most if it ends within a day; None where the price is unknown.

        The input has no more tokens than `most_input_tokens` tells, the output no more than the call allows, and
        every token has the dearest price that can apply to it.
        """
        possible = list(self._possible_rates(name, endpoint, _terms(batch, exchange.extra)))
        known = [rates for rates in possible if rates is not None]
        if len(known) < len(possible):
            return None  # before the tokens are counted, which takes as long as reading a reply
        reads, writes = most_input_tokens(exchange), _most_output_tokens(exchange)
        return max(rates.bound(reads, writes) for rates in known)

    def is_known(self, name: str, endpoint: Endpoint) -> bool:
        """Whether calls to `name` have a price."""
        return self.describe(name, endpoint) is not None

    def describe(self, name: str, endpoint: Endpoint) -> Quote | None:
        """The price of an ordinary call to `name`; None where it is unknown."""
        rates = self._rates(name, endpoint, _terms(batch=False, sent=None), datetime.now(UTC))
        if rates is None:
            return None
        source = "radar.yaml" if self._override(name) is not None else f"genai-prices {_library_version()}"
        return Quote(rates.input.base, rates.output.base, source, rates.is_tiered)

    def idle(self, names: Iterable[str]) -> list[str]:
        """The overrides that hold for none of these models, in their order."""
        spellings = {spelling for name in names for spelling in (name, _without_variant(name))}
        return [
            pattern
            for pattern in self._overrides
            if pattern not in spellings and not any(fnmatchcase(spelling, pattern) for spelling in spellings)
        ]

    def _rates(self, name: str, endpoint: Endpoint, terms: _Terms, at: datetime) -> _Rates | None:
        override = self._override(name)
        if override is not None:
            return _rates_of_override(override, terms)
        listed = _listed_for(name, endpoint)
        return None if listed is None else listed.rates(terms, at)

    def _possible_rates(self, name: str, endpoint: Endpoint, terms: _Terms) -> Iterator[_Rates | None]:
        """All that may hold for a call that starts now; at least one item."""
        override = self._override(name)
        if override is not None:
            yield _rates_of_override(override, terms)
            return
        listed = _listed_for(name, endpoint)
        if listed is None:
            yield None
            return
        now = datetime.now(UTC)
        for moment in (now, *listed.turns(now)):
            yield listed.rates(terms, moment)

    def _override(self, name: str) -> Price | None:
        model = _without_variant(name)
        if name in self._overrides:
            return self._overrides[name]
        if name != model:
            for pattern, price in self._overrides.items():
                if "@" in pattern and fnmatchcase(name, pattern):
                    return price
        if model in self._overrides:
            return self._overrides[model]
        for pattern, price in self._overrides.items():
            if fnmatchcase(name, pattern) or fnmatchcase(model, pattern):
                return price
        return None


def _without_variant(name: str) -> str:
    return name.partition("@")[0]


# What a request asks for that changes its price.


class _Terms(NamedTuple):
    batch: bool
    #: Parameters that select another price, by the names and values of the price list.
    context: tuple[tuple[str, str], ...]
    #: Tokens put into a cache are kept for an hour, not for minutes.
    long_cache: bool


#: Parameters that select another price, and the values that stand for the ordinary one.
_SELECTORS: Mapping[str, frozenset[str]] = {
    "service_tier": frozenset({"auto", "default", "standard_only"}),
    "speed": frozenset({"standard"}),
    "inference_geo": frozenset({"global"}),
}


def _terms(batch: bool, sent: Mapping[str, Any] | None) -> _Terms:
    if not sent:
        return _Terms(batch, (), False)
    context = tuple(
        (key, str(sent[key]))
        for key, ordinary in _SELECTORS.items()
        if sent.get(key) is not None and str(sent[key]) not in ordinary
    )
    cache = sent.get("cache_control")
    return _Terms(batch, context, isinstance(cache, Mapping) and cache.get("ttl") == "1h")


# Rates and what they come to.


@dataclass(frozen=True, slots=True)
class _Rate:
    """US dollars per million tokens. `tiers` are (tokens, rate): the rate of all tokens once the input has more."""

    base: Decimal
    tiers: tuple[tuple[int, Decimal], ...] = ()

    def at(self, input_tokens: int) -> Decimal:
        """The rate of a call that reads so many tokens."""
        rate = self.base
        for start, tier in self.tiers:  # ascending
            if input_tokens > start:
                rate = tier
        return rate

    def dearest(self, input_tokens: int) -> Decimal:
        """The highest rate of the calls that read so many tokens or fewer."""
        return max((self.base, *(tier for start, tier in self.tiers if input_tokens > start)))

    @property
    def is_free(self) -> bool:
        return not self.base and not self.tiers


@dataclass(frozen=True, slots=True)
class _Rates:
    """The four rates of a call, and the share of them that is to be paid (1, less in a batch)."""

    input: _Rate
    output: _Rate
    cached: _Rate
    written: _Rate
    share: Decimal = Decimal(1)

    @property
    def is_tiered(self) -> bool:
        return any(rate.tiers for rate in (self.input, self.output, self.cached, self.written))

    def cost(self, usage: Usage) -> Decimal | None:
        """None where a count is missing that matters, or the counts contradict each other."""
        reads, writes = usage.input_tokens, usage.output_tokens
        cached, written = usage.cached_input_tokens or 0, usage.cache_write_tokens or 0
        if reads is None:
            if not self._reading_is_free:
                return None
            reads = cached + written
        if writes is None:
            if not self.output.is_free:
                return None
            writes = 0
        plain = reads - cached - written
        if min(plain, cached, written, writes) < 0:
            return None
        counts = ((plain, self.input), (cached, self.cached), (written, self.written), (writes, self.output))
        with localcontext(EXACT):
            total = sum((count * rate.at(reads) for count, rate in counts), _FREE)
            return total.scaleb(-6) * self.share

    def bound(self, reads: int, writes: int) -> Decimal:
        """The cost of a call with at most so many tokens read and written, wherever they are cached."""
        reading = max(rate.dearest(reads) for rate in (self.input, self.cached, self.written))
        with localcontext(EXACT):
            return (reads * reading + writes * self.output.dearest(reads)).scaleb(-6) * self.share

    @property
    def _reading_is_free(self) -> bool:
        return all(rate.is_free for rate in (self.input, self.cached, self.written)) and not self.output.tiers


def _rates_of_override(price: Price, terms: _Terms) -> _Rates:
    plain = _Rate(price.input)
    with localcontext(EXACT):
        share = 1 - price.batch_discount if terms.batch else Decimal(1)
    return _Rates(
        input=plain,
        output=_Rate(price.output),
        cached=plain if price.cached_input is None else _Rate(price.cached_input),
        written=plain if price.cache_write is None else _Rate(price.cache_write),
        share=share,
    )


# The library's price list.

_AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
#: Where a provider's prices are listed. Azure sells the models of two others at their price; of some others the
#: library thinks so too, but theirs differ.
_SOURCES: Mapping[str, tuple[str, ...]] = {
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "azure": ("azure", "openai", "anthropic"),
}
_BATCH = ("processing", "batch")
_TEXT_PRICES = frozenset({"input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok"})
#: Prices of what a call with text alone, and without a provider's own tools, never uses.
_PRICES_OF_OTHER_THINGS = re.compile(r"audio|image|video|pixels|pages|searches|executions")


def _listed_for(name: str, endpoint: Endpoint) -> _Listed | None:
    provider = _provider(endpoint)
    return None if provider is None else _listed(provider, _without_variant(name).partition("/")[2])


def _provider(endpoint: Endpoint) -> str | None:
    """Whose price list holds for the endpoint; None for a server of one's own."""
    if endpoint.is_official:
        return endpoint.protocol
    host = urlsplit(endpoint.url).hostname or ""
    return "azure" if host.endswith(_AZURE_HOSTS) else None


def _library_version() -> str:
    import genai_prices

    return genai_prices.__version__


@dataclass(frozen=True, slots=True)
class _Listed:
    """A model of the price list."""

    model: ModelInfo
    #: Whether the provider lists the model itself: the library lets its variants hold there only (Azure lists few).
    own: bool

    def rates(self, terms: _Terms, at: datetime) -> _Rates | None:
        """The rates at a time (with a time zone); None where the list does not tell those that the terms select."""
        context, share = terms.context, Decimal(1)
        if terms.batch:
            # Official batches cost half of everything; where the list has rates of their own, those are exact.
            context, share = ((_BATCH,), Decimal(1)) if self._tells(_BATCH, at) else ((), _HALF)
        if not all(self._tells(item, at) for item in context):
            return None
        return _rates_of_listed(self.model.get_prices(at, dict(context)), share, terms.long_cache)

    def _tells(self, selector: tuple[str, str], at: datetime) -> bool:
        return self.own and any(
            variant.when == dict([selector]) and (variant.constraint is None or variant.constraint.active(at))
            for variant in self.model.price_variants or ()
        )

    def turns(self, now: datetime) -> Iterator[datetime]:
        """The times of the day after `now` (UTC) at which other prices can begin to hold."""
        from genai_prices.types import TimeOfDateConstraint

        yield _next(time(tzinfo=UTC), now)  # prices that start on a date
        listed = self.model.prices if isinstance(self.model.prices, list) else []
        for entry in (*listed, *(self.model.price_variants or ())):
            if isinstance(entry.constraint, TimeOfDateConstraint):
                yield _next(entry.constraint.start_time, now)
                yield _next(entry.constraint.end_time, now)


def _next(clock: time, now: datetime) -> datetime:
    """When the clock shows this time next; a time without a zone is in UTC."""
    turn = datetime.combine(now.date() - timedelta(days=1), clock, clock.tzinfo or UTC)
    while turn < now:
        turn += timedelta(days=1)
    return turn


@lru_cache(maxsize=1024)
def _listed(provider: str, model: str) -> _Listed | None:
    import genai_prices

    for source in _SOURCES[provider]:
        try:
            found = genai_prices.calc_price(genai_prices.Usage(), model, provider_id=source)
        except LookupError:
            continue
        if any(found.model is listed for listed in found.provider.models):
            return _Listed(found.model, own=source == provider)
    return None


def _rates_of_listed(prices: ModelPrice, share: Decimal, long_cache: bool) -> _Rates | None:
    """None for what is not sold by tokens read and written, or has prices that no count of ours belongs to."""
    known = {key for key, value in vars(prices).items() if value is not None}
    if not {"input_mtok", "output_mtok"} <= known:
        return None
    if any(not _PRICES_OF_OTHER_THINGS.search(key) for key in known - _TEXT_PRICES):
        return None
    plain = _rate(prices.input_mtok, _Rate(_FREE))
    written = _rate(prices.cache_write_mtok, plain)
    return _Rates(
        input=plain,
        output=_rate(prices.output_mtok, plain),
        cached=_rate(prices.cache_read_mtok, plain),
        written=_rate(prices.cache_write_1h_mtok, written) if long_cache else written,
        share=share,
    )


def _rate(value: Decimal | TieredPrices | None, default: _Rate) -> _Rate:
    if value is None:
        return default
    if isinstance(value, Decimal):
        return _Rate(value)
    return _Rate(value.base, tuple((tier.start, tier.price) for tier in value.tiers))


# How many tokens a call can have.

#: Marks around a message, its role, and what a tokenizer puts before a text: ten tokens at most in published formats.
_TOKENS_PER_MESSAGE = 16
#: What opens the reply. Providers count no system prompt of their own, except that which explains a schema.
_TOKENS_PER_CALL = 64
#: What a provider adds to explain a schema or a tool; Anthropic documents up to 530 tokens.
_TOKENS_PER_SCHEMA = 640


def most_input_tokens(exchange: Exchange) -> int:
    """More tokens than the call's input can have, by its bytes: no tokenizer makes two tokens of a byte.

    A tokenizer that normalises its text first (NFKC) may make it longer; the longer form counts.
    """
    tokens = _TOKENS_PER_CALL
    for message in exchange.messages:
        tokens += _TOKENS_PER_MESSAGE + _bytes(message.content)
    if exchange.schema is not None:
        tokens += _TOKENS_PER_SCHEMA + _bytes(_as_json(exchange.schema))
    if exchange.extra:
        tokens += _bytes(_as_json(exchange.extra))
    return tokens


def _bytes(text: str) -> int:
    if text.isascii():
        return len(text)
    # What can't be encoded is sent escaped, as its code.
    forms = (text, unicodedata.normalize("NFKC", text))
    return max(len(form.encode(errors="backslashreplace")) for form in forms)


def _as_json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), default=str)


def _most_output_tokens(exchange: Exchange) -> int:
    """The call's limit; `extra` may raise it, or ask for several replies."""
    limits = (exchange.max_tokens, *(exchange.extra.get(key) for key in ("max_tokens", "max_completion_tokens")))
    replies = exchange.extra.get("n")
    most = max(limit for limit in limits if isinstance(limit, int))
    return most * max(1, replies) if isinstance(replies, int) else most
