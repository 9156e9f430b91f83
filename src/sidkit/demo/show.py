"""`sidkit demo`: a shop made up, embedded, fitted, encoded, and told about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import SpecError
from ..files import replace_file
from ..progress import Progress
from ..recipes import prq_kmeans
from ..report.metrics import quality
from ..sids import SidTable
from ..text import WordCounts, embed_texts
from .catalogue import catalogue

__all__ = ["run_demo"]

DIMENSIONS = 128
SIZES = (256, 256, 256)
PREFIXES, BRANCHES, EXAMPLES = 3, 4, 2  # how much of the tree is told


def run_demo(output: Path, items: int, seed: int, progress: Progress) -> Callable[[], None]:
    """Do all the work and write it to a folder; the function returned prints the story."""
    if items < max(SIZES):
        raise SpecError(f"the demo needs at least {max(SIZES)} items, not {items}")
    progress.start("catalogue", items)
    shop = catalogue(items, seed)
    progress.advance(items)
    progress.start("embed", items)
    titles = shop.column("title").to_pylist()
    X = embed_texts(titles, DIMENSIONS, seed)
    progress.advance(items)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    with replace_file(output / "items.parquet") as temporary:
        pq.write_table(shop.append_column("embedding", vectors), temporary, compression="zstd")
    fitted = prq_kmeans(SIZES).fit(X, seed=seed, progress=progress)
    fitted.save(output / "tok")
    table = SidTable(shop.column("item_id"), fitted.encode(X, progress=progress), fitted.sizes)
    table.to_parquet(output / "sids.parquet")
    return lambda: _tell(output, table, titles, shop.column("item_id").to_pylist())


def _tell(output: Path, table: SidTable, titles: list[str], ids: list[str]) -> None:
    from rich.console import Console

    from ..terminal import print_quality

    console = Console(highlight=False)
    print_quality(quality(table.codes, table.sizes), table.sizes)
    counts = WordCounts(titles)
    console.print("\n[bold]What prefixes share, and what the next token tells apart[/bold]")
    for prefix in _telling_prefixes(table):
        _tell_prefix(console, table, counts, titles, prefix)
    twin = _shared_sid(table)
    console.print("[bold]Next[/bold]")
    for command, what in (
        (f"sidkit report {output}/sids.parquet", "the figures above, or --json for machines"),
        (f"sidkit lookup {output}/sids.parquet {ids[0]} --items {output}/items.parquet", "an item and its bucket"),
        (f"sidkit lookup {output}/sids.parquet '{twin}' --items {output}/items.parquet", "the fullest bucket"),
        (f"sidkit fit {output}/items.parquet -o tok/ --sizes 256-256-256", "the same with your own sizes"),
        (f"sidkit show {output}/tok", "the recipe behind it, as JSON to change"),
    ):
        console.print(f"  {command}\n      [dim]{what}[/dim]", soft_wrap=True)


def _telling_prefixes(table: SidTable) -> list[int]:
    """First tokens of typical size, spread over the codebook."""
    sizes = np.bincount(table.codes[:, 0], minlength=table.sizes[0])
    middling = np.flatnonzero((sizes > 0) & (np.abs(sizes - np.median(sizes)) <= np.median(sizes) / 2))
    return [int(middling[i * len(middling) // PREFIXES]) for i in range(PREFIXES)]


def _tell_prefix(console: Any, table: SidTable, counts: WordCounts, titles: list[str], first: int) -> None:
    rows = table.rows_of((first,))
    words = counts.shared(rows) or counts.distinctive(rows)
    console.print(f"\n[cyan]<a_{first}>[/cyan] {len(rows):,} items: {', '.join(words)}")
    branches = _largest_branches(table, rows)
    told = counts.contrast(branches)
    for branch, apart in zip(branches, told, strict=True):
        second = int(table.codes[branch[0], 1])
        console.print(f"   [green]<b_{second}>[/green] {len(branch):>3} {', '.join(apart)}")
        for row in branch[:EXAMPLES]:
            console.print(f"            [dim]{titles[int(row)]}[/dim]", markup=True, overflow="ellipsis", no_wrap=True)


def _largest_branches(table: SidTable, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    second = table.codes[rows, 1]
    largest = np.argsort(-np.bincount(second), kind="stable")[:BRANCHES]
    return [rows[second == code] for code in largest if (second == code).any()]


def _shared_sid(table: SidTable) -> str:
    counts = table.prefix_counts(len(table.sizes))
    fullest = max(counts, key=lambda sid: counts[sid])
    return "".join(f"<{'abc'[level]}_{code}>" for level, code in enumerate(fullest))
