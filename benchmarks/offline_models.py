"""How fast are the offline models, and what do they find on the shipped benchmarks?

Usage: python benchmarks/offline_models.py            speeds of one cell, and the ratios of one run
       python benchmarks/offline_models.py --tables   the tables of docs/offline-models.md, as Markdown

The cell is HelpSteer2 with N = 3: 150 probes, each judged on 5 criteria. A text's features are kept, because it is
judged once per criterion; "uncached" forgets them before every judgement, as a reader without a cache would. The tables
are Stage 3 of offline/editor and offline/reader with N = 3 and the default settings.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import pandas as pd

from radar_dagster.models.door import Door
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.providers.offline.aspects import profile
from radar_dagster.models.providers.offline.features import features
from radar_dagster.models.providers.offline.measures import measure
from radar_dagster.models.settings import DoorSettings
from radar_dagster.models.stages import judge_probes, make_probes
from radar_dagster.rubric.loading import benchmark_path, load_rubric, shipped_benchmarks
from radar_dagster.rubric.model import Rubric
from radar_dagster.stats.audit import CouplingTables, analyse
from radar_dagster.stats.settings import CouplingSettings

PROBES = 3


def offline_door() -> Door:
    """A door to the two default models."""
    return Door(
        DoorSettings(models={"editor": ModelSpec(model="offline/editor"), "reader": ModelSpec(model="offline/reader")})
    )


def score_frame(rubric: Rubric, probes: int = PROBES) -> pd.DataFrame:
    """Stages 1 and 2 of an offline cell: the table `scores`."""
    door = offline_door()
    return judge_probes(rubric, make_probes(rubric, door, "editor", probes), door, "reader")


def audit(rubric: Rubric, probes: int = PROBES) -> CouplingTables:
    """Stage 3 of an offline cell."""
    return analyse(
        score_frame(rubric, probes),
        settings=CouplingSettings(),
        criteria=[criterion.id for criterion in rubric.criteria],
        tasks=[task.id for task in rubric.tasks],
    )


def markdown_tables(rubric: Rubric) -> str:
    """Self-effects and leakage of one benchmark, sources as rows; unreliable rows are marked as such."""
    tables = audit(rubric)
    ids = [criterion.id for criterion in rubric.criteria]
    own = tables.self_effects.set_index("criterion")
    leakage = tables.leakage.set_index(["source", "target"])["leakage"]
    lines = [
        f"| {rubric.name}: source ↓, target → | self-effect (95%) | {' | '.join(ids)} |",
        f"|---|---|{'---|' * len(ids)}",
    ]
    for source in ids:
        row = own.loc[source]
        effect = f"{row['self_effect']:.2f} ({row['ci_low']:.2f} to {row['ci_high']:.2f})"
        if not row["reliable"]:
            effect += f", unreliable: {row['reason']}"
        cells = [
            "1" if source == target else "–" if pd.isna(leakage[source, target]) else f"{leakage[source, target]:+.2f}"
            for target in ids
        ]
        lines.append(f"| {source} | {effect} | {' | '.join(cells)} |")
    return "\n".join(lines)


def aspects_table(rubrics: Sequence[Rubric]) -> str:
    """What each criterion is understood to ask for."""
    lines = ["| benchmark | criterion | measured as |", "|---|---|---|"]
    for rubric in rubrics:
        for criterion in rubric.criteria:
            asked = profile(criterion)
            parts = [
                f"{a.value} {w:.0%}{'' if asked.signs[a] > 0 else ' (reversed)'}" for a, w in asked.weights.items()
            ]
            lines.append(f"| {rubric.name} | {criterion.id} | {', '.join(parts)} |")
    return "\n".join(lines)


def all_tables() -> str:
    """The block of docs/offline-models.md that `--tables` regenerates."""
    rubrics = [load_rubric(benchmark_path(name)) for name in shipped_benchmarks()]
    return "\n\n".join([aspects_table(rubrics), *(markdown_tables(rubric) for rubric in rubrics)])


def forget() -> None:
    """Empty the caches of texts; single words stay known."""
    features.cache_clear()
    measure.cache_clear()


def speeds() -> None:
    """Time one cell and print rates and ratios."""
    rubric = load_rubric(benchmark_path("helpsteer2"))
    door = offline_door()
    start = time.perf_counter()
    made = make_probes(rubric, door, "editor", PROBES)
    first = time.perf_counter() - start
    start = time.perf_counter()
    make_probes(rubric, door, "editor", PROBES)
    generating = time.perf_counter() - start
    judged = len(judge_probes(rubric, made, door, "reader"))  # words become known
    forget()
    start = time.perf_counter()
    judge_probes(rubric, made, door, "reader")
    cached = time.perf_counter() - start
    forget()
    start = time.perf_counter()
    judge_probes(rubric, made, door, "reader", lambda _done, _total: forget())
    uncached = time.perf_counter() - start
    print(f"first {len(made)} probes, dictionary and word lists loaded on the way: {first:.2f} s")
    print(f"probes:     {len(made) / generating:8.0f} per second")
    print(f"judgements: {judged / cached:8.0f} per second, {judged} in {cached:.2f} s")
    print(f"judgements without kept features: {judged / uncached:.0f} per second")
    print(f"keeping a text's features makes judging {uncached / cached:.1f} times as fast")
    print(f"a judgement takes {cached / judged / (generating / len(made)):.2f} times as long as a probe")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", action="store_true", help="print the tables of docs/offline-models.md")
    if parser.parse_args().tables:
        print(all_tables())
    else:
        speeds()


if __name__ == "__main__":
    main()
