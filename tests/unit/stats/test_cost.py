"""The cost model against the published cost table."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from radar_dagster.stats.cost import TokenUsage, annotation_cost, audit_cost, total_cost


@pytest.mark.parametrize("column", ["helpsteer2", "hypothetical"])
def test_the_published_cost_table_follows_to_the_printed_digits(
    reference: Callable[[str], pd.DataFrame], column: str
) -> None:
    table = reference("cost_table").set_index("quantity")[column]
    criteria, tasks = int(table["criteria"]), int(table["tasks"])
    annotation = annotation_cost(int(table["corpus_items"]), criteria)
    assert round(annotation.tokens / 1e6, 1) == table["full_annotation_mtok"]
    budgets = [name for name in table.index if name.startswith("radar_n")]
    assert len(budgets) == 5
    for name in budgets:
        probes = int(name.removeprefix("radar_n").removesuffix("_mtok"))
        assert round(total_cost(audit_cost(tasks, criteria, probes)).tokens / 1e6, 2) == table[name]


def test_every_probe_is_made_once_and_judged_once_per_criterion() -> None:
    generation, verification = audit_cost(tasks=5, criteria=4, probes=3)
    assert (generation.stage, generation.calls) == ("generation", 5 * 4 * 2 * 3)
    assert (verification.stage, verification.calls) == ("verification", generation.calls * 4)
    assert (generation.input_tokens, generation.output_tokens) == (120 * 540, 120 * 200)
    assert (verification.input_tokens, verification.output_tokens) == (480 * 1300, 480 * 100)


def test_measured_tokens_replace_the_defaults() -> None:
    usage = TokenUsage(generator_input=10, generator_output=20, verifier_input=30, verifier_output=40)
    total = total_cost(audit_cost(1, 2, 1, usage))
    assert (total.input_tokens, total.output_tokens) == (4 * 10 + 8 * 30, 4 * 20 + 8 * 40)
    assert annotation_cost(3, 2, usage).tokens == 6 * 70


@pytest.mark.parametrize("sizes", [(0, 5, 3), (5, 0, 3), (5, 5, 0)])
def test_an_audit_of_nothing_is_an_error(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        audit_cost(*sizes)
