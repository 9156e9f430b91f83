"""A panel laid out as a few marks, in a box of WIDTH by `height_of`; `svg` and `plots` turn marks into files.

Words never lie on one another: widths are those of a wide font, values and names that do not fit side by side stand
upright, values that do not fit upright either are left to the bars' tips, and a panel grows with its legend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from typing import Literal, NamedTuple, TypeAlias

from .chart import GUIDE, Panel, Series

__all__ = ["WIDTH", "Dots", "Label", "Mark", "Path", "Rect", "height_of", "lay_out", "wide"]

WIDTH, HEIGHT = 360.0, 264.0  # the least height
LEFT, RIGHT = 54.0, WIDTH - 10  # of the data, where there are axes
LINE = 13.0  # of a legend
SIZES = {"title": 13.0, "name": 11.0, "tick": 11.0, "value": 10.0, "legend": 11.0}
NARROW, WIDE = ".,:;-'|!()[]/ filjrtI", "%@mwMW…—"
UPRIGHT = 8.5  # what a value standing upright needs of its bar

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


class _Bars(NamedTuple):
    """How wide the bars of a panel are, and how their values are written: across, upright or not at all."""

    width: float
    many: int
    values: Literal["across", "upright", ""]
    above: float  # what values need above the highest bar, beyond the tenth that every panel leaves
    below: float  # what they need below the lowest, where it is below zero


def lay_out(panel: Panel) -> list[Mark]:
    """The marks of a panel: grid and ticks, then data, then words."""
    x_range = panel.x_range or _range(panel, [x for one in panel.series for x in one.x])
    y_range = panel.y_range or _range(panel, _heights(panel), from_zero=panel.axes)
    legend, top = _legend(panel)
    bars, foot = _bars_of(panel), height_of(panel) - 40 - _names_room(panel)
    below = bars.below if min(_heights(panel)) < 0 else 0.0
    box = _Box(LEFT, RIGHT, top + bars.above, foot - below)
    box = box if panel.axes else _Box(4.0, WIDTH - 4, top, height_of(panel) - 4)
    across = _scale(x_range, box.left, box.right, panel.log)
    up = _scale(y_range, box.bottom, box.top, panel.log)
    marks = _frame(panel, box, foot, across, up, x_range, y_range)
    place = 0
    for one in panel.series:
        if one.kind == "bars":
            marks += _draw_bars(panel, one, place, bars, across, up)
            place += 1
        else:
            points = [(across(x), up(y)) for x, y in zip(one.x, one.y, strict=True)]
            style: Literal["guide", "line"] = "guide" if one.tone == GUIDE else "line"
            marks.append(Dots(points, one.tone) if one.kind == "dots" else Path(points, style, one.tone))
    return marks + legend


def height_of(panel: Panel) -> float:
    """HEIGHT, and more where the legend has more than two lines or the groups' names stand upright."""
    lines = len({mark.y for mark in _legend(panel)[0] if isinstance(mark, Label)})
    return HEIGHT + LINE * max(lines - 2, 0) + _names_room(panel)


def wide(text: str, style: str) -> float:
    """About how wide a text is in a wide font: what is laid out by it fits in others."""
    widths = (0.36 if c in NARROW else 0.98 if c in WIDE else 0.6 if c.islower() else 0.66 for c in text)
    return SIZES[style] * sum(widths)


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
    """Every value, and where whiskers end; 0 if there is none."""
    ends = [_ends(y, s) for one in panel.series if one.spread for y, s in zip(one.y, one.spread, strict=True)]
    return [y for one in panel.series for y in one.y] + [end for both in ends for end in both] or [0.0]


def _ends(y: float, spread: float | tuple[float, float]) -> tuple[float, float]:
    """Where a whisker begins and ends; that of a value above zero stays there."""
    below, above = spread if isinstance(spread, tuple) else (spread, spread)
    return max(y - below, 0.0) if y >= 0 else y - below, y + above


def _range(panel: Panel, values: Sequence[float], from_zero: bool = False) -> tuple[float, float]:
    if panel.names and not from_zero:
        return -0.5, len(panel.names) - 0.5
    values = [value for value in values if value > 0] if panel.log else values
    low, high = min(values, default=0.0), max(values, default=1.0)
    if panel.log:
        return 10.0 ** floor(log10(low)) if values else 1.0, 10.0 ** max(1, ceil(log10(high))) if values else 10.0
    if from_zero:
        return min(low, 0.0), max(high, 0.0) * (1.12 if panel.names else 1.0) or (0.0 if low < 0 else 1.0)
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
    panel: Panel,
    box: _Box,
    foot: float,
    across: Scale,
    up: Scale,
    x_range: tuple[float, float],
    y_range: tuple[float, float],
) -> list[Mark]:
    """The title, the grid and what stands beside it; names stand under the foot, the axis at zero."""
    left, right, top, bottom = box
    marks: list[Mark] = [Label(0, 15, _cut(panel.title, WIDTH, "title"), "title", "start")]
    if not panel.axes:
        return [*marks, Path([(left, bottom), (left, top), (right, top), (right, bottom), (left, bottom)], "axis")]
    for value in _ticks(y_range, panel.log):
        marks.append(Path([(left, up(value)), (right, up(value))], "grid"))
        marks.append(Label(left - 6, up(value) + 4, shown(value, panel.percent), "tick", "end"))
    if _names_room(panel):
        names = enumerate(panel.names)
        marks += [Label(across(x) + 4, foot + 7, _cut(name, 150, "tick"), "tick", "end", True) for x, name in names]
    else:
        places = enumerate(panel.names) if panel.names else ((x, shown(x)) for x in _ticks(x_range, panel.log))
        marks += [Label(across(x), foot + 15, name, "tick") for x, name in places]
    zero = bottom if panel.log else up(max(y_range[0], 0.0))
    marks.append(Path([(left, zero), (right, zero)], "axis"))
    marks.append(Label((left + right) / 2, height_of(panel) - 6, panel.x_label, "name"))
    marks.append(Label(10, (top + foot) / 2, panel.y_label, "name", turned=True))
    return marks


