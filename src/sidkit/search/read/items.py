"""Any table of items in the layout of a shop, and the rows that items have in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...data.column_names import NAMES
from ...data.formats.vectors import is_list
from ...data.items import match, without_dictionary
from ...errors import InputError
from ..shop.texts import item_text
from .parquet import NamedFile, as_key

__all__ = ["ItemColumns", "ItemIndex", "find_item_columns", "item_tables", "text_or_null"]

ID_NAMES = ("item_id", "item", "id", *NAMES["item"])
USUAL = {
    "title": ("title", "item_title", "name", "product_title"),
    "brand": ("brand", "brand_name"),
    "seller": ("seller", "seller_name"),
    "price": ("price",),
    "keywords": ("keywords",),
    "text": ("text",),
}
PATHS = ("category", "categories", "category_path")
LEVELS = ("category_1", "category_2", "category_3")
PATH = r"^(?P<category_1>.*?)(?: > (?P<category_2>.*?)(?: > (?P<category_3>.*))?)?$"  # categories in one column


@dataclass(frozen=True)
class ItemColumns:
    """The columns of a file of items: ours -> theirs. `category` is a path that is cut into levels, or a list."""

    file: NamedFile
    names: dict[str, str]
    kind: Any  # of ids


def find_item_columns(file: NamedFile, item: str | None, title: str | None, text: str | None) -> ItemColumns:
    names = {"item_id": file.column(item, ID_NAMES, "--id-column")}
    names["title"] = file.column(title, USUAL["title"], "--title-column")
    for ours in ("brand", "seller", "price", "keywords", "text"):
        theirs = file.find(text if ours == "text" else None, USUAL[ours], "--text-column")
        if theirs is not None:
            names[ours] = theirs
    present = [level for level in LEVELS if level in file.types]
    names |= dict(zip(present, present, strict=True)) if present else {}
    path = None if present else file.find(None, PATHS, "")
    if path is not None:
        names["category"] = path
    if "keywords" in names and not is_list(file.types[names["keywords"]]):
        del names["keywords"]
    return ItemColumns(file, names, file.require_key(names["item_id"]))


def item_tables(columns: ItemColumns) -> Iterator[Any]:
    """Tables in the layout of items.parquet."""
    for part in columns.file.batches(list(columns.names.values())):
        for batch in part.to_batches():
            yield _in_layout(batch, columns)


def _in_layout(batch: Any, columns: ItemColumns) -> Any:
    n, names = len(batch), columns.names

    def text(ours: str) -> Any:
        return text_or_null(batch.column(names[ours])) if ours in names else pa.nulls(n, pa.string())

    made = {"item_id": as_key(batch.column(names["item_id"]), columns.kind, columns.file.name)}
    made |= {ours: text(ours) for ours in ("title", "brand", "seller", *LEVELS)}
    if "category" in names:
        made |= dict(zip(LEVELS, _cut(_path(batch.column(names["category"]))), strict=True))
    made["price"] = _price(batch, columns) if "price" in names else pa.nulls(n, pa.float64())
    strings = pa.list_(pa.string())
    made["keywords"] = batch.column(names["keywords"]).cast(strings) if "keywords" in names else pa.nulls(n, strings)
    composed = item_text(made["title"], made["brand"], *(made[level] for level in LEVELS))
    made["text"] = pc.coalesce(text("text"), composed) if "text" in names else composed
    return pa.table(made)


def text_or_null(column: Any) -> Any:
    """Texts without blanks at their ends; null where nothing is left."""
    trimmed = pc.utf8_trim_whitespace(without_dictionary(column).cast(pa.string()))
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _path(column: Any) -> Any:
    """Paths of categories, of which a list has one level in each entry."""
    if not is_list(column.type):
        return text_or_null(column)
    levels = without_dictionary(pc.list_flatten(column))
    if not (pa.types.is_string(levels.type) or pa.types.is_large_string(levels.type)):
        return pa.nulls(len(column), pa.string())
    return text_or_null(pc.binary_join(column.cast(pa.list_(pa.string())), " > "))


def _cut(paths: Any) -> list[Any]:
    """The first two levels of paths, and the rest of them as the third."""
    levels = pc.extract_regex(paths, PATH)
    return [text_or_null(pc.struct_field(levels, level)) for level in LEVELS]


def _price(batch: Any, columns: ItemColumns) -> Any:
    try:
        return batch.column(columns.names["price"]).cast(pa.float64())
    except pa.ArrowException as error:
        name = columns.names["price"]
        raise InputError(f"{name!r} in {columns.file.name} must hold numbers: {error}") from error


class ItemIndex:
    """The row of an item by its id. Integers take 12 bytes each; strings are looked up in batches."""

    def __init__(self, ids: Any) -> None:
        self.ids = ids
        self._numbers = pa.types.is_integer(ids.type)
        if self._numbers:
            numbers = ids.to_numpy()
            order = np.argsort(numbers, kind="stable")
            self._order, self._sorted = order.astype(np.uint32), numbers[order]

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, wanted: Any) -> NDArray[np.int64]:
        """For every id its row, -1 where there is none."""
        if not len(self.ids):
            return np.full(len(wanted), -1)
        if not self._numbers or not pa.types.is_integer(wanted.type):
            return match(wanted, self.ids)
        numbers = pc.fill_null(wanted, 0).to_numpy(zero_copy_only=False)
        at = np.minimum(np.searchsorted(self._sorted, numbers), len(self._sorted) - 1)
        there = (self._sorted[at] == numbers) & pc.is_valid(wanted).to_numpy(zero_copy_only=False)
        return np.where(there, self._order[at].astype(np.int64), -1)
