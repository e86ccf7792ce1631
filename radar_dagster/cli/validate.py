"""`radar validate`: agreement with people for pair values that somebody already has.

Not here: reading files (`inputs/`), the numbers (`stats/validation.py`), and how they are shown (`findings.py`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from radar_dagster.cli import findings as shown
from radar_dagster.cli import output
from radar_dagster.cli.errors import INCONCLUSIVE, PASSED
from radar_dagster.inputs.human import human_table, named_source
from radar_dagster.inputs.pairs import read_pair_values
from radar_dagster.inputs.ratings import Raters
from radar_dagster.stats.validation import matrix_of, validation_table

#: The method that a row is about: the file does not say how its values came about.
METHOD = "given"


def run(file: Path, *, human: str, raters: Raters, out: Path | None, as_json: bool) -> int:
    """Match the pairs, compare, show; 3 when there is too little to compare."""
    if out is not None:
        output.check_folder(out)
    source = named_source(human, raters)
    pairs = read_pair_values(file)
    criteria = list(dict.fromkeys([*pairs["criterion_a"], *pairs["criterion_b"]]))
    people, notes = human_table(source, criteria)
    values = {METHOD: matrix_of(pairs, "sym", criteria)}
    validation = validation_table(values, matrix_of(people, "pearson_r", criteria), np.random.default_rng(0))
    tables = {"validation": validation, "human_correlations": people}
    document = {
        **{name: output.rows(frame) for name, frame in tables.items()},
        "settings": {"pairs": str(file), "human": human, "raters": raters},
        "notes": list(notes),
    }
    if out is not None:
        output.write_tables(out, tables)
        output.write_summary(out, document)
    if as_json:
        output.print_json(document)
    else:
        shown.show_agreement(tables)
    for sentence in notes:
        output.note(sentence)
    if out is not None:
        output.on_stderr(f"wrote {out}")
    return PASSED if validation["pearson"].notna().all() else INCONCLUSIVE
