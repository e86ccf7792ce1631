"""What charts of a page are made of, as plain values: a scale, a value on it with its interval, a cell with a colour.

Here: what several sections share. Not here: what a section shows (`page.py`, `agreement.py`, `budget.py`, `grid.py`),
markup (`templates/parts.html`), pictures for Dagster (`plots.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from radar_dagster.report.words import figure, plus_minus, span


@dataclass(frozen=True, slots=True)
class Axis:
    """A horizontal scale of the page's own charts, from `low` to `high`."""

    low: float
    high: float

    def at(self, value: float) -> str:
        """The place of a value in percent of the width; what lies outside sits on the end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return f"{100 * share:.2f}"


#: The scale of charts whose values all lie on it.
UNIT = Axis(0.0, 1.0)


def unit_axis(values: Iterable[float | None]) -> Axis:
    """From 0 to 1, and as far beyond as the values reach that are known."""
    known = [value for value in values if value is not None]
    return Axis(min([0.0, *known]), max([1.0, *known]))


@dataclass(frozen=True, slots=True)
class Mark:
    """A value as text and as places on an axis, in percent; None where there is no value or no interval."""

    shown: str
    interval: str | None
    at: str | None
    low: str | None
    high: str | None


def placed(axis: Axis, value: float | None, low: float | None, high: float | None) -> Mark:
    """A value with its interval on an axis; what is null has no place."""
    if value is None:
        return Mark("–", None, None, None, None)
    if low is None or high is None:
        return Mark(figure(value), None, axis.at(value), None, None)
    return Mark(figure(value), span(low, high), axis.at(value), axis.at(low), axis.at(high))


def spread(axis: Axis, mean: float | None, sd: float | None, missing: str) -> Mark:
    """A mean on an axis with one standard deviation to either side; `missing` is the text where there is no mean."""
    shown = plus_minus(mean, sd, missing)
    if mean is None or sd is None:
        return Mark(shown, None, None if mean is None else axis.at(mean), None, None)
    return Mark(shown, None, axis.at(mean), axis.at(mean - sd), axis.at(mean + sd))


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A cell of the matrix: `kind` is `own`, `together`, `against` or `lost`; `strength` in percent."""

    kind: str
    shown: str
    interval: str | None
    strength: int
    title: str
