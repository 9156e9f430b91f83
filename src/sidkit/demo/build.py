"""`sidkit demo`: a shop made up, embedded, fitted, encoded, and told about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..data.embeddings import open_embeddings
from ..embed.text import WordCounts, embed_texts
from ..errors import SpecError
from ..files.atomic import replace_file
from ..progress import Progress
from ..report.evidence import gather
from ..report.groups import largest_branches, typical_prefixes
from ..report.page import report_page
from ..sids.table import SidTable
from ..tokenizer.recipes import prq_kmeans
from .catalogue import catalogue
from .visits import visits

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
    with replace_file(output / "sequences.parquet") as temporary:
        pq.write_table(visits(shop, seed=seed), temporary, compression="zstd")
    fitted = prq_kmeans(SIZES).fit(X, seed=seed, progress=progress)
    fitted.save(output / "tok")
    table = SidTable(shop.column("item_id"), fitted.encode(X, progress=progress), fitted.sizes)
    table.to_parquet(output / "sids.parquet")
    found = gather(
        table, fitted, open_embeddings(output / "items.parquet"), titles,
        categories=shop.column("category").to_pylist(), progress=progress,
    )  # fmt: skip
    with replace_file(output / "report.html") as temporary:
        temporary.write_text(report_page(found, f"A made-up shop of {items:,} products"), encoding="utf-8")
    return lambda: _tell(output, table, titles, found.facts)


def _tell(output: Path, table: SidTable, titles: list[str], facts: dict[str, Any]) -> None:
    from rich.console import Console

    from ..cli.terminal import print_quality

    console = Console(highlight=False)
    print_quality(facts, table.sizes)
    counts = WordCounts(titles)
    console.print("\n[bold]What prefixes share, and what the next token tells apart[/bold]")
    for prefix in typical_prefixes(table, PREFIXES):
        _tell_prefix(console, table, counts, titles, prefix)
    crowded = next((group["sid"] for group in facts["collision_groups"]), "<a_0>")
    console.print(f"\n[bold]In short[/bold]  {facts['verdict']['headline']}")
    console.print(f"The whole report, to open in a browser: [cyan]{output}/report.html[/cyan]\n", soft_wrap=True)
    console.print("[bold]Next[/bold]")
    for command, what in (
        (f"sidkit explore {output}/sids.parquet --items {output}/items.parquet", "walk the prefixes in a browser"),
        (f"sidkit report {output}/sids.parquet", "the figures above, or --json for machines"),
        (
            f"sidkit lookup {output}/sids.parquet {table.ids[0]} --items {output}/items.parquet",
            "an item and its bucket",
        ),
        (f"sidkit lookup {output}/sids.parquet '{crowded}' --items {output}/items.parquet", "the fullest bucket"),
        (
            f"sidkit encode {output}/tok {output}/items.parquet -o {output}/unique.parquet --spread",
            "a SID of its own for every item",
        ),
        (f"sidkit advise {output}/items.parquet --icr 0.9", "which sizes would tell more items apart"),
        (f"sidkit compare {output}/items.parquet -o compare.html", "this tokenizer beside another"),
        (
            f"sidkit train {output}/sids.parquet {output}/sequences.parquet -o {output}/run "
            "--preset tiny --history 10 --learning-rate 2e-3 --epochs 5",
            "a recommender that writes semantic IDs, from what visitors looked at (a minute on a CPU)",
        ),
        (f"sidkit fit {output}/items.parquet -o tok/ --sizes 256-256-256", "the same with your own sizes"),
        (f"sidkit show {output}/tok", "the recipe behind it, as JSON to change"),
    ):
        console.print(f"  {command}\n      [dim]{what}[/dim]", soft_wrap=True)


def _tell_prefix(console: Any, table: SidTable, counts: WordCounts, titles: list[str], first: int) -> None:
    rows = table.rows_of((first,))
    words = counts.shared(rows) or counts.distinctive(rows)
    console.print(f"\n[cyan]<a_{first}>[/cyan] {len(rows):,} items: {', '.join(words)}")
    branches = largest_branches(table, rows, 1, BRANCHES)
    told = counts.contrast(branches)
    for branch, apart in zip(branches, told, strict=True):
        second = int(table.codes[branch[0], 1])
        console.print(f"   [green]<b_{second}>[/green] {len(branch):>3} {', '.join(apart)}")
        for row in branch[:EXAMPLES]:
            console.print(f"            [dim]{titles[int(row)]}[/dim]", markup=True, overflow="ellipsis", no_wrap=True)
