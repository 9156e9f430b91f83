"""What `sidkit demo` prints: the quality, a look into the tree, and commands to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from .printing import command_line, print_quality

if TYPE_CHECKING:
    from ..demo.build import Demo, Prefix

__all__ = ["next_commands", "print_demo"]


def print_demo(made: Demo) -> None:
    console = Console(highlight=False)
    print_quality(made.facts, made.table.sizes)
    console.print("\n[bold]What prefixes share, and what the next token distinguishes[/bold]")
    for prefix in made.prefixes:
        _print_prefix(console, prefix)
    console.print(f"\n[bold]In short[/bold]  {made.facts['verdict']['headline']}")
    page = escape(str(made.output / "report.html"))
    console.print(f"The full report, to open in a browser: [cyan]{page}[/cyan]\n", soft_wrap=True)
    console.print("[bold]Next[/bold]")
    for command, purpose in next_commands(made):
        console.print(f"  {escape(command)}\n      [dim]{purpose}[/dim]", soft_wrap=True)


def _print_prefix(console: Console, prefix: Prefix) -> None:
    console.print(f"\n[cyan]{prefix.token}[/cyan] {prefix.items:,} items: {', '.join(prefix.words)}")
    for branch in prefix.branches:
        console.print(f"   [green]{branch.token}[/green] {branch.items:>3} {', '.join(branch.words)}")
        for title in branch.titles:
            console.print(f"            [dim]{title}[/dim]", markup=True, overflow="ellipsis", no_wrap=True)


def next_commands(made: Demo) -> list[tuple[str, str]]:
    """Commands to try on what was made, and what each is for."""
    out, first = made.output, made.table.ids[0].as_py()
    sids, items, sequences = (out / f"{name}.parquet" for name in ("sids", "items", "sequences"))
    crowded = next((group["sid"] for group in made.facts["collision_groups"]), made.table.template.write_prefix((0,)))
    small = ("--preset", "tiny", "--history", "10", "--learning-rate", "2e-3", "--epochs", "5")
    return [
        (command_line("explore", sids, "--items", items), "walk the prefixes in a browser"),
        (command_line("report", sids), "the figures above; --json for machines"),
        (command_line("lookup", sids, first, "--items", items), "an item and its bucket"),
        (command_line("lookup", sids, crowded, "--items", items), "the largest bucket"),
        (
            command_line("encode", out / "tok", items, "-o", out / "unique.parquet", "--spread"),
            "a separate SID for every item",
        ),
        (command_line("advise", items, "--icr", "0.9"), "which sizes would separate more items"),
        (command_line("compare", items, "-o", "compare.html"), "this tokenizer beside another"),
        (
            command_line("train", sids, sequences, "-o", out / "run", *small),
            "a recommender that generates semantic IDs, from what visitors looked at (a minute on a CPU)",
        ),
        (command_line("fit", items, "-o", "tok/", "--sizes", "256-256-256"), "the same with your own sizes"),
        (command_line("show", out / "tok"), "its recipe, as JSON that you can change"),
    ]
