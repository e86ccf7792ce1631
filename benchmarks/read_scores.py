"""How long a million rows of somebody's own scores take to read, check and complete, beside pandas' bare reader.

The line of every row is known afterwards, and every cell was checked; pandas' reader only splits. Run:
python benchmarks/read_scores.py
"""

from __future__ import annotations

import csv
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from radar_dagster.errors import BadInputError
from radar_dagster.inputs.scores import SCORE_COLUMNS, read_scores
from radar_dagster.rubric.model import Scale

TASKS, CRITERIA, PROBES = 20, 10, 250


def write(path: Path, last_score: str | None = None) -> int:
    """Write a complete design of a million scores; `last_score` spoils the last one. Returns the number of rows."""
    levels = np.random.default_rng(0).integers(0, 5, TASKS * CRITERIA * 2 * PROBES * CRITERIA).astype(str)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(SCORE_COLUMNS)
        row = 0
        for task in range(TASKS):
            for target in range(CRITERIA):
                for direction in "+-":
                    for probe in range(PROBES):
                        for criterion in range(CRITERIA):
                            score = last_score if last_score and row == len(levels) - 1 else levels[row]
                            writer.writerow(
                                (f"task-{task}", f"c{target}", direction, f"p{probe}", f"c{criterion}", score)
                            )
                            row += 1
    return row


def timed(read: Callable[[], object]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    read()
    return time.perf_counter() - started


def refused(path: Path) -> None:
    """Read a file whose last row is bad and check that the message names it."""
    try:
        said = f"accepted {len(read_scores(path, Scale()).scores)} rows"
    except BadInputError as error:
        said = str(error)
    if f":{TASKS * CRITERIA * 2 * PROBES * CRITERIA + 1}: column 'score'" not in said:
        raise AssertionError(said)


def main() -> None:
    """Print seconds, ratios and the peak of memory."""
    with tempfile.TemporaryDirectory() as folder:
        path, bad = Path(folder) / "scores.csv", Path(folder) / "bad.csv"
        rows = write(path)
        write(bad, last_score="five")
        parquet = Path(folder) / "scores.parquet"
        pd.read_csv(path).to_parquet(parquet)
        pandas = min(timed(lambda: pd.read_csv(path, dtype=str, keep_default_na=False)) for _ in range(3))
        ours = min(timed(lambda: read_scores(path, Scale())) for _ in range(3))
        faulty = timed(lambda: refused(bad))
        columnar = min(timed(lambda: read_scores(parquet, Scale())) for _ in range(3))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{rows:,} rows")
    print(f"  pandas.read_csv, nothing checked  {pandas:5.2f} s")
    print(f"  read_scores from CSV              {ours:5.2f} s, {ours / pandas:.1f} times that")
    print(f"  … with a bad last row, named      {faulty:5.2f} s, {faulty / pandas:.1f} times that")
    print(f"  read_scores from Parquet          {columnar:5.2f} s, {columnar / pandas:.1f} times that")
    print(f"  peak memory of all of this        {peak:5.2f} GB")


if __name__ == "__main__":
    main()
