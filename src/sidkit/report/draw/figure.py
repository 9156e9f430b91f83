"""A figure: panels under one title."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ...errors import count_of
from ...sids.notebook import picture
from .chart import Panel
from .svg import figure_svg

__all__ = ["Figure"]


@dataclass(frozen=True)
class Figure:
    """Panels under one title, with the sentence on what to look for. `name` is its file name."""

    name: str
    title: str
    look_for: str
    panels: Sequence[Panel]

    def __repr__(self) -> str:
        return f"Figure({self.name!r}, {self.title!r}, {count_of(len(self.panels), 'panel')})"

    def _repr_html_(self) -> str:
        """The drawing under its title, for a notebook."""
        look = f'<p style="margin:.2em 0;opacity:.75">Look for: {escape(self.look_for)}</p>' if self.look_for else ""
        title = f'<p style="margin:1em 0 0"><b>{escape(self.title)}</b></p>'
        return f"{title}{look}{picture(figure_svg(self), self.title)}"
