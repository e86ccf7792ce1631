"""HTTP for both protocols: what the SDKs connect with, what a foreign server gets to see, and failures as `CallFailed`.

The SDKs speak; here is what they are given and what becomes of their exceptions. Not here: the connections themselves
(`transport.py`), what an error's body says about parameters and models (`refusals.py`), what a client does about it
(`remote.py`).
"""

from __future__ import annotations

import base64
import math
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from typing import Any, NotRequired, TypedDict
from urllib.parse import quote, unquote
from urllib.request import getproxies

import httpx2

from radar_dagster.models.endpoints import OFFICIAL, Endpoint
from radar_dagster.models.exchange import CallFailed, Trouble
from radar_dagster.models.providers import refusals
from radar_dagster.models.providers.refusals import Complaint
from radar_dagster.models.providers.transport import Transport
from radar_dagster.models.replies import State, storable

#: Seconds until a connection must stand.
CONNECT_S = 4.0
#: Below the five seconds after which uvicorn, and with it most local servers, closes a connection without calls.
_IDLE_S = 4.0
#: No reply of a language model is as long as this; a body that goes on is given up.
LARGEST_BODY = 32 * 2**20
#: What `Content-Encoding` says of a body that can be read as it comes; some servers name the charset there.
_PLAIN = frozenset({"", "identity", "utf-8"})
#: Bodies without a limit, which are read line by line: files, and results of batches.
_READ_BY_LINES = ("/content", "/results")
#: A wish to be called again later than this is no wish, but nonsense.
_LONGEST_WISH_S = 86_400.0
_LONGEST_MESSAGE = 300
#: A server's words inside a message that has advice of ours too.
_LONGEST_QUOTATION = 180
#: Characters of a key below which it may be a word.
_SHORTEST_SECRET = 12

RequestHook = Callable[[httpx2.Request], Awaitable[None]]


class _UnwantedBodyError(Exception):
    """A body that is not read; the message says why."""


@dataclass(slots=True)
class Journey:
    """How far a request came: whether it has `left`, so that the endpoint may have done the work."""

    left: bool = False


_JOURNEY: ContextVar[Journey | None] = ContextVar("journey", default=None)


@contextmanager
def journey() -> Iterator[Journey]:
    """Follow the request that is made inside."""
    followed = Journey()
    token = _JOURNEY.set(followed)
    try:
        yield followed
    finally:
        _JOURNEY.reset(token)


async def _leave(_request: httpx2.Request) -> None:
    followed = _JOURNEY.get()
    if followed is not None:
        followed.left = True


class HttpOptions(TypedDict):
    """Arguments of an `httpx2.AsyncClient`."""

    verify: ssl.SSLContext
    headers: Mapping[str, str]
    timeout: httpx2.Timeout
    limits: httpx2.Limits
    follow_redirects: bool
    event_hooks: dict[str, list[Callable[..., Awaitable[None]]]]
    transport: NotRequired[httpx2.AsyncBaseTransport]


