"""The content of a figure, independent of how it is drawn: panels of lines, dots and bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["GUIDE", "Panel", "Series"]

GUIDE = -1  # the tone of dashed lines for comparison


@dataclass(frozen=True)
class Series:
    """Data of one kind. The tone is the index of a level or of a tokenizer; pages and files give it a colour."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    tone: int = 0
    kind: Literal["line", "dots", "bars"] = "line"
    whiskers: Sequence[float | tuple[float, float]] = ()  # on bars: half their lengths, or (below, above)


@dataclass(frozen=True)
class Panel:
    """One pair of axes. With `names`, x counts the named groups 0, 1, 2 …; ranges left out come from the data."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log: bool = False
    percent: bool = False  # y is a share
    axes: bool = True  # False for a map, which has no numbers on its axes
    names: Sequence[str] = ()
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    values: bool = True  # whether values are written on bars
