"""Figures as files: SVG, and PNG and PDF drawn from the same marks by matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...errors import SpecError, need
from ...files.atomic import replace_file
from .figure import Figure
from .layout import height_of, lay_out
from .marks import WIDTH, Dots, Label, Mark, Polyline, Rect
from .svg import COLOURS, figure_svg

__all__ = ["FORMATS", "check_formats", "write_figures"]

FORMATS = ("svg", "png", "pdf")
MARKERS = ("o", "^", "s", "D")
LINES = {"guide": ("#777777", 0.9, (0, (4, 3))), "grid": ("#e3e3e3", 0.6, "-"), "axis": ("#777777", 0.7, "-")}
SIZES = {"title": 9.0, "name": 7.5, "tick": 7.5, "value": 6.5, "legend": 7.5}


def check_formats(formats: Sequence[str]) -> None:
    """Raise, before any work, for a format that cannot be written."""
    for form in formats:
        if form not in FORMATS:
            raise SpecError(f"figures can be written as {', '.join(FORMATS)}, not {form!r}")
    if set(formats) - {"svg"}:
        need("matplotlib", "report", "writing PNG and PDF figures")


def write_figures(figures: Iterable[Figure], folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Every figure in every format, as folder/name.format."""
    check_formats(formats)
    written = []
    for figure in figures:
        for form in formats:
            path = folder / f"{figure.name}.{form}"
            with replace_file(path) as temporary:
                if form == "svg":
                    temporary.write_text(figure_svg(figure), encoding="utf-8")
                else:
                    _draw(figure, temporary, form)
            written.append(path)
    return written


def _draw(figure: Figure, path: Path, form: str) -> None:
    matplotlib = need("matplotlib", "report", "writing PNG and PDF figures")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    fonts = {"font.family": "sans-serif", "font.sans-serif": ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans"]}
    with matplotlib.rc_context(fonts | {"pdf.fonttype": 42}):
        height = max(map(height_of, figure.panels))
        canvas = Canvas(figsize=(WIDTH * len(figure.panels) / 96, height / 96), dpi=200)
        FigureCanvasAgg(canvas)
        for i, panel in enumerate(figure.panels):
            axes = canvas.add_axes((i / len(figure.panels), 0, 1 / len(figure.panels), 1))
            axes.set(xlim=(-6, WIDTH + 6), ylim=(height, 0))
            axes.axis("off")
            for mark in lay_out(panel):
                _add(axes, mark)
        plain = {"png": {"Software": None}, "pdf": {"CreationDate": None}}[form]  # the same data, the same bytes
        canvas.savefig(path, format=form, metadata=plain)


def _add(axes: Any, mark: Mark) -> None:
    match mark:
        case Polyline(points, style, tone):
            colour, width, dash = LINES.get(style, (COLOURS[tone % len(COLOURS)], 1.3, "-"))
            if style == "whisker":
                colour, width = "#111111", 0.9
            axes.plot(*zip(*points, strict=True), color=colour, lw=width, ls=dash, solid_capstyle="round", zorder=2)
        case Rect(x, y, width, height, tone):
            axes.bar(x, -height, width, y + height, align="edge", color=COLOURS[tone % len(COLOURS)], zorder=2)
        case Dots(points, tone) if points:
            marker, colour = MARKERS[tone % len(MARKERS)], COLOURS[tone % len(COLOURS)]
            axes.plot(*zip(*points, strict=True), marker, color=colour, ms=3.2, mew=0, alpha=0.62)
        case Label(x, y, text, style, anchor, turned):
            align = {"start": "left", "middle": "center", "end": "right"}[anchor]
            weight = "bold" if style == "title" else "normal"
            words = text.replace("$", r"\$")
            options = {"ha": align, "va": "baseline", "size": SIZES[style], "weight": weight, "color": "#222222"}
            axes.text(x, y, words, rotation=90 if turned else 0, rotation_mode="anchor", **options)
