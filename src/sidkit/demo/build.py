"""`sidkit demo`: simulate a shop, embed it, fit a tokenizer, encode and report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ..data.embeddings import open_embeddings
from ..embed.text import embed_texts
from ..embed.word_counts import WordCounts
from ..errors import SpecError
from ..files.atomic import replace_file
from ..progress import Progress
from ..report.evidence import gather
from ..report.groups import largest_branches, typical_prefixes
from ..report.page import report_page
from ..search.grammar.catalogue import catalogue
from ..sids.origin import Origin
from ..sids.table import SidTable
from ..tokenizer.recipes import prq_kmeans
from .visits import visits

__all__ = ["Branch", "Demo", "Prefix", "run_demo"]

DIMENSIONS = 128
SIZES = (256, 256, 256)
PREFIXES, BRANCHES, EXAMPLES = 3, 4, 2  # of the tree, to be shown


class Branch(NamedTuple):
    """The items of a prefix that share their second token."""

    token: str
    items: int
    words: list[str]  # that distinguish it from the other branches
    titles: list[str]


class Prefix(NamedTuple):
    """The items that share a first token."""

    token: str
    items: int
    words: list[str]  # that they share
    branches: list[Branch]


class Demo(NamedTuple):
    """The results of the demo: a folder of files, the table, the facts of its report, and a part of the tree."""

    output: Path
    table: SidTable
    facts: dict[str, Any]
    prefixes: list[Prefix]


def run_demo(output: Path, items: int, seed: int, progress: Progress) -> Demo:
    """Make everything and write it to a folder."""
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
    origin = Origin("item_id", str(output / "tok"), fitted.digest)
    table = SidTable(shop.column("item_id"), fitted.encode(X, progress=progress), fitted.sizes, origin=origin)
    table.to_parquet(output / "sids.parquet")
    evidence = gather(
        table, fitted, open_embeddings(output / "items.parquet"), titles,
        categories=shop.column("category").to_pylist(), progress=progress,
    )  # fmt: skip
    with replace_file(output / "report.html") as temporary:
        temporary.write_text(report_page(evidence, f"A simulated shop of {items:,} products"), encoding="utf-8")
    counts = WordCounts(titles)
    prefixes = [_prefix(table, counts, titles, code) for code in typical_prefixes(table, PREFIXES)]
    return Demo(output, table, evidence.facts, prefixes)


def _prefix(table: SidTable, counts: WordCounts, titles: list[str], code: int) -> Prefix:
    rows = table.rows_of((code,))
    groups = largest_branches(table, rows, 1, BRANCHES)
    first, second = (table.template.words(level, table.sizes[level]) for level in (0, 1))
    branches = [
        Branch(second[table.codes[group[0], 1]], len(group), words, [titles[int(row)] for row in group[:EXAMPLES]])
        for group, words in zip(groups, counts.contrast(groups), strict=True)
    ]
    return Prefix(first[code], len(rows), counts.shared(rows) or counts.distinctive(rows), branches)
