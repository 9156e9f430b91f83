"""Small shops and files for the tests of search."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sidkit.search.shop import Draft, Keys

TITLES = {"A": "red mug", "B": "blue mug", "C": "green lamp"}

# user, session, time, query, shown, clicked, ordered (rows of items), split
RECORDS = (
    ("ann", 1, 10, "mug", [0, 1], [0], [0], "train"),
    ("ann", 1, 11, "red mug", [0], [0], [], "train"),
    ("bob", 2, 12, "lamp", [2, 0], [2], [], "train"),
    ("bob", 3, 20, "mug", [0, 1], [1], [1], "test"),
    ("cid", 4, 21, "green lamp", [2], [2], [], "test"),
)


def items_table(titles=None, ids=None):
    ids = list(TITLES) if ids is None else ids
    titles = list(TITLES.values()) if titles is None else titles
    n = len(ids)
    texts = {name: pa.nulls(n, pa.string()) for name in ("brand", "seller", "category_1", "category_2", "category_3")}
    return pa.table(
        {
            "item_id": ids,
            "title": pa.array(titles, pa.string()),
            **texts,
            "price": pa.nulls(n, pa.float64()),
            "keywords": pa.nulls(n, pa.list_(pa.string())),
            "text": pa.array(titles, pa.string()),
        }
    )


def log_table(records=RECORDS):
    names = ("user", "session", "time", "query", "shown", "clicked", "ordered", "split")
    table = pa.Table.from_pylist([dict(zip(names, one, strict=True)) for one in records])
    for name in ("shown", "clicked", "ordered"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, table[name].cast(pa.list_(pa.int64())))
    return table


def draft(**changes):
    return Draft(**{"keys": Keys(pa.string()), "items": [items_table()], "log": [log_table()], **changes})


def write(path: Path, **columns):
    """A Parquet file of columns; its path as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return str(path)


def write_lines(path: Path, rows):
    """A file of JSON lines; rows that are texts are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def contents(folder: Path):
    """name -> bytes of the files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
