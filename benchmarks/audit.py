"""Where the seconds of a first `radar audit helpsteer2` go, measured in one cold process on an empty workspace.

    python benchmarks/audit.py

Prints each part in seconds and as a share of the time until the verdict is there. Great Expectations is imported in a
process of its own, from the first run that needs it on; what is left to wait for comes after the verdict.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

_PARTS: list[tuple[str, float]] = []


def _mark(name: str, since: float) -> float:
    now = time.perf_counter()
    _PARTS.append((name, now - since))
    return now


def measure(folder: Path) -> None:
    """Run the audit step by step in this process and print the table."""
    clock = start = time.perf_counter()
    from radar_dagster.config import Workspace

    clock = _mark("import: configuration and rubrics", clock)
    import dagster  # noqa: F401 - what follows needs it; imported first to be timed alone

    clock = _mark("import: Dagster", clock)
    from radar_dagster import jobs, runs
    from radar_dagster.partitions import BENCHMARK, GENERATOR, PAIR, Pair, multi_key

    clock = _mark("import: the rest", clock)
    workspace = Workspace(root=folder)
    instance = runs.open_instance(workspace)
    runner = runs.Runner(workspace, instance)
    clock = _mark("open the instance, build the definitions", clock)
    pair = Pair("editor", "reader")
    runner.start_checks()
    runner.run_job(jobs.LOAD_RUBRICS, "helpsteer2")
    clock = _mark("run: rubric", clock)
    runner.run_job(jobs.AUDIT_PROBES, multi_key(**{BENCHMARK: "helpsteer2", GENERATOR: pair.generator}))
    clock = _mark("run: 150 probes", clock)
    runner.run_job(jobs.AUDIT_PAIR, multi_key(**{BENCHMARK: "helpsteer2", PAIR: pair.key}))
    clock = _mark("run: 750 scores, statistics, report", clock)
    verdict = clock - start
    runner.check_data([runs.Cell("helpsteer2", pair, ())])
    after = _mark("after the verdict: expectations on the data", clock) - start
    for name, seconds in _PARTS:
        print(f"{name:<48} {seconds:6.2f} s  {seconds / verdict:5.0%}")
    print(f"{'until the verdict':<48} {verdict:6.2f} s")
    print(f"{'until the end':<48} {after:6.2f} s  {after / verdict:4.2f} times as long")


def alone() -> float:
    """Seconds that the import of Great Expectations takes by itself."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-W", "ignore", "-c", "import great_expectations"], check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder))
    print(f"{'for comparison, importing Great Expectations':<48} {alone():6.2f} s")
