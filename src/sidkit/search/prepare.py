"""From a shop to semantic IDs of its items and queries, in one call: embed, align, fit, encode.

folder/
  items-emb.parquet, queries-emb.parquet, items-emb.encoder    as `sidkit embed` writes them
  aligned/                                                     as `sidkit search align`
  tok/                                                         as `sidkit fit`, on items and training queries
  sids.parquet, query-sids.parquet                             as `sidkit encode`
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..data.embeddings import open_embeddings
from ..data.joint import Joint, counts_of, repeated
from ..data.subset import without
from ..embed.job import Choice, embed_file
from ..embed.pair import complete
from ..embed.store import load as load_encoder
from ..files.unfinished import Unfinished
from ..progress import Progress, Silent
from ..sids.table import SidTable
from ..tokenizer.recipes import recipe
from ..tokenizer.tokenizer import FittedTokenizer, Tokenizer
from .align.alignment import Alignment, AlignPlan
from .align.job import align, write_aligned
from .model.query_sids import QueryEncoder
from .shop import Shop

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """SIDs of a shop's items and queries, and what gave them."""

    folder: Path
    alignment: Alignment
    tokenizer: FittedTokenizer
    item_sids: SidTable
    query_sids: SidTable
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def query_encoder(self) -> QueryEncoder:
        """The encoder of new queries."""
        return QueryEncoder(load_encoder(self.folder / "items-emb.encoder"), self.alignment, self.tokenizer)


def prepare(
    shop: Shop,
    folder: Path,
    encoder: Choice | None = None,
    plan: AlignPlan | None = None,
    tokenizer: Tokenizer | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Prepared:
    """Write all files to a folder. Rows without a known word have no vector and get no SID."""
    report = progress or Silent()
    folder.mkdir(parents=True, exist_ok=True)
    first = encoder or Choice()
    second = Choice(folder=folder / "items-emb.encoder")
    item_vectors = _embedded(shop.items, "item_id", "text", folder / "items-emb.parquet", first, report)
    query_vectors = _embedded(shop.queries, "query_id", "query", folder / "queries-emb.parquet", second, report)
    made = align(shop.log(), shop.items, shop.queries, item_vectors, query_vectors, plan, progress=report)
    write_aligned(made, folder / "aligned")
    items, queries = (_with_vectors(folder / "aligned" / f"{name}.parquet") for name in ("items", "queries"))
    joint = Joint([("items", items), ("queries", repeated(queries, counts_of(queries, "train_records")))])
    fitted = (tokenizer or recipe("prq-kmeans")).fit(joint, seed=seed, progress=report)
    fitted.save(folder / "tok")
    tables = [SidTable(one.ids, fitted.encode(one, progress=report), fitted.sizes) for one in (items, queries)]
    for table, name in zip(tables, ("sids", "query-sids"), strict=True):
        table.to_parquet(folder / f"{name}.parquet")
    return Prepared(folder, made.alignment, fitted, tables[0], tables[1], made.facts)


def _embedded(table: Any, key: str, text: str, output: Path, choice: Choice, report: Progress) -> Any:
    ids, texts = (table.column(name).combine_chunks() for name in (key, text))
    complete(output)
    with Unfinished(output, resume=False) as unfinished:
        embed_file(ids, texts, output, choice, unfinished, report, query=key == "query_id")
    return open_embeddings(str(output))


def _with_vectors(path: Path) -> Any:
    """The embeddings of a file without its rows of zeros."""
    source = open_embeddings(str(path))
    zero = [~np.asarray(chunk).any(axis=1) for chunk in source.chunks(1 << 16)]
    return without(source, np.flatnonzero(np.concatenate(zero)))
