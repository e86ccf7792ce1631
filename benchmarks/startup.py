"""How long `radar --help` takes beside a Python that does nothing, and what it imports.

Every figure comes from cold processes of this run; ratios are medians over pairs. Run: python benchmarks/startup.py
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 15
LIMIT_S = 0.5
IMPORTS_SHOWN = 10
_IMPORT = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|( +)(\S+)")

HELP = [str(Path(sys.executable).with_name("radar")), "--help"]
NOTHING = [sys.executable, "-c", "pass"]
TYPER = [sys.executable, "-c", "import typer"]


def seconds(command: list[str]) -> float:
    """Wall time of one process."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def imports() -> list[tuple[str, float, float]]:
    """(module, own milliseconds, milliseconds with what it imports) of everything that `radar --help` imports."""
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(HELP, check=True, capture_output=True, text=True, env=environment)
    found = [_IMPORT.match(line) for line in done.stderr.splitlines()]
    return [(match[4], int(match[1]) / 1000, int(match[2]) / 1000) for match in found if match]


def main() -> None:
    """Print times, their ratio, and the slowest imports."""
    seconds(HELP)  # the first one may still compile bytecode
    rows = [(seconds(NOTHING), seconds(TYPER), seconds(HELP)) for _ in range(RUNS)]
    nothing, typer, help_ = (statistics.median(column) for column in zip(*rows, strict=True))
    ratio = statistics.median(row[2] / row[0] for row in rows)
    slowest = max(row[2] for row in rows)
    print(f"{RUNS} cold processes each, medians")
    print(f"  python -c pass          {nothing * 1000:6.0f} ms")
    print(f"  python -c 'import typer' {typer * 1000:5.0f} ms")
    print(f"  radar --help            {help_ * 1000:6.0f} ms, {ratio:.1f} times a Python that does nothing")
    print(f"  slowest radar --help    {slowest * 1000:6.0f} ms; the limit is {LIMIT_S * 1000:.0f} ms")
    print()
    loaded = imports()
    print(
        f"What it imports: {len(loaded)} modules; the slowest by themselves, with import profiling, which costs time:"
    )
    for module, own, cumulative in sorted(loaded, key=lambda row: -row[1])[:IMPORTS_SHOWN]:
        print(f"  {own:6.1f} ms own, {cumulative:6.1f} ms in all  {module}")


if __name__ == "__main__":
    main()