def http_options(endpoint: Endpoint, credentials: Mapping[str, str]) -> HttpOptions:
    """How to connect to an endpoint.

    An endpoint for which the SDK's environment variables are not meant sees the headers of the protocol and
    `credentials` (which may be none), whatever the SDK made of its environment. Redirects are not followed: they
    would carry the key to another address. Bodies are wanted as they are: a few compressed kilobytes can hold
    gigabytes, and they are in memory before anybody can count them.

    Where the system names a proxy, httpx2 itself connects, within `verify` and `limits`; everywhere else `Transport`
    does, which is given the same.
    """
    hooks: list[RequestHook] = [_leave] if endpoint.takes_environment else [_only_protocol(credentials), _leave]
    options = HttpOptions(
        verify=_certificates(),
        headers={"Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(endpoint.timeout_s, connect=CONNECT_S),
        limits=httpx2.Limits(
            max_connections=endpoint.concurrency,
            max_keepalive_connections=endpoint.concurrency,
            keepalive_expiry=_IDLE_S,
        ),
        follow_redirects=False,
        event_hooks={"request": [*hooks], "response": [_bound]},
    )
    if not {"all", "http", "https"} & getproxies().keys():  # a client with a transport passes by the system's proxies
        options["transport"] = Transport(_certificates(), endpoint.concurrency, _IDLE_S)
    return options


@cache
def _certificates() -> ssl.SSLContext:
    """Reading them takes longer than many a call."""
    return httpx2.create_ssl_context()


#: Names a call in the provider's logs.
CALL_ID_HEADER = "X-Client-Request-Id"
#: Headers of the protocols; `x-stainless-raw-response` is how the SDKs remember that a reply is wanted as it is.
_PROTOCOL_HEADERS = frozenset(
    {b"host", b"accept", b"accept-encoding", b"connection", b"content-length", b"content-type", b"transfer-encoding",
     b"anthropic-version", b"x-stainless-raw-response", CALL_ID_HEADER.lower().encode()}
)  # fmt: skip


def _only_protocol(credentials: Mapping[str, str]) -> RequestHook:
    ours = [(name.encode(), value.encode()) for name, value in {"User-Agent": "radar-dagster", **credentials}.items()]

    async def strip(request: httpx2.Request) -> None:
        kept = [(name, value) for name, value in request.headers.raw if name.lower() in _PROTOCOL_HEADERS]
        request.headers = httpx2.Headers([*kept, *ours])

    return strip


async def _bound(response: httpx2.Response) -> None:
    encodings = response.headers.get_list("content-encoding", split_commas=True)
    compressed = [name for name in encodings if name.strip().lower() not in _PLAIN]
    if compressed and response.is_success:
        raise _UnwantedBodyError(
            f"the reply is compressed ({', '.join(compressed)}), although that was not asked for, and was not read; "
            "switch compression off at the server or at the proxy before it"
        )
    if compressed:  # the status alone tells most of a failure
        del response.headers["content-encoding"]
        response.stream = _UnreadStream(response.stream)
    elif not response.request.url.path.endswith(_READ_BY_LINES):
        response.stream = _BoundStream(response.stream)


class _UnreadStream(httpx2.AsyncByteStream):
    """A body that is passed over."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        nothing: tuple[bytes, ...] = ()
        for chunk in nothing:
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundStream(httpx2.AsyncByteStream):
    """A body that must end within `LARGEST_BODY` bytes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > LARGEST_BODY:
                raise _UnwantedBodyError("the reply is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call goes, for messages. `keys` are what no message may hold."""

    endpoint: str
    model: str
    url: str
    key_variable: str | None
    keys: tuple[str, ...] = field(default=(), repr=False)

    def failed(self, trouble: Trouble, words: str, **more: Any) -> CallFailed:
        """A failure whose message names the endpoint and the model; `words` may be a server's."""
        message = redacted(words, self.keys)
        return CallFailed(trouble, f"endpoint {self.endpoint}, model {self.model}: {message}", **more)


def failed_on_the_way(place: Place, error: BaseException, sent: Mapping[str, Any], *, left: bool = False) -> CallFailed:
    """A failure without a reply: what the SDK raised, or what it wrapped. `left`: the request went out before."""
    cause = _cause(error)
    words = str(cause).strip() or type(cause).__name__
    if isinstance(cause, _NEVER_CONNECTED):
        words = f"no connection to {place.url}: {_with_advice(place, cause, words)}"
        return place.failed(Trouble.UNREACHABLE, words, sent=sent)
    if isinstance(cause, _NEVER_SENT):
        return place.failed(Trouble.TRANSIENT, f"the request could not be sent: {words}", sent=sent)
    if isinstance(cause, _UnwantedBodyError):
        return place.failed(Trouble.REJECTED, words, may_be_billed=True, sent=sent)
    is_foreign = not isinstance(cause, _HTTP) and cause is error
    if is_foreign and left:
        words = f"the reply can't be read: {type(cause).__name__}: {words}"
        return place.failed(Trouble.REJECTED, words, may_be_billed=True, sent=sent)
    if is_foreign or isinstance(cause, httpx2.LocalProtocolError):
        return place.failed(Trouble.REJECTED, f"the request can't be sent: {type(cause).__name__}: {words}", sent=sent)
    is_late = isinstance(cause, httpx2.TimeoutException | TimeoutError)
    words = "no reply in time (timeout_s)" if is_late else f"the connection broke: {words}"
    return place.failed(Trouble.TRANSIENT, words, may_be_billed=True, sent=sent)


_NEVER_CONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.UnsupportedProtocol)
_NEVER_SENT = (httpx2.PoolTimeout, httpx2.WriteTimeout, httpx2.WriteError)
#: Failures of the transport. Anything else is one only if the SDK has wrapped it as one.
_HTTP = (httpx2.HTTPError, ssl.SSLError, TimeoutError)


def _cause(error: BaseException) -> BaseException:
    """The HTTP library's own exception inside the SDK's."""
    seen = error
    for _ in range(5):
        if isinstance(seen, (*_HTTP, _UnwantedBodyError)) or seen.__cause__ is None:
            return seen
        seen = seen.__cause__
    return seen


def _with_advice(place: Place, cause: BaseException, words: str) -> str:
    """Why there is no connection, and what to look at."""
    if "SSL" in words:
        return f"{words}; is https right, and is the certificate valid?"
    why = f"none within {CONNECT_S:g} s" if isinstance(cause, httpx2.ConnectTimeout) else words
    if place.url in OFFICIAL.values():
        return f"{why}; is there a network?"
    return f"{why}; is base_url right, and does a server run there?"


def failed_with_status(
    place: Place,
    status: int,
    headers: Mapping[str, str],
    complaint: Complaint,
    sent: Mapping[str, Any],
    *,
    assumed: bool = False,
) -> CallFailed:
    """A failure that the endpoint answered; what it says about parameters has been looked at before.

    `assumed` is a status that was not sent, but comes with such an error elsewhere.
    """
    words = redacted(complaint.message or "no reason given", place.keys, _LONGEST_QUOTATION)

    def failed(trouble: Trouble, text: str, **more: Any) -> CallFailed:
        if assumed:
            return place.failed(trouble, text, sent=sent, **more)
        return place.failed(trouble, f"HTTP {status}: {text}", status=status, sent=sent, **more)

    for judge in (_of_money, _of_content, _of_access, _of_moment):
        found = judge(place, status, complaint, words)
        if found is not None:
            trouble, text, state = found
            wish = retry_after(headers) if trouble in (Trouble.BUSY, Trouble.TRANSIENT) else None
            # A gateway that gave up waiting says nothing of the server behind it, which may still be at work.
            return failed(trouble, text, state=state, retry_after=wish, may_be_billed=status in (504, 524))
    if 300 <= status < 400:
        target = redacted(headers.get("location", "another address"), place.keys)
        return failed(Trouble.UNREACHABLE, f"{place.url} redirects to {target}; set base_url to where the API is")
    return failed(Trouble.REJECTED, words)


_Verdict = tuple[Trouble, str, State] | None


def _of_money(place: Place, status: int, complaint: Complaint, words: str) -> _Verdict:
    """What is wrong with the account."""
    del place
    if status == 402 or (status < 500 and status != 401 and refusals.is_about_money(complaint)):
        return Trouble.FATAL, f"the account can't pay: {words}", State.TRANSPORT_ERROR
    return None


def _of_content(place: Place, status: int, complaint: Complaint, words: str) -> _Verdict:
    """What the body says of this call."""
    if status in (401, 429) or status >= 500:
        return None
    if refusals.is_too_long(complaint):
        return Trouble.REJECTED, f"longer than the model's context: {words}", State.TRANSPORT_ERROR
    if refusals.is_filtered(complaint):
        return Trouble.REJECTED, f"a content filter refused it: {words}", State.FILTERED
    if status in (400, 404, 410, 422) and refusals.is_about_model(complaint):
        return Trouble.FATAL, _unknown_model(place, words), State.TRANSPORT_ERROR
    return None


def _unknown_model(place: Place, words: str) -> str:
    return f"the endpoint does not know the model {place.model}: {words}"


def _of_access(place: Place, status: int, complaint: Complaint, words: str) -> _Verdict:
    """What is wrong with every call: the key, the address."""
    if status in (401, 403):
        variable = place.key_variable
        advice = f"is the key in {variable} right?" if variable else "name the variable of its key in api_key_env"
        return Trouble.FATAL, f"{words}; {advice}", State.TRANSPORT_ERROR
    if status in (404, 405):
        named = _whole(place.model).search(words)
        if named or re.search(r"\bmodels?\b|\bdeployment\b", complaint.prose, re.IGNORECASE):
            text = _unknown_model(place, words)
        else:
            text = f"nothing answers at {place.url}: {words}; is base_url right (does it lack or repeat /v1)?"
        return Trouble.FATAL, text, State.TRANSPORT_ERROR
    return None


def _of_moment(place: Place, status: int, complaint: Complaint, words: str) -> _Verdict:
    """What may be over in a moment."""
    del place, complaint
    if status == 429 and re.match(r"request too large", words, re.IGNORECASE):
        return None  # more tokens than a minute has will never do
    if status in (429, 503, 529):
        return Trouble.BUSY, words, State.TRANSPORT_ERROR
    if status in (408, 409, 425) or (status >= 500 and status != 501):
        return Trouble.TRANSIENT, words, State.TRANSPORT_ERROR
    return None


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds until the endpoint wants the next call, 0 or more; None when it does not tell, or nonsense.

    `retry-after-ms` goes before `Retry-After` (seconds or an HTTP date). `now` is in Unix seconds.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        seconds = _seconds(text, time.time() if now is None else now)
        if seconds is not None and 0 <= seconds / unit <= _LONGEST_WISH_S:
            return seconds / unit
    return None


def _seconds(text: str, now: float) -> float | None:
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", text):
        return float(text)
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, OSError, IndexError):
        return None
    return max(0.0, moment - now) if math.isfinite(moment) else None


