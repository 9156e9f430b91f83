"""Bars below the cell of a notebook."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from time import monotonic
from typing import Any

__all__ = ["NotebookBars"]

EVERY = 0.1  # seconds between two drawings
ROW = (
    '<tr style="background:none"><td style="text-align:left">{label}</td><td><progress style="width:14em" {value}>'
    '</progress></td><td style="text-align:right">{share}</td><td style="text-align:right;padding:0 1em">{rate}</td>'
    '<td style="text-align:left;opacity:.7">{note}</td></tr>'
)


@dataclass
class _NotebookBar:
    label: str
    rows: int
    started: float = field(default_factory=monotonic)
    seconds: float = 0.0
    done: int = 0
    note: str = ""
    workers: str = ""

    def html(self, ended: bool) -> str:
        """A row of the table; a bar without a known number of rows runs until the work has ended."""
        share = min(self.done / self.rows, 1.0) if self.rows else float(ended)
        known = bool(self.rows) or ended
        return ROW.format(
            label=escape(self.label),
            value=f'value="{share:.4f}"' if known else "",
            share=f"{share:.0%}" if known else "",
            rate=f"{self.done / self.seconds:,.0f} rows/s" if self.done and self.seconds else "",
            note=escape(" ".join(part for part in (self.workers, self.note) if part)),
        )


class NotebookBars:
    """A table of bars that is drawn again while work goes on; IPython displays it."""

    def __init__(self) -> None:
        display = import_module("IPython.display")
        self._html: Any = display.HTML
        self._bars: list[_NotebookBar] = []
        self._drawn = 0.0
        self._handle: Any = display.display(self._html(""), display_id=True)

    def __enter__(self) -> NotebookBars:
        return self

    def __exit__(self, *_: object) -> None:
        self._draw(ended=True)

    def start(self, label: str, rows: int) -> None:
        self._bars.append(_NotebookBar(label, rows))
        self._draw()

    def advance(self, rows: int) -> None:
        if self._bars:
            bar = self._bars[-1]
            bar.done, bar.seconds = bar.done + rows, monotonic() - bar.started
            self._draw_if_due()

    def note(self, text: str) -> None:
        if self._bars:
            self._bars[-1].note = text
            self._draw_if_due()

    def workers(self, text: str) -> None:
        if self._bars:
            self._bars[-1].workers = text
            self._draw_if_due()

    def _draw_if_due(self) -> None:
        if monotonic() - self._drawn >= EVERY:
            self._draw()

    def _draw(self, ended: bool = False) -> None:
        last = len(self._bars) - 1
        rows = "".join(bar.html(ended or i < last) for i, bar in enumerate(self._bars))
        self._handle.update(self._html(f"<table>{rows}</table>"))
        self._drawn = monotonic()
