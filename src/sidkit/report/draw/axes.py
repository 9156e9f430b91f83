"""The axes of a panel: which range they cover, and where a value lies on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from typing import TypeAlias

from .chart import Panel
from .marks import WIDTH

__all__ = ["LEFT", "RIGHT", "Range", "Scale", "heights", "ranges", "scale", "ticks", "whisker_ends"]

LEFT, RIGHT = 54.0, WIDTH - 10  # of the data, where there are axes

Scale: TypeAlias = Callable[[float], float]
Range: TypeAlias = tuple[float, float]


def ranges(panel: Panel) -> tuple[Range, Range]:
    """The ranges of x and y: those of the panel or, where it has none, those of its data."""
    x = panel.x_range or (
        (-0.5, len(panel.names) - 0.5) if panel.names else _range(panel, [x for one in panel.series for x in one.x])
    )
    return x, panel.y_range or _range(panel, heights(panel), from_zero=panel.axes)


def heights(panel: Panel) -> list[float]:
    """Every y, and both ends of every whisker; 0 if there is none."""
    with_whiskers = [one for one in panel.series if one.whiskers]
    ends = [whisker_ends(y, w) for one in with_whiskers for y, w in zip(one.y, one.whiskers, strict=True)]
    return [y for one in panel.series for y in one.y] + [end for both in ends for end in both] or [0.0]


def whisker_ends(y: float, whisker: float | tuple[float, float]) -> Range:
    """Where a whisker begins and ends; that of a value above zero does not go below zero."""
    below, above = whisker if isinstance(whisker, tuple) else (whisker, whisker)
    return max(y - below, 0.0) if y >= 0 else y - below, y + above


def _range(panel: Panel, values: Sequence[float], from_zero: bool = False) -> Range:
    values = [value for value in values if value > 0] if panel.log else values
    low, high = min(values, default=0.0), max(values, default=1.0)
    if panel.log:
        return 10.0 ** floor(log10(low)) if values else 1.0, 10.0 ** max(1, ceil(log10(high))) if values else 10.0
    if from_zero:
        return min(low, 0.0), max(high, 0.0) * (1.12 if panel.names else 1.0) or (0.0 if low < 0 else 1.0)
    margin = (high - low) * 0.03 or 1.0
    return low - margin, high + margin


def scale(span: Range, start: float, end: float, log: bool) -> Scale:
    """From values of a range to positions between start and end."""
    low, high = (log10(value) if log else value for value in span)
    return lambda value: start + ((log10(value) if log else value) - low) / (high - low) * (end - start)


def ticks(span: Range, log: bool) -> list[float]:
    """About five round values of a range; of a logarithmic one, powers of ten."""
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