#: What looks like a secret: `sk-…`, also half hidden by stars, and values of the headers that carry keys. A value
#: without any digit, dash or underscore is taken for a word ("Bearer authentication is required").
_SECRETS = re.compile(
    r"\bsk-[\w*.…-]{8,}"
    r"|\b(?:bearer|basic)\s+(?=[^\s\"',;]*[\d_-])[^\s\"',;]{8,}"
    r"|(?:authorization|x-api-key|api[-_]key)[\"']?\s*[:=]\s*[\"']?(?=[^\s\"',;]*[\d_-])[^\s\"',;]{8,}",
    re.IGNORECASE,
)


def redacted(text: str, keys: Iterable[str], longest: int = _LONGEST_MESSAGE) -> str:
    """A server's words, fit to be shown and stored: no key, on one line, storable, at most `longest` characters.

    `keys` are the secrets that were sent; whatever looks like one goes too.
    """
    text = _SECRETS.sub("[redacted]", _without_keys(text, keys))
    text = " ".join(storable(text).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _without_keys(text: str, keys: Iterable[str]) -> str:
    """The text with every one of the keys replaced, in capitals or not; without escapes where these hide one."""
    spellings = spellings_of(keys)
    text = _replaced(text, spellings)
    if _may_hold_escapes(text):
        for secret in spellings:
            text = _escaped(secret).sub("[redacted]", text)
    plain = _unescaped(text)
    hidden = tells(plain, [secret for secret in spellings if len(secret) >= _SHORTEST_SECRET])
    return _replaced(plain, spellings) if hidden else text


def _replaced(text: str, spellings: Iterable[str]) -> str:
    for secret in spellings:
        if len(secret) < 8:  # a short one is no secret and may be part of words
            text = _whole(secret).sub("[redacted]", text) if secret in text else text
        elif secret.lower() in text.lower():
            text = re.sub(re.escape(secret), "[redacted]", text, flags=re.IGNORECASE)
    return text


def spellings_of(keys: Iterable[str]) -> list[str]:
    """Each key as it is, as it would stand in an address and in base64, the longest first."""
    spellings = {spelling for key in keys if key for spelling in (key, quote(key, safe=""), *_in_base64(key))}
    return sorted(spellings, key=len, reverse=True)


def _in_base64(key: str) -> Iterator[str]:
    """What of a key is the same in base64 wherever in a text it stands; a short one has nothing of the kind."""
    if len(key) < _SHORTEST_SECRET:
        return
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + key.encode())
        told = whole[4 if before else 0 : (len(key) + before) // 3 * 4].decode()
        yield told
        yield told.replace("+", "-").replace("/", "_")


def is_secret(key: str) -> bool:
    """Whether a key can be told from a word. Local servers take `none`, `EMPTY`, `ollama`, which texts hold too."""
    return len(key) >= _SHORTEST_SECRET and any(map(str.isdigit, key)) and any(map(str.isalpha, key))


def tells(text: str, spellings: Iterable[str]) -> bool:
    """Whether a text holds one of the spellings, in capitals or not, be it in escapes that are read later."""
    wanted = list(spellings)
    forms = {text.lower(), _unescaped(text).lower()}
    if any(spelling.lower() in form for spelling in wanted for form in forms):
        return True
    return _may_hold_escapes(text) and any(_escaped(spelling).search(text) for spelling in wanted)


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
#: Escapes inside of escapes that are looked through: a JSON text in an address in a JSON text.
_DEEPEST = 3


def _unescaped(text: str) -> str:
    r"""Without the escapes by which a key can be written: `\u0073` and `\/` of JSON, `%73` of addresses."""
    for _ in range(_DEEPEST):
        before = text
        if "\\" in text:
            text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)
        if "%" in text:
            text = unquote(text)
        if text == before:
            break
    return text


