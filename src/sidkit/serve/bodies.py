"""Requests and answers, as JSON and as Arrow streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..data.formats.vectors import Vectors, is_list
from ..data.ids import is_id_type, one_array
from ..errors import InputError
from ..rows.checks import find_bad_rows
from ..rows.sources import ArraySource
from .snapshot import Snapshot
from .unpacked import unpacked_bytes

__all__ = [
    "ARROW",
    "JSON",
    "Refused",
    "arrow_table",
    "codes_as_arrow",
    "fields_of",
    "good_vectors",
    "rehearse",
    "to_json",
]

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
        x = np.asarray(vectors)
    except (ValueError, TypeError, OverflowError):  # lists of different lengths
        raise Refused(422, f"vectors must be lists of {fitted.d} numbers each") from None
    if x.dtype.kind not in "fiu":  # texts, which numpy would read, among them
        raise Refused(422, f"vectors must be lists of {fitted.d} numbers each")
    with np.errstate(over="ignore"):
        x = x.astype(fitted.dtype, copy=False)
    if x.ndim != 2 or x.shape[1] != fitted.d:
        shape = f"{x.shape[1]} numbers" if x.ndim == 2 else "something else"
        raise Refused(422, f"vectors must be lists of {fitted.d} numbers each, not of {shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.einsum("nd,nd->n", x, x)
    if not (np.isfinite(square) & (square > 0)).all():
        named = [f"vector {row} {why}" for row, why in list(find_bad_rows(ArraySource(x)).items())[:3]]
        raise Refused(422, f"some vectors cannot be encoded: {', '.join(named)}")
    return x


def arrow_table(body: bytes | memoryview, limit: int, room: int) -> Any:
    """The table of an Arrow stream. limit: most rows; room: most bytes of it, unpacked."""
    try:
        if unpacked_bytes(body) > room:
            raise Refused(413, f"the body has more than {room:,} bytes, unpacked")
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            table = pa.Table.from_batches(_batches(stream, limit), stream.schema)
            table.validate(full=True)
            if "item_id" in table.column_names and not is_id_type(table.schema.field("item_id").type):
                raise Refused(422, "item_id must hold texts or whole numbers")
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


def codes_as_arrow(codes: NDArray[np.int32], given: Any, snapshot: Snapshot) -> memoryview:
    """An Arrow stream of codes and SIDs, with the ids that came."""
    lists = pa.FixedSizeListArray.from_arrays(pa.array(codes.ravel()), codes.shape[1])
    columns = {"codes": lists, "sid": snapshot.written_as_arrow(codes)}
    if "item_id" in given.column_names:
        columns = {"item_id": one_array(given.column("item_id"))} | columns
    batch = pa.record_batch(columns, metadata={"tokenizer": snapshot.fitted.digest})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())


def rehearse(snapshot: Snapshot) -> None:
    """Answer a request of one vector: what is loaded and made on first use would keep the first one waiting."""
    d = snapshot.fitted.d
    one = pa.array(np.ones(d, snapshot.fitted.dtype))
    given = pa.table({"embedding": pa.FixedSizeListArray.from_arrays(one, d)})
    codes = snapshot.encode(arrow_vectors(given, snapshot))
    codes_as_arrow(codes, given, snapshot)
    snapshot.written(codes)
