"""The parts of what a notebook shows of a value. Styles are in the elements, so that they touch nothing else on a page.

Texts are escaped. Colours are those of the notebook, dark or light.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["box", "picture", "rows_table"]

LEFT = "text-align:left;padding:.15em 1.2em .15em 0;vertical-align:top;background:none"
MONO = "font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.92em;white-space:nowrap"


def box(kind: str, facts: Sequence[str], inside: str = "") -> str:
    """A value: its type, a line of facts, and HTML below it."""
    line = " · ".join(escape(fact) for fact in facts if fact)
    return f'<div style="line-height:1.5"><b>{escape(kind)}</b> <span style="opacity:.75">{line}</span>{inside}</div>'


def rows_table(head: Sequence[str], rows: Iterable[Sequence[object]], code: Sequence[int] = ()) -> str:
    """A table of texts; the columns in code are set as code."""
    top = "".join(f'<th style="{LEFT};opacity:.75;font-weight:600">{escape(name)}</th>' for name in head)
    body = "".join(
        '<tr style="background:none">'
        + "".join(
            f'<td style="{LEFT};{MONO if i in code else ""}">{escape(str(cell))}</td>' for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f'<table style="margin:.4em 0"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def picture(svg: str, words: str) -> str:
    """A drawing as an image, whose style sheet is its own."""
    data = b64encode(svg.encode()).decode()
    return f'<img alt="{escape(words)}" style="max-width:100%" src="data:image/svg+xml;base64,{data}">'