def _may_hold_escapes(text: str) -> bool:
    return "\\" in text or "%" in text


@lru_cache(maxsize=64)
def _escaped(secret: str) -> re.Pattern[str]:
    """A secret with any of its characters in escapes; one too short to be told from a word is found in none.

    What stands before it may look like an escape together with its first characters: `%` before `00…`.
    """
    if len(secret) < _SHORTEST_SECRET:
        return _NOWHERE
    ways = (f"{_BACKSLASHES}(?:{re.escape(char)}|u{ord(char):04x}|{_PERCENT}{ord(char):02x})" for char in secret)
    return re.compile("".join(ways), re.IGNORECASE)


_NOWHERE = re.compile(r"(?!)")
#: Bounded, so that a text full of them is read in time linear in its length.
_PERCENT = "%(?:25){0,3}+"
_BACKSLASHES = rf"(?:\\|{_PERCENT}5c){{0,4}}+"


def _whole(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")


async def lines_of(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The lines of a long body, one at a time; those longer than any reply are left out.

    A line ends with a line feed and nothing else: a reply may hold any of the other ends of lines that Unicode has.
    """
    kept: list[bytes] = []
    size = 0
    async for chunk in response.aiter_bytes():
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            kept.append(part)
            if size + len(part) <= LARGEST_BODY:
                yield b"".join(kept)
            kept, size = [], 0
        size += len(rest)
        if size <= LARGEST_BODY:
            kept.append(rest)
        else:
            kept.clear()
    if kept and 0 < size <= LARGEST_BODY:
        yield b"".join(kept)
