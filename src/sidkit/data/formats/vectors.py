"""A Parquet column of lists as a matrix, every list checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import InputError
from ...files.address import Location
from ...geometry import compute_dtype
from ..listing import readable

__all__ = ["Vectors", "is_list", "is_vector_type", "value_type"]


@dataclass(frozen=True)
class Vectors:
    """How the lists of a column become rows: all of length d, without nulls, in one dtype."""

    column: str
    d: int
    dtype: np.dtype[Any]

    @classmethod
    def like(cls, batch: Any, path: Location, column: str) -> Vectors:
        """With the length and dtype of the first row of a batch."""
        lists = _lists(batch)
        if lists.null_count:
            raise InputError(f"row 0 of {path.name}: {column!r} is null, expected a list of numbers")
        d = len(lists.flatten())
        if d == 0:
            raise InputError(f"row 0 of {path.name}: {column!r} is empty, expected a list of numbers")
        return cls(column, d, compute_dtype(value_type(lists.type).to_pandas_dtype()))

    def of(self, batch: Any, path: Location, row: int) -> NDArray[Any]:
        """The rows of a batch, the first being this row of the file: (n, d). No copy where the dtype is right."""
        with readable(path):
            lists = _lists(batch)
            if lists.null_count:
                nulls = lists.is_null().to_numpy(zero_copy_only=False)
                self._refuse(path, row, nulls, "is null, expected a list of numbers")
            fixed = pa.types.is_fixed_size_list(lists.type)
            lengths = np.array([lists.type.list_size]) if fixed else np.diff(lists.offsets.to_numpy())
            if (lengths != self.d).any():
                odd = int((lengths != self.d).argmax())
                self._refuse(path, row, lengths != self.d, f"has {lengths[odd]} numbers, expected {self.d}")
            values = lists.flatten()
            if values.null_count:
                nulls = values.is_null().to_numpy(zero_copy_only=False).reshape(-1, self.d)
                self._refuse(path, row, nulls.any(axis=1), "has a null among its numbers")
            x: NDArray[Any] = values.to_numpy().reshape(len(lists), self.d)
            return x.astype(self.dtype, copy=False)

    def _refuse(self, path: Location, row: int, wrong: Any, why: str) -> NoReturn:
        first = row + int(np.argmax(wrong))
        raise InputError(f"row {first} of {path.name}: {self.column!r} {why}")


def is_vector_type(kind: Any) -> bool:
    """Whether a pyarrow type is a list of numbers, of fixed size or not."""
    kind = _storage(kind)
    return is_list(kind) and bool(pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def is_list(kind: Any) -> bool:
    """Whether a pyarrow type is a list, of fixed size or not."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def value_type(kind: Any) -> Any:
    """The type of a list's elements."""
    return _storage(kind).value_type


def _lists(batch: Any) -> Any:
    """The lists stored under an extension type, such as that of tensors."""
    return batch.storage if isinstance(batch, pa.ExtensionArray) else batch


def _storage(kind: Any) -> Any:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