def _names_room(panel: Panel) -> float:
    """How much higher a panel is because its groups' names have to stand upright, having no room side by side."""
    longest = max((wide(name, "tick") for name in panel.names), default=0.0)
    return min(longest, 150.0) - 6 if longest > (RIGHT - LEFT) / max(len(panel.names), 1) - 4 else 0.0


def _bars_of(panel: Panel) -> _Bars:
    """Values are written across where no two of them would touch."""
    bars = [one for one in panel.series if one.kind == "bars"]
    if not bars:
        return _Bars(0.0, 0, "", 0.0, 0.0)
    low, high = panel.x_range or _range(panel, [x for one in bars for x in one.x])
    group = (RIGHT - LEFT) / (high - low)
    width = min(group * (0.76 if len(bars) < 3 else 0.88) / len(bars), 46.0)
    values = sorted(
        (x * group + place * width, wide(shown(y, panel.percent), "value"))
        for place, one in enumerate(bars)
        for x, y in zip(one.x, one.y, strict=True)
    )
    free = all(b - a >= (long + other) / 2 for (a, long), (b, other) in pairwise(values))
    if not panel.values or (not free and width < UPRIGHT):
        return _Bars(width, len(bars), "", 0.0, 0.0)
    if free:
        return _Bars(width, len(bars), "across", 0.0, 12.0)
    longest = max(long for _, long in values)
    return _Bars(width, len(bars), "upright", longest - 8, longest + 4)


def _draw_bars(panel: Panel, one: Series, place: int, bars: _Bars, across: Scale, up: Scale) -> list[Mark]:
    marks: list[Mark] = []
    for i, (x, y) in enumerate(zip(one.x, one.y, strict=True)):
        left = across(x) + (place - bars.many / 2) * bars.width
        middle, value = left + bars.width / 2, shown(y, panel.percent)
        tip = f"{one.name}, {panel.names[int(x)]}: {value}" if panel.names else value
        high, low = sorted((up(y), up(0)))
        thin = min(1.0, bars.width / 8)  # on either side
        marks.append(Rect(left + thin, high, bars.width - 2 * thin, low - high, one.tone, tip))
        start, end = _ends(y, one.spread[i]) if one.spread else (y, y)
        if one.spread:
            marks.append(Path([(middle, up(start)), (middle, up(end))], "whisker"))
        if bars.values == "across":
            marks.append(Label(middle, up(end) - 4 if y >= 0 else up(start) + 11, value, "value"))
        elif bars.values:
            at = up(end) - 4 if y >= 0 else up(start) + 4
            marks.append(Label(middle + 3.5, at, value, "value", "start" if y >= 0 else "end", True))
    return marks


def _legend(panel: Panel) -> tuple[list[Mark], float]:
    """Names in rows above the axes, each beside a bit of its own mark, and where they end."""
    marks: list[Mark] = []
    x, y = 0.0, 33.0
    named = [one for one in panel.series if one.name]
    for one in named:
        name = _cut(one.name, WIDTH - 16, "legend")
        width = 26 + wide(name, "legend")
        if x and x + width - 10 > WIDTH:
            x, y = 0.0, y + LINE
        if one.kind == "bars":
            marks.append(Rect(x + 2, y - 8, 9, 9, one.tone))
        elif one.kind == "dots":
            marks.append(Dots([(x + 6, y - 4)], one.tone))
        else:
            marks.append(Path([(x, y - 4), (x + 13, y - 4)], "guide" if one.tone == GUIDE else "line", one.tone))
        marks.append(Label(x + 16, y, name, "legend", "start"))
        x += width
    return marks, y + 18 if named else 28.0


def _cut(text: str, room: float, style: str) -> str:
    """The text, or its beginning and its end where there is no room for all of it."""
    keep = len(text)
    cut = text
    while wide(cut, style) > room and keep > 2:
        keep -= 1
        cut = f"{text[: (keep + 1) // 2]}…{text[len(text) - keep // 2 :]}"
    return cut
