"""An array as its file describes it, before any of it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["BFLOAT16", "Order", "Stored", "mapped"]

Order: TypeAlias = Literal["C", "F"]
BFLOAT16 = np.dtype("V2")  # what numpy writes for it, having no such type


@dataclass(frozen=True)
class Stored:
    """Shape, type, and how to get at it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None  # None: not to be read, whatever the format says
    label: str  # the type as a user knows it
    load: Callable[[], Any]

    @property
    def numeric(self) -> bool:
        """Whether it can be turned into float32 or float64 without losing its meaning."""
        if self.dtype is None or self.dtype.itemsize > 8:
            return False
        return self.dtype.kind in "fiu" or self.dtype == BFLOAT16


def mapped(
    path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], label: str, offset: int, end: int, order: Order = "C"
) -> Stored:
    """An array that lies as it is in bytes offset to end of a file, to be memory-mapped there."""
    size = prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or not 0 <= offset <= offset + size <= end:
        raise ValueError(f"an array of shape {shape} and type {label} does not fit in its {end - offset} bytes")

    def load() -> NDArray[Any]:
        return np.asarray(np.memmap(path, dtype, "r", offset, shape, order))

    return Stored(shape, dtype, label, load)
