"""What a person sees in the terminal: progress bars and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ..report.compare import Comparison
    from ..sids.template import Template

__all__ = ["Terminal", "plain", "print_comparison", "print_items", "print_quality", "print_report", "print_rows"]

BLANK = "\t\n\v\f\r\x85\u2028\u2029"
OBEYED = [*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)]
SHOWN = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in OBEYED}
SHOWN |= dict.fromkeys(map(ord, BLANK), " ")


def plain(text: object) -> str:
    """A title or an id as one line that a terminal shows and does not obey.

    Tabs and line ends become blanks; other control characters, those that turn the direction of writing, and halves of
    surrogate pairs become what Python calls them: \\x1b, \\u202e.
    """
    return str(text).translate(SHOWN)


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
            TextColumn("{task.fields[place]}", style="dim"),
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
        self._task = self._bars.add_task(label, total=rows or None, note="", place="")

    def advance(self, rows: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, rows)

    def note(self, text: str) -> None:
        if self._task is not None:
            self._bars.update(self._task, note=text)

    def place(self, text: str) -> None:
        if self._task is not None:
            self._bars.update(self._task, place=text)


def print_quality(figures: Mapping[str, Any], sizes: Sequence[int]) -> None:
    """The quality of a set of SIDs: overall figures, then one line per level."""
    console = Console()
    overall = Table(show_header=False, box=None, pad_edge=False)
    for label, value in (
        ("items", f"{figures['items']:,}"),
        ("distinct SIDs", f"{figures['distinct_sids']:,}"),
        ("SIDs with one item / distinct SIDs", f"{figures['icr_per_sid']:.2%}"),
        ("items alone on their SID / items", f"{figures['icr_per_item']:.2%}"),
        ("items sharing their SID / items", f"{figures['collision_per_item']:.2%}"),
        ("largest bucket", f"{figures['largest_bucket']:,} items"),
    ):
        overall.add_row(label, value)
    levels = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("level", "size", "codes used", "perplexity", "prefix utilisation", "prefix Gini"):
        levels.add_column(heading, justify="right")
    for level, size in enumerate(sizes):
        levels.add_row(
            str(level + 1),
            f"{size:,}",
            f"{figures['codes_used'][level]:.1%}",
            f"{figures['perplexity'][level]:,.1f}",
            f"{figures['utilisation'][level]:.2%}",
            f"{figures['prefix_gini'][level]:.3f}",
        )
    console.print(overall)
    console.print()
    console.print(levels)


def print_report(facts: Mapping[str, Any], written: Sequence[Any] = ()) -> None:
    """The verdict, then the quality; where a page was written, the verdict and where it is."""
    console = Console(highlight=False)
    told = facts["verdict"]
    colours = {"good": "green", "watch": "yellow", "poor": "red"}
    console.print(Text(told["headline"], style=f"bold {colours[told['grade']]}"), soft_wrap=True)
    for found in told["findings"]:
        console.print(Text.assemble((f"{found['grade']:>6}  ", colours[found["grade"]]), found["text"]), soft_wrap=True)
    console.print()
    if written:
        for path in written:
            console.print(Text(f"wrote {path}"), soft_wrap=True)
    else:
        print_quality(facts, facts["sizes"])


def print_comparison(found: Comparison) -> None:
    """Tokenizers side by side, best mean bold, second underlined."""
    styles, ranks = {1: "bold", 2: "underline"}, found.ranks()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method", no_wrap=True)
    for heading, _ in found.columns():
        table.add_column(heading, justify="right")
    for label in found.figures:
        cells = zip(found.cells(label), ranks[label], strict=True)
        table.add_row(Text(plain(label)), *(Text(cell, style=styles.get(rank, "")) for cell, rank in cells))
    console = Console()
    console = Console(width=max(console.width, 40 + 16 * len(found.columns()))) if not console.is_terminal else console
    console.print(table)
    runs = sum(map(len, found.figures.values()))
    console.print(f"{runs} runs over seeds {', '.join(map(str, found.seeds))}; {found.reused} were on disk already")


def print_rows(told: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A few lines, then a table."""
    console = Console(highlight=False)
    for line in told:
        console.print(Text(plain(line)), soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in head:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console.print(table)


def print_items(prefix: str, count: int, items: Sequence[Mapping[str, Any]], form: Template) -> None:
    """The items under a prefix, texts beside them where known."""
    console = Console()
    console.print(f"{plain(prefix)}: {count:,} item{'s' if count != 1 else ''}", markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    for item in items:
        sid = form.write(item["codes"])
        table.add_row(Text(plain(item["item_id"])), Text(plain(sid)), Text(plain(item.get("text", ""))))
    console.print(table)
    if count > len(items):
        console.print(f"… and {count - len(items):,} more (--limit 0 shows all)")
