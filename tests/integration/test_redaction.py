"""Keys and passwords are nowhere: in no file, on no terminal, in no exception, whatever a server sends back."""

from __future__ import annotations

import base64
import json
import os
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy
from hosted_workspace import BRAIN, KEY, KEY_VARIABLE, Processes, environment, ledger_of, rows_of, write_workspace
from stub_server import Rule, Script, StubServer
from stub_server.brains import brain_from

from radar_dagster.config import load_workspace
from radar_dagster.errors import RadarError
from radar_dagster.models.door import Door
from radar_dagster.models.stages import judge_probes, make_probes

POSTGRES = "RADAR_TEST_POSTGRES"
PASSWORD = "pass-w0rd-of-nobody"
#: A Dagster instance that keeps whatever any library logs with the events of the run.
VERBOSE = """\
telemetry: {enabled: false}
python_logs: {python_log_level: DEBUG, managed_python_loggers: [root, openai, anthropic, httpx2]}
"""
#: An audit of six probes: with every library talking, each call takes a while.
PAIR = ("--generator", "oai-writer", "--verifier", "ant-judge", "--probes", "1", "--tasks", "1")


def spellings(secret: str) -> dict[str, bytes]:
    """A secret as it may stand in a file."""
    found = {name: secret.encode(name) for name in ("utf-8", "utf-16-le", "utf-16-be")}
    found["address"] = quote(secret, safe="").encode()
    found["percents"] = "".join(f"%{byte:02x}" for byte in secret.encode()).encode()
    for shift in range(3):  # inside a longer text, base64 falls into one of three steps; the ends depend on neighbours
        found[f"base64 {shift}"] = base64.b64encode(b"\0" * shift + secret.encode())[
            4 : (len(secret) + shift) // 3 * 4 - 4
        ]
    return found


def holders(secret: str, *places: Path | str) -> list[str]:
    """The files, and the texts, that hold a secret in any spelling."""
    found: list[str] = []
    for place in places:
        files = [file for file in place.rglob("*") if file.is_file()] if isinstance(place, Path) else []
        contents = (
            {str(file): file.read_bytes() for file in files} if isinstance(place, Path) else {place: place.encode()}
        )
        assert contents
        for name, content in contents.items():
            small = content.lower()
            found += [
                f"{how} in {name[:200]}"
                for how, spelt in spellings(secret).items()
                if spelt in content or (not how.startswith("base64") and spelt.lower() in small)
            ]
    return found


def test_a_secret_is_found_however_it_is_spelt(tmp_path: Path) -> None:
    for shift in range(3):
        for encoded in (base64.b64encode(b"x" * shift + KEY.encode() + b"yz"), KEY.encode("utf-16")):
            (tmp_path / "file").write_bytes(encoded)
            assert holders(KEY, tmp_path)
    assert not holders("another-secret-0123456", tmp_path)


@pytest.fixture
def server(stub: StubServer) -> StubServer:
    """It repeats keys that it does not know."""
    stub.settings.keys = {KEY}
    stub.settings.brain = brain_from(BRAIN)
    stub.settings.echo_keys = True
    return stub


def make_chatty(server: StubServer) -> None:
    """Have it tell the key to everybody who asks, in all that a model can say."""
    plain = brain_from(BRAIN)

    def chatty(ask: Any) -> str:
        said = plain(ask)
        if ask.schema is None:
            return f"{said} (Authorization: Bearer {KEY})"
        return json.dumps({**json.loads(said), "rationale": f"x-api-key: {KEY}", "reasoning": KEY})

    server.settings.brain = chatty
    server.settings.served_as = {"writer-1": f"writer-{KEY}", "judge-1": KEY}


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path / "output") as processes:
        yield processes


