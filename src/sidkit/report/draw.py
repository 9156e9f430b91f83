"""A panel laid out as a few marks, in a box of WIDTH by HEIGHT; `svg` and `plots` turn marks into files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Literal, NamedTuple, TypeAlias

from .chart import GUIDE, Panel, Series

__all__ = ["HEIGHT", "WIDTH", "Dots", "Label", "Mark", "Path", "Rect", "lay_out"]

WIDTH, HEIGHT = 360.0, 264.0
LETTER = 6.1  # how wide a letter of a legend is, about

Point: TypeAlias = tuple[float, float]
Scale: TypeAlias = Callable[[float], float]


@dataclass(frozen=True)
class Path:
    points: Sequence[Point]
    style: Literal["line", "guide", "grid", "axis", "whisker"]
    tone: int = 0


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    tone: int
    tip: str = ""


@dataclass(frozen=True)
class Dots:
    points: Sequence[Point]
    tone: int


@dataclass(frozen=True)
class Label:
    x: float
    y: float
    text: str
    style: Literal["title", "name", "tick", "value", "legend"]
    anchor: Literal["start", "middle", "end"] = "middle"
    turned: bool = False


Mark: TypeAlias = Path | Rect | Dots | Label


class _Box(NamedTuple):
    """Where the data go, between the words around them."""

    left: float
    right: float
    top: float
    bottom: float


def lay_out(panel: Panel) -> list[Mark]:
    """The marks of a panel: grid and ticks, then data, then words."""
    x_range = panel.x_range or _range(panel, [x for one in panel.series for x in one.x])
    y_range = panel.y_range or _range(panel, _heights(panel), from_zero=panel.axes)
    legend, top = _legend(panel)
    box = _Box(54.0, WIDTH - 10, top, HEIGHT - 40) if panel.axes else _Box(4.0, WIDTH - 4, top, HEIGHT - 4)
    across = _scale(x_range, box.left, box.right, panel.log)
    up = _scale(y_range, box.bottom, box.top, panel.log)
    marks = _frame(panel, box, across, up, x_range, y_range)
    bars = [one for one in panel.series if one.kind == "bars"]
    for one in panel.series:
        if one.kind == "bars":
            marks += _bars(panel, one, bars.index(one), len(bars), across, up)
        else:
            points = [(across(x), up(y)) for x, y in zip(one.x, one.y, strict=True)]
            style: Literal["guide", "line"] = "guide" if one.tone == GUIDE else "line"
            marks.append(Dots(points, one.tone) if one.kind == "dots" else Path(points, style, one.tone))
    return marks + legend


def shown(value: float, percent: bool = False) -> str:
    """A number as short as it can be told."""
    if percent:
        value = value if abs(value) >= 1e-6 else 0.0
        return f"{100 * value:.0f}%" if value == 0 or value >= 0.1 else f"{100 * value:.2g}%"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _heights(panel: Panel) -> list[float]:
    ends = [_ends(y, s) for one in panel.series if one.spread for y, s in zip(one.y, one.spread, strict=True)]
    return [y for one in panel.series for y in one.y] + [top for _, top in ends]


def _ends(y: float, spread: float | tuple[float, float]) -> tuple[float, float]:
    """Where a whisker begins and ends."""
    below, above = spread if isinstance(spread, tuple) else (spread, spread)
    return max(y - below, 0.0), y + above


def _range(panel: Panel, values: Sequence[float], from_zero: bool = False) -> tuple[float, float]:
    if panel.names and not from_zero:
        return -0.5, len(panel.names) - 0.5
    values = [value for value in values if value > 0] if panel.log else values
    low, high = min(values, default=0.0), max(values, default=1.0)
    if panel.log:
        return 10.0 ** floor(log10(low)) if values else 1.0, 10.0 ** max(1, ceil(log10(high))) if values else 10.0
    if from_zero:
        return 0.0, high * (1.12 if panel.names else 1.0) or 1.0
    room = (high - low) * 0.03 or 1.0
    return low - room, high + room


def _scale(span: tuple[float, float], start: float, end: float, log: bool) -> Scale:
    low, high = (log10(value) if log else value for value in span)
    return lambda value: start + ((log10(value) if log else value) - low) / (high - low) * (end - start)


def _ticks(span: tuple[float, float], log: bool) -> list[float]:
    low, high = span
    if log:
        decades = range(ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9) + 1)
        step = max(1, ceil(len(decades) / 6))
        return [10.0**decade for decade in decades][::step]
    rough = (high - low) / 5
    unit = 10.0 ** floor(log10(rough))
    step_size = next(unit * times for times in (1, 2, 2.5, 5, 10) if unit * times >= rough * 0.999)
    first = ceil(low / step_size - 1e-9)
    return [step_size * i for i in range(first, floor(high / step_size + 1e-9) + 1)]


def _frame(
    panel: Panel, box: _Box, across: Scale, up: Scale, x_range: tuple[float, float], y_range: tuple[float, float]
) -> list[Mark]:
    left, right, top, bottom = box
    marks: list[Mark] = [Label(0, 15, panel.title, "title", "start")]
    if panel.axes:
        for value in _ticks(y_range, panel.log):
            marks.append(Path([(left, up(value)), (right, up(value))], "grid"))
            marks.append(Label(left - 6, up(value) + 4, shown(value, panel.percent), "tick", "end"))
        places = enumerate(panel.names) if panel.names else ((x, shown(x)) for x in _ticks(x_range, panel.log))
        marks += [Label(across(x), bottom + 15, name, "tick") for x, name in places]
        marks.append(Path([(left, bottom), (right, bottom)], "axis"))
        marks.append(Label((left + right) / 2, HEIGHT - 6, panel.x_label, "name"))
        marks.append(Label(10, (top + bottom) / 2, panel.y_label, "name", turned=True))
    else:
        marks += [Path([(left, bottom), (left, top), (right, top), (right, bottom), (left, bottom)], "axis")]
    return marks


def _bars(panel: Panel, one: Series, place: int, together: int, across: Scale, up: Scale) -> list[Mark]:
    group = (across(1) - across(0)) * 0.76
    width = min(group / together, 46.0)
    marks: list[Mark] = []
    for i, (x, y) in enumerate(zip(one.x, one.y, strict=True)):
        left = across(x) + (place - together / 2) * width
        value = shown(y, panel.percent)
        tip = f"{one.name}, {panel.names[int(x)]}: {value}" if panel.names else value
        marks.append(Rect(left + 1, up(y), width - 2, up(0) - up(y), one.tone, tip))
        top = y
        if one.spread:
            low, top = _ends(y, one.spread[i])
            middle = left + width / 2
            marks.append(Path([(middle, up(low)), (middle, up(top))], "whisker"))
        if panel.values and width >= LETTER * len(value) * 0.8:
            marks.append(Label(left + width / 2, up(top) - 4, value, "value"))
    return marks


def _legend(panel: Panel) -> tuple[list[Mark], float]:
    """Names in rows above the axes, each beside a bit of its own mark, and where they end."""
    marks: list[Mark] = []
    x, y = 0.0, 33.0
    named = [one for one in panel.series if one.name]
    for one in named:
        width = 28 + LETTER * len(one.name)
        if x and x + width > WIDTH:
            x, y = 0.0, y + 13
        if one.kind == "bars":
            marks.append(Rect(x + 2, y - 8, 9, 9, one.tone))
        elif one.kind == "dots":
            marks.append(Dots([(x + 6, y - 4)], one.tone))
        else:
            marks.append(Path([(x, y - 4), (x + 13, y - 4)], "guide" if one.tone == GUIDE else "line", one.tone))
        marks.append(Label(x + 16, y, one.name, "legend", "start"))
        x += width
    return marks, y + 18 if named else 28.0
