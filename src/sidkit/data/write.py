"""Embeddings to a file that `open_embeddings` reads: Parquet, or text by the ending of its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..files.address import Location
from ..files.table_formats import table_writer
from .formats.parquet_file import ID_NAME

__all__ = ["write_vectors"]


def write_vectors(
    output: Location,
    ids: Any,
    parts: Iterable[NDArray[np.float32]],
    d: int,
    metadata: dict[bytes, bytes] | None = None,
    id_name: str = "item_id",
) -> int:
    """Write item_id and embedding, the rows of all parts (n, d) in the order of ids; the number of zero rows.

    id_name: what the column of ids was called before; the metadata note it.
    """
    empty = start = 0
    schema = pa.schema({"item_id": ids.type, "embedding": pa.list_(pa.float32(), d)})
    schema = schema.with_metadata({ID_NAME: id_name.encode()} | (metadata or {}))
    with table_writer(output, schema, compression="none", use_dictionary=False) as write:
        for rows in parts:
            empty += int((~rows.any(axis=1)).sum())
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), d)
            write(pa.table([ids[start : start + len(rows)], vectors], schema=schema))
            start += len(rows)
    return empty
