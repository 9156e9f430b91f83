"""What `sidkit demo` prints: the quality, a look into the tree, and commands to try."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from shutil import which
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from ..errors import count_of
from .printing import COLOURS, command_line, print_quality

if TYPE_CHECKING:
    from ..demo.build import Demo, Prefix

__all__ = ["next_commands", "print_demo"]


def print_demo(made: Demo) -> None:
    console = Console(highlight=False)
    print_quality(made.facts, made.table.sizes)
    console.print("\n[bold]What prefixes share, and what the next token distinguishes[/bold]")
    for prefix in made.prefixes:
        _print_prefix(console, prefix)
    verdict = made.facts["verdict"]
    console.print(f"\n[bold]In short[/bold]  [{COLOURS[verdict['grade']]}]{escape(verdict['headline'])}[/]")
    if made.spread is not None:
        (shared, still), (before, after) = made.spread
        console.print(
            f"By nearest centroids alone {shared:.1%} of the items would share a SID; spread over free codes "
            f"(--spread), {still:.1%} do. What counting SIDs can recommend rises with it: NDCG@20 from {before:.3f} to "
            f"{after:.3f}.",
            soft_wrap=True,
        )
    page = escape(str(made.output / "report.html"))
    console.print(f"The full report, to open in a browser: [cyan]{page}[/cyan]\n", soft_wrap=True)
    console.print("[bold]Next[/bold]")
    if activate := _to_activate():
        console.print(f"  {escape(activate)}\n      [dim]so that sidkit is found[/dim]", soft_wrap=True)
    for command, purpose in next_commands(made):
        console.print(f"  {escape(command)}\n      [dim]{escape(purpose)}[/dim]", soft_wrap=True)


def _to_activate() -> str:
    """The line that puts sidkit on the path; empty where it is there, or not in a virtual environment."""
    script = Path(sys.prefix) / "bin" / "activate"
    if which("sidkit") or not script.exists():
        return ""
    here = Path.cwd()
    return f". {quote(str(script.relative_to(here) if script.is_relative_to(here) else script))}"


def _print_prefix(console: Console, prefix: Prefix) -> None:
    console.print(f"\n[cyan]{prefix.token}[/cyan] {count_of(prefix.items, 'item')}: {', '.join(prefix.words)}")
    for branch in prefix.branches:
        console.print(f"   [green]{branch.token}[/green] {branch.items:>3} {', '.join(branch.words)}")
        for title in branch.titles:
            console.print(f"            [dim]{title}[/dim]", markup=True, overflow="ellipsis", no_wrap=True)


def next_commands(made: Demo) -> list[tuple[str, str]]:
    """Commands to try on what was made, and what each is for."""
    out, table = made.output, made.table
    first, prefix = table.ids[0].as_py(), table.template.write_prefix(table.codes[0, :2].tolist(), len(table.sizes))
    sids, items, sequences = (out / f"{name}.parquet" for name in ("sids", "items", "sequences"))
    small = ("--preset", "tiny", "--history", "10", "--learning-rate", "2e-3", "--epochs", "5")
    seen = ",".join(made.visit)
    pages = out / "report.html", out / "compare.html"
    return [
        (command_line("explore", sids, "--items", items), "walk the prefixes in a browser" + _needs("explore")),
        (
            command_line("report", sids, out / "tok", "--items", items, "--sequences", sequences, "-o", pages[0]),
            "the report again; without -o in the terminal, --json for machines",
        ),
        (command_line("lookup", sids, first, "--items", items), "an item and its bucket"),
        (command_line("lookup", sids, prefix, "--items", items), "the items under the first two tokens of its SID"),
        *_about_crowds(made, items, sequences),
        (
            command_line("advise", items, "--sequences", sequences),
            "which sizes recommend best, by counting and without training",
        ),
        (command_line("compare", items, "--sequences", sequences, "-o", pages[1]), "this tokenizer beside another"),
        (
            command_line("train", sids, sequences, "-o", out / "run", *small),
            "a recommender that generates semantic IDs, from what visitors looked at (a minute on a CPU)"
            + _needs("retriever"),
        ),
        (
            command_line("recommend", out / "run", "--history", seen, "--items", items),
            "what it recommends after these items, and how sure it is" + _needs("retriever"),
        ),
        (command_line("fit", items, "-o", out / "tok-512", "--sizes", "512-512-512"), "the same with your own sizes"),
        (command_line("show", out / "tok"), "its recipe, as JSON that you can change"),
    ]


def _about_crowds(made: Demo, items: Path, sequences: Path) -> list[tuple[str, str]]:
    """Where items share SIDs: the largest bucket, and how to spread it. Elsewhere: how it looks if they do."""
    out = made.output
    if made.spread is not None:
        crowd = out.with_name(f"{out.name}-crowded")
        return [(command_line("demo", "--crowded", "-o", crowd), "what a bad verdict looks like: items share SIDs")]
    crowded = next((group["sid"] for group in made.facts["collision_groups"]), made.table.strings()[0].as_py())
    unique = out / "unique.parquet"
    return [
        (command_line("lookup", out / "sids.parquet", crowded, "--items", items), "the largest bucket"),
        (command_line("encode", out / "tok", items, "-o", unique, "--spread"), "a separate SID for every item"),
        (command_line("report", unique, "--sequences", sequences), "and how good those are"),
    ]


def _needs(extra: str) -> str:
    """A note on an extra that is not installed."""
    packages = {"explore": "starlette", "retriever": "torch"}
    return "" if find_spec(packages[extra]) else f"; needs pip install 'sidkit[{extra}]'"
