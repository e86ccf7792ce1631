"""Files and batches of OpenAI, message batches of Anthropic: submitted, polled, cancelled, read.

Here: what a batch is and how it ends, in both providers' shapes. Not here: HTTP (`app.py`), how an item's reply comes
about (`replies.py`).
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Literal, NamedTuple

from stub_server import anthropic_api, openai_api
from stub_server.asks import Ask, Protocol, number
from stub_server.calls import admit, read_json
from stub_server.errors import RefusedError, error_of
from stub_server.faults import Rule
from stub_server.log import Log, Record
from stub_server.replies import make_reply
from stub_server.settings import Settings
from stub_server.wire import JSON, Wire, as_json

_DAY = 86_400
_LINES = "application/x-jsonl"
_ENDPOINT = "/v1/chat/completions"


class Sent(NamedTuple):
    """A reply over HTTP."""

    status: int
    body: bytes
    content_type: str = JSON


@dataclass(slots=True)
class _File:
    id: str
    name: str
    purpose: str
    content: bytes
    created: float

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": int(self.created),
            "expires_at": None,
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }


class _Item(NamedTuple):
    custom_id: str
    body: Mapping[str, Any]


class _Result(NamedTuple):
    """How an item ended: the provider's body of a success, the status and body of an error, or neither."""

    custom_id: str
    end: Literal["succeeded", "errored", "expired", "canceled"]
    status: int = 0
    body: Mapping[str, Any] = {}


@dataclass(slots=True)
class _Batch:
    id: str
    items: Sequence[_Item]
    created: float = field(default_factory=time.time)
    file_id: str = ""
    metadata: Mapping[str, str] | None = None
    errors: Sequence[Mapping[str, Any]] = ()
    polls: int = 0
    cancelled: float | None = None
    ended: float | None = None
    results: Sequence[_Result] = ()
    output_id: str | None = None
    error_id: str | None = None

    @property
    def ends(self) -> Counter[str]:
        return Counter(result.end for result in self.results)


