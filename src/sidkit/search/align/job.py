"""The alignment of a shop: from its log and the embeddings of its items and queries to a folder of aligned vectors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...data.items import match
from ...data.write import write_vectors
from ...errors import InputError, need
from ...files.atomic import replace_folder
from ...files.table_formats import write_table
from ...geometry import unit
from ...progress import Progress, Silent
from ..keywords.matching import Matcher, require_share
from .alignment import FOLDER, Alignment, AlignPlan, KeywordVectors
from .pairs import Clicks, PairOptions, Pairs, clicks_of, pairs_of

__all__ = ["Aligned", "Keywords", "align", "write_aligned"]

Vectors = NDArray[np.float32]
CUT = 50
MOST_HELD_OUT = 2000  # queries
CHUNK = 1 << 14
PART = 1 << 15  # rows written at once


class Keywords(NamedTuple):
    """A dictionary with the embeddings of its keywords, by the encoder that embedded items and queries."""

    keywords: tuple[str, ...]
    vectors: NDArray[Any]  # (k, d)
    weight: float = 0.5


@dataclass(frozen=True, eq=False)
class Aligned:
    """Aligned vectors of all rows of the embeddings, in their order, and how they were made."""

    alignment: Alignment
    item_ids: Any
    items: Vectors  # (m, dimensions)
    query_ids: Any
    queries: Vectors  # (q, dimensions)
    train_records: NDArray[np.int64]  # (q,) how often each query occurs in the training part of the log

    @property
    def facts(self) -> dict[str, Any]:
        return dict(self.alignment.facts)


def align(
    log: Any,
    items: Any,
    queries: Any,
    item_source: Any,
    query_source: Any,
    plan: AlignPlan | None = None,
    pairs: PairOptions | None = None,
    keywords: Keywords | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Aligned:
    """Train an alignment on the training part of a log and project all embeddings.

    log, items, queries: Arrow tables with the columns of a shop's log.parquet, items.parquet and queries.parquet;
    item_source, query_source: embeddings with ids (item_id and query_id).
    """
    need("torch", "search", "aligning queries and items")
    from .training import train

    plan, pairs, report = plan or AlignPlan(), pairs or PairOptions(), progress or Silent()
    texts, records = _queries_of(queries, query_source.ids)
    x, y = (_read(source, report) for source in (query_source, item_source))
    if x.shape[1] != y.shape[1]:
        raise InputError(f"the queries' embeddings have {x.shape[1]} dimensions, the items' {y.shape[1]}")
    if keywords is not None:
        _require_keywords(keywords, x.shape[1])
    clicks = clicks_of(log, item_source.ids, texts, pairs.order_weight)
    clicks = clicks.part(np.any(x, axis=1)[clicks.query] & np.any(y, axis=1)[clicks.item])
    held_out = _held_out(clicks, plan)
    shape = len(x), len(y)
    used, measured = (pairs_of(clicks.part(mask), shape, pairs) for mask in (~held_out, held_out))
    trained = train(unit(x), unit(y), used, measured.query_item, plan, device, report)
    alignment = Alignment(trained.query, trained.item, plan)
    alignment = replace(alignment, keywords=_aligned(keywords, alignment))
    aligned_items = alignment.items(y, _texts_of(items, item_source.ids) if keywords else None)
    aligned_queries = alignment.queries(x, texts if keywords else None)
    facts = {
        "items": shape[1],
        "queries": shape[0],
        "d": x.shape[1],
        "pairs": {name: len(one.left) for name, one in used._asdict().items()},
        "pair_options": asdict(pairs),
        "history": trained.history,
        "best_epoch": trained.best,
        "recall": {
            "before": _recall(unit(x), unit(y), measured.query_item),
            "after": _recall(aligned_queries, aligned_items, measured.query_item),
            "cut": CUT,
            "pairs": len(measured.query_item.left),
            "queries": len(np.unique(measured.query_item.left)),
        },
        "keywords": len(keywords.keywords) if keywords else 0,
    }
    alignment = replace(alignment, facts=facts)
    return Aligned(alignment, item_source.ids, aligned_items, query_source.ids, aligned_queries, records)


def write_aligned(made: Aligned, output: Path) -> None:
    """items.parquet, queries.parquet and the projection, as a folder, written in one step."""
    with replace_folder(output) as folder:
        write_vectors(folder / "items.parquet", made.item_ids, _in_parts(made.items), made.items.shape[1])
        columns = {
            "query_id": made.query_ids,
            "train_records": pa.array(made.train_records),
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(made.queries.ravel()), made.queries.shape[1]),
        }
        table = pa.table(columns)
        write_table(folder / "queries.parquet", table, compression="none", use_dictionary=False)
        made.alignment.save(folder / FOLDER)


def _in_parts(rows: Vectors) -> Any:
    return (rows[start : start + PART] for start in range(0, len(rows), PART))


def _read(source: Any, report: Progress) -> Vectors:
    """All rows of embeddings; rows of zeros are allowed, others that cannot be used are an error."""
    report.start("read", source.shape[0])
    out = np.empty(source.shape, np.float32)
    start = 0
    for chunk in source.chunks(CHUNK):
        bad = np.flatnonzero(~np.isfinite(chunk).all(axis=1))
        if len(bad):
            raise InputError(f"{source.name(start + int(bad[0]))} holds NaN or infinity; repair or remove it")
        out[start : start + len(chunk)] = chunk
        start += len(chunk)
        report.advance(len(chunk))
    return out


def _queries_of(table: Any, ids: Any) -> tuple[list[str | None], NDArray[np.int64]]:
    """The text of every embedded query, and how often it occurs in training."""
    rows = match(ids, table.column("query_id"))
    if (rows < 0).all():
        raise InputError(
            f"none of the embedded queries is among the shop's: the first is {ids[0].as_py()!r}; "
            "embed the shop's queries.parquet, whose ids are in query_id"
        )
    taken = pa.array(rows, mask=rows < 0)
    texts = table.column("query").take(taken).to_pylist()
    records = table.column("train_records").take(taken).fill_null(0).to_numpy().astype(np.int64)
    return texts, records


def _texts_of(items: Any, ids: Any) -> list[str]:
    """The texts that are searched for keywords: the text of an item, then the catalogue's own keywords."""
    rows = match(ids, items.column("item_id"))
    columns = [name for name in ("text", "keywords") if name in items.column_names]
    table = items.select(columns).take(pa.array(rows, mask=rows < 0)).to_pylist()
    return [" ; ".join([row.get("text") or "", *(row.get("keywords") or ())]) for row in table]


