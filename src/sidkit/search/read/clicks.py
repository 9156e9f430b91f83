"""A shop from counted pairs: a query, an item, and how often it was clicked.

A pair stands for as many records as it was clicked; in the test set it is one pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import InputError, SpecError
from ...progress import Progress
from ..shop.layout import Keys
from ..shop.lists import lists
from ..shop.split import held_out_groups
from .assemble import ReadOptions, ShopSource, assemble
from .groups import first_rows, groups_of
from .items import find_item_columns, item_tables
from .judgements import ITEM_NAMES, QUERY_NAMES
from .left_out import LeftOut
from .parquet import NamedFile, as_key, open_file
from .queries import QueryTexts

__all__ = ["ClickFiles", "read_clicks"]

COUNT_NAMES = ("count", "clicks", "n", "weight")
MOST = 10**9  # records


@dataclass(frozen=True)
class ClickFiles:
    """The files, and the columns that have unusual names. split: what stays together, `pair` or `query`."""

    items: str
    clicks: str
    queries: str | None = None
    split: str = "pair"
    id_column: str | None = None
    title_column: str | None = None
    text_column: str | None = None
    item_column: str | None = None
    query_column: str | None = None
    query_text_column: str | None = None
    count_column: str | None = None


def read_clicks(
    files: ClickFiles, output: Path, options: ReadOptions, scratch: Path, progress: Progress
) -> dict[str, Any]:
    """Write the shop; the facts of its shop.json."""
    if files.split not in ("pair", "query"):
        raise SpecError(f"--split must be pair or query, not {files.split!r}")
    columns = find_item_columns(open_file(files.items), files.id_column, files.title_column, files.text_column)
    counted, left_out = open_file(files.clicks), options.left_out(output)
    records = _records(files, counted, columns.kind, options, left_out)
    source = ShopSource(
        keys=Keys(columns.kind),
        items=lambda: item_tables(columns),
        items_name=columns.file.name,
        log=lambda: iter([records]),
        log_name=counted.name,
        facts={"kind": "clicks", "files": [columns.file.name, counted.name]},
        split={"by": files.split, "test_share": options.test_share},
    )
    return assemble(source, output, options, left_out, scratch, progress)


def _records(files: ClickFiles, counted: NamedFile, kind: Any, options: ReadOptions, left_out: LeftOut) -> Any:
    """A record per pair, with the number of records it stands for; pairs that are listed twice are added up."""
    query = counted.column(files.query_column, QUERY_NAMES, "--query-column")
    item = counted.column(files.item_column, ITEM_NAMES, "--item-column")
    count = counted.find(files.count_column, COUNT_NAMES, "--count-column")
    counted.require_key(item)
    queries = QueryTexts(files.queries, files.query_text_column)
    queries.require(counted, query)
    table = counted.table([name for name in (query, item, count) if name is not None])
    texts, counts = queries.of(table.column(query)), _counts(table, count, counted.name)
    masks = queries.bad(texts) | {"have a count below 1": counts < 1}
    good = left_out.sift(counted.name, masks, table.column(query))
    left_out.settle(len(table), "pairs")
    texts, ids = (one.filter(pa.array(good)) for one in (texts, as_key(table.column(item), kind, counted.name)))
    pair = groups_of(texts, ids)
    first = pa.array(first_rows(pair))
    texts, ids, n = texts.take(first), ids.take(first).combine_chunks(), len(first)
    test = held_out_groups(
        groups_of(texts) if files.split == "query" else np.arange(n), options.test_share, options.seed
    )
    return pa.table(
        {
            "user": pa.nulls(n, pa.string()),
            "session": pa.nulls(n, pa.int64()),
            "time": pa.nulls(n, pa.int64()),
            "query": texts,
            "shown": pa.nulls(n, pa.list_(kind)),
            "clicked": lists(ids, np.ones(n, np.int64)),
            "ordered": pa.nulls(n, pa.list_(kind)),
            "split": np.where(test, "test", "train"),
            "records": np.bincount(pair, weights=counts[good]).astype(np.int64),
        }
    )


def _counts(table: Any, column: str | None, name: str) -> Any:
    if column is None:
        return np.ones(len(table), np.int64)
    try:
        counts = pc.fill_null(table.column(column).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise InputError(f"{column!r} in {name} must hold whole numbers: {error}") from error
    if counts.sum() > MOST:
        raise InputError(f"the counts of {name} stand for {counts.sum():,} records; at most {MOST:,} can be written")
    return counts
