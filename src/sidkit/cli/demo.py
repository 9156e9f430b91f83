"""demo: everything once, on a shop that is made up."""

from pathlib import Path
from typing import Annotated

import typer

from .app import app
from .options import require_folder, require_seed


@app.command()
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
        story = run_demo(output, items, seed, progress)
    story()
