"""Great Expectations in a process of its own, so that its import (seconds of CPU) runs beside the audit and not in it.

`python -m radar_dagster.checks.worker` reads pickled suites from standard input and answers each with its outcomes; it
ends with its parent. Pickle is safe here: both ends are this program.

Not here: what is expected (`expectations.py`).
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from typing import IO

from radar_dagster.checks.expectations import Outcome, Suite, evaluate


class Worker:
    """The other process. Start it early; it is asked one suite at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process unless it runs; returns at once, while the process imports."""
        with self._lock:
            self._start()

    def validate(self, suite: Suite) -> list[Outcome]:
        """Evaluate a suite there; RuntimeError with what the process said when it could not."""
        with self._lock:
            process, errors = self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump(suite, process.stdin)
                process.stdin.flush()
                answer = pickle.load(process.stdout)
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                self._stop()
                errors.seek(0)
                said = errors.read().decode(errors="replace")[-2000:]
                raise RuntimeError(f"the process that runs Great Expectations ended: {said}") from None
        if isinstance(answer, BaseException):
            raise RuntimeError(str(answer)) from answer
        outcomes: list[Outcome] = answer
        return outcomes

    def stop(self) -> None:
        """End the process; a later call starts another."""
        with self._lock:
            self._stop()

    def _start(self) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        if self._process is None or self._process.poll() is not None or self._errors is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
            self._process = subprocess.Popen(
                [sys.executable, "-m", "radar_dagster.checks.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, "GX_ANALYTICS_ENABLED": "false"},
            )
        return self._process, self._errors

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


#: Shared by every run of this Python process: the command line makes several runs, and one import serves them all.
SHARED = Worker()
atexit.register(SHARED.stop)


def main() -> None:
    """Answer suites until standard input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not stand among the answers
    import great_expectations  # noqa: F401 - the import is what this process exists for

    while True:
        try:
            suite = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: object = evaluate(suite)
        except Exception as error:  # handed to the parent, which raises it
            answer = RuntimeError(f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
