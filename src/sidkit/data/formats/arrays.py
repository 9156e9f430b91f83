"""One matrix in a file, memory-mapped where the format allows, with or without an array of ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import InputError
from ...files.address import Location, Remote
from ...rows.sources import require_rows
from ..columns import ID, VECTORS, Chosen, choose_name, no_such
from ..ids import is_id_type, require_unique
from ..listing import readable
from ..source import name_of
from .npy import read_npy, read_npz
from .pt import read_pt
from .safetensors import read_safetensors
from .stored_array import BFLOAT16, Stored

__all__ = ["READERS", "ArrayEmbeddings", "open_arrays"]

READERS: dict[str, Callable[[Any], dict[str, Stored]]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".safetensors": read_safetensors,
    ".pt": read_pt,
    ".pth": read_pt,
}
READ_REMOTELY = (".npy", ".safetensors")  # formats whose rows can be fetched without the rest of the file


@dataclass(frozen=True, eq=False)
class ArrayEmbeddings:
    """A matrix whose chunks are converted as they are read."""

    path: Location
    array: NDArray[Any]  # (n, d), of any number type; bfloat16 as numpy stores it, two untyped bytes
    given: Any = None  # ids from the file
    chosen: tuple[Chosen, ...] = ()  # the names of the arrays of ids and vectors, where they have one

    @property
    def paths(self) -> tuple[Location, ...]:
        return (self.path,)

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        double = self.array.dtype.kind == "f" and self.array.dtype.itemsize == 8
        return np.dtype(np.float64 if double else np.float32)

    @cached_property
    def ids(self) -> Any:
        return pa.array(np.arange(self.shape[0], dtype=np.int64)) if self.given is None else self.given

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        for first in range(start, len(self.array), size):
            yield self._numbers(self.array[first : first + size])

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        return self._numbers(self.array[require_rows(indices, self.shape[0])])

    def name(self, row: int) -> str:
        name = f"row {row} of {self.path.name}"
        return name if self.given is None else name_of(self.given[row].as_py(), name)

    def _numbers(self, x: NDArray[Any]) -> NDArray[Any]:
        if x.dtype == BFLOAT16:  # the upper half of a float32
            x = (np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        return np.require(x, self.dtype, ["C", "A"])


def open_arrays(path: Location, id_column: str | None, column: str | None) -> ArrayEmbeddings:
    """The matrix of a file and its ids, by their names where the file names its arrays."""
    if isinstance(path, Remote) and path.suffix.lower() not in READ_REMOTELY:
        raise InputError(f"cannot read {path} remotely; copy it to this machine, or write it as Parquet or .npy")
    with readable(path):
        stored = READERS[path.suffix.lower()](path)
    if list(stored) == [""]:
        for option, name in (("--id-column", id_column), ("--column", column)):
            if name is not None:
                raise InputError(f"{path.name} holds one array without a name; leave out {option} {name}")
    name, matrix = _matrix(stored, column, path)
    id_name = choose_name(id_column, ID.names, {one: len(array.shape) == 1 for one, array in stored.items()})
    ids = _ids(stored, id_name, id_column, path, matrix.shape[0])
    chosen = (Chosen(ID, id_name), *((Chosen(VECTORS, name),) if name else ()))
    with readable(path):
        return ArrayEmbeddings(path, matrix.load(), ids, chosen)


def _matrix(stored: dict[str, Stored], wanted: str | None, path: Location) -> tuple[str, Stored]:
    fits = {name: len(array.shape) == 2 for name, array in stored.items()}
    name = choose_name(wanted, VECTORS.names, fits)
    if wanted is None and (name is None or not fits[name]):
        matrices = [n for n in fits if fits[n]]
        name = matrices[0] if len(matrices) == 1 else next(iter(stored)) if len(stored) == 1 else name
    if name is None:
        raise no_such("array", wanted or VECTORS.names[0], path.name, fits, "--column")
    array, where = stored[name], f"{name!r} in {path.name}" if name else path.name
    if not fits[name] or array.shape[1] == 0:
        raise InputError(f"{where} has shape {array.shape}, expected (rows, dimensions)")
    if not array.numeric:
        raise InputError(f"{where} holds {array.label}; expected float16, float32, float64, bfloat16 or integers")
    if array.shape[0] == 0:
        raise InputError(f"there are no rows in {where}")
    return name, array


def _ids(stored: dict[str, Stored], name: str | None, wanted: str | None, path: Location, rows: int) -> Any:
    if name is None and wanted is not None:
        fits = {one: len(array.shape) == 1 for one, array in stored.items()}
        raise no_such("array", wanted, path.name, fits, "--id-column")
    if name is None:
        return None
    array, where = stored[name], f"{name!r} in {path.name}"
    if array.shape != (rows,):
        raise InputError(f"{where} has shape {array.shape}, expected {(rows,)}: one id for every row")
    with readable(path):
        ids = _loaded_ids(array)
    if ids is None or not is_id_type(ids.type):
        raise InputError(f"{where} holds {array.label}; ids must be strings or integers")
    require_unique(ids, name, lambda row: f"row {row} of {path.name}")
    return ids


def _loaded_ids(array: Stored) -> Any:
    if array.dtype is None or array.dtype.kind not in "iuUSO":
        return None
    values = array.load()
    if not isinstance(values, list):
        values = np.asarray(values)
        values = np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values
        values = values.astype(values.dtype.newbyteorder("="))
    return pa.array(values)
