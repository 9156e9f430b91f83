"""sidkit demo: every step once, on a simulated shop."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError
from .options import Force
from .outputs import require_folder
from .parsing import require_seed


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write everything to")] = Path("sidkit-demo"),
    items: Annotated[
        int | None, typer.Option("--items", help="Number of products [default: 10,000; 20,000 with --crowded]")
    ] = None,
    crowded: Annotated[
        bool, typer.Option("--crowded", help="A shop whose items share SIDs: what a bad verdict looks like")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="Another seed makes another shop")] = 0,
    force: Force = False,
) -> None:
    """sidkit demo

    Simulates a shop catalogue, embeds its titles, fits PRQ-KMeans, encodes with --spread, and shows what the semantic
    IDs mean. Writes a folder that the other commands can use. With --crowded the shop is twice as large and its items
    are not spread, so that most of them share a SID.
    """
    from ..demo.build import CROWD, ITEMS, run_demo
    from ..files.ours import require_own_folder
    from .print_demo import print_demo
    from .printing import this_command
    from .terminal import Terminal

    require_seed(seed)
    if items is not None and items < 1:
        raise SpecError(f"--items must be at least 1, not {items}")
    require_folder(output, lambda folder: require_own_folder(folder, "demo"), force)
    with Terminal() as progress:
        made = run_demo(output, items or (CROWD if crowded else ITEMS), seed, progress, crowded, this_command())
    print_demo(made)
