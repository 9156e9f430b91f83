"""Tables in the terminal, and commands to run next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from shlex import join
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..files.address import Remote, is_address, locate
from .terminal import plain

if TYPE_CHECKING:
    from ..report.compare import Comparison
    from ..sids.template import Template

__all__ = [
    "command_line",
    "print_comparison",
    "print_figures",
    "print_items",
    "print_quality",
    "print_report",
    "print_rows",
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


def _word(word: str | PathLike[str]) -> str:
    located = locate(word) if is_address(word) else word
    return f"{located}{located.options}" if isinstance(located, Remote) else str(word)


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
    """The verdict, then the quality or, where files were written, their paths."""
    console = Console(highlight=False)
    verdict = facts["verdict"]
    colours = {"good": "green", "watch": "yellow", "poor": "red"}
    console.print(Text(verdict["headline"], style=f"bold {colours[verdict['grade']]}"), soft_wrap=True)
    for finding in verdict["findings"]:
        grade = (f"{finding['grade']:>6}  ", colours[finding["grade"]])
        console.print(Text.assemble(grade, finding["text"]), soft_wrap=True)
    console.print()
    if written:
        for path in written:
            console.print(Text(f"wrote {path}"), soft_wrap=True)
    else:
        print_quality(facts, facts["sizes"])


def print_comparison(comparison: Comparison) -> None:
    """Tokenizers side by side, the best mean bold, the second underlined."""
    styles, ranks = {1: "bold", 2: "underline"}, comparison.ranks()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method", no_wrap=True)
    for heading, _ in comparison.columns():
        table.add_column(heading, justify="right")
    for label in comparison.figures:
        cells = zip(comparison.cells(label), ranks[label], strict=True)
        table.add_row(Text(plain(label)), *(Text(cell, style=styles.get(rank, "")) for cell, rank in cells))
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, 40 + 16 * len(comparison.columns())))
    console.print(table)
    runs, seeds = sum(map(len, comparison.figures.values())), ", ".join(map(str, comparison.seeds))
    console.print(f"{runs} runs over seeds {seeds}; {comparison.reused} were on disk already")


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
    """The items under a prefix, with their texts where these are known."""
    console = Console()
    console.print(f"{plain(prefix)}: {count:,} item{'s' if count != 1 else ''}", markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    for item in items:
        sid = form.write(item["codes"])
        table.add_row(Text(plain(item["item_id"])), Text(plain(sid)), Text(plain(item.get("text", ""))))
    console.print(table)
    if count > len(items):
        console.print(f"… and {count - len(items):,} more (--limit 0 shows all)")


FIGURES = [f"{metric}@{cut}" for metric in ("Recall", "NDCG", "MRR") for cut in (5, 10, 20)]


WIDE = 120  # characters that all figures take


def print_figures(means: Mapping[str, Any], users: int, counting: Mapping[str, Mapping[str, float]]) -> None:
    """A line per way of counting hits, a column per figure; below, recommending by counting, without a model.

    A terminal too narrow for all columns gets a table for each of Recall, NDCG and MRR.
    """
    readings = {
        "item": "item (a random one per SID)",
        "expected": "item, expected",
        "corrected": "item, collision-corrected",
        "sid": "SID",
    }
    simple = {"popular": "no model: the most popular", "followed": "no model: what followed the last item"}
    rows = [(words, {key: means[f"{name}_{key.lower()}"] for key in FIGURES}, "") for name, words in readings.items()]
    rows += [(simple[name], {key: one[key.lower()] for key in FIGURES}, "dim") for name, one in counting.items()]
    console = Console()
    console = Console(width=max(console.width, WIDE)) if not console.is_terminal else console
    for columns in [FIGURES] if console.width >= WIDE else [FIGURES[:3], FIGURES[3:6], FIGURES[6:]]:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(f"{users:,} users", no_wrap=True)
        for key in columns:
            table.add_column(key, no_wrap=True)
        for words, figures, style in rows:
            table.add_row(words, *(f"{figures[key]:.4f}" for key in columns), style=style)
        console.print(table)
    console.print("one target per user, so HitRate@K equals Recall@K", style="dim")
    if (valid := means["valid_share"]) < 1:
        console.print(f"{valid:.1%} of what was generated are SIDs of items", style="dim", highlight=False)
