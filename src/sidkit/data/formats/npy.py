"""Arrays in .npy and .npz files. Headers are not trusted: their sizes must agree with the length of the file."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ...files.address import Location
from .stored_array import BFLOAT16, Order, Stored, mapped

__all__ = ["read_npy", "read_npz"]

Header = tuple[tuple[int, ...], Order, np.dtype[Any]]

PIECE = 1 << 20  # bytes unpacked at once
BOMB = 100  # a higher ratio of compression is refused: no embeddings have it, long runs of zeros do
SMALL = 1 << 26  # bytes up to which any ratio is accepted


def read_npy(path: Location) -> dict[str, Stored]:
    """The one array of a .npy file, memory-mapped."""
    with path.open("rb") as file:
        shape, order, dtype = _header(file)
        if dtype.hasobject:
            return {"": _pickled(shape)}
        return {"": mapped(path, shape, dtype, _label(dtype), file.tell(), path.stat().st_size, order)}


def read_npz(path: Path) -> dict[str, Stored]:
    """The arrays of a .npz file by name: memory-mapped as np.savez writes them, unpacked when compressed."""
    stored = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as file:
                    stored[member.filename[:-4]] = _member(path, member, file)
    return stored


def _member(path: Path, member: zipfile.ZipInfo, file: IO[bytes]) -> Stored:
    shape, order, dtype = _header(file)
    if dtype.hasobject:
        return _pickled(shape)
    begin, label = file.tell(), _label(dtype)
    if member.compress_type == zipfile.ZIP_STORED:
        start = _data_start(path, member)
        end = min(start + member.file_size, path.stat().st_size)
        return mapped(path, shape, dtype, label, start + begin, end, order)
    if min(shape, default=0) < 0 or begin + prod(shape) * dtype.itemsize != member.file_size:
        raise ValueError(f"{member.filename} has {member.file_size} bytes, not those of {label} of shape {shape}")
    return Stored(shape, dtype, label, _unpacking(path, member, shape, order, dtype))


def _unpacking(
    path: Path, member: zipfile.ZipInfo, shape: tuple[int, ...], order: Order, dtype: np.dtype[Any]
) -> Callable[[], NDArray[Any]]:
    def load() -> NDArray[Any]:
        if member.file_size > max(SMALL, BOMB * member.compress_size):
            raise ValueError(
                f"{member.filename} would unpack from {member.compress_size} to {member.file_size} bytes; "
                "save it with np.save if that is intended"
            )
        flat = np.empty(prod(shape), dtype)
        into = flat.view(np.uint8)
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            _header(file)
            for start in range(0, len(into), PIECE):
                piece = file.read(min(PIECE, len(into) - start))
                into[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
                if not piece:
                    raise EOFError(f"{member.filename} ends early")
        return flat.reshape(shape, order=order)

    return load


def _data_start(path: Path, member: zipfile.ZipInfo) -> int:
    """The offset of the bytes of an uncompressed member: after its local header, a name and an extra field."""
    with path.open("rb") as file:
        file.seek(member.header_offset + 26)
        lengths = file.read(4)
    return member.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")


def _header(file: IO[bytes]) -> Header:
    """Shape, order and dtype. The file is then at the first number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy warns about headers that Python 2 wrote
        version = npy_format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"its npy format is {version}, expected (1, 0) or (2, 0)")
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    return shape, "F" if fortran else "C", dtype


def _label(dtype: np.dtype[Any]) -> str:
    return "bfloat16" if dtype == BFLOAT16 else str(dtype)


def _pickled(shape: tuple[int, ...]) -> Stored:
    return Stored(shape, None, "Python objects, which sidkit never unpickles", lambda: None)
