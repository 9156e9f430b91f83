"""The bars of a panel: how wide they are, and how their values are written."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple

from .axes import LEFT, RIGHT, Scale, ranges, whisker_ends
from .chart import Panel, Series
from .marks import Label, Mark, Polyline, Rect, number_text, text_width

__all__ = ["BarLayout", "bar_layout", "draw_bars"]

UPRIGHT = 8.5  # the least width of a bar whose value is written upright


class BarLayout(NamedTuple):
    """The width of the bars of a panel, and how their values are written: across, upright or not at all."""

    width: float
    per_group: int  # bars in a group
    values: Literal["across", "upright", ""]
    above: float  # what values need above the highest bar, beyond the tenth that every panel leaves
    below: float  # what they need below the lowest, where it is below zero


def bar_layout(panel: Panel) -> BarLayout:
    """Values are written across where no two of them would touch."""
    bars = [one for one in panel.series if one.kind == "bars"]
    if not bars:
        return BarLayout(0.0, 0, "", 0.0, 0.0)
    (low, high), _ = ranges(panel)
    group = (RIGHT - LEFT) / (high - low)
    width = min(group * (0.76 if len(bars) < 3 else 0.88) / len(bars), 46.0)
    values = sorted(
        (x * group + index * width, text_width(number_text(y, panel.percent), "value"))
        for index, one in enumerate(bars)
        for x, y in zip(one.x, one.y, strict=True)
    )
    free = all(b - a >= (long + other) / 2 for (a, long), (b, other) in pairwise(values))
    if not panel.values or (not free and width < UPRIGHT):
        return BarLayout(width, len(bars), "", 0.0, 0.0)
    if free:
        return BarLayout(width, len(bars), "across", 0.0, 12.0)
    longest = max(long for _, long in values)
    return BarLayout(width, len(bars), "upright", longest - 8, longest + 4)


def draw_bars(panel: Panel, one: Series, index: int, bars: BarLayout, across: Scale, up: Scale) -> list[Mark]:
    """The bars of one series, which is the index-th of each group, with whiskers and values."""
    marks: list[Mark] = []
    for i, (x, y) in enumerate(zip(one.x, one.y, strict=True)):
        left = across(x) + (index - bars.per_group / 2) * bars.width
        middle, value = left + bars.width / 2, number_text(y, panel.percent)
        tip = f"{one.name}, {panel.names[int(x)]}: {value}" if panel.names else value
        high, low = sorted((up(y), up(0)))
        gap = min(1.0, bars.width / 8)  # on either side
        marks.append(Rect(left + gap, high, bars.width - 2 * gap, low - high, one.tone, tip))
        start, end = whisker_ends(y, one.whiskers[i]) if one.whiskers else (y, y)
        if one.whiskers:
            marks.append(Polyline([(middle, up(start)), (middle, up(end))], "whisker"))
        if bars.values == "across":
            marks.append(Label(middle, up(end) - 4 if y >= 0 else up(start) + 11, value, "value"))
        elif bars.values:
            at = up(end) - 4 if y >= 0 else up(start) + 4
            marks.append(Label(middle + 3.5, at, value, "value", "start" if y >= 0 else "end", True))
    return marks
