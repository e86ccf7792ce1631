"""A workspace whose models are hosted by a stub, and processes that work on it.

Here: radar.yaml, rubric and the stub's brain; `Processes`, which runs `radar` or the two stages in children of its own;
reading the ledger and the lake without the package's help. For tests and child processes alike.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

import yaml

KEY = "sk-test-0123456789-not-a-real-key"
KEY_VARIABLE = "RADAR_TEST_KEY"
PATIENCE_S = 240.0

RUBRIC = """\
name: letters
criteria:
  - {id: accuracy, label: Accuracy, definition: Every statement in the letters is true.}
  - {id: brevity, label: Brevity, definition: The letters say it in few words.}
  - {id: courtesy, label: Courtesy, definition: The letters are polite to the reader.}
tasks:
  - {id: first, prompt: Write the first of the letters.}
  - {id: second, prompt: Write the second of the letters.}
"""
CRITERIA, TASKS = ("accuracy", "brevity", "courtesy"), ("first", "second")

#: `AuditBrain` as JSON: how it knows criteria and directions in our prompts.
BRAIN: Mapping[str, Any] = {
    "kind": "audit",
    "marks": {
        "Every statement in the letters is true.": "accuracy",
        "The letters say it in few words.": "brevity",
        "The letters are polite to the reader.": "courtesy",
    },
    "up": ["strongly satisfies the criterion"],
    "down": ["clearly fails the criterion"],
}

#: US dollars per million tokens, by endpoint: input, output.
PRICES: Mapping[str, tuple[int, int]] = {"oai": (1, 4), "ant": (2, 8)}


def write_workspace(folder: Path, openai_url: str, anthropic_url: str, **changes: Any) -> Path:
    """radar.yaml and the rubric; `changes` are top-level keys. Two models of each protocol, four pairs.

    `endpoint` among the changes is merged into both endpoints.
    """
    common = {"api_key_env": KEY_VARIABLE, "timeout_s": 20, **changes.pop("endpoint", {})}
    document: dict[str, Any] = {
        "benchmarks": ["rubrics/letters.yaml"],
        "models": {
            "oai-writer": "oai/writer-1",
            "oai-judge": "oai/judge-1",
            "ant-writer": "ant/writer-1",
            "ant-judge": "ant/judge-1",
        },
        "generators": ["oai-writer", "ant-writer"],
        "verifiers": ["oai-judge", "ant-judge"],
        "endpoints": {
            "oai": {"base_url": openai_url, **common},
            "ant": {"protocol": "anthropic", "base_url": anthropic_url, **common},
        },
        "prices": {f"{name}/*": {"input": each[0], "output": each[1]} for name, each in PRICES.items()},
        "audit": {"probes": 2},
        **changes,
    }
    (folder / "rubrics").mkdir(parents=True, exist_ok=True)
    (folder / "rubrics" / "letters.yaml").write_text(RUBRIC, encoding="utf-8")
    (folder / "radar.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return folder


def environment(**more: str) -> dict[str, str]:
    """That of a child process: with the key, and without what the machine may have of the kind."""
    foreign = ("OPENAI_", "ANTHROPIC_", "RADAR_", "DAGSTER_", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, KEY_VARIABLE: KEY, **more}


# What is on disk, read without the package.


def rows_of(ledger: Path) -> list[dict[str, Any]]:
    """Every call of a ledger in a file, in the order in which they were committed."""
    with contextlib.closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM calls ORDER BY id")]


def ledger_of(folder: Path) -> Path:
    """Where a workspace keeps its ledger."""
    return folder / ".radar" / "ledger.sqlite"


def result_tables(folder: Path) -> dict[str, bytes]:
    """Parquet files of a workspace's results by path; not that of the report, which tells paths and dates."""
    lake = folder / ".radar" / "lake"
    files = sorted(lake.rglob("*.parquet"))
    return {str(file.relative_to(lake)): file.read_bytes() for file in files if "audit_report" not in file.parts}


# Processes. Imports take seconds, so each is a fork of one that has them, and lives and dies alone.


