"""sidkit search demo: generative search once, from nothing to an answered query."""

from pathlib import Path
from typing import Annotated

import typer

from ..options import Force
from ..outputs import require_folder
from ..parsing import require_seed


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write everything to")] = Path("search-demo"),
    items: Annotated[int, typer.Option("--items", help="Items of the shop")] = 1500,
    rows: Annotated[int, typer.Option("--rows", help="Searches in its log")] = 8000,
    seed: Annotated[int, typer.Option("--seed", help="Another seed makes another shop")] = 0,
    force: Force = False,
) -> None:
    """sidkit search demo

    Simulates a shop with a log of searches, gives its items and queries semantic IDs, trains a tiny model in three
    stages, compares it with BM25, nearest neighbours and counting, and asks it a query. Takes some minutes on two
    cores. The folder has every file that the single commands would write.
    """
    from ...errors import need

    need("torch", "search", "the demo of search")
    from ...demo.search import run_search_demo
    from ...files.ours import claim, require_own_folder
    from ..printing import command_line, print_rows
    from ..terminal import Terminal
    from .print_evaluation import print_evaluation

    require_seed(seed)
    require_folder(output, lambda folder: require_own_folder(folder, "demo"), force)
    claim(output)
    with Terminal() as progress:
        made = run_search_demo(output, items, rows, seed, progress)
    print_evaluation(made.evaluation)
    titles = made.model.parts.items.column("title")
    shown = [
        (str(number), titles[one.row].as_py(), one.sid, f"{one.probability:.2%}")
        for number, one in enumerate(made.answers[:8], 1)
    ]
    print_rows([f'asked for "{made.question}":'], ["", "title", "SID", "how sure"], shown)
    took = ", ".join(f"{step} {seconds:.0f} s" for step, seconds in made.seconds.items())
    print(f"\n{took}; a larger model and more data answer better")
    print(f"wrote {output}; next: {command_line('search', 'ask', output / 'run', made.question)}")
