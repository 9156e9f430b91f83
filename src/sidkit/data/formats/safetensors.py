"""Tensors in a .safetensors file, memory-mapped. The header is read here, so that its size can be limited."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ...files.address import Location
from .stored_array import BFLOAT16, Stored, mapped

__all__ = ["read_safetensors"]

LONGEST_HEADER = 1 << 24  # bytes
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": BFLOAT16,
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
}


def read_safetensors(path: Location) -> dict[str, Stored]:
    """Every tensor by name; its offsets must agree with the length of the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, LONGEST_HEADER):
            raise ValueError(f"it announces a header of {length} bytes, in a file of {size}")
        header = json.loads(file.read(length).decode("utf-8"))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    header.pop("__metadata__", None)
    return {name: _tensor(path, name, entry, 8 + length, size) for name, entry in header.items()}


def _tensor(path: Location, name: str, entry: Any, data: int, size: int) -> Stored:
    shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
    if any(type(n) is not int or n < 0 for n in (*shape, begin, end)) or not begin <= end <= size - data:
        raise ValueError(f"tensor {name!r} of shape {shape} has offsets {begin} to {end} in {size - data} bytes")
    dtype = DTYPES.get(entry["dtype"])
    if dtype is None:
        return Stored(shape, None, str(entry["dtype"]), lambda: None)
    return mapped(path, shape, dtype, entry["dtype"], data + begin, data + end)
