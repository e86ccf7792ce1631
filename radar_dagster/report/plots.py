"""Pictures for Dagster's metadata: leakage, self-effects against the gate, agreement with people, the probe budget.

Here: matplotlib figures from the tables, and figures as small PNGs. Not here: the report page, which draws its own
charts in HTML so that its numbers can be read, selected and printed.

Figures are built without pyplot: several runs of one process may draw at once. Equal tables give equal bytes. The font
has no glyphs for some scripts; such letters of a label show as boxes, and the page is the place to read them.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from radar_dagster.report.data import ComparedPair, records
from radar_dagster.report.escape import markdown, one_line, shorten
from radar_dagster.report.words import METHOD_WORDS
from radar_dagster.report.words import figure as figure_text
from radar_dagster.stats.passive import RRD, SYNTHETIC_CORRELATION
from radar_dagster.stats.validation import matrix_of

#: Blue where scores move together, orange where they pull against each other: told apart with any colour vision.
_TOGETHER, _AGAINST, _INK, _MUTED, _HATCH = "#2f74bd", "#b5610f", "#1d1f22", "#6c7077", "#b9b4a8"
#: Ends light enough for dark numbers.
_DIVERGING = LinearSegmentedColormap.from_list("radar", ["#eda25f", "#f6f4ef", "#6aa8e4"])
_FONT = "DejaVu Sans"
#: Above this many criteria a cell is too small for a number.
_NUMBERED_CRITERIA = 16
_LABEL_LENGTH = 24
_BEST_DPI, _WORST_DPI = 150.0, 20.0


def leakage_heatmap(leakage: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """The leakage matrix; sources are rows, unreliable rows are hatched and hold no number.

    `leakage` has the columns of `tables.LEAKAGE`; `names` maps criterion ids to labels in display order. Colours
    end at ±1; larger values keep the colour of the end, and the numbers say what they are.
    """
    values = _matrix(leakage, list(names))
    fig, ax = _heatmap(values, np.isnan(values), names)
    ax.set_xlabel("score that moves", color=_MUTED, fontfamily=_FONT)
    ax.set_ylabel("criterion that is pushed", color=_MUTED, fontfamily=_FONT)
    return fig


def pair_heatmap(pairs: pd.DataFrame, names: Mapping[str, str], title: str) -> Figure:
    """One value for each pair of criteria, in −1..1; pairs without one are hatched, the diagonal is empty.

    `pairs` has the columns criterion_a, criterion_b and value, each pair once; `names` as in `leakage_heatmap`.
    """
    values = matrix_of(pairs, "value", list(names))
    fig, ax = _heatmap(values, np.isnan(values) & ~np.eye(len(values), dtype=bool), names)
    ax.set_xlabel(title, color=_MUTED, fontfamily=_FONT)
    return fig


def _heatmap(values: np.ndarray, missing: np.ndarray, names: Mapping[str, str]) -> tuple[Figure, Axes]:
    n = len(names)
    side = max(3.2, min(0.62 * n, 9.0))
    fig = Figure(figsize=(side + 2.4, side + 1.7), layout="constrained")
    ax = fig.add_subplot()
    coloured = np.where(np.eye(n, dtype=bool), np.nan, values)  # the diagonal is 1 by definition: no finding, no colour
    image = ax.imshow(np.ma.masked_invalid(coloured), cmap=_DIVERGING, norm=Normalize(-1, 1))
    size = max(4.0, min(10.0, 16 * side / n))  # points, for cells of side / n inches
    _criterion_axis(ax, names, size)
    _hatch(ax, missing)
    if n <= _NUMBERED_CRITERIA:
        _numbers(ax, values, size)
    else:
        fig.colorbar(image, ax=ax, shrink=0.5, pad=0.02)
    return fig, ax


def _hatch(ax: Axes, missing: np.ndarray) -> None:
    """Hatch whole rows as one patch, and single cells of the other rows."""
    whole = np.asarray(missing.all(axis=1))
    places = [(i, 0, missing.shape[1]) for i in np.flatnonzero(whole)]
    places += [(i, j, 1) for i, j in np.argwhere(missing & ~whole[:, None])]
    for i, j, width in places:
        ax.add_patch(Rectangle((j - 0.5, i - 0.5), width, 1, fill=False, hatch="////", edgecolor=_HATCH, linewidth=0))


def _matrix(leakage: pd.DataFrame, ids: list[str]) -> np.ndarray:
    """n × n, sources as rows, NaN where the table holds null."""
    wide = leakage.pivot(index="source", columns="target", values="leakage").reindex(index=ids, columns=ids)
    return wide.to_numpy(dtype=float, na_value=np.nan)


def _criterion_axis(ax: Axes, names: Mapping[str, str], size: float) -> None:
    labels, places = [_label(name) for name in names.values()], range(len(names))
    slant: dict[str, Any] = {"rotation": 40, "va": "bottom"} if len(labels) <= 12 else {"rotation": 90, "va": "center"}
    ax.set_xticks(places, labels, rotation_mode="anchor", ha="left", **slant, **_text(size))
    ax.set_yticks(places, labels, **_text(size))
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0)
    ax.set_xticks(np.arange(len(labels) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(labels) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1.5 if len(labels) <= _NUMBERED_CRITERIA else 0.4)
    ax.tick_params(which="minor", length=0)
    ax.spines[:].set_visible(False)


def _numbers(ax: Axes, values: np.ndarray, size: float) -> None:
    for i, j in np.argwhere(~np.isnan(values)):
        shown = "1" if i == j else figure_text(float(values[i, j]))
        ax.text(j, i, shown, ha="center", va="center", **_text(size) | {"color": _MUTED if i == j else _INK})


def self_effect_bars(self_effects: pd.DataFrame, names: Mapping[str, str], gate: float) -> Figure:
    """Self-effects with their intervals against the gate τ; criteria that did not pass are hollow.

    `self_effects` has the columns of `tables.SELF_EFFECTS`; `names` maps criterion ids to labels; `gate` is in (0, 1).
    """
    rows = list(records(self_effects))
    fig = Figure(figsize=(6.4, max(1.8, min(0.34 * len(rows) + 1.0, 14))), layout="constrained")
    ax = fig.add_subplot()
    size = max(3.5, min(9.0, 340 / len(rows)))
    for place, row in enumerate(rows):
        _point(ax, place, row["self_effect"], (row["ci_low"], row["ci_high"]), row["reliable"])
    ax.axvline(gate, color=_AGAINST, linewidth=1.2, linestyle=(0, (4, 3)))
    ax.text(
        gate,
        -0.75,
        f"gate τ = {gate:.2f}",
        ha="center",
        va="bottom",
        **_text(8) | {"color": _AGAINST, "weight": "bold"},
    )
    _place_axis(ax, [_label(names[row["criterion"]]) for row in rows], size)
    lowest = min((v for row in rows for v in (row["self_effect"], row["ci_low"]) if v is not None), default=0.0)
    ax.set_xlim(min(0.0, lowest) - 0.03, 1.06)
    ax.set_xlabel("self-effect: how far its own probes moved a criterion", color=_MUTED, fontfamily=_FONT, fontsize=8)
    return fig


def _point(
    ax: Axes, place: int, value: float | None, interval: tuple[float | None, float | None], filled: bool
) -> None:
    if value is None:
        ax.text(0.01, place, "not measured", ha="left", va="center", **_text(8) | {"color": _MUTED, "style": "italic"})
        return
    low, high = interval
    ax.hlines(place, 0, value, color=_TOGETHER if filled else _MUTED, alpha=0.3, linewidth=5)
    if low is not None and high is not None:
        ax.hlines(place, low, high, color=_INK, linewidth=1.1)
    ax.plot(value, place, "o", color=_TOGETHER if filled else "white", markeredgecolor=_INK, markersize=5.5)


def task_spread(task_slices: pd.DataFrame, names: Mapping[str, str], most: int = 12) -> Figure:
    """Leakage per task as dots, one line per (source, target), the widest range first; at most `most` lines.

    `task_slices` has the columns of `tables.TASK_SLICES`. Slices that failed the gate have no leakage and no dot; lines
    with fewer than two dots are left out.
    """
    spread: dict[tuple[str, str], list[float]] = {}
    for row in records(task_slices):
        if row["source"] != row["target"] and row["leakage"] is not None:
            spread.setdefault((row["source"], row["target"]), []).append(row["leakage"])
    lines = sorted((line for line in spread.items() if len(line[1]) > 1), key=lambda line: min(line[1]) - max(line[1]))
    lines = lines[:most]
    fig = Figure(figsize=(6.8, max(1.8, 0.32 * len(lines) + 1.0)), layout="constrained")
    ax = fig.add_subplot()
    for place, (_, values) in enumerate(lines):
        ax.hlines(place, min(values), max(values), color=_MUTED, alpha=0.35, linewidth=4)
        ax.plot(values, [place] * len(values), "o", color=_TOGETHER, markeredgecolor="white", markersize=6)
        ax.plot(float(np.mean(values)), place, "|", color=_INK, markersize=12, markeredgewidth=1.6)
    ax.axvline(0, color=_MUTED, linewidth=0.8)
    _place_axis(ax, [f"{_label(names[source])} → {_label(names[target])}" for (source, target), _ in lines], 8)
    ax.set_xlabel(
        "leakage per task (dots) and their mean (stroke)" if lines else "no pair was measured on two tasks",
        color=_MUTED, fontfamily=_FONT, fontsize=8,
    )  # fmt: skip
    return fig


def agreement_scatter(pairs: Sequence[ComparedPair], names: Mapping[str, str]) -> Figure:
    """SymCoupling of every pair against people's r, with the identity line; passive baselines as faint marks.

    On the line both say the same; intervals are drawn where they are known. Pairs without one of the two are left out.
    """
    fig = Figure(figsize=(5.4, 5.0), layout="constrained")
    ax = fig.add_subplot()
    ax.plot([-1.2, 1.4], [-1.2, 1.4], color=_MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    shown = [pair for pair in pairs if pair.sym is not None and pair.people is not None]
    for method, marker in _BASELINE_MARKS.items():
        points = [(pair.people, pair.baselines.get(method)) for pair in shown]
        known = [(x, y) for x, y in points if y is not None]
        if known:
            label = METHOD_WORDS[method]
            ax.plot(*zip(*known, strict=True), marker, color=_AGAINST, alpha=0.6, markersize=5, label=label)
    for pair in shown:
        _crossed_point(ax, pair)
    ax.plot([], [], "o", color=_TOGETHER, label="SymCoupling")
    if len(shown) <= _NUMBERED_CRITERIA:
        for pair in shown:
            label = f"{_label(names[pair.a])} · {_label(names[pair.b])}"
            ax.annotate(label, (pair.people or 0.0, pair.sym or 0.0), (4, 4), textcoords="offset points", **_text(6))
    values = [
        value for pair in shown for value in (pair.sym, pair.people, *pair.baselines.values()) if value is not None
    ]
    low, high = min([0.0, *values]) - 0.08, max([1.0, *values]) + 0.08
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.set_aspect("equal")
    ax.tick_params(labelsize=8, colors=_MUTED)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel("people: correlation of their ratings", color=_MUTED, fontfamily=_FONT, fontsize=8)
    ax.set_ylabel("method: value of the pair", color=_MUTED, fontfamily=_FONT, fontsize=8)
    ax.legend(loc="upper left", frameon=False, prop={"family": _FONT, "size": 7})
    return fig


_BASELINE_MARKS = {SYNTHETIC_CORRELATION: "x", RRD: "+"}


def _crossed_point(ax: Axes, pair: ComparedPair) -> None:
    x, y = pair.people or 0.0, pair.sym or 0.0
    if pair.people_low is not None and pair.people_high is not None:
        ax.hlines(y, pair.people_low, pair.people_high, color=_TOGETHER, alpha=0.35, linewidth=1)
    if pair.sym_low is not None and pair.sym_high is not None:
        ax.vlines(x, pair.sym_low, pair.sym_high, color=_TOGETHER, alpha=0.35, linewidth=1)
    ax.plot(x, y, "o", color=_TOGETHER, markeredgecolor="white", markersize=6)


def budget_curve(table: pd.DataFrame) -> Figure:
    """Pearson and MAE at N' probes with a band of ±1 sd over subsets; `table` has the columns of PROBE_BUDGET."""
    rows = list(records(table))
    people = rows[0]["reference"] == "human"
    fig = Figure(figsize=(6.4, 2.8), layout="constrained")
    panels = {"pearson": "Pearson", "mae": "mean absolute difference"}
    for place, (name, title) in enumerate(panels.items(), start=1):
        ax = fig.add_subplot(1, 2, place)
        known = [(row["probes"], row[name], row[f"{name}_sd"] or 0.0) for row in rows if row[name] is not None]
        if known:
            x, y, sd = (np.array(column, dtype=float) for column in zip(*known, strict=True))
            ax.fill_between(x, y - sd, y + sd, color=_TOGETHER, alpha=0.2, linewidth=0)
            ax.plot(x, y, "o-", color=_TOGETHER, markersize=4, linewidth=1.2)
        ax.set_xticks([row["probes"] for row in rows])
        ax.tick_params(labelsize=8, colors=_MUTED)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#e4e2dc", linewidth=0.7)
        ax.set_axisbelow(True)
        ax.set_title(
            f"{title} with {'people' if people else 'the whole cell'}", fontsize=8, fontfamily=_FONT, color=_INK
        )
        ax.set_xlabel("probes per task, criterion and direction", color=_MUTED, fontfamily=_FONT, fontsize=8)
    return fig


