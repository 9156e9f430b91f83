"""Marks as SVG: inline on a page, whose style sets the colours, or as a separate file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ...files.ours import MADE_BY
from .chart import Panel
from .layout import height_of, lay_out
from .marks import WIDTH, Dots, Label, Mark, Polyline, Rect

if TYPE_CHECKING:
    from .figure import Figure

__all__ = ["COLOURS", "figure_svg", "panel_svg", "tone_rules"]

# Okabe and Ito's, which most colour-blind readers can tell apart; shapes differ as well.
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#b4568f", "#a87900", "#3a8fc4",
    "#6b6b6b", "#8c3a1e", "#5b4bb7", "#6f8f1f", "#1f4d5c", "#c9829a",
)  # fmt: skip
GLYPHS = (
    "m-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0 -4.8 0",
    "m0-3l2.8 5h-5.6z",
    "m-2.2-2.2h4.4v4.4h-4.4z",
    "m0-3.1l3.1 3.1l-3.1 3.1l-3.1-3.1z",
)
STYLE = """
text { font-family: Helvetica, Arial, sans-serif; font-size: 11px; fill: #333 }
.title { font-size: 13px; font-weight: 600; fill: #111 } .value { font-size: 10px }
path { fill: none; stroke-width: 1.8; stroke-linejoin: round }
.grid { stroke: #e3e3e3; stroke-width: 1 } .axis { stroke: #777; stroke-width: 1 }
.guide { stroke: #777; stroke-width: 1.3; stroke-dasharray: 5 4 } .whisker { stroke: #111; stroke-width: 1.3 }
.dots { stroke: none; fill-opacity: .62 }
"""


def panel_svg(panel: Panel) -> str:
    """One panel, inline in a page; it scales with its box."""
    label = escape(f"{panel.title}: {panel.y_label} by {panel.x_label}", quote=True)
    inside = "".join(_mark(mark) for mark in lay_out(panel))
    return f'<svg viewBox="0 0 {WIDTH:g} {height_of(panel):g}" role="img" aria-label="{label}">{inside}</svg>'


def figure_svg(figure: Figure) -> str:
    """A separate file: the panels side by side, on white."""
    gap = 24.0
    width = (WIDTH + gap) * len(figure.panels) + gap
    height = max(map(height_of, figure.panels)) + 2 * gap
    panels = "".join(
        f'<g transform="translate({gap + i * (WIDTH + gap):g} {gap:g})">{"".join(map(_mark, lay_out(panel)))}</g>'
        for i, panel in enumerate(figure.panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}"><metadata>{MADE_BY}</metadata><style>{STYLE}{tone_rules(COLOURS)}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{panels}</svg>\n'
    )


def tone_rules(colours: Sequence[str]) -> str:
    """The style of every tone: lines are stroked, bars and dots are filled."""
    return "".join(
        f".t{i} {{ stroke: {c} }} rect.t{i}, .dots.t{i} {{ fill: {c}; stroke: none }}\n" for i, c in enumerate(colours)
    )


def _mark(mark: Mark) -> str:
    match mark:
        case Polyline(points, style, tone):
            kind = f"t{tone % len(COLOURS)}" if style == "line" else style
            return f'<path class="{kind}" d="{_moves(points)}"/>'
        case Rect(x, y, width, height, tone, tip):
            box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0.0):.1f}"'
            title = f"<title>{escape(tip)}</title>" if tip else ""
            return f'<rect class="t{tone % len(COLOURS)}" {box}>{title}</rect>'
        case Dots(points, tone):
            drawn = "".join(f"M{x:.1f} {y:.1f}{GLYPHS[tone % len(GLYPHS)]}" for x, y in points)
            return f'<path class="dots t{tone % len(COLOURS)}" d="{drawn}"/>'
        case Label(x, y, text, style, anchor, turned):
            turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
            position = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
            return f'<text class="{style}" {position}{turn}>{escape(text)}</text>'


def _moves(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
