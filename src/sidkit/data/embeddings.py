"""Embeddings in files, as a Source with item ids.

    parquet.py       Parquet files, streamed batch by batch
    arrays.py        one matrix in a .npy, .npz, .safetensors or .pt file, memory-mapped where the format allows
    npy.py, safetensors.py, pt.py     the headers of such files, checked before any number is read

Opening reads names, types and ids only; vectors are read, and checked, when they are needed.
"""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .formats.arrays import READERS, open_arrays
from .formats.parquet import open_parquet
from .frames import is_frame, open_frame
from .listing import ACCEPTED, files_of, is_table
from .source import Embeddings
from .subset import GoodRows, Without, good_rows, without

__all__ = ["Embeddings", "GoodRows", "Without", "good_rows", "open_embeddings", "without"]


def open_embeddings(path: Any, id_column: str | None = None, column: str | None = None, ids: bool = True) -> Embeddings:
    """The embeddings at a path: a file, a folder of Parquet files, or a glob pattern of them; or s3://, hdfs://, ...

    A frame of pandas, polars or Arrow is read like a file.

    id_column and column name the ids and the vectors where their names are not the usual ones. Rows keep the
    order of the file; files come in the order of their names. Errors in names, types or ids are raised here; errors
    in a vector are raised when it is read. With ids=False the ids of Parquet files are not read, and are None.
    """
    if is_frame(path):
        return open_frame(path, id_column, column)
    paths = files_of(path)
    if len(paths) == 1 and paths[0].suffix.lower() in READERS:
        return open_arrays(paths[0], id_column, column)
    for one in paths:
        if not is_table(one):
            raise InputError(f"cannot read {one} as embeddings; accepted are {ACCEPTED}")
    return open_parquet(paths, id_column, column, ids)
