"""The terminal: progress bars, and text without control characters."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

__all__ = ["Terminal", "plain"]

BLANK = "\t\n\v\f\r\x85\u2028\u2029"
CONTROL = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)]
ESCAPED = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in CONTROL}
ESCAPED |= dict.fromkeys(map(ord, BLANK), " ")


def plain(text: object) -> str:
    """A title or an id as one line that a terminal prints and does not interpret.

    Tabs and line ends become blanks. Other control characters, those that change the direction of writing, and halves
    of surrogate pairs become Python escapes: \\x1b, \\u202e.
    """
    return str(text).translate(ESCAPED)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} rows/s" if speed else "", style="progress.data.speed")


class Terminal:
    """Progress bars on standard error, if that is a terminal; silent otherwise."""

    def __init__(self) -> None:
        self._bars = Progress(
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

    def __enter__(self) -> Terminal:
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
