"""Pictures show the numbers of their tables, are the same for the same tables, and stay small."""

import base64
import io
import itertools
import re

import numpy as np
import pandas as pd
import pytest
from made_cells import PEOPLE, agreement_frame, compared, human_frame, make_cell
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from radar_dagster.report.data import ComparedPair
from radar_dagster.report.plots import (
    agreement_heatmap,
    agreement_scatter,
    budget_curve,
    leakage_heatmap,
    pair_heatmap,
    picture_markdown,
    png,
    self_effect_bars,
    task_spread,
)

CELL = make_cell()
FULL = compared(make_cell(), human=human_frame(PEOPLE, source="ratings.csv", width=0.1))
#: Two generators and two verifiers; one cell is a self-pair, one was not audited.
GRID = agreement_frame(
    ("writer", "judge", 0.86, None), ("writer", "writer", None, "self_pair: …"), ("second", "judge", -0.3, None),
    ("second", "writer", None, "not_audited"),
)  # fmt: skip


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


def points(ax: Axes, marker: str) -> list[tuple[float, float]]:
    """Every point drawn with this marker, without those that only stand in the legend."""
    lines = [line for line in ax.lines if line.get_marker() == marker]
    return [(float(x), float(y)) for line in lines for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def segments(ax: Axes) -> list[np.ndarray]:
    return [segment for collection in ax.collections for segment in collection.get_segments()]


def test_the_scatter_has_each_pair_at_its_two_numbers_with_both_intervals_and_the_line_of_identity() -> None:
    ax = agreement_scatter(FULL.compared, FULL.names).axes[0]
    both = [pair for pair in FULL.compared if pair.sym is not None and pair.people is not None]
    assert len(both) == len(PEOPLE)
    assert points(ax, "o") == [(pair.people, pair.sym) for pair in both]
    drawn = [tuple(map(tuple, segment)) for segment in segments(ax)]
    for pair in both:
        assert ((pair.people_low, pair.sym), (pair.people_high, pair.sym)) in drawn
        assert ((pair.people, pair.sym_low), (pair.people, pair.sym_high)) in drawn
    assert len(drawn) == 2 * len(both)
    assert np.array_equal(ax.lines[0].get_xdata(), ax.lines[0].get_ydata())
    assert {text.get_text() for text in ax.texts} == {f"{FULL.names[p.a]} · {FULL.names[p.b]}" for p in both}


def test_the_scatter_marks_baselines_only_where_they_were_made() -> None:
    ax = agreement_scatter(FULL.compared, FULL.names).axes[0]
    for method, marker in (("synthetic_correlation", "x"), ("rrd", "+")):
        assert points(ax, marker) == [(pair.people, pair.baselines[method]) for pair in FULL.compared]
    bare = agreement_scatter(compared(make_cell(), baselines=False).compared, FULL.names).axes[0]
    assert points(bare, "x") == points(bare, "+") == []
    upright = [segment[0][0] == segment[1][0] for segment in segments(bare)]
    assert upright == [True] * len(PEOPLE), "published values have no interval, so only the judge's are drawn"
    assert [text.get_text() for text in bare.get_legend().get_texts()] == ["SymCoupling"]


def test_the_scatter_leaves_out_pairs_without_one_of_the_two_and_draws_without_any() -> None:
    def pair(sym: float | None, people: float | None) -> ComparedPair:
        return ComparedPair("c0", "c1", sym, None, None, people, None, None, {"rrd": None})

    ax = agreement_scatter([pair(0.5, 0.4), pair(None, 0.4), pair(0.5, None)], CELL.names).axes[0]
    assert points(ax, "o") == [(0.4, 0.5)]
    assert points(ax, "+") == []
    empty = agreement_scatter([pair(None, None)], CELL.names)
    assert points(empty.axes[0], "o") == []
    assert png(empty)


def test_the_scatter_keeps_every_point_inside_its_axes() -> None:
    far = [ComparedPair("c0", "c1", -0.6, None, None, 0.9, None, None, {"rrd": 1.7})]
    ax = agreement_scatter(far, CELL.names).axes[0]
    (low, high), vertical = ax.get_xlim(), ax.get_ylim()
    assert (low, high) == vertical
    assert low < -0.6
    assert high > 1.7


def test_the_budget_curve_runs_through_the_means_with_a_band_of_one_deviation() -> None:
    table = FULL.tables["probe_budget"]
    axes = budget_curve(table).axes
    for ax, name in zip(axes, ("pearson", "mae"), strict=True):
        (line,) = ax.lines
        assert list(line.get_xdata()) == table["probes"].tolist() == [1, 2, 3, 4]
        assert np.allclose(line.get_ydata(), table[name])
        (band,) = ax.collections
        edges = band.get_paths()[0].vertices
        for probes, mean, sd in zip(table["probes"], table[name], table[f"{name}_sd"].fillna(0), strict=True):
            there = edges[np.isclose(edges[:, 0], probes), 1]
            assert there.min() == pytest.approx(mean - sd)
            assert there.max() == pytest.approx(mean + sd)
        assert ax.get_title().endswith("with people")
    full = budget_curve(compared(make_cell(), {}).tables["probe_budget"]).axes
    assert full[0].get_title() == "Pearson with the whole cell"


def test_the_budget_curve_leaves_out_what_is_undefined_and_draws_without_any_number() -> None:
    table = FULL.tables["probe_budget"].copy()
    table.loc[0, ["pearson", "pearson_sd"]] = None
    pearson, mae = budget_curve(table).axes
    assert list(pearson.lines[0].get_xdata()) == [2, 3, 4]
    assert list(mae.lines[0].get_xdata()) == [1, 2, 3, 4]
    assert list(pearson.get_xticks()) == [1, 2, 3, 4]
    nothing = budget_curve(table.assign(pearson=None, mae=None))
    assert [len(ax.lines) for ax in nothing.axes] == [0, 0]
    assert png(nothing)


def test_the_heatmap_of_cells_holds_a_number_or_hatches() -> None:
    ax = agreement_heatmap(GRID, "pearson").axes[0]
    shown = {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in ax.texts}
    assert shown == {(0, 0): "0.86", (1, 0): "−0.30"}
    assert {(p.get_x(), p.get_y(), p.get_width()) for p in ax.patches if p.get_hatch()} == {
        (0.5, -0.5, 1), (0.5, 0.5, 1),
    }  # fmt: skip
    assert [label.get_text() for label in ax.get_yticklabels()] == ["writer", "second"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["judge", "writer"]
    assert agreement_heatmap(GRID, "mae").axes[0].texts[0].get_text() == "0.14"
    nothing = agreement_heatmap(agreement_frame(("writer", "judge", None, "not_audited")), "pearson")
    assert len(nothing.axes[0].texts) == 0
    assert png(nothing)


def comparisons(names: dict[str, str] | None = None) -> list[Figure]:
    cells = GRID if names is None else GRID.assign(verifier=GRID["verifier"].replace("judge", names["c0"]))
    return [
        agreement_scatter(FULL.compared, names or FULL.names),
        budget_curve(FULL.tables["probe_budget"]),
        agreement_heatmap(cells, "pearson"),
    ]


def test_comparisons_with_hostile_names_draw_and_fit_the_limit(recwarn: pytest.WarningsRecorder) -> None:
    hostile = [r"$\frac{", "a_{b}^", "\u6e05\u6670\u5ea6", "x" * 150, "\x1b[31m%s {0}\n"]
    for figure in comparisons(dict(zip(CELL.names, hostile, strict=True))):
        assert len(picture_markdown(figure, "alt")) <= 60_100
        shown = [text.get_text() for ax in figure.axes for text in (*ax.texts, *ax.get_xticklabels())]
        assert not any("\x1b" in text or "\n" in text or len(text) > 2 * 24 + 3 for text in shown)
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


def test_equal_comparisons_give_equal_bytes() -> None:
    assert [png(figure) for figure in comparisons()] == [png(figure) for figure in comparisons()]


@pytest.mark.slow
def test_comparisons_of_sixty_criteria_and_of_many_models_fit_the_limit() -> None:
    rng = np.random.default_rng(0)
    names = {f"c{i}": f"A criterion of a long rubric, {i}" for i in range(60)}
    pairs = [
        ComparedPair(a, b, x, x - 0.1, x + 0.1, y, y - 0.1, y + 0.1, {"synthetic_correlation": y, "rrd": x / 2})
        for (a, b), x, y in zip(itertools.combinations(names, 2), *rng.uniform(-0.3, 1, (2, 1770)), strict=True)
    ]
    scatter = agreement_scatter(pairs, names)
    assert len(points(scatter.axes[0], "o")) == 1770
    assert len(scatter.axes[0].texts) == 0, "so many labels could not be read"
    cells = [(f"generator-{i}", f"verifier-{j}", rng.uniform(-1, 1), None) for i in range(12) for j in range(12)]
    for figure in (scatter, agreement_heatmap(agreement_frame(*cells), "pearson")):
        assert len(picture_markdown(figure, "alt")) <= 60_100


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
