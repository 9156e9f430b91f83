"""A shop from judged pairs: a query, an item, how well they fit, and perhaps a split.

Every query is one record of each part that it is in: the items that were judged are what was shown, and those with a
label of at least `label_min` what was clicked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...data.column_names import NAMES
from ...data.items import without_dictionary
from ...errors import InputError, SpecError
from ...progress import Progress
from ..shop.layout import Keys
from ..shop.lists import lists
from ..shop.split import held_out_groups
from .assemble import ReadOptions, ShopSource, assemble
from .groups import first_rows, groups_of
from .items import find_item_columns, item_tables
from .left_out import LeftOut
from .parquet import NamedFile, as_key, open_file
from .queries import QueryTexts

__all__ = ["ITEM_NAMES", "QUERY_NAMES", "JudgementFiles", "read_judgements"]

QUERY_NAMES = ("query", "query_id", "query_text", "search_term")
ITEM_NAMES = ("item", *NAMES["item"])
LABEL_NAMES = ("label", "relevance", "score", "grade")


@dataclass(frozen=True)
class JudgementFiles:
    """The files, and the columns that have unusual names."""

    items: str
    judgements: str
    queries: str | None = None
    label_min: float | None = None
    id_column: str | None = None
    title_column: str | None = None
    text_column: str | None = None
    item_column: str | None = None
    query_column: str | None = None
    query_text_column: str | None = None
    label_column: str | None = None
    split_column: str | None = None


def read_judgements(
    files: JudgementFiles, output: Path, options: ReadOptions, scratch: Path, progress: Progress
) -> dict[str, Any]:
    """Write the shop; the facts of its shop.json."""
    columns = find_item_columns(open_file(files.items), files.id_column, files.title_column, files.text_column)
    judged, left_out = open_file(files.judgements), options.left_out(output)
    pairs, split = _pairs(files, judged, columns.kind, options, left_out)
    records = _records(pairs)
    source = ShopSource(
        keys=Keys(columns.kind),
        items=lambda: item_tables(columns),
        items_name=columns.file.name,
        log=lambda: iter([records]),
        log_name=judged.name,
        facts={"kind": "judgements", "files": [columns.file.name, judged.name], "label_min": files.label_min},
        split=split,
    )
    return assemble(source, output, options, left_out, scratch, progress)


def _pairs(
    files: JudgementFiles, judged: NamedFile, kind: Any, options: ReadOptions, left_out: LeftOut
) -> tuple[Any, dict[str, Any]]:
    """The good pairs: query, item, split, positive; and how they were split."""
    query = judged.column(files.query_column, QUERY_NAMES, "--query-column")
    item = judged.column(files.item_column, ITEM_NAMES, "--item-column")
    label = judged.find(files.label_column, LABEL_NAMES, "--label-column")
    given = judged.find(files.split_column, ("split",), "--split-column")
    judged.require_key(item)
    queries = QueryTexts(files.queries, files.query_text_column)
    queries.require(judged, query)
    table = judged.table([name for name in (query, item, label, given) if name is not None])
    texts = queries.of(table.column(query))
    labels = _labels(table, label, files.label_min, judged.name)
    pairs = pa.table({"query": texts, "item": as_key(table.column(item), kind, judged.name), "label": labels})
    masks = queries.bad(texts) | {"have no label": np.isnan(labels)}
    if given is not None:
        pairs = pairs.append_column("split", without_dictionary(table.column(given)).cast(pa.string()))
        parts = pc.is_in(pairs.column("split"), value_set=pa.array(["train", "test"]))
        masks["have a split that is neither 'train' nor 'test'"] = pc.invert(parts)
    good = left_out.sift(judged.name, masks, table.column(query))
    left_out.settle(len(table), "judgements")
    pairs = pairs.filter(pa.array(good)).combine_chunks()
    if given is not None:
        return pairs, {"by": "column", "column": given}
    test = held_out_groups(groups_of(pairs.column("query")), options.test_share, options.seed)
    pairs = pairs.append_column("split", pa.array(np.where(test, "test", "train")))
    return pairs, {"by": "query", "test_share": options.test_share}


def _labels(table: Any, column: str | None, least: float | None, name: str) -> NDArray[np.float64]:
    """1 where a pair counts as clicked, 0 where not, NaN where it has no label."""
    if column is None:
        if least is not None:
            raise SpecError(f"--label-min is about labels, and {name} has no column of them; name it: --label-column")
        return np.ones(len(table))
    if not (pa.types.is_floating(table.column(column).type) or pa.types.is_integer(table.column(column).type)):
        raise InputError(f"{column!r} in {name} is {table.column(column).type}; labels must be numbers")
    labels = table.column(column).to_numpy(zero_copy_only=False)  # NaN where there is none
    if np.isnan(labels).all():
        raise InputError(f"{column!r} in {name} holds no label")
    if least is None:
        low, high = np.nanmin(labels), np.nanmax(labels)
        raise SpecError(f"labels in {name} run from {low:g} to {high:g}; give --label-min: which count as clicked")
    # A label that was stored as 2.33 in float32 is a little less than 2.33 in float64.
    limit = labels.dtype.type(least) if labels.dtype.kind == "f" else least
    if not (labels >= limit).any():
        raise InputError(f"no label in {name} is at least {least:g}; the highest is {np.nanmax(labels):g}")
    return np.where(np.isnan(labels), np.nan, labels >= limit)


def _records(pairs: Any) -> Any:
    """One record per query and part: the judged items as shown, the positive ones as clicked."""
    group = groups_of(pairs.column("query"), pairs.column("split"))
    order, sizes = np.argsort(group, kind="stable"), np.bincount(group)
    ids, n = pairs.column("item").combine_chunks(), len(sizes)
    clicked = order[pairs.column("label").to_numpy()[order] > 0]
    first = pa.array(first_rows(group))
    return pa.table(
        {
            "user": pa.nulls(n, pa.string()),
            "session": pa.nulls(n, pa.int64()),
            "time": pa.nulls(n, pa.int64()),
            "query": pairs.column("query").take(first),
            "shown": lists(ids.take(pa.array(order)), sizes),
            "clicked": lists(ids.take(pa.array(clicked)), np.bincount(group[clicked], minlength=n)),
            "ordered": pa.nulls(n, pa.list_(ids.type)),
            "split": pairs.column("split").take(first),
        }
    )
