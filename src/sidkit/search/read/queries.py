"""Queries of a file: as they are, or by their id from a table of queries."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...data.ids import require_unique
from ...data.items import match, without_dictionary
from ...errors import InputError
from ..shop.texts import normalise
from .parquet import NamedFile, as_key, open_file

__all__ = ["QueryTexts", "bad_queries"]

ID_NAMES = ("query_id", "query", "id")
TEXT_NAMES = ("text", "query_text", "query")


class QueryTexts:
    """The texts of a column of queries.

    Without a table the column holds the texts. With one it holds ids, and the table has the text of each.
    """

    def __init__(self, path: str | None, text_column: str | None = None) -> None:
        self.name = None
        if path is None:
            return
        file = open_file(path)
        self.name = file.name
        texts = [name for name in TEXT_NAMES if _is_text(file.types.get(name))]
        text = file.column(text_column, texts or TEXT_NAMES, "--query-text-column")
        key = file.column(None, [name for name in ID_NAMES if name != text], "--query-text-column")
        table = file.table([key, text])
        self._ids = as_key(table.column(key), file.require_key(key), file.name).combine_chunks()
        require_unique(self._ids, key, lambda row: f"row {row} of {path}")
        self._texts = without_dictionary(table.column(text)).cast(pa.string()).combine_chunks()

    def require(self, file: NamedFile, column: str) -> None:
        """Refuse a column of numbers without a table of their texts."""
        if self.name is None and not _is_text(file.types[column]):
            raise InputError(
                f"{column!r} in {file.name} holds {file.types[column]}, not texts; name the table that has their texts "
                "with --queries, or the column of texts with --query-column"
            )

    def of(self, column: Any) -> Any:
        """The text of every query, in one form; null where there is none."""
        column = without_dictionary(column)
        if self.name is None:
            return normalise(column)
        rows = match(column, self._ids)
        return normalise(self._texts.take(pa.array(rows, mask=rows < 0)))

    def bad(self, texts: Any) -> dict[str, Any]:
        """reason -> which of the texts are not queries."""
        return bad_queries(texts, None if self.name is None else f"have a query that {self.name} does not have")


def bad_queries(texts: Any, missing: str | None = None) -> dict[str, Any]:
    """reason -> which of the texts, in one form, are not queries; missing: why there is no text."""
    blank = pc.fill_null(pc.equal(texts, ""), False)
    return {missing or "have no query": pc.is_null(texts), "have a query of blanks alone": blank}


def _is_text(kind: Any) -> bool:
    if kind is None:
        return False
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))
