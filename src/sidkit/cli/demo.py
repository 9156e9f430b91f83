"""sidkit demo: everything once, on a shop that is made up."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import require_folder, require_seed

if TYPE_CHECKING:
    from ..demo.build import Demo, Prefix


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to leave everything in")] = Path("sidkit-demo"),
    items: Annotated[int, typer.Option("--items", help="How many products to make up")] = 20_000,
    seed: Annotated[int, typer.Option("--seed", help="Another seed, another shop")] = 0,
) -> None:
    """sidkit demo

    Makes up a shop catalogue, embeds its titles, fits PRQ-KMeans, encodes, and shows what the semantic IDs say.
    Leaves a folder that the other commands can use.
    """
    from ..demo.build import run_demo
    from .terminal import Terminal

    require_seed(seed)
    require_folder(output)
    with Terminal() as progress:
        made = run_demo(output, items, seed, progress)
    _print(made)


def _print(made: "Demo") -> None:
    from rich.console import Console

    from .printing import print_quality

    console = Console(highlight=False)
    print_quality(made.facts, made.table.sizes)
    console.print("\n[bold]What prefixes share, and what the next token tells apart[/bold]")
    for prefix in made.prefixes:
        _print_prefix(console, prefix)
    console.print(f"\n[bold]In short[/bold]  {made.facts['verdict']['headline']}")
    console.print(f"The whole report, to open in a browser: [cyan]{made.output}/report.html[/cyan]\n", soft_wrap=True)
    console.print("[bold]Next[/bold]")
    for command, purpose in _next(made):
        console.print(f"  {command}\n      [dim]{purpose}[/dim]", soft_wrap=True)


def _print_prefix(console: Any, prefix: "Prefix") -> None:
    console.print(f"\n[cyan]{prefix.token}[/cyan] {prefix.items:,} items: {', '.join(prefix.words)}")
    for branch in prefix.branches:
        console.print(f"   [green]{branch.token}[/green] {branch.items:>3} {', '.join(branch.words)}")
        for title in branch.titles:
            console.print(f"            [dim]{title}[/dim]", markup=True, overflow="ellipsis", no_wrap=True)


def _next(made: "Demo") -> list[tuple[str, str]]:
    """Commands to try on what was made, and what each is for."""
    out, first = made.output, made.table.ids[0]
    sids, items = f"{out}/sids.parquet", f"{out}/items.parquet"
    crowded = next((group["sid"] for group in made.facts["collision_groups"]), made.table.template.write_prefix((0,)))
    training = "--preset tiny --history 10 --learning-rate 2e-3 --epochs 5"
    return [
        (f"sidkit explore {sids} --items {items}", "walk the prefixes in a browser"),
        (f"sidkit report {sids}", "the figures above, or --json for machines"),
        (f"sidkit lookup {sids} {first} --items {items}", "an item and its bucket"),
        (f"sidkit lookup {sids} '{crowded}' --items {items}", "the fullest bucket"),
        (f"sidkit encode {out}/tok {items} -o {out}/unique.parquet --spread", "a SID of its own for every item"),
        (f"sidkit advise {items} --icr 0.9", "which sizes would tell more items apart"),
        (f"sidkit compare {items} -o compare.html", "this tokenizer beside another"),
        (
            f"sidkit train {sids} {out}/sequences.parquet -o {out}/run {training}",
            "a recommender that writes semantic IDs, from what visitors looked at (a minute on a CPU)",
        ),
        (f"sidkit fit {items} -o tok/ --sizes 256-256-256", "the same with your own sizes"),
        (f"sidkit show {out}/tok", "the recipe behind it, as JSON to change"),
    ]
