"""A panel laid out as marks, in a box of WIDTH by `height_of`.

Labels never overlap: widths are those of a wide font, values and names that do not fit side by side are written
upright, values that do not fit upright either are left to the bars' tips, and a panel grows with its legend.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from .axes import LEFT, RIGHT, Range, Scale, heights, ranges, scale, ticks
from .bars import bar_layout, draw_bars
from .chart import GUIDE, Panel
from .marks import WIDTH, Dots, Label, Mark, Polyline, Rect, number_text, shortened, text_width

__all__ = ["height_of", "lay_out"]

HEIGHT = 264.0  # the least
LINE = 13.0  # height of a line of the legend
LONGEST = 150.0  # of a group's name that is written upright


class _Box(NamedTuple):
    """The area in which the data are drawn, between the labels around it."""

    left: float
    right: float
    top: float
    bottom: float


def lay_out(panel: Panel) -> list[Mark]:
    """The marks of a panel: grid and ticks, then data, then the legend."""
    x_range, y_range = ranges(panel)
    legend, top = _legend(panel)
    bars, foot = bar_layout(panel), height_of(panel) - 40 - _upright_names(panel)
    below = bars.below if min(heights(panel)) < 0 else 0.0
    box = _Box(LEFT, RIGHT, top + bars.above, foot - below)
    box = box if panel.axes else _Box(4.0, WIDTH - 4, top, height_of(panel) - 4)
    across = scale(x_range, box.left, box.right, panel.log)
    up = scale(y_range, box.bottom, box.top, panel.log)
    marks = _frame(panel, box, foot, across, up, x_range, y_range)
    index = 0
    for one in panel.series:
        if one.kind == "bars":
            marks += draw_bars(panel, one, index, bars, across, up)
            index += 1
        else:
            points = [(across(x), up(y)) for x, y in zip(one.x, one.y, strict=True)]
            style: Literal["guide", "line"] = "guide" if one.tone == GUIDE else "line"
            marks.append(Dots(points, one.tone) if one.kind == "dots" else Polyline(points, style, one.tone))
    return marks + legend


def height_of(panel: Panel) -> float:
    """HEIGHT, and more where the legend has more than two lines or the groups' names are written upright."""
    lines = len({mark.y for mark in _legend(panel)[0] if isinstance(mark, Label)})
    return HEIGHT + LINE * max(lines - 2, 0) + _upright_names(panel)


def _frame(
    panel: Panel, box: _Box, foot: float, across: Scale, up: Scale, x_range: Range, y_range: Range
) -> list[Mark]:
    """The title, the grid and its labels; names are below the foot, the axis is at zero."""
    left, right, top, bottom = box
    marks: list[Mark] = [Label(0, 15, shortened(panel.title, WIDTH, "title"), "title", "start")]
    if not panel.axes:
        return [*marks, Polyline([(left, bottom), (left, top), (right, top), (right, bottom), (left, bottom)], "axis")]
    for value in ticks(y_range, panel.log):
        marks.append(Polyline([(left, up(value)), (right, up(value))], "grid"))
        marks.append(Label(left - 6, up(value) + 4, number_text(value, panel.percent), "tick", "end"))
    if _upright_names(panel):
        names = [(across(x), shortened(name, LONGEST, "tick")) for x, name in enumerate(panel.names)]
        marks += [Label(x + 4, foot + 7, name, "tick", "end", True) for x, name in names]
    else:
        labels = enumerate(panel.names) if panel.names else ((x, number_text(x)) for x in ticks(x_range, panel.log))
        marks += [Label(across(x), foot + 15, label, "tick") for x, label in labels]
    zero = bottom if panel.log else up(max(y_range[0], 0.0))
    marks.append(Polyline([(left, zero), (right, zero)], "axis"))
    marks.append(Label((left + right) / 2, height_of(panel) - 6, panel.x_label, "name"))
    marks.append(Label(10, (top + foot) / 2, panel.y_label, "name", turned=True))
    return marks


def _upright_names(panel: Panel) -> float:
    """How much higher a panel is because its groups' names do not fit side by side; 0 where they do."""
    longest = max((text_width(name, "tick") for name in panel.names), default=0.0)
    return min(longest, LONGEST) - 6 if longest > (RIGHT - LEFT) / max(len(panel.names), 1) - 4 else 0.0


def _legend(panel: Panel) -> tuple[list[Mark], float]:
    """Names in lines above the axes, each with a sample of its marks; and where they end."""
    marks: list[Mark] = []
    x, y = 0.0, 33.0
    named = [one for one in panel.series if one.name]
    for one in named:
        name = shortened(one.name, WIDTH - 16, "legend")
        width = 26 + text_width(name, "legend")
        if x and x + width - 10 > WIDTH:
            x, y = 0.0, y + LINE
        if one.kind == "bars":
            marks.append(Rect(x + 2, y - 8, 9, 9, one.tone))
        elif one.kind == "dots":
            marks.append(Dots([(x + 6, y - 4)], one.tone))
        else:
            marks.append(Polyline([(x, y - 4), (x + 13, y - 4)], "guide" if one.tone == GUIDE else "line", one.tone))
        marks.append(Label(x + 16, y, name, "legend", "start"))
        x += width
    return marks, y + 18 if named else 28.0
