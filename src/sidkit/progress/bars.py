"""Bars in a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

__all__ = ["TerminalBars"]


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} rows/s" if speed else "", style="progress.data.speed")


class TerminalBars:
    """Progress bars on standard error, if that is a terminal; silent otherwise."""

    def __init__(self) -> None:
        self._bars = Bars(
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%"),
            _Rate(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[workers]}", style="dim"),
            TextColumn("{task.fields[note]}", style="dim"),
            console=Console(stderr=True),
        )
        self._bars.disable = not self._bars.console.is_terminal
        self._task: TaskID | None = None

    def __enter__(self) -> TerminalBars:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def start(self, label: str, rows: int) -> None:
        self._task = self._bars.add_task(label, total=rows or None, note="", workers="")

    def advance(self, rows: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, rows)

    def note(self, text: str) -> None:
        if self._task is not None:
            self._bars.update(self._task, note=text)

    def workers(self, text: str) -> None:
        if self._task is not None:
            self._bars.update(self._task, workers=text)