class Batches:
    """All files and batches of a stub; they live as long as it does."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._files: dict[str, _File] = {}
        self._openai: dict[str, _Batch] = {}
        self._anthropic: dict[str, _Batch] = {}

    # OpenAI's files

    def upload(self, wire: Wire, body: bytes, _ids: tuple[str, ...]) -> Sent:
        """POST /v1/files (multipart)."""
        fields = _multipart(wire.headers.get("content-type", ""), body)
        if "file" not in fields or "purpose" not in fields:
            raise openai_api.bad_request("'file' and 'purpose' are required.", "file", None)
        name, content = fields["file"]
        made = self._keep_file(name, fields["purpose"][1].decode(), content)
        return Sent(200, as_json(made.shown()))

    def files(self, _wire: Wire, _body: bytes, _ids: tuple[str, ...]) -> Sent:
        """GET /v1/files."""
        data = [file.shown() for file in reversed(self._files.values())]
        return Sent(200, as_json({"object": "list", "data": data, "has_more": False}))

    def file(self, _wire: Wire, _body: bytes, ids: tuple[str, ...]) -> Sent:
        """GET /v1/files/{id}."""
        return Sent(200, as_json(self._file(ids[0]).shown()))

    def delete_file(self, _wire: Wire, _body: bytes, ids: tuple[str, ...]) -> Sent:
        """DELETE /v1/files/{id}."""
        del self._files[self._file(ids[0]).id]
        return Sent(200, as_json({"id": ids[0], "object": "file", "deleted": True}))

    def file_content(self, _wire: Wire, _body: bytes, ids: tuple[str, ...]) -> Sent:
        """GET /v1/files/{id}/content."""
        file = self._file(ids[0])
        return Sent(200, self._spoilt(file.content) if file.purpose == "batch_output" else file.content, _LINES)

    def _file(self, identity: str) -> _File:
        if identity not in self._files:
            text = f"No such File object: {identity}"
            raise RefusedError(404, openai_api.error(text, "invalid_request_error", "id"))
        return self._files[identity]

    def _keep_file(self, name: str, purpose: str, content: bytes) -> _File:
        made = _File(f"file-{token_hex(11)}", name, purpose, content, time.time())
        self._files[made.id] = made
        return made

    # OpenAI's batches

    def create(self, _wire: Wire, body: bytes, _ids: tuple[str, ...]) -> Sent:
        """POST /v1/batches. What is wrong with the input file shows later, as with OpenAI: the status is `failed`."""
        given = read_json(body, "openai")
        _check_submission(given)
        items, errors = self._read_input(self._file(str(given.get("input_file_id"))).content)
        if self._settings.batch.fail is not None:
            errors = [_batch_error("batch_failed", self._settings.batch.fail)]
        made = _Batch(f"batch_{token_hex(12)}", items, errors=errors)
        made.file_id, made.metadata = given["input_file_id"], given.get("metadata")
        self._openai[made.id] = made
        return Sent(200, as_json(_openai_batch(made)))

    def listing(self, wire: Wire, _body: bytes, _ids: tuple[str, ...]) -> Sent:
        """GET /v1/batches?after=&limit=, newest first."""
        page, more = self._page(self._openai, wire.argument("after"), wire.argument("limit"))
        edges = {"first_id": page[0].id if page else None, "last_id": page[-1].id if page else None}
        data = [_openai_batch(batch) for batch in page]
        return Sent(200, as_json({"object": "list", "data": data, **edges, "has_more": more}))

    def poll(self, _wire: Wire, _body: bytes, ids: tuple[str, ...]) -> Sent:
        """GET /v1/batches/{id}."""
        batch = self._openai_batch(ids[0])
        if self._ends_now(batch):
            self._end_openai(batch)
        shown = _openai_batch(batch)
        if batch.polls <= self._settings.batch.late:
            shown |= {"output_file_id": None, "error_file_id": None}
        return Sent(200, as_json(shown))

    def cancel(self, _wire: Wire, _body: bytes, ids: tuple[str, ...]) -> Sent:
        """POST /v1/batches/{id}/cancel."""
        batch = self._openai_batch(ids[0])
        if batch.ended is not None:
            text = f"Cannot cancel a batch with status '{_openai_status(batch)}'."
            raise RefusedError(409, openai_api.error(text, "invalid_request_error"))
        batch.cancelled = time.time()
        return Sent(200, as_json(_openai_batch(batch)))

    def _openai_batch(self, identity: str) -> _Batch:
        if identity not in self._openai:
            text = f"No batch found with id '{identity}'."
            raise RefusedError(404, openai_api.error(text, "invalid_request_error"))
        return self._openai[identity]

    def _read_input(self, content: bytes) -> tuple[list[_Item], list[dict[str, Any]]]:
        """The items of an input file, and what is wrong with it."""
        items: list[_Item] = []
        errors: list[dict[str, Any]] = []
        seen: set[str] = set()
        for place, line in enumerate(content.splitlines(), start=1):
            problem = _line_problem(line, seen)
            if problem is not None:
                errors.append(_batch_error(*problem, line=place))
                continue
            given = json.loads(line)
            seen.add(given["custom_id"])
            items.append(_Item(given["custom_id"], given["body"]))
        if not items and not errors:
            errors.append(_batch_error("empty_file", "The input file is empty."))
        models = {str(item.body.get("model")) for item in items}
        if len(models) > 1:
            errors.append(_batch_error("model_mismatch", "All requests of a batch must name the same model."))
        limit = self._settings.batch.limit
        if limit is not None and len(items) > limit:
            errors.append(_batch_error("too_many_tasks", f"The batch has more than {limit} requests."))
        return items, errors

    def _end_openai(self, batch: _Batch) -> None:
        self._end(batch, "openai")
        good = [result for result in batch.results if result.end == "succeeded"]
        bad = [result for result in batch.results if result.end != "succeeded"]
        batch.output_id = self._result_file(batch, "output", good)
        batch.error_id = self._result_file(batch, "error", bad)

    def _result_file(self, batch: _Batch, sort: str, results: Iterable[_Result]) -> str | None:
        lines = [as_json(_openai_line(result)) for result in results]
        if not lines:
            return None
        return self._keep_file(f"{batch.id}_{sort}.jsonl", "batch_output", b"\n".join(lines) + b"\n").id

    # Anthropic's batches

    def create_messages(self, wire: Wire, body: bytes, _ids: tuple[str, ...]) -> Sent:
        """POST /v1/messages/batches."""
        requests = read_json(body, "anthropic").get("requests")
        plan = self._settings.batch
        if plan.fail is not None:
            raise anthropic_api.bad_request(plan.fail)
        if not isinstance(requests, list) or not requests:
            raise anthropic_api.bad_request("requests: List should have at least 1 item after validation")
        if plan.limit is not None and len(requests) > plan.limit:
            raise RefusedError(413, anthropic_api.error("request_too_large", "Request exceeds the maximum size"))
        if not all(isinstance(each, dict) and "params" in each for each in requests):
            raise anthropic_api.bad_request("requests: params: Field required")
        _check_custom_ids([each.get("custom_id") for each in requests])
        made = _Batch(f"msgbatch_{token_hex(12)}", [_Item(each["custom_id"], each["params"]) for each in requests])
        self._anthropic[made.id] = made
        return Sent(200, as_json(_anthropic_batch(made, wire)))

    def listing_messages(self, wire: Wire, _body: bytes, _ids: tuple[str, ...]) -> Sent:
        """GET /v1/messages/batches?after_id=&limit=, newest first."""
        page, more = self._page(self._anthropic, wire.argument("after_id"), wire.argument("limit"))
        edges = {"first_id": page[0].id if page else None, "last_id": page[-1].id if page else None}
        data = [_anthropic_batch(batch, wire) for batch in page]
        return Sent(200, as_json({"data": data, **edges, "has_more": more}))

    def poll_messages(self, wire: Wire, _body: bytes, ids: tuple[str, ...]) -> Sent:
        """GET /v1/messages/batches/{id}."""
        batch = self._anthropic_batch(ids[0])
        if self._ends_now(batch):
            self._end(batch, "anthropic")
        return Sent(200, as_json(_anthropic_batch(batch, wire)))

    def results(self, _wire: Wire, _body: bytes, ids: tuple[str, ...]) -> Sent:
        """GET /v1/messages/batches/{id}/results."""
        batch = self._anthropic_batch(ids[0])
        if batch.ended is None:
            raise RefusedError(404, anthropic_api.error("not_found_error", f"No results for batch {batch.id} yet"))
        lines = [as_json(_anthropic_line(result)) for result in batch.results]
        return Sent(200, self._spoilt(b"\n".join(lines) + b"\n"), _LINES)

    def cancel_messages(self, wire: Wire, _body: bytes, ids: tuple[str, ...]) -> Sent:
        """POST /v1/messages/batches/{id}/cancel."""
        batch = self._anthropic_batch(ids[0])
        if batch.ended is not None:
            raise anthropic_api.bad_request(f"Batch {batch.id} cannot be canceled because it has already ended.")
        batch.cancelled = time.time()
        return Sent(200, as_json(_anthropic_batch(batch, wire)))

    def _anthropic_batch(self, identity: str) -> _Batch:
        if identity not in self._anthropic:
            raise RefusedError(404, anthropic_api.error("not_found_error", f"Batch {identity} not found"))
        return self._anthropic[identity]

    # Both

    def _spoilt(self, content: bytes) -> bytes:
        spoil = self._settings.batch.spoil
        return content if spoil is None else b"".join(line + b"\n" for line in spoil(content.splitlines()))

    def _page(self, batches: Mapping[str, _Batch], after: str | None, limit: str | None) -> tuple[list[_Batch], bool]:
        newest = list(batches.values())[::-1]
        if after is not None:
            ids = [batch.id for batch in newest]
            newest = newest[ids.index(after) + 1 :] if after in ids else []
        size = min(int(limit or 20), self._settings.batch.page)
        return newest[:size], len(newest) > size

    def _ends_now(self, batch: _Batch) -> bool:
        """Count a poll; whether the batch ends with it."""
        batch.polls += 1
        plan = self._settings.batch
        if batch.ended is not None:
            return False
        if batch.errors or batch.cancelled is not None:
            return True
        return batch.polls > plan.polls and time.time() - batch.created >= plan.seconds

    def _end(self, batch: _Batch, protocol: Protocol) -> None:
        """Answer the items, in an order that is not that of the request."""
        batch.ended = time.time()
        if batch.errors:
            return
        scrambled = sorted(batch.items, key=lambda item: number(batch.id, item.custom_id))
        done = len(scrambled)
        if batch.cancelled is not None:
            done = done // 2 if self._settings.batch.half_on_cancel else 0
        batch.results = [
            *(self._answer(item, protocol) for item in scrambled[:done]),
            *(_Result(item.custom_id, "canceled") for item in scrambled[done:]),
        ]

    def _answer(self, item: _Item, protocol: Protocol) -> _Result:
        record = self._log.open("ITEM", "batch", "item")
        record.protocol, record.custom_id = protocol, item.custom_id
        record.body = item.body if self._settings.keep_bodies else None
        try:
            result = self._try(item, protocol, record)
        except RefusedError as refused:
            result = _Result(item.custom_id, "errored", refused.status, refused.body)
        record.status, record.ok, record.seconds = result.status, result.end == "succeeded", 0.0
        return result

    def _try(self, item: _Item, protocol: Protocol, record: Record) -> _Result:
        api = openai_api if protocol == "openai" else anthropic_api
        ask: Ask = api.ask_from(item.body, _sample(item.custom_id), in_batch=True)
        record.model, record.content = ask.model, ask.content
        admit(ask, self._settings)
        self._log.asked[ask.content] += 1
        record.nth = ask.nth = self._log.asked[ask.content]
        fault = self._settings.script.pick(ask, 0, item.custom_id)
        record.fault = None if fault is None else fault.kind
        if fault is not None and fault.kind in ("expired", "canceled"):
            return _Result(item.custom_id, "expired" if fault.kind == "expired" else "canceled")
        _refuse(fault, ask)
        ask.draw = self._log.drawn[ask.content]
        self._log.drawn[ask.content] += 1
        self._log.answered[ask.content] += 1
        reply = make_reply(ask, self._settings, fault)
        if fault is not None and not reply.spoiled:
            record.fault = None
        record.bill(reply.prompt_tokens, reply.completion_tokens, reply.reasoning_tokens)
        record.reply = reply.text if self._settings.keep_bodies else None
        shape = openai_api.completion if protocol == "openai" else anthropic_api.message
        return _Result(item.custom_id, "succeeded", 200, shape(ask, reply, self._settings, token_hex(8)))


def _refuse(fault: Rule | None, ask: Ask) -> None:
    """Raise the error of an item that gets one."""
    if fault is None:
        return
    if fault.kind == "errored":
        raise error_of(fault.value or "server_error", ask.protocol, ask.model)
    if fault.kind == "rejected_parameter":
        api = openai_api if ask.protocol == "openai" else anthropic_api
        raise api.rejected(ask.model, fault.parameter, fault.value or "parameter", None)
    if fault.kind == "content_filter" and ask.protocol == "anthropic":
        raise anthropic_api.filtered()


def _multipart(content_type: str, body: bytes) -> dict[str, tuple[str, bytes]]:
    """Field -> (file name, content)."""
    found = re.search(r'boundary="?([^";]+)', content_type)
    if found is None:
        return {}
    fields: dict[str, tuple[str, bytes]] = {}
    for part in body.split(b"--" + found[1].encode())[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        named = dict(re.findall(r'(\w+)="([^"]*)"', head.decode("utf-8", "replace")))
        fields[named.get("name", "")] = (named.get("filename", ""), content.removesuffix(b"\r\n"))
    return fields


def _check_submission(given: Mapping[str, Any]) -> None:
    if given.get("endpoint") != _ENDPOINT:
        raise openai_api.bad_request(f"The stub has batches of {_ENDPOINT} only.", "endpoint", "invalid_value")
    if given.get("completion_window") != "24h":
        raise openai_api.bad_request("Supported values are: '24h'.", "completion_window", "invalid_value")
    metadata = given.get("metadata") or {}
    if len(metadata) > 16 or any(len(key) > 64 or len(str(value)) > 512 for key, value in metadata.items()):
        raise openai_api.bad_request("Invalid 'metadata': too many or too long entries.", "metadata", None)


def _sample(custom_id: str) -> str | None:
    """What a live call has in its header: of the ids that radar makes, the part after the batch's own mark."""
    found = re.fullmatch(r"[0-9a-f]{12}-([0-9a-f]{40})", custom_id)
    return found[1] if found else None


