"""A shop from KuaiSearch as it is released: JSON lines of items, searches (recall), results (rank), users, relevance.

    DIR/items/train.jsonl    or items/*.jsonl, or items.jsonl; the same for recall, rank, users, relevance
    DIR/items_lite/...       the smaller release

Searches are the log; rank rows, most of the bytes, only give prices. Everything is read in parts that stay on disk
until the shop is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...errors import InputError, StoreError
from ...files.atomic import replace_file
from ...progress import Progress
from ..shop.layout import Keys
from ..shop.texts import item_text
from .assemble import ReadOptions, ShopSource, assemble
from .items import text_or_null
from .json_parts import PART, JsonParts
from .prices import counted_prices, median_prices
from .sessions import backwards

__all__ = ["KuaiSearchFiles", "read_kuaisearch"]

UNKNOWN = "UNKNOWN"
TEXT, NUMBER, NUMBERS = pa.string(), pa.int64(), pa.list_(pa.int64())
FIELDS = {
    "items": {
        "item_id": NUMBER,
        **dict.fromkeys(("item_title", "brand_name", "seller_name"), TEXT),
        **{f"category_level{level}_name": TEXT for level in (1, 2, 3)},
    },
    "recall": {
        **dict.fromkeys(("user_id", "session_id", "time_index"), NUMBER),
        "query": TEXT,
        **dict.fromkeys(("impressed_item_ids", "clicked_item_ids", "purchased_item_ids"), NUMBERS),
    },
    "rank": {"target_item_id": NUMBER, "target_item_price": pa.float64()},
    "users": {"user_id": NUMBER, **dict.fromkeys(("gender", "age_bucket"), TEXT),
              **dict.fromkeys(("fre_country", "fre_province", "fre_city"), TEXT)},
    "relevance": {**dict.fromkeys(("query", "item_title", "brand", "seller_name", "attr_value"), TEXT),
                  "score": pa.float64()},
}  # fmt: skip
REQUIRED = {
    "items": ("item_id", "item_title"),
    "recall": ("time_index", "query", "clicked_item_ids"),
    "rank": ("target_item_id", "target_item_price"),
    "users": ("user_id",),
    "relevance": ("query", "item_title", "score"),
}
NEEDED = ("items", "recall")


@dataclass(frozen=True)
class KuaiSearchFiles:
    """The input. lite: the smaller release; prices: whether to read the rank rows."""

    folder: Path
    lite: bool = False
    prices: bool = True


def read_kuaisearch(
    given: KuaiSearchFiles,
    output: Path,
    options: ReadOptions,
    scratch: Path,
    progress: Progress,
    part_bytes: int = PART,
) -> dict[str, Any]:
    """Write the shop; the facts of its shop.json. Parts of the same files in the scratch folder are not read again."""
    paths = _paths(given)
    folder = scratch / "parts"
    _require_same(folder, paths, part_bytes)
    left_out = options.left_out(output)
    tables = {}
    for name, files in paths.items():
        fields, convert = pa.schema(list(FIELDS[name].items())), CONVERT[name]
        tables[name] = [
            JsonParts(path, folder, f"{name}-{number}", fields, REQUIRED[name], convert, part_bytes)
            for number, path in enumerate(files)
        ]
        for one in tables[name]:
            one.read(options.drop_bad_rows, progress)
            bad = one.bad_lines()
            values = [f"line {line} {reason}" for line, reason in bad]
            left_out.add(_name(given, one.path), "cannot be read", [line - 1 for line, _ in bad], values)
    return assemble(_source(given, tables), output, options, left_out, scratch, progress)


def _paths(given: KuaiSearchFiles) -> dict[str, list[Path]]:
    """The files of every table that is there."""
    if not given.folder.is_dir():
        raise InputError(f"no such folder: {given.folder}")
    ending, other = ("_lite", "") if given.lite else ("", "_lite")
    paths = {}
    for name in FIELDS:
        if name == "rank" and not given.prices:
            continue
        files = _files(given.folder, f"{name}{ending}") or (_files(given.folder, name) if name == "relevance" else [])
        if files:
            paths[name] = files
        elif name in NEEDED:
            hint = ""
            if _files(given.folder, f"{name}{other}"):
                hint = f"; it has {name}{other}: {'leave out' if given.lite else 'add'} --lite"
            raise InputError(f"no {name}{ending}.jsonl and no {name}{ending}/*.jsonl in {given.folder}{hint}")
    return paths


def _files(folder: Path, name: str) -> list[Path]:
    single = folder / f"{name}.jsonl"
    return [single] if single.is_file() else sorted((folder / name).glob("*.jsonl"))


def _name(given: KuaiSearchFiles, path: Path) -> str:
    return path.relative_to(given.folder).as_posix()


def _table_name(given: KuaiSearchFiles, files: list[JsonParts]) -> str:
    """The name of a table in messages: its file, or the folder of its files, whose rows are counted through."""
    return _name(given, files[0].path if len(files) == 1 else files[0].path.parent)


def _require_same(folder: Path, paths: dict[str, list[Path]], part_bytes: int) -> None:
    """Parts are of these files; or there are none yet."""
    files = [[name, path.name, path.stat().st_size, path.stat().st_mtime_ns] for name in paths for path in paths[name]]
    inputs = json.dumps({"files": files, "part_bytes": part_bytes}, indent=1)
    record = folder / "inputs.json"
    if not record.exists():
        with replace_file(record) as temporary:
            temporary.write_text(inputs, encoding="utf-8")
    elif record.read_text(encoding="utf-8") != inputs:
        raise StoreError(
            f"{folder} holds parts of other files, or of files that changed since; leave out --resume to read anew"
        )


def _known(column: Any) -> Any:
    """Texts, null where they are missing."""
    texts = text_or_null(column)
    return pc.if_else(pc.equal(texts, UNKNOWN), pa.scalar(None, TEXT), texts)


def _items(table: Any) -> Any:
    made = {"item_id": table["item_id"], "title": _known(table["item_title"])}
    made |= {"brand": _known(table["brand_name"]), "seller": _known(table["seller_name"])}
    return pa.table(made | {f"category_{level}": _known(table[f"category_level{level}_name"]) for level in (1, 2, 3)})


def _recall(table: Any) -> Any:
    return table.rename_columns(["user", "session", "time", "query", "shown", "clicked", "ordered"])


def _rank(table: Any) -> Any:
    return counted_prices(table.rename_columns(["item", "price"]))


def _users(table: Any) -> Any:
    profile = ("gender", "age_bucket", "fre_country", "fre_province", "fre_city")
    return pa.table({"user": table["user_id"], **{name.removeprefix("fre_"): _known(table[name]) for name in profile}})


def _relevance(table: Any) -> Any:
    texts = [_known(table[name]) for name in ("query", "item_title", "brand", "seller_name", "attr_value")]
    return pa.table([*texts, table["score"]], names=["query", "title", "brand", "seller", "attributes", "score"])


CONVERT = {"items": _items, "recall": _recall, "rank": _rank, "users": _users, "relevance": _relevance}


def _source(given: KuaiSearchFiles, tables: dict[str, list[JsonParts]]) -> ShopSource:
    def parts(name: str, columns: list[str] | None = None) -> Iterator[Any]:
        for one in tables.get(name, ()):
            yield from one.tables(columns)

    prices = _prices(parts) if "rank" in tables else None

    def items() -> Iterator[Any]:
        start = 0
        for table in parts("items"):
            yield _with_price(table, None if prices is None else prices[start : start + len(table)])
            start += len(table)

    files = [_name(given, one.path) for name in tables for one in tables[name]]
    relevance = list(parts("relevance"))
    return ShopSource(
        keys=Keys(NUMBER, NUMBER, NUMBER),
        items=items,
        items_name=_table_name(given, tables["items"]),
        log=lambda: parts("recall"),
        log_name=_table_name(given, tables["recall"]),
        facts={"kind": "kuaisearch", "lite": given.lite, "files": files},
        users=list(parts("users")) if "users" in tables else None,
        users_name=_table_name(given, tables["users"]) if "users" in tables else "",
        relevance=pa.concat_tables(relevance) if relevance else None,
        notes=_notes(tables, parts),
    )


def _prices(parts: Callable[..., Iterator[Any]]) -> NDArray[np.float64]:
    """The median price of every item, in the order of the items."""
    ids = [pc.fill_null(table["item_id"], -1).to_numpy() for table in parts("items", ["item_id"])]
    return median_prices(lambda: parts("rank"), np.concatenate(ids))


def _with_price(table: Any, prices: NDArray[np.float64] | None) -> Any:
    n = len(table)
    price = pa.nulls(n, pa.float64()) if prices is None else pa.array(prices, mask=np.isnan(prices))
    made = {name: table[name].combine_chunks() for name in table.column_names}
    text = item_text(*(made[name] for name in ("title", "brand", "category_1", "category_2", "category_3")))
    return pa.table({**made, "price": price, "keywords": pa.nulls(n, pa.list_(TEXT)), "text": text})


def _notes(tables: dict[str, list[JsonParts]], parts: Callable[..., Iterator[Any]]) -> list[str]:
    notes = [f"no {name} rows were read" for name in FIELDS if name not in tables]
    table = pa.concat_tables(parts("recall", ["session", "time"]))
    back = int(backwards(table["session"], pc.fill_null(table["time"], 0).to_numpy()).sum())
    if back:
        notes.append(f"{back:,} searches were listed after a later one of their session; the log is in order of time")
    return notes
