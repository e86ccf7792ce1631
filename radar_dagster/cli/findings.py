"""What a coupling audit found, as a document and in the terminal; the same for `radar coupling` and `radar audit`.

Here: which tables are shown, in which order, in which words. Not here: computing them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from radar_dagster.cli import output
from radar_dagster.report.data import READING_ORDER, Pair, pairs_of, sorted_pairs
from radar_dagster.report.escape import one_line, shorten
from radar_dagster.report.words import (
    METHOD_WORDS,
    READING_WORDS,
    VERDICT_WORDS,
    budget_sentence,
    pair_phrase,
    people_words,
    remedy,
    settling_sentence,
    span,
)
from radar_dagster.stats.states import OK
from radar_dagster.tables import BASELINE_TABLES, VALIDATION_TABLES

#: The tables that every document has, in this order.
TABLES = (
    "self_effects", "leakage", "criterion_pairs", "coupling_summary", "verdict", "aggregation_sensitivity",
    "task_slices", "settling",
)  # fmt: skip

#: Those that a document has where they were made: agreement with people, and what it is compared with.
COMPARISONS = (*VALIDATION_TABLES, *BASELINE_TABLES)

#: A matrix with more criteria than this does not fit a screen; the strongest pairs do.
_MATRIX_CRITERIA = 15
_PAIRS_SHOWN = 30
_EXAMPLE_SHOWN = 200
#: Names in the matrix's header are replaced by numbers where they would make it wider than this.
_HEADER_WIDTH = 70


@dataclass(frozen=True)
class Findings:
    """The tables of one cell (`TABLES`, and those of `COMPARISONS` that exist), and every criterion's display name."""

    tables: Mapping[str, pd.DataFrame]
    states: pd.DataFrame
    names: Mapping[str, str]
    gate: float
    #: state -> why one score ended in it, as its model or parser put it.
    examples: Mapping[str, str] = field(default_factory=dict)
    #: Whether this came of an audit, which can be run again with more probes.
    audited: bool = False

    @property
    def verdict(self) -> dict[str, Any]:
        """verdict, exit_code, reasons as a list, and settings as a mapping."""
        row = output.rows(self.tables["verdict"])[0]
        return {**row, "reasons": json.loads(row["reasons"]), "settings": json.loads(row["settings"])}

    @property
    def exit_code(self) -> int:
        """The verdict's exit code."""
        return int(self.verdict["exit_code"])


def document(findings: Findings) -> dict[str, Any]:
    """One key per table, each a list of rows; `validation` is empty where nothing was compared with people."""
    tables = {name: output.rows(findings.tables[name]) for name in TABLES}
    compared = {name: output.rows(findings.tables[name]) for name in COMPARISONS if name in findings.tables}
    states = output.rows(findings.states)
    return {**tables, "verdict": [findings.verdict], "states": states, "validation": [], **compared}


def show(findings: Findings) -> None:
    """Verdict, lost scores, matrix, self-effects and pairs, in the terminal."""
    _show_verdict(findings.verdict)
    for sentence in lost_rows(findings.states, findings.examples):
        output.say(f"  - {sentence}")
    what_to_do = remedy(findings.verdict["verdict"], pairs_of(findings.tables)) if findings.audited else None
    if what_to_do:
        output.say(what_to_do)
    _show_matrix(findings)
    _show_self_effects(findings)
    _show_pairs(findings)
    _show_summary(findings)
    show_agreement(findings.tables)


def _show_verdict(verdict: Mapping[str, Any]) -> None:
    title, sentence = VERDICT_WORDS[verdict["verdict"]]
    output.say(f"{title}. {sentence}")
    for reason in verdict["reasons"]:
        output.say(f"  - {reason}")


def _show_matrix(findings: Findings) -> None:
    names = list(findings.names.values())
    output.say()
    if len(names) > _MATRIX_CRITERIA:
        output.say(f"The leakage matrix of {len(names)} criteria is too wide to show here; --out and --json hold it.")
        return
    output.say("Leakage: how far the column follows when the row is pushed by one point (– = could not be measured)")
    numbered = sum(len(name) + 2 for name in names) > _HEADER_WIDTH
    labels = [f"{index} {name}" if numbered else name for index, name in enumerate(names, start=1)]
    header = ["", *([str(index) for index in range(1, len(names) + 1)] if numbered else names)]
    leaks = {(row["source"], row["target"]): row["leakage"] for row in output.rows(findings.tables["leakage"])}
    rows = [
        [label, *(output.number(leaks.get((source, target))) for target in findings.names)]
        for label, source in zip(labels, findings.names, strict=True)
    ]
    output.print_table(header, rows, right=range(1, len(header)))


