"""Codes as a matrix of 32-bit integers, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..data.formats.vectors import is_list
from ..errors import InputError

__all__ = ["code_array", "code_matrix"]


def code_array(codes: Any) -> NDArray[np.int32]:
    """Codes (n, levels) from an array of whole numbers."""
    array = np.asarray(codes)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise InputError(f"codes must be whole numbers of shape (n, levels); got {array.dtype} {array.shape}")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 1 << 31:
        raise InputError(f"codes must lie between 0 and 2^31; these go from {array.min()} to {array.max()}")
    return array.astype(np.int32, copy=False)


def code_matrix(column: Any, path: str) -> NDArray[np.int32]:
    """A column of codes as an array (n, levels)."""
    kind = column.type
    if not is_list(kind):
        raise InputError(f"{path}: 'codes' holds {kind}, not lists of integers")
    if not pa.types.is_integer(kind.value_type):
        raise InputError(f"{path}: 'codes' holds lists of {kind.value_type}, not of integers")
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    flat = pa.concat_arrays(flat.chunks) if isinstance(flat, pa.ChunkedArray) else flat
    lengths = pc.unique(pc.list_value_length(flat)).to_pylist()
    if flat.null_count or len(lengths) > 1 or None in lengths:
        raise InputError(f"{path}: rows of 'codes' have different lengths ({lengths[:4]})")
    width = lengths[0] if lengths else 0
    if flat.flatten().null_count:
        raise InputError(f"{path}: there are codes missing")
    return code_array(flat.flatten().to_numpy(zero_copy_only=False).reshape(len(flat), width))