def _held_out(clicks: Clicks, plan: AlignPlan) -> NDArray[np.bool_]:
    """Which clicks are of queries that are left out of training."""
    asked = np.unique(clicks.query)
    if len(asked) < 2:
        raise InputError(
            f"{len(asked)} of the embedded queries have clicks on embedded items in the training part of the log; "
            "an alignment needs two at least. Are the ids those of the shop?"
        )
    count = min(max(1, round(plan.held_out * len(asked))), MOST_HELD_OUT, len(asked) - 1)
    chosen = np.random.default_rng([plan.seed, 0]).choice(asked, count, replace=False)
    return np.isin(clicks.query, chosen)


def _require_keywords(keywords: Keywords, d: int) -> None:
    """An error for what would end the work after the training."""
    require_share(keywords.weight)
    Matcher(keywords.keywords)
    if np.shape(keywords.vectors) != (len(keywords.keywords), d):
        raise InputError(
            f"{len(keywords.keywords)} keywords have vectors of shape {np.shape(keywords.vectors)}; "
            f"embed them as the items were, in {d} dimensions"
        )


def _aligned(keywords: Keywords | None, alignment: Alignment) -> KeywordVectors | None:
    if keywords is None:
        return None
    queries = alignment.query(keywords.vectors)
    items = queries if alignment.item is alignment.query else alignment.item(keywords.vectors)
    return KeywordVectors(tuple(keywords.keywords), queries, items, keywords.weight)


def _recall(queries: Vectors, items: Vectors, pairs: Pairs) -> float:
    """Pairs whose item is among the 50 nearest of its query, / pairs."""
    import torch

    from .training import hits_at

    return hits_at(torch.as_tensor(queries), torch.as_tensor(items), pairs, CUT) / len(pairs.left)
