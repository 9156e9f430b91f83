"""The marks that panels are drawn with: polylines, rectangles, dots and labels; and the width of a text.

`layout` places marks in a box of WIDTH by `layout.height_of`; `svg` and `plots` turn them into files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["WIDTH", "Dots", "Label", "Mark", "Polyline", "Rect", "number_text", "shortened", "text_width"]

WIDTH = 360.0
SIZES = {"title": 13.0, "name": 11.0, "tick": 11.0, "value": 10.0, "legend": 11.0}
NARROW, WIDE = ".,:;-'|!()[]/ filjrtI", "%@mwMW…—"

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Polyline:
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


Mark: TypeAlias = Polyline | Rect | Dots | Label


def text_width(text: str, style: str) -> float:
    """About the width of a text in a wide font: a layout made for it fits narrower fonts as well."""
    widths = (0.36 if c in NARROW else 0.98 if c in WIDE else 0.6 if c.islower() else 0.66 for c in text)
    return SIZES[style] * sum(widths)


def shortened(text: str, width: float, style: str) -> str:
    """The text, or its beginning and its end where it is wider than `width`."""
    keep, cut = len(text), text
    while text_width(cut, style) > width and keep > 2:
        keep -= 1
        cut = f"{text[: (keep + 1) // 2]}…{text[len(text) - keep // 2 :]}"
    return cut


def number_text(value: float, percent: bool = False) -> str:
    """A number in few characters."""
    if percent:
        value = value if abs(value) >= 1e-6 else 0.0
        return f"{100 * value:.0f}%" if value == 0 or value >= 0.1 else f"{100 * value:.2g}%"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
