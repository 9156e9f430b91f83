"""Requests and answers, as JSON and as Arrow streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..data.formats.vectors import Vectors, is_list
from ..errors import InputError
from ..rows.checks import find_bad_rows
from ..rows.sources import ArraySource
from .snapshot import Snapshot

__all__ = ["ARROW", "JSON", "Refused", "arrow_table", "codes_as_arrow", "fields_of", "good_vectors", "to_json"]

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"


class Refused(Exception):
    """A request that gets a status and a reason instead of an answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def fields_of(body: bytes | memoryview, known: dict[str, type | tuple[type, ...]]) -> dict[str, Any]:
    """The fields of a JSON object, each of its type; others are refused, as a misspelt one would be ignored."""
    import orjson

    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise Refused(422, "the body must be a JSON object")
    for name, value in given.items():
        if name not in known:
            raise Refused(422, f"unknown field {name!r:.100}; the fields are {', '.join(known)}")
        kinds = known[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise Refused(422, f"{name} is of the wrong type")
    return given


def to_json(value: Any) -> bytes:
    import orjson

    return bytes(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))


def good_vectors(vectors: Any, snapshot: Snapshot) -> NDArray[Any]:
    """Lists of numbers, or an array, as rows that can be encoded: (n, d), in the dtype of the tokenizer."""
    fitted = snapshot.fitted
    try:
        with np.errstate(over="ignore"):
            x = np.asarray(vectors, dtype=fitted.dtype)
    except (ValueError, TypeError, OverflowError):
        raise Refused(422, f"vectors must be lists of {fitted.d} numbers each") from None
    if x.ndim != 2 or x.shape[1] != fitted.d:
        shape = f"{x.shape[1]} numbers" if x.ndim == 2 else "something else"
        raise Refused(422, f"vectors must be lists of {fitted.d} numbers each, not of {shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.einsum("nd,nd->n", x, x)
    if not (np.isfinite(square) & (square > 0)).all():
        named = [f"vector {row} {why}" for row, why in list(find_bad_rows(ArraySource(x)).items())[:3]]
        raise Refused(422, f"some vectors cannot be encoded: {', '.join(named)}")
    return x


def arrow_table(body: bytes | memoryview, limit: int) -> Any:
    """The table of an Arrow stream. limit: most rows."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            table = pa.Table.from_batches(_batches(stream, limit), stream.schema)
            table.validate(full=True)
    except (pa.ArrowException, ValueError, OSError, KeyError, TypeError, MemoryError) as error:
        raise Refused(400, f"the body is not an Arrow stream: {str(error)[:200]}") from None
    return table


def _batches(stream: Any, limit: int) -> list[Any]:
    batches, rows = [], 0
    for batch in stream:
        rows += len(batch)
        if rows > limit:
            raise Refused(422, f"at most {limit:,} rows in a request")
        batches.append(batch)
    return batches


def arrow_vectors(table: Any, snapshot: Snapshot) -> NDArray[Any]:
    """The column `embedding` of a table, or its only column of lists."""
    lists = [name for name in table.column_names if is_list(table.schema.field(name).type)]
    name = "embedding" if "embedding" in table.column_names else lists[0] if len(lists) == 1 else None
    if name is None:
        raise Refused(422, "an Arrow body needs a column 'embedding' of lists of numbers")
    try:
        vectors, column = Vectors(name, snapshot.fitted.d, np.dtype(snapshot.fitted.dtype)), table.column(name)
        lists = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # which copies
        return good_vectors(vectors.of(lists, Path("request"), 0), snapshot)
    except (InputError, pa.ArrowException, ValueError, TypeError, AttributeError) as error:
        raise Refused(422, str(error)[:300]) from None


def codes_as_arrow(codes: NDArray[np.int32], given: Any, snapshot: Snapshot) -> bytes:
    """An Arrow stream of codes and SIDs, with the ids that came."""
    flat = pa.array(np.ascontiguousarray(codes).ravel())
    lists = pa.FixedSizeListArray.from_arrays(flat, codes.shape[1])
    columns = {"codes": lists, "sid": snapshot.written_as_arrow(codes)}
    if given is not None and "item_id" in given.column_names:
        columns = {"item_id": given.column("item_id")} | columns
    table = pa.table(columns).replace_schema_metadata({"tokenizer": snapshot.fitted.digest})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
