"""What an error's body says: its words, and whether they are about a parameter, the model, the length or money.

Providers and compatible servers name the same trouble in many shapes: codes, `param`, pydantic's lists of faults, or
prose alone. Prose may quote what a user wrote, so it is believed only where it names a parameter that was sent, outside
of quotations, in a sentence that says what is wrong with it.

Not here: what follows from it (`remote.py`), what a status alone means (`http.py`).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from radar_dagster.models.providers.fields import items_of, mapping_of, text_of

#: Characters of a message that are looked at; what is said later is a dump of the request, not a complaint.
_LONGEST = 20_000
_LONGEST_PROSE = 600
#: How deep an error may be wrapped into another by gateways.
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of a validating server's list: the place in the body, and what is wrong there."""

    place: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error as a server words it. `kinds` holds its codes, types and statuses in lower case."""

    message: str
    kinds: frozenset[str] = frozenset()
    param: str | None = None
    faults: tuple[Fault, ...] = ()
    #: The message without quotations, for looking words up.
    prose: str = field(default="")


@dataclass(frozen=True, slots=True)
class RefusedParameter:
    """A parameter that was sent, and whether it can't be taken at all (else: not with this value)."""

    name: str
    unsupported: bool


def complaint_of(body: object) -> Complaint:
    """Read an error from a decoded JSON body, or from the text of a body that is no JSON."""
    return _complaint(body, _DEEPEST)


def complaint_in(content: bytes) -> Complaint:
    """Read an error from a body as it arrived."""
    try:
        body: object = json.loads(content)
    except (ValueError, RecursionError):
        text = content[:_LONGEST].decode("utf-8", errors="replace").strip()
        body = "a web page" if text.startswith("<") else text
    return complaint_of(body)


def _complaint(body: object, depth: int) -> Complaint:
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        text = body[:_LONGEST] if isinstance(body, str) else ""
        return Complaint(text, prose=_prose(text))
    inner = mapping_of(body.get("error"))
    texts = [*_texts(body.get("error")), *_texts(body.get("message")), *_texts(body.get("detail"))]
    message = next((text for text in texts if text.strip()), "")[:_LONGEST]
    raw = mapping_of(inner.get("metadata")).get("raw")
    if isinstance(raw, str):  # a gateway's copy of what the server behind it said
        message = f"{message}: {raw}"[:_LONGEST]
    wrapped = _wrapped(message, depth)
    if wrapped is not None:
        return wrapped
    param = inner.get("param", body.get("param"))
    return Complaint(
        message=message,
        kinds=frozenset(_kinds(body, inner)),
        param=param if isinstance(param, str) and param else None,
        faults=tuple(_faults(body, message)),
        prose=_prose(message),
    )