def _show_self_effects(findings: Findings) -> None:
    output.say()
    output.say(
        f"Self-effects: how far a criterion's own probes move it; below {findings.gate:.2f} nothing is read from it"
    )
    rows = [
        [
            findings.names[row["criterion"]],
            output.number(row["self_effect"]),
            span(row["ci_low"], row["ci_high"]),
            row["tasks_used"],
            "passed" if row["reliable"] else f"failed: {row['reason']}",
        ]
        for row in output.rows(findings.tables["self_effects"])
    ]
    output.print_table(["criterion", "self-effect", "interval", "tasks used", "gate"], rows, right=(1, 3))


def _show_pairs(findings: Findings) -> None:
    pairs = sorted_pairs(pairs_of(findings.tables))
    shown = pairs[:_PAIRS_SHOWN]
    output.say()
    output.say("Pairs")
    rows = [
        [
            pair_phrase(pair, findings.names),
            *_moves(pair, findings.names),
            ", ".join(_flags(pair)),
        ]
        for pair in shown
    ]
    output.print_table(["reading", "moves", "back", ""], rows, right=(2,))
    if len(pairs) > len(shown):
        rest = pairs[len(shown) :]
        counts = [(reading, sum(pair.reading == reading for pair in rest)) for reading in READING_ORDER]
        words = ", ".join(f"{count:,} {READING_WORDS[reading]}" for reading, count in counts if count)
        output.say(f"and {len(rest):,} more: {words}")
    sentences = [settling_sentence(one, pair, findings.names) for pair in shown for one in pair.settling]
    for sentence in sentences[:5]:
        output.say(f"  {sentence}")
    if len(sentences) > 5:
        output.say(f"  … and {len(sentences) - 5} more uncertain pairs; the table `settling` holds them")


def _moves(pair: Pair, names: Mapping[str, str]) -> tuple[str, str]:
    """The leakages in the order of the pair's sentence; the first names its direction."""
    (source, target, there), (_, _, back) = pair.directions
    return f"{names[source]} → {names[target]} {output.number(there)}", output.number(back)


def _flags(pair: Pair) -> Iterator[str]:
    if pair.uncertain:
        yield "uncertain"
    if pair.task_sensitive:
        yield "depends on the task"


def _show_summary(findings: Findings) -> None:
    output.say()
    rows = [
        [
            row["metric"].replace("_", " "),
            output.number(row["value"]),
            span(row["ci_low"], row["ci_high"]),
            row["detail"],
        ]
        for row in output.rows(findings.tables["coupling_summary"])
    ]
    output.print_table(["summary", "value", "interval", ""], rows, right=(1,))


def show_agreement(tables: Mapping[str, pd.DataFrame]) -> None:
    """How the pairs agree with people's, and at fewer probes; nothing where there are no people."""
    human = tables.get("human_correlations")
    if human is None or human.empty:
        return
    output.say()
    output.say(f"Agreement with people ({people_words(human)})")
    found = output.rows(tables["validation"])
    rows = [
        [
            METHOD_WORDS.get(row["method"], row["method"]),
            *(output.number(row[name]) for name in ("pearson", "spearman", "kendall", "mae")),
            output.number(row["p_permutation"], 3),
            row["pairs_used"],
        ]
        for row in found
    ]
    header = ["method", "Pearson", "Spearman", "Kendall", "mean difference", "p", "pairs"]
    output.print_table(header, rows, right=range(1, len(header)))
    for detail in dict.fromkeys(row["detail"] for row in found if row["detail"]):
        output.say(f"  {detail}")
    curve = tables.get("probe_budget")
    if curve is not None and len(curve) > 1 and curve["pearson"].notna().any():
        output.say(f"  {budget_sentence(output.rows(curve))}")


def lost_rows(states: pd.DataFrame, examples: Mapping[str, str]) -> list[str]:
    """One sentence per state other than `ok`: how many scores ended in it, and one example of why."""
    lost = states[states["state"] != OK].groupby("state", sort=False)["n"].sum()
    total = int(states["n"].sum())
    return [
        f"{int(count):,} of {total:,} scores ended as {state}"
        + (f", for example: {one_line(shorten(examples[str(state)], _EXAMPLE_SHOWN))}" if state in examples else "")
        for state, count in lost.items()
        if count
    ]


def loss_examples(scores: pd.DataFrame) -> dict[str, str]:
    """The first `detail` of every state other than `ok` that has one; columns state and detail."""
    lost = scores[(scores["state"] != OK) & scores["detail"].notna()].drop_duplicates("state")
    return dict(zip(lost["state"], lost["detail"], strict=True))