def agreement_heatmap(cells: pd.DataFrame, value: str) -> Figure:
    """Generators as rows, verifiers as columns; `cells` has the columns of GRID_AGREEMENT. Null cells are hatched."""
    generators, verifiers = (list(dict.fromkeys(cells[name])) for name in ("generator", "verifier"))
    wide = cells.pivot(index="generator", columns="verifier", values=value).reindex(index=generators, columns=verifiers)
    values = wide.to_numpy(dtype=float, na_value=np.nan)
    fig = Figure(
        figsize=(max(3.2, 0.8 * len(verifiers)) + 2.2, max(1.6, 0.5 * len(generators)) + 1.6), layout="constrained"
    )
    ax = fig.add_subplot()
    ax.imshow(np.ma.masked_invalid(values), cmap=_DIVERGING, norm=Normalize(-1, 1), aspect="auto")
    _hatch(ax, np.isnan(values))
    for i, j in np.argwhere(~np.isnan(values)):
        ax.text(j, i, figure_text(float(values[i, j])), ha="center", va="center", **_text(9))
    ax.set_xticks(range(len(verifiers)), [_label(name) for name in verifiers], rotation=30, ha="right", **_text(8))
    ax.set_yticks(range(len(generators)), [_label(name) for name in generators], **_text(8))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("verifier", color=_MUTED, fontfamily=_FONT)
    ax.set_ylabel("generator", color=_MUTED, fontfamily=_FONT)
    return fig