def _texts(value: object, depth: int = _DEEPEST) -> Iterator[str]:
    """The texts that may be the message, the most telling one first."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth:
        for name in ("message", "msg", "detail"):
            yield from _texts(value.get(name), depth - 1)
    elif isinstance(value, list):
        yield "; ".join(f"{fault.words} ({'.'.join(fault.place)})" for fault in _listed(value))


def _kinds(body: Mapping[str, Any], inner: Mapping[str, Any]) -> Iterator[str]:
    sources = (inner, body, mapping_of(inner.get("innererror")), mapping_of(inner.get("details")))
    for source in sources:
        for name in ("code", "type", "status", "error_code"):
            value = source.get(name)
            if isinstance(value, str | int) and not isinstance(value, bool):
                yield str(value)[:200].lower()


def _wrapped(message: str, depth: int) -> Complaint | None:
    """The error of a server behind a gateway, where the gateway's message holds its JSON."""
    start = message.find('{"')
    if start < 0 or depth == 0:
        return None
    text = message[start:]
    # Gateways written in Python show bytes as b'…', with quotes escaped.
    for candidate in (text, text.replace("\\'", "'").replace('\\"', '"')):
        try:
            found, _ = json.JSONDecoder().raw_decode(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and found.keys() & {"error", "message", "detail"}:
            return _complaint(found, depth - 1)
    return None


def _faults(body: Mapping[str, Any], message: str) -> Iterator[Fault]:
    inner = body.get("error")
    holders = [body, mapping_of(inner), mapping_of(body.get("message")), mapping_of(mapping_of(inner).get("message"))]
    for holder in holders:
        for name in ("detail", "message", "errors"):
            yield from _listed(holder.get(name))
    if message.startswith("[{"):  # the list as Python shows it
        try:
            yield from _listed(ast.literal_eval(message))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return


def _listed(value: object) -> Iterator[Fault]:
    for item in map(mapping_of, items_of(value)):
        place = item.get("loc")
        if isinstance(place, list | tuple):
            parts = [str(part) for part in place if isinstance(part, str | int)]
            words = ": ".join(filter(None, (text_of(item.get("type")), text_of(item.get("msg")))))
            yield Fault(tuple(parts[1:] if parts[:1] == ["body"] else parts), words[:_LONGEST_PROSE])


_OPENING = re.compile(r"(?<!\w)[\"'`“‘«]")
_CLOSING = {
    opening: re.compile(rf"{closing}(?!\w)")
    for opening, closing in {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»"}.items()
}
_NAME = re.compile(r"[\w.\[\]-]{1,64}")


def _prose(message: str) -> str:
    """The message's first sentences, without what it quotes unless that is one word, which may be a name."""
    text = re.sub(r"\n[ \t]+", ": ", message)
    kept: list[str] = []
    place = 0
    while opening := _OPENING.search(text, place):
        kept.append(text[place : opening.start()])
        closing = _CLOSING[opening[0]].search(text, opening.end())
        if closing is None:  # a quotation that was cut: nothing after it is the server's own
            return "".join(kept)[:_LONGEST_PROSE]
        quoted = text[opening.end() : closing.start()]
        kept.append(f"'{quoted}'" if _NAME.fullmatch(quoted) else "…")
        place = closing.end()
    return ("".join(kept) + text[place:])[:_LONGEST_PROSE]


# --- parameters ---------------------------------------------------------------------------------------------------

_UNSUPPORTED_CODES = frozenset({"unsupported_parameter", "unknown_parameter", "unsupported_param"})
_ONLY_DEFAULT = re.compile(r"only the default\b|\bonly \d[\d.]* is allowed", re.IGNORECASE)
_UNSUPPORTED = re.compile(
    r"unsupported|not (?:currently |yet )?(?:supported|permitted|allowed|available|enabled|implemented)"
    r"|(?:do|does|did)(?:n't| not) (?:support|allow|accept)|no longer|deprecated|unavailable"
    r"|unknown|unrecogni[sz]ed|unexpected|cannot find field|extra_forbidden|extra (?:inputs?|fields?)"
    r"|additional propert",
    re.IGNORECASE,
)
#: Lists what would be right: then the parameter is known, and its value is wrong.
_LISTED = re.compile(
    r"supported (?:values|types|options|levels)|one of|input should be|must be|should be|allowed values"
    r"|valid (?:values|options)|expected an? ",
    re.IGNORECASE,
)
_WRONG = re.compile(
    r"invalid|\brange\b|too (?:large|small|big|high|low|many|few|long)|maximum|minimum|at (?:most|least)"
    r"|greater|less than|exceed|positive|negative|between",
    re.IGNORECASE,
)


def refused_parameter(
    complaint: Complaint, sent: Mapping[str, Any], spoken: Mapping[str, Sequence[str]]
) -> RefusedParameter | None:
    """The parameter of the call that an error is about; None when it is about none, or not plainly.

    `sent` maps names (with dots where they are nested) to values; `spoken` tells other words for a name.
    """
    for fault in complaint.faults:
        name = _sent_name(".".join(fault.place), sent)
        if name is not None:
            return RefusedParameter(name, _is_unsupported(fault.words, sent[name]) is True)
    if complaint.faults:
        return None
    if complaint.param is not None and not complaint.param.isdigit():
        name = _sent_name(complaint.param, sent)
        if name is None:
            return None
        if complaint.kinds & _UNSUPPORTED_CODES:
            return RefusedParameter(name, True)
        return RefusedParameter(name, _is_unsupported(complaint.prose, sent[name]) is True)
    return _named_in_prose(complaint.prose, sent, spoken)


def _sent_name(place: str, sent: Mapping[str, Any]) -> str | None:
    """The longest sent name that a place such as `response_format.type` or `logit_bias[3]` lies in."""
    inside = [name for name in sent if re.match(rf"{re.escape(name)}(?![\w-])", place)]
    # A server that does not know the whole of which we sent a part: `output_config`.
    whole = [name for name in sent if name.startswith(f"{place}.")]
    return max(inside, key=len) if inside else next(iter(whole), None)


def _named_in_prose(
    prose: str, sent: Mapping[str, Any], spoken: Mapping[str, Sequence[str]]
) -> RefusedParameter | None:
    for sentence in re.split(r"(?<=[.!?;])\s+|\n", prose):
        found = {name: _mention(name, spoken.get(name, ())).search(sentence) for name in sent}
        # The first one named; of two names at one place the longer (`output_config.effort`, not `output_config`).
        order = {name: (match.start(), -len(match[0])) for name, match in found.items() if match}
        for name in sorted(order, key=lambda name: order[name]):
            verdict = _is_unsupported(sentence, sent[name], prose)
            if verdict is not None:
                return RefusedParameter(name, verdict)
    return None


def _mention(name: str, spoken: Sequence[str]) -> re.Pattern[str]:
    """Finds a name as a whole word, in any of its spellings."""
    camel = re.sub(r"_(\w)", lambda found: found[1].upper(), name)
    spellings = "|".join(re.escape(each) for each in (name, camel, *spoken))
    return re.compile(rf"(?<![\w.])(?:body\.)?(?:{spellings})(?!\w)", re.IGNORECASE)


def _is_unsupported(sentence: str, value: object, prose: str = "") -> bool | None:
    """True: can't be taken at all; False: not with this value; None: the sentence says neither."""
    if _ONLY_DEFAULT.search(prose or sentence):
        return True
    # A sentence that quotes the value is about the value. Numbers are too common to tell.
    about_value = isinstance(value, str) and re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", sentence)
    listed = _LISTED.search(prose or sentence)
    if _UNSUPPORTED.search(sentence) and not about_value and not listed:
        return True
    return False if _WRONG.search(sentence) or listed or (about_value and _UNSUPPORTED.search(sentence)) else None


# --- everything else ----------------------------------------------------------------------------------------------

_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_TOO_LONG = re.compile(
    r"(?:maximum|max\.?|model'?s?) context (?:length|size|window)"
    r"|context (?:length|window|size) (?:is |was |of )?exceeded"
    r"|exceeds? the (?:available |maximum |model'?s? )*context"
    r"|(?:prompt|input|request) is too long|too many input tokens",
    re.IGNORECASE,
)
_FILTER_CODES = frozenset(
    {"content_filter", "content_policy_violation", "invalid_prompt", "data_inspection_failed",
     "responsibleaipolicyviolation"}
)  # fmt: skip
_FILTERED = re.compile(
    r"content (?:filter|exists risk|management policy|policy violation)"
    r"|blocked by content|(?:input|prompt) was flagged",
    re.IGNORECASE,
)
_MODEL_CODES = frozenset({"model_not_found", "invalid_model", "model_not_available", "deploymentnotfound"})
_NO_MODEL = re.compile(
    r"invalid model|not a valid model|model.{0,120}\b(?:does not exist|not exist|not found|unknown|retired)"
    r"|unknown model|no such model",
    re.IGNORECASE | re.DOTALL,
)
_MONEY_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error",
     "enforced_spend_limit_reached", "contract_spend_limit_reached", "organization_on_hold", "insufficient_balance"}
)  # fmt: skip
_MONEY = re.compile(r"credit balance|insufficient (?:balance|credits?|funds)|not enough credits", re.IGNORECASE)


