"""Tables in the terminal, and commands to run next."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from shlex import join
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import count_of
from ..files.address import Remote, is_address, locate
from ..sids.metrics import metrics_for
from .terminal import plain

if TYPE_CHECKING:
    from ..report.comparison import Comparison
    from ..sids.template import Template

__all__ = [
    "command_line",
    "console_at_least",
    "print_comparison",
    "print_figures",
    "print_items",
    "print_quality",
    "print_report",
    "print_rows",
    "this_command",
]


def command_line(
    *words: str | PathLike[str],
    options: Mapping[str, str | None] | None = None,
    settings: Sequence[str] | None = None,
) -> str:
    """A command of sidkit that a shell runs as printed.

    words: its name and arguments, of which an address loses its password and keeps its options;
    options: those with a value; settings: NAME=VALUE pairs of --set.
    """
    more = [word for name, value in (options or {}).items() if value is not None for word in (name, value)]
    more += [word for pair in settings or () for word in ("--set", pair)]
    return join(["sidkit", *(_word(word) for word in words), *more])


def this_command() -> str:
    """The command that is running, as a shell would run it again; an address loses its password."""
    return command_line(*sys.argv[1:])


def _word(word: str | PathLike[str]) -> str:
    located = locate(word) if is_address(word) else word
    return f"{located}{located.options}" if isinstance(located, Remote) else str(word)


COLOURS = {"good": "green", "watch": "yellow", "poor": "red"}


def print_quality(figures: Mapping[str, Any], sizes: Sequence[int]) -> None:
    """The quality of a set of SIDs: overall figures, then one line per level."""
    console = Console()
    overall = Table(show_header=False, box=None, pad_edge=False)
    for metric in metrics_for("terminal", figures, per_level=False):
        overall.add_row(metric.label, metric.text(figures[metric.name]))
    per_level = metrics_for("terminal", figures, per_level=True)
    levels = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("level", "size", *(metric.label for metric in per_level)):
        levels.add_column(heading, justify="right")
    for level, size in enumerate(sizes):
        cells = (metric.text(figures[metric.name][level]) for metric in per_level)
        levels.add_row(str(level + 1), f"{size:,}", *cells)
    console.print(overall)
    console.print()
    console.print(levels)


def print_report(facts: Mapping[str, Any], written: Sequence[Any] = ()) -> None:
    """The verdict, then the paths written or, where nothing was written, the quality."""
    console = Console(highlight=False)
    verdict = facts["verdict"]
    console.print(Text(verdict["headline"], style=f"bold {COLOURS[verdict['grade']]}"), soft_wrap=True)
    for finding in verdict["findings"]:
        grade = finding["grade"]
        console.print(Text.assemble((f"{grade:>6}  ", COLOURS[grade]), finding["text"]), soft_wrap=True)
    console.print()
    if written:
        for path in written:
            console.print(Text(f"wrote {path}"), soft_wrap=True)
    else:
        print_quality(facts, facts["sizes"])


def print_comparison(comparison: Comparison) -> None:
    """Tokenizers side by side, best mean bold, second underlined."""
    styles, ranks, columns = {1: "bold", 2: "underline"}, comparison.ranks(), comparison.columns()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method", no_wrap=True)
    for column in columns:
        table.add_column(column.heading, justify="right")
    for label in comparison.figures:
        cells = zip(comparison.cells(label), ranks[label], strict=True)
        table.add_row(Text(plain(label)), *(Text(cell, style=styles.get(rank, "")) for cell, rank in cells))
    console = console_at_least(40 + 16 * len(columns))
    console.print(table)
    fits = [runs for label, runs in comparison.figures.items() if label not in comparison.spread]
    runs, seeds = sum(map(len, fits)), ", ".join(map(str, comparison.seeds))
    console.print(f"{count_of(runs, 'run')} over seeds {seeds}; {comparison.reused} were on disk already")
    if comparison.is_counted:
        from ..report.counted import PREDICTS
        from ..report.lead import lead_of

        console.print(f"\nRanked by {PREDICTS}.", style="dim", highlight=False, soft_wrap=True)
        console.print(Text(plain(lead_of(comparison)[0]), style="bold"), soft_wrap=True)


def print_rows(lines: Sequence[str], head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A few lines, then a table."""
    console = Console(highlight=False)
    for line in lines:
        console.print(Text(plain(line)), soft_wrap=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in head:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console.print(table)


def print_items(prefix: str, count: int, items: Sequence[Mapping[str, Any]], form: Template) -> None:
    """The items under a prefix, with their texts where known."""
    console = Console()
    console.print(f"{plain(prefix)}: {count:,} item{'s' if count != 1 else ''}", markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    for item in items:
        sid = form.write(item["codes"])
        table.add_row(Text(plain(item["item_id"])), Text(plain(sid)), Text(plain(item.get("text", ""))))
    console.print(table)
    if count > len(items):
        console.print(f"… and {count - len(items):,} more (--limit 0 shows all)")


WIDE = 120  # columns that all figures take


def print_figures(
    means: Mapping[str, Any],
    users: int,
    counting: Mapping[str, Mapping[str, float]],
    seeds: Sequence[int] = (),
    stds: Mapping[str, float] | None = None,
) -> None:
    """One line per reading, one column per figure; below, what counting gives without a model.

    Of several seeds the means, and a line for the standard deviations. A terminal too narrow for all columns gets a
    table for each of Recall, NDCG and MRR.
    """
    from ..measure.ranking import CUTS, LABELS, labels_at
    from ..retriever.page import READINGS, WITHOUT_MODEL

    labels = labels_at(*CUTS)
    rows = []
    for reading, words in READINGS.items():
        if f"{reading}_recall@5" not in means:
            continue
        rows.append((words, {name: means[f"{reading}_{name}"] for name in labels}, ""))
        if stds:
            rows.append(("  ± over seeds", {name: stds[f"{reading}_{name}"] for name in labels}, "dim"))
    rows += [(WITHOUT_MODEL[name], dict(figures), "dim") for name, figures in counting.items()]
    console, names = console_at_least(WIDE), list(labels)
    width = len(names) if console.width >= WIDE else len(names) // len(LABELS)
    for start in range(0, len(names), width):
        columns = names[start : start + width]
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(count_of(users, "user"), no_wrap=True)
        for name in columns:
            table.add_column(labels[name], no_wrap=True)
        for words, figures, style in rows:
            table.add_row(words, *(f"{figures[name]:.4f}" for name in columns), style=style)
        console.print(table)
    console.print("one target per user, so HitRate@K equals Recall@K", style="dim")
    if seeds:
        words = f"mean and standard deviation over seeds {', '.join(map(str, seeds))}" if stds else f"seed {seeds[0]}"
        console.print(words, style="dim", highlight=False)
    if (valid := means["valid_share"]) < 1:
        console.print(f"{valid:.1%} of what was generated are SIDs of items", style="dim", highlight=False)


def console_at_least(width: int, highlight: bool = True) -> Console:
    """A console as wide as the terminal; where the output goes to a file, at least this wide."""
    console = Console(highlight=highlight)
    return console if console.is_terminal else Console(highlight=highlight, width=max(console.width, width))