def _check_custom_ids(ids: Sequence[Any]) -> None:
    for place, identity in enumerate(ids):
        if not isinstance(identity, str) or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", identity):
            text = "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"
            raise anthropic_api.bad_request(f"requests.{place}.custom_id: {text}")
    if len(set(ids)) < len(ids):
        raise anthropic_api.bad_request("requests: custom_id must be unique within a batch")


def _line_problem(line: bytes, seen: set[str]) -> tuple[str, str] | None:
    """What is wrong with a line of an input file: OpenAI's code and a message."""
    try:
        given = json.loads(line)
    except ValueError:
        return "invalid_json_line", "This line is not parseable as valid JSON."
    if not isinstance(given, dict) or not isinstance(given.get("custom_id"), str) or "body" not in given:
        return "invalid_request", "custom_id and body are required."
    if given["custom_id"] in seen:
        return "duplicate_custom_id", f"The custom_id '{given['custom_id']}' is used more than once."
    if given.get("method") != "POST" or given.get("url") != _ENDPOINT:
        return "url_mismatch", "The URL of this line does not match the batch's endpoint."
    return None


def _batch_error(code: str, text: str, line: int | None = None) -> dict[str, Any]:
    return {"code": code, "message": text, "param": None, "line": line}


def _openai_status(batch: _Batch) -> str:
    if batch.ended is None:
        if batch.cancelled is not None:
            return "cancelling"
        return "in_progress" if batch.polls else "validating"
    if batch.errors:
        return "failed"
    if batch.cancelled is not None:
        return "cancelled"
    return "expired" if batch.ends["expired"] else "completed"