def is_too_long(complaint: Complaint) -> bool:
    """Whether the request does not fit into the model's context."""
    return bool(complaint.kinds & _TOO_LONG_CODES or _TOO_LONG.search(complaint.prose))


def is_filtered(complaint: Complaint) -> bool:
    """Whether a content filter refused the request or its reply."""
    return bool(complaint.kinds & _FILTER_CODES or _FILTERED.search(complaint.prose))


def is_about_model(complaint: Complaint) -> bool:
    """Whether the endpoint does not know the model (or the deployment)."""
    named = complaint.param == "model" or bool(complaint.kinds & _MODEL_CODES)
    return named or bool(_NO_MODEL.search(complaint.prose))


def denies_model(complaint: Complaint, names: Collection[str]) -> bool:
    """Whether a model's page is missing because the endpoint does not know the model, and not for want of such pages.

    A server without pages repeats the address, in which `/models/` and the name stand.
    """
    prose = re.sub(r"\S*/models\b\S*", "", complaint.prose)
    if complaint.param == "model" or complaint.kinds & _MODEL_CODES or _NO_MODEL.search(prose):
        return True
    named = any(re.search(rf"(?<![\w/-]){re.escape(name)}(?![\w-])", complaint.message) for name in names)
    return "not_found_error" in complaint.kinds and named


def is_about_money(complaint: Complaint) -> bool:
    """Whether no call will be served before a bill is paid. A rate limit that talks of quotas is not meant."""
    return bool(complaint.kinds & _MONEY_CODES or _MONEY.search(complaint.prose))
