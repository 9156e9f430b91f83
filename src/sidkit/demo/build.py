"""`sidkit demo`: simulate a shop, embed it, fit a tokenizer, encode and report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..data.embeddings import open_embeddings
from ..data.inputs import as_rows
from ..data.sequences import Sequences, read_sequences
from ..embed.text import embed_texts
from ..embed.word_counts import WordCounts
from ..errors import SpecError
from ..files.atomic import replace_file, replace_folder
from ..files.ours import claim
from ..files.table_formats import write_table
from ..measure.counting import counted_by_token
from ..progress import Progress
from ..report.evidence import gather
from ..report.groups import largest_branches, typical_prefixes
from ..report.made import Made, of_table
from ..report.page import report_page
from ..search.grammar.catalogue import catalogue
from ..sids.origin import Origin
from ..sids.quality import quality
from ..sids.table import SidTable
from ..tokenizer.fingerprint import DIGEST_ROWS, embeddings_digest, spaced_rows
from ..tokenizer.recipes import prq_kmeans
from ..tokenizer.spread import spread
from .visits import visits

__all__ = ["CROWD", "ITEMS", "Branch", "Demo", "Prefix", "Spread", "run_demo"]

DIMENSIONS = 128
SIZES = (256, 256, 256)
ITEMS, CROWD = 10_000, 20_000  # of the shop, and of a shop that is too large for its codes
PREFIXES, BRANCHES, EXAMPLES = 3, 4, 2  # of the tree, to be shown
VISIT = 3  # items of a visitor, to recommend after


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


class Spread(NamedTuple):
    """What spreading the items did: those that share a SID / items, and counted NDCG@20, each before and after."""

    sharing: tuple[float, float]
    counted: tuple[float, float]


class Demo(NamedTuple):
    """The results of the demo: a folder of files, the table, the facts of its report, and a part of the tree.

    visit: what a visitor looked at first. spread: None for a crowded shop, whose items are not spread.
    """

    output: Path
    table: SidTable
    facts: dict[str, Any]
    prefixes: list[Prefix]
    visit: list[str]
    spread: Spread | None = None


def run_demo(output: Path, items: int, seed: int, progress: Progress, crowded: bool = False, command: str = "") -> Demo:
    """Make everything and write it to a folder, which appears when it is complete.

    crowded: leave items on the SIDs that they share; command: for the head of the report.
    """
    if items < max(SIZES):
        raise SpecError(f"the demo needs at least {max(SIZES)} items, not {items}")
    with replace_folder(output) as folder:
        claim(folder)
        return _fill(folder, output, items, seed, progress, crowded, command)


def _fill(folder: Path, output: Path, items: int, seed: int, progress: Progress, crowded: bool, command: str) -> Demo:
    """Write everything to a folder that will be `output`."""
    shop, X = _shop(folder, items, seed, progress)
    titles = shop.column("title").to_pylist()
    fitted = prq_kmeans(SIZES).fit(X, seed=seed, progress=progress)
    fitted.save(folder / "tok")
    nearest = fitted.encode(X, progress=progress)
    codes = nearest if crowded else spread(fitted, X, nearest, progress)
    source = open_embeddings(folder / "items.parquet")
    digest = embeddings_digest(spaced_rows(as_rows(X, "cpu"), DIGEST_ROWS), X.shape)
    origin = Origin("item_id", str(output / "tok"), fitted.digest, str(output / "items.parquet"), digest)
    table = SidTable(shop.column("item_id"), codes, fitted.sizes, origin=origin)
    table.to_parquet(folder / "sids.parquet")
    sequences = read_sequences(folder / "sequences.parquet", table.ids)
    evidence = gather(table, fitted, source, titles, sequences, shop.column("category").to_pylist(), progress=progress)
    with replace_file(folder / "report.html") as temporary:
        made = Made(command, of_table(table, str(output / "sids.parquet")))
        temporary.write_text(report_page(evidence, f"A simulated shop of {items:,} products", made), encoding="utf-8")
    counts = WordCounts(titles)
    prefixes = [_prefix(table, counts, titles, code) for code in typical_prefixes(table, PREFIXES)]
    did = None if crowded else _spread(nearest, evidence.facts, sequences)
    visit = table.ids.take(sequences.rows[sequences.starts[0] :][:VISIT]).to_pylist()
    return Demo(output, table, evidence.facts, prefixes, visit, did)


def _shop(folder: Path, items: int, seed: int, progress: Progress) -> tuple[Any, NDArray[np.float32]]:
    """The catalogue, its vectors and its visitors, written to files; the first two."""
    progress.start("catalogue", items)
    shop = catalogue(items, seed)
    progress.advance(items)
    progress.start("embed", items)
    X = embed_texts(shop.column("title").to_pylist(), DIMENSIONS, seed)
    progress.advance(items)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    write_table(folder / "items.parquet", shop.append_column("embedding", vectors), compression="zstd")
    write_table(folder / "sequences.parquet", visits(shop, seed=seed), compression="zstd")
    return shop, X


def _spread(nearest: NDArray[np.int32], facts: dict[str, Any], sequences: Sequences) -> Spread:
    before = quality(nearest, SIZES)["collision_per_item"]
    counted = counted_by_token(nearest, SIZES, sequences)["ndcg@20"]
    after = facts["counting"]["by_first_token"]["ndcg@20"]
    return Spread((before, facts["collision_per_item"]), (counted, after))


def _prefix(table: SidTable, counts: WordCounts, titles: list[str], code: int) -> Prefix:
    rows = table.rows_of((code,))
    groups = largest_branches(table, rows, 1, BRANCHES)
    first, second = (table.template.words(level, table.sizes[level]) for level in (0, 1))
    branches = [
        Branch(second[table.codes[group[0], 1]], len(group), words, [titles[int(row)] for row in group[:EXAMPLES]])
        for group, words in zip(groups, counts.contrast(groups), strict=True)
    ]
    return Prefix(first[code], len(rows), counts.shared(rows) or counts.distinctive(rows), branches)
