"""Tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .terminal import plain

if TYPE_CHECKING:
    from ..report.compare import Comparison
    from ..sids.template import Template

__all__ = ["print_comparison", "print_figures", "print_items", "print_quality", "print_report", "print_rows"]


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


FIGURES = [f"{metric}@{cut}" for metric in ("Recall", "NDCG", "MRR") for cut in (5, 10, 20)]


WIDE = 120  # columns that all figures take


def print_figures(
    means: Mapping[str, Any],
    users: int,
    counting: Mapping[str, Mapping[str, float]],
    seeds: Sequence[int] = (),
    stds: Mapping[str, float] | None = None,
) -> None:
    """One line per reading, one column per figure; below, what counting gives without a model. Of several seeds their
    means, and a line for the standard deviations. A terminal too narrow for all columns gets a table for each of
    Recall, NDCG and MRR."""
    from rich.console import Console
    from rich.table import Table

    readings = {
        "item": "item (a random one per SID)",
        "expected": "item, expected",
        "corrected": "item, collision-corrected",
        "sid": "SID",
    }
    simple = {"popular": "no model: the most popular", "followed": "no model: what followed the last item"}
    rows = []
    for name, words in readings.items():
        rows.append((words, {key: means[f"{name}_{key.lower()}"] for key in FIGURES}, ""))
        if stds:
            rows.append(("  ± over seeds", {key: stds[f"{name}_{key.lower()}"] for key in FIGURES}, "dim"))
    rows += [(simple[name], {key: found[key.lower()] for key in FIGURES}, "dim") for name, found in counting.items()]
    console = Console()
    console = Console(width=max(console.width, WIDE)) if not console.is_terminal else console
    for some in [FIGURES] if console.width >= WIDE else [FIGURES[:3], FIGURES[3:6], FIGURES[6:]]:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(f"{users:,} users", no_wrap=True)
        for key in some:
            table.add_column(key, no_wrap=True)
        for words, figures, style in rows:
            table.add_row(words, *(f"{figures[key]:.4f}" for key in some), style=style)
        console.print(table)
    console.print("one target per user, so HitRate@K equals Recall@K", style="dim")
    if seeds:
        words = f"mean and standard deviation over seeds {', '.join(map(str, seeds))}" if stds else f"seed {seeds[0]}"
        console.print(words, style="dim", highlight=False)
    if (valid := means["valid_share"]) < 1:
        console.print(f"{valid:.1%} of what was generated are SIDs of items", style="dim", highlight=False)
