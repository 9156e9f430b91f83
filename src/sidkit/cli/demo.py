"""sidkit demo: every step once, on a simulated shop."""

from pathlib import Path
from typing import Annotated

import typer

from .options import Force
from .outputs import require_folder
from .parsing import require_seed


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write everything to")] = Path("sidkit-demo"),
    items: Annotated[int, typer.Option("--items", help="Number of products")] = 20_000,
    seed: Annotated[int, typer.Option("--seed", help="Another seed makes another shop")] = 0,
    force: Force = False,
) -> None:
    """sidkit demo

    Simulates a shop catalogue, embeds its titles, fits PRQ-KMeans, encodes, and shows what the semantic IDs mean.
    Writes a folder that the other commands can use.
    """
    from ..demo.build import run_demo
    from ..files.ours import claim, require_own_folder
    from .print_demo import print_demo
    from .terminal import Terminal

    require_seed(seed)
    require_folder(output, lambda folder: require_own_folder(folder, "demo"), force)
    claim(output)
    with Terminal() as progress:
        made = run_demo(output, items, seed, progress)
    print_demo(made)