@pytest.mark.slow
def test_an_audit_of_models_that_repeat_the_key_leaves_it_nowhere(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    folder = write_workspace(tmp_path / "workspace", server.openai_url, server.anthropic_url)
    home = folder / ".radar" / "dagster"
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text(VERBOSE)
    loud = {"OPENAI_LOG": "debug", "ANTHROPIC_LOG": "debug"}
    make_chatty(server)
    told = processes.radar(folder, "audit", "letters", *PAIR, env=environment(**loud))
    assert told.code == 4
    assert "repeats the key" in told.err
    server.settings.brain, server.settings.served_as = brain_from(BRAIN), {}
    audit = processes.radar(folder, "audit", "letters", *PAIR, "--out", str(tmp_path / "out"), env=environment(**loud))
    assert audit.code in (0, 1, 3), audit.err
    assert any(b"/v1/messages" in file.read_bytes() for file in home.rglob("*.db"))  # what libraries log is kept
    key = rows_of(ledger_of(folder))[-1]["key"]
    for command in (
        ("call", key), ("call", key, "--json"), ("models",),
        ("models", "--json"), ("check",), ("trace", "letters", "oai-writer~ant-judge", "accuracy", "brevity", "--json"),
        ("plan", "letters", "--json"), ("sql", "SELECT * FROM scores", "--json"),
    ):  # fmt: skip
        assert processes.radar(folder, *command).code in (0, 1, 3, 4)
    for secret in (KEY, "sk-wrong-0123456789-abcdefgh"):
        env = environment(**{KEY_VARIABLE: secret}, **loud)
        server.settings.keys = {"another"}
        refused = processes.radar(folder, "audit", "letters", *PAIR, "--fresh", env=env)
        assert refused.code == 4
        assert "HTTP 401" in refused.err
        assert processes.radar(folder, "models", env=env).code == 4
        # Everything below holds the ledger, the lake, the page, Dagster's home with its events and logs, both streams
        # of every command, and what --out has written.
        assert holders(secret, tmp_path) == []


# Servers that say anything


Answer = Callable[[str], tuple[int, Any]]
"""From the headers of a request, as text, to status and body."""


@contextmanager
def echo(answer: Answer) -> Iterator[str]:
    """The address of a server that answers everything in one way."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status, body = answer(str(self.headers))
            raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status, f"Said {KEY}")
            self.send_header("content-type", "application/json")
            self.send_header("location", f"http://127.0.0.1/?key={KEY}")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def openai_reply(**message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": f"id {KEY}", "model": f"model {KEY}", "choices": [choice], "usage": None}


def anthropic_reply(**fields: Any) -> dict[str, Any]:
    return {
        "id": f"id {KEY}",
        "model": KEY,
        "type": "message",
        "role": "assistant",
        "stop_reason": "end_turn",
        **fields,
    }


ANSWERS: Mapping[str, Answer] = {
    "401": lambda headers: (401, {"error": {"message": f"you sent {headers}"}}),
    "400": lambda headers: (400, {"error": {"message": f"no: {headers}", "param": KEY, "code": KEY, "type": KEY}}),
    "404": lambda headers: (404, headers),
    "429": lambda headers: (429, {"error": headers}),
    "500": lambda headers: (500, {"error": {"message": f"failed with {headers}"}}),
    "500 as a text": lambda headers: (500, headers),
    "a redirect": lambda headers: (302, headers),
    "no JSON": lambda headers: (200, headers),
    "an error with 200": lambda headers: (200, {"error": {"message": headers, "type": KEY}}),
    "OpenAI's text": lambda headers: (200, openai_reply(content=headers)),
    "OpenAI's refusal": lambda headers: (200, openai_reply(content=None, refusal=headers)),
    "OpenAI's reasoning": lambda headers: (200, openai_reply(content="", reasoning_content=headers)),
    "Anthropic's text": lambda headers: (200, anthropic_reply(content=[{"type": "text", "text": headers}])),
    "Anthropic's refusal": lambda headers: (
        200,
        anthropic_reply(content=[], stop_reason="refusal", stop_details={"explanation": headers, "category": KEY}),
    ),
    "Anthropic's thoughts": lambda headers: (200, anthropic_reply(content=[{"type": "thinking", "thinking": headers}])),
}


#: How else a server may write what it was sent.
_WAYS: Mapping[str, Callable[[str], str]] = {
    "in small letters": str.lower,
    "in capitals": str.upper,
    "as an address": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
}


def written(answer: Answer, way: Callable[[str], str]) -> Answer:
    """An answer that repeats the headers in this way."""
    return lambda headers: answer(way(headers))


ANSWERS = {
    **ANSWERS,
    **{
        f"{name} {how}": written(ANSWERS[name], way)
        for name in ("401", "500 as a text", "OpenAI's text", "Anthropic's text")
        for how, way in _WAYS.items()
    },
}


@pytest.mark.parametrize("said", ANSWERS)
def test_whatever_a_server_says_the_key_is_kept(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.delenv("RADAR_LEDGER", raising=False)
    texts: list[str] = []
    with echo(ANSWERS[said]) as url:
        folder = write_workspace(tmp_path / "w", url, url, endpoint={"max_attempts": 1}, audit={"tasks": 1})
        workspace = load_workspace(folder / "radar.yaml")
        for writer in ("oai-writer", "ant-writer"):
            with Door(workspace.door) as door:
                try:
                    probes = make_probes(workspace.rubric("letters"), door, writer, 1)
                    scores = judge_probes(workspace.rubric("letters"), probes, door, writer.replace("writer", "judge"))
                    texts += [probes.to_json(), scores.to_json(), repr(probes)]
                except RadarError as error:
                    texts += ["".join(traceback.format_exception(error)), repr(error)]
                    texts.append(
                        "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
                    )
                # The -wal of a ledger that is open is read along with it.
                assert holders(KEY, folder, *texts) == []
    assert len(rows_of(ledger_of(folder))) > 0


@pytest.mark.parametrize(
    ("secret", "changes"),
    [
        (KEY, {"endpoint": {"api_key_env": KEY}}),
        (KEY, {"endpoint": {"api_key_env": [KEY]}}),
        (KEY, {"endpoint": {"base_url": f"http://{KEY}@127.0.0.1:1"}}),
        (KEY, {"endpoint": {"base_url": f"http://127.0.0.1:1/v1?api-key={KEY}"}}),
        (KEY, {"endpoint": {"api_key": KEY}}),
        (PASSWORD, {"ledger": f"postgresql://radar:{PASSWORD}@localhost/radar"}),
        (PASSWORD, {"ledger": [f"postgresql://radar:{PASSWORD}@localhost/radar"]}),
    ],
    ids=str,
)
def test_a_configuration_that_holds_a_secret_by_mistake_is_told_without_it(
    tmp_path: Path, secret: str, changes: dict[str, Any]
) -> None:
    folder = write_workspace(tmp_path, "http://127.0.0.1:1", "http://127.0.0.1:1", **changes)
    with pytest.raises(RadarError, match=next(iter(changes.get("endpoint", changes)))) as error:
        load_workspace(folder / "radar.yaml")
    assert holders(secret, *traceback.format_exception(error.value)) == []


def test_settings_and_doors_do_not_show_a_key(
    server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    workspace = load_workspace(write_workspace(tmp_path, server.openai_url, server.anthropic_url) / "radar.yaml")
    with Door(workspace.door) as door:
        models = [door.model(alias) for alias in workspace.models]
        shown = [repr(workspace), repr(workspace.door), workspace.door.model_dump_json(), repr(vars(door)), str(models)]
        clients = [model.client() for model in models]  # type: ignore[union-attr]
        shown += [repr(vars(model)) for model in models] + [repr(client) for client in clients]
    assert holders(KEY, *shown) == []


# The ledger's password


@pytest.fixture
def protected(closed_port: int) -> str:
    return f"postgresql://radar:{PASSWORD}@127.0.0.1:{closed_port}/radar"


@pytest.fixture
def closed_port() -> int:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        return int(server.server_address[1])


@pytest.mark.slow
def test_the_password_of_a_ledger_that_cannot_be_reached_is_kept(
    server: StubServer, tmp_path: Path, processes: Processes, protected: str
) -> None:
    folder = write_workspace(tmp_path / "w", server.openai_url, server.anthropic_url)
    env = environment(RADAR_LEDGER=protected)
    for command in (("audit", "letters", *PAIR), ("call", "0" * 64), ("plan", "letters")):
        child = processes.radar(folder, *command, env=env)
        assert child.code in (0, 4), child.err
    assert holders(PASSWORD, tmp_path) == []


@pytest.mark.slow
def test_the_password_of_a_ledger_that_is_used_is_kept(
    server: StubServer, tmp_path: Path, processes: Processes
) -> None:
    url = os.environ.get(POSTGRES)
    if not url:
        pytest.skip(f"no PostgreSQL: {POSTGRES} is not set")
    parts, schema = sqlalchemy.make_url(url), f"radar_test_{uuid.uuid4().hex}"
    if parts.password is not None:
        pytest.skip(f"{POSTGRES} holds a password of its own")
    engine = sqlalchemy.create_engine(parts.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.schema.CreateSchema(schema))
    try:
        # A server that trusts this machine does not look at the password.
        secret = parts.set(password=PASSWORD).render_as_string(hide_password=False)
        env = environment(RADAR_LEDGER=f"{secret}?options=-csearch_path%3D{schema}")
        folder = write_workspace(tmp_path / "w", server.openai_url, server.anthropic_url)
        audit = processes.radar(folder, "audit", "letters", *PAIR, "--json", env=env)
        assert audit.code in (0, 1, 3), audit.err
        server.settings.script = Script([Rule("forbidden")])
        assert processes.radar(folder, "audit", "letters", *PAIR, "--fresh", env=env).code == 4
        assert processes.radar(folder, "call", "0" * 64, env=env).code == 2
        assert holders(PASSWORD, tmp_path) == []
        assert holders(KEY, tmp_path) == []
    finally:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.schema.DropSchema(schema, cascade=True))
        engine.dispose()
