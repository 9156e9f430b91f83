"""What every reader of embeddings offers: a Source that also knows its items."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files.address import Where
from ..rows.local import Source

__all__ = ["Embeddings", "name_of", "require_rows"]


class Embeddings(Source, Protocol):
    """A Source whose rows are items."""

    @property
    def ids(self) -> Any:
        """The id of every row, a pyarrow array of strings or integers; row numbers where the file has none."""

    @property
    def paths(self) -> tuple[Where, ...]:
        """The files, in the order they are read."""


def name_of(identity: Any, place: str) -> str:
    """What a user calls a row: "item 'B00X' (row 12 of items.parquet)"."""
    return f"item {identity!r} ({place})"


def require_rows(numbers: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """The row numbers, if all of them exist."""
    numbers = np.asarray(numbers, np.int64)
    outside = numbers[(numbers < 0) | (numbers >= total)]
    if len(outside):
        raise InputError(f"there is no row {outside[0]}: rows are numbered 0 to {total - 1}")
    return numbers