def _place_axis(ax: Axes, labels: list[str], size: float) -> None:
    ax.set_yticks(range(len(labels)), labels, **_text(size))
    ax.set_ylim(len(labels) - 0.4, -0.8)
    ax.tick_params(length=0, labelsize=size)
    ax.tick_params(axis="x", labelsize=8, colors=_MUTED)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(_MUTED)
    ax.grid(axis="x", color="#e4e2dc", linewidth=0.7)
    ax.set_axisbelow(True)


def _label(name: str) -> str:
    return shorten(one_line(name), _LABEL_LENGTH)


def _text(size: float) -> dict[str, Any]:
    # A label such as "$x" is no formula: without parse_math=False it would fail to draw.
    return {"fontsize": size, "color": _INK, "fontfamily": _FONT, "parse_math": False}


def png(figure: Figure, max_bytes: int = 100_000) -> bytes:
    """The figure as a PNG of at most `max_bytes`, at the best resolution that fits; ValueError if none does."""
    dpi = _BEST_DPI
    while dpi >= _WORST_DPI:
        picture = _indexed_png(figure, dpi)
        if len(picture) <= max_bytes:
            return picture
        # Sizes grow about in proportion; a step down is at least a tenth, so that the search ends.
        dpi *= min(0.9, 0.97 * max_bytes / len(picture))
    raise ValueError(f"the figure does not fit into {max_bytes:,} bytes; its last attempt took {len(picture):,}")


def _indexed_png(figure: Figure, dpi: float) -> bytes:
    """PNG of at most 256 colours: a third of the size, and no visible loss for flat charts."""
    raw, small = io.BytesIO(), io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        # Read back at once: compressing it well would take as long as drawing it.
        figure.savefig(raw, format="png", dpi=dpi, facecolor="white", pil_kwargs={"compress_level": 1})
    figure.set_layout_engine("none")  # laid out by now; doing it again for the next resolution would take seconds
    image = Image.open(raw).convert("RGB")
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(small, format="PNG", optimize=True)
    return small.getvalue()


def picture_markdown(figure: Figure, alt: str, max_bytes: int = 60_000) -> str:
    """The figure as Markdown with the PNG inside, for Dagster's metadata; `alt` is plain text and gets escaped."""
    encoded = base64.b64encode(png(figure, max_bytes * 3 // 4)).decode("ascii")
    return f"![{markdown(alt)}](data:image/png;base64,{encoded})"
