"""Pictures show the numbers of their tables, are the same for the same tables, and stay small."""

import base64
import io
import re

import numpy as np
import pandas as pd
import pytest
from made_cells import make_cell
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from radar_dagster.report.plots import (
    leakage_heatmap,
    pair_heatmap,
    picture_markdown,
    png,
    self_effect_bars,
    task_spread,
)

CELL = make_cell()


def figures(cell=CELL) -> list[Figure]:
    return [
        leakage_heatmap(cell.tables["leakage"], cell.names),
        self_effect_bars(cell.tables["self_effects"], cell.names, cell.settings.coupling.gate),
        task_spread(cell.tables["task_slices"], cell.names),
    ]


def test_the_heatmap_shows_each_leakage_as_a_number_and_hatches_what_is_unreliable() -> None:
    ax = leakage_heatmap(CELL.tables["leakage"], CELL.names).axes[0]
    shown = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in ax.texts}
    order = list(CELL.names)
    for (source, target), leak in CELL.leaks.items():
        place = (order.index(source), order.index(target))
        if leak.leakage is None:
            assert place not in shown
        else:
            assert float(shown[place].replace("−", "-")) == pytest.approx(leak.leakage, abs=0.00501)
    hatched = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_hatch()]
    assert [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in hatched] == [(-0.5, 3.5, 5, 1)]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(CELL.names.values())


def test_a_single_undefined_leakage_hatches_its_cell_only() -> None:
    leakage = make_cell().tables["leakage"]
    leakage.loc[(leakage["source"] == "c1") & (leakage["target"] == "c3"), "leakage"] = None
    hatched = [p for p in leakage_heatmap(leakage, CELL.names).axes[0].patches if p.get_hatch()]
    assert (2.5, 0.5, 1) in [(p.get_x(), p.get_y(), p.get_width()) for p in hatched]


def test_a_heatmap_of_pairs_is_symmetric_with_an_empty_diagonal_and_hatches_pairs_without_a_value() -> None:
    pairs = pd.DataFrame(
        [["a", "b", 0.25], ["a", "c", None], ["b", "c", -0.5]], columns=["criterion_a", "criterion_b", "value"]
    )
    ax = pair_heatmap(pairs, {"a": "A", "b": "B", "c": "C"}, "correlation").axes[0]
    shown = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in ax.texts}
    assert shown == {(0, 1): "0.25", (1, 0): "0.25", (1, 2): "−0.50", (2, 1): "−0.50"}
    assert {(p.get_x(), p.get_y()) for p in ax.patches if p.get_hatch()} == {(1.5, -0.5), (-0.5, 1.5)}


def test_the_bars_mark_the_gate_and_leave_unreliable_criteria_hollow() -> None:
    ax = self_effect_bars(CELL.tables["self_effects"], CELL.names, 0.4).axes[0]
    assert any(np.allclose(line.get_xdata(), 0.4) for line in ax.lines)
    points = {round(float(line.get_ydata()[0])): line for line in ax.lines if line.get_marker() == "o"}
    for place, effect in enumerate(CELL.self_effects):
        assert points[place].get_xdata()[0] == pytest.approx(effect.self_effect)
        assert (points[place].get_markerfacecolor() == "white") == (not effect.reliable)


def test_a_criterion_without_a_self_effect_is_named_as_not_measured() -> None:
    cell = make_cell()
    cell.tables["self_effects"].loc[0, ["self_effect", "ci_low", "ci_high"]] = None
    texts = [text.get_text() for text in self_effect_bars(cell.tables["self_effects"], cell.names, 0.4).axes[0].texts]
    assert "not measured" in texts


def test_the_spread_has_one_dot_per_task_and_the_widest_direction_first() -> None:
    ax = task_spread(CELL.tables["task_slices"], CELL.names, most=4).axes[0]
    ranges = []
    for line in [line for line in ax.lines if line.get_marker() == "o"]:
        assert len(line.get_xdata()) == 3
        ranges.append(np.ptp(line.get_xdata()))
    assert len(ranges) == 4
    assert ranges == sorted(ranges, reverse=True)


@pytest.mark.parametrize("index", range(3))
def test_equal_tables_give_equal_bytes(index: int) -> None:
    assert png(figures()[index]) == png(figures(make_cell())[index])


def test_a_picture_names_no_program_and_no_time() -> None:
    assert Image.open(io.BytesIO(png(figures()[0]))).info == {}


def test_labels_with_formula_signs_line_breaks_and_foreign_letters_draw(recwarn: pytest.WarningsRecorder) -> None:
    labels = [r"$\frac{", "a_{b}^", "\u6e05\u6670\u5ea6", "x" * 150, "%s {0}"]
    cell = make_cell(labels=labels)
    assert all(png(figure) for figure in figures(cell))
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


@pytest.mark.slow
def test_pictures_of_sixty_criteria_fit_the_limit() -> None:
    n = 60
    leakage = np.clip(np.random.default_rng(0).normal(0.1, 0.3, (n, n)), -1, 1)
    np.fill_diagonal(leakage, 1.0)
    cell = make_cell(
        leakage, np.full(n, 0.7), [f"A criterion of a long rubric, {i}" for i in range(n)], tasks=2, probes=2
    )
    for figure in figures(cell):
        picture = picture_markdown(figure, "alt")
        assert len(picture) <= 60_100
        assert len(base64.b64decode(picture.rpartition(",")[2].removesuffix(")"))) <= 45_000


def test_a_limit_that_no_resolution_meets_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match="does not fit into 500 bytes"):
        png(figures()[0], max_bytes=500)


def test_picture_markdown_holds_the_png_and_an_escaped_description() -> None:
    picture = picture_markdown(figures()[1], "self-effects](http://e.example) <b>")
    found = re.fullmatch(r"!\[(.*)\]\(data:image/png;base64,([A-Za-z0-9+/=]+)\)", picture)
    assert found
    assert "](" not in found[1]
    assert "<" not in found[1]
    assert Image.open(io.BytesIO(base64.b64decode(found[2]))).format == "PNG"