def _openai_batch(batch: _Batch) -> dict[str, Any]:
    status = _openai_status(batch)
    created, ends = int(batch.created), batch.ends
    end = None if batch.ended is None else int(batch.ended)
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": _ENDPOINT,
        "model": batch.items[0].body.get("model") if batch.items else None,
        "errors": {"object": "list", "data": list(batch.errors)} if status == "failed" else None,
        "input_file_id": batch.file_id,
        "completion_window": "24h",
        "status": status,
        "output_file_id": batch.output_id,
        "error_file_id": batch.error_id,
        "created_at": created,
        "in_progress_at": created if batch.polls and status != "failed" else None,
        "expires_at": created + _DAY,
        "finalizing_at": end if status == "completed" else None,
        "completed_at": end if status == "completed" else None,
        "failed_at": end if status == "failed" else None,
        "expired_at": end if status == "expired" else None,
        "cancelling_at": None if batch.cancelled is None else int(batch.cancelled),
        "cancelled_at": end if status == "cancelled" else None,
        "request_counts": {
            "total": 0 if batch.errors else len(batch.items),
            "completed": ends["succeeded"],
            "failed": sum(ends.values()) - ends["succeeded"],
        },
        "metadata": batch.metadata,
    }


def _openai_line(result: _Result) -> dict[str, Any]:
    identity = token_hex(8)
    line: dict[str, Any] = {"id": f"batch_req_{identity}", "custom_id": result.custom_id}
    if result.end == "expired":
        text = "This request could not be executed before the completion window expired."
        return {**line, "response": None, "error": {"code": "batch_expired", "message": text}}
    if result.end == "canceled":
        text = "This request was not executed because the batch was cancelled."
        return {**line, "response": None, "error": {"code": "batch_cancelled", "message": text}}
    response = {"status_code": result.status, "request_id": f"req_{identity}", "body": result.body}
    return {**line, "response": response, "error": None}


def _anthropic_batch(batch: _Batch, wire: Wire) -> dict[str, Any]:
    ends = batch.ends
    status = "ended" if batch.ended is not None else "canceling" if batch.cancelled is not None else "in_progress"
    url = f"http://{wire.headers.get('host', '')}/v1/messages/batches/{batch.id}/results"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": {
            "processing": 0 if batch.ended is not None else len(batch.items),
            **{end: ends[end] for end in ("succeeded", "errored", "canceled", "expired")},
        },
        "created_at": _moment(batch.created),
        "expires_at": _moment(batch.created + _DAY),
        "ended_at": _moment(batch.ended),
        "cancel_initiated_at": _moment(batch.cancelled),
        "archived_at": None,
        "results_url": url if batch.ended is not None else None,
    }


def _anthropic_line(result: _Result) -> dict[str, Any]:
    told: dict[str, Any] = {"type": result.end}
    if result.end == "succeeded":
        told["message"] = result.body
    elif result.end == "errored":
        told["error"] = result.body
    return {"custom_id": result.custom_id, "result": told}


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