class Child:
    """A process that works on a workspace."""

    def __init__(self, pid: int, out: Path, err: Path) -> None:
        self.pid = pid
        self.code: int | None = None
        self._out, self._err = out, err

    @property
    def out(self) -> str:
        """What it has written to stdout so far."""
        return self._out.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        """What it has written to stderr so far, unless that is a terminal."""
        return self._err.read_text(encoding="utf-8") if self._err.exists() else ""

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        read: dict[str, Any] = json.loads(self.out)
        return read

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        if self.code is None:
            self.code = _ask(do="poll", pid=self.pid)
        return self.code is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when it has ended."""
        if self.runs:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.send(signal.SIGKILL)
        self.wait()

    def wait(self, patience: float = PATIENCE_S) -> int:
        """Its exit code once it has ended, negative for a signal; AssertionError, with what it said, if it does not."""
        until = time.monotonic() + patience
        while self.runs:
            if time.monotonic() > until:
                self.send(signal.SIGKILL)
                raise AssertionError(f"still running after {patience:g} s: {self.err[-4000:]}")
            time.sleep(0.01)
        assert self.code is not None
        return self.code


class Processes:
    """Starts children, whose output is kept in a folder; a context manager that ends those that are left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            child.kill()

    def radar(self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Child:
        """`radar …` in the folder, to its end."""
        child = self.start_radar(folder, *arguments, env=env)
        child.wait()
        return child

    def start_radar(
        self, folder: Path, *arguments: str, env: Mapping[str, str] | None = None, terminal: str | None = None
    ) -> Child:
        """`radar …` in the folder; with the path of a terminal, stdin and stderr are that."""
        command = {"folder": str(folder), "arguments": list(arguments), "env": dict(env or environment())}
        return self._start(do="radar", terminal=terminal, **command)

    def start_stages(
        self, folder: Path, generator: str, verifier: str, *, env: Mapping[str, str] | None = None, **door: Any
    ) -> Child:
        """Both stages of one pair on the workspace, through a door that is opened with these arguments."""
        stages = {"generator": generator, "verifier": verifier, "door": door}
        return self._start(do="stages", folder=str(folder), env=dict(env or environment()), **stages)

    def _start(self, **command: Any) -> Child:
        out, err = (self._folder / f"{len(self._children)}.{name}" for name in ("out", "err"))
        child = Child(_ask(out=str(out), err=str(err), **command), out, err)
        self._children.append(child)
        return child


_starter: subprocess.Popen[str] | None = None


def _ask(**command: Any) -> Any:
    """Have the starter do something. All tests of a process share it; it ends when its input does."""
    global _starter  # noqa: PLW0603
    if _starter is None or _starter.poll() is not None:
        _starter = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )
    assert _starter.stdin is not None
    assert _starter.stdout is not None
    _starter.stdin.write(json.dumps(command) + "\n")
    _starter.stdin.flush()
    return json.loads(_starter.stdout.readline())


def serve() -> None:
    """The starter: forks a child for each command on stdin, and answers with its process id."""
    for line in iter(sys.stdin.readline, ""):
        command = json.loads(line)
        if command["do"] == "poll":
            answer = _poll(command["pid"])
        else:
            _prepare(command)
            answer = _fork(command)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _prepare(command: Mapping[str, Any]) -> None:
    """Import here, once, what children of this kind need."""
    modules = ["anthropic", "openai", "radar_dagster.config", "radar_dagster.lake", "radar_dagster.models.stages"]
    modules += ["radar_dagster.models.ledger.ledger", "radar_dagster.models.progress"]
    if command["do"] == "radar":
        modules += ["radar_dagster.cli.main", "radar_dagster.cli.output"]
        if command["arguments"][0] == "audit":
            modules += ["radar_dagster.cli.audit", "radar_dagster.report.page", "matplotlib.pyplot"]
            _expect_in_process()
    for module in modules:
        importlib.import_module(module)
    gc.freeze()


def _expect_in_process() -> None:
    """Great Expectations takes a process of its own seconds to import; children evaluate suites themselves instead."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    importlib.import_module("great_expectations")
    from radar_dagster.checks import worker

    worker.SHARED.start = lambda: None  # type: ignore[method-assign]
    worker.SHARED.validate = lambda suite: list(worker.evaluate(suite))  # type: ignore[method-assign]


def _poll(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _fork(command: Mapping[str, Any]) -> int:
    terminal = command.get("terminal")
    streams = [os.open(terminal or os.devnull, os.O_RDONLY | os.O_NOCTTY)]
    streams += [
        os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY, 0o600)
        for name in (command["out"], terminal or command["err"])
    ]
    pid = os.fork()
    if pid == 0:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        # Streams know what they were made for: files, pipes, terminals.
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        _end(_work_on(command))
    for stream in streams:
        os.close(stream)
    return pid


def _work_on(command: Mapping[str, Any]) -> int:
    """Do what a process of one's own would; its exit code."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(command["env"])
        os.chdir(command["folder"])
        if command["do"] == "radar":
            from radar_dagster.cli.main import main

            sys.argv = ["radar", *command["arguments"]]
            main()
        else:
            run_stages(Path(), command["generator"], command["verifier"], **command["door"])
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # as the interpreter would
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """End as the interpreter does, but leave the memory alone: taking the parent's imports apart takes seconds."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run_stages(folder: Path, generator: str, verifier: str, **door: Any) -> None:
    """Both stages of one pair, written to the workspace's lake."""
    from radar_dagster.config import load_workspace
    from radar_dagster.lake import Lake
    from radar_dagster.models.door import Door
    from radar_dagster.models.stages import judge_probes, make_probes

    workspace = load_workspace(folder / "radar.yaml")
    rubric, lake = workspace.rubric("letters"), Lake(workspace.store_url)
    with Door(workspace.door, **door) as opened:
        probes = make_probes(rubric, opened, generator, workspace.audit.probes)
        lake.write("probes", probes, benchmark="letters", generator=generator)
        scores = judge_probes(rubric, probes, opened, verifier)
        lake.write("scores", scores, benchmark="letters", pair=f"{generator}~{verifier}")


if __name__ == "__main__":
    serve()
