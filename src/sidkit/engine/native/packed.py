"""Codebooks in the layout of the kernels."""

from __future__ import annotations

from ctypes import byref, pointer
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from . import layout
from .build import kernels
from .layout import MAX_K

if TYPE_CHECKING:
    from ..cpu import CpuCodebook

__all__ = ["Packed", "aligned", "pack"]

Doubles = NDArray[np.float64]


class Packed:
    """A codebook in the layout of the kernels; made once per CpuCodebook."""

    def __init__(self, book: CpuCodebook) -> None:
        wide = kernels().sidkit_wide()
        self.exact = aligned(book.exact.shape, np.float64)
        self.exact[:] = book.exact
        self.offset = np.ascontiguousarray(book.exact_offset, np.float64)
        size, d = self.exact.shape
        panels, padded = -(-size // wide), -(-d // 16) * 16
        self.arrays = {
            "rows": aligned((panels * d * wide,), np.float32),
            "bytes": aligned((panels * -(-d // 4) * wide * 4,), np.uint8),
            "pairs": aligned((size * 2 * -(-d // 64) * 64,), np.uint8),
            "scale": aligned((panels * wide,), np.float32),
            "shift": aligned((panels * wide,), np.float32),
            "plain": aligned((panels,), np.uint8),
        }
        self.struct = layout.CodebookStruct(size=size, d=d, panels=panels, padded=padded)
        self.struct.exact, self.struct.offset = self.exact.ctypes.data, self.offset.ctypes.data
        for name, array in self.arrays.items():
            setattr(self.struct, name, array.ctypes.data)
        dead = _needless_copies(self.exact, self.offset)
        kernels().sidkit_pack(byref(self.struct), dead.ctypes.data)
        self.pointer = pointer(self.struct)
        self.size, self.d = size, d
        self.cosine = book.offset is None


_packed: WeakKeyDictionary[Any, Packed] = WeakKeyDictionary()


def pack(book: CpuCodebook) -> Packed:
    """The codebook in the layout of the kernels."""
    packed = _packed.get(book)
    if packed is None:
        packed = _packed[book] = Packed(book)
    return packed


def _needless_copies(rows: Doubles, offset: Doubles) -> NDArray[np.uint8]:
    """1 for every codeword with MAX_K copies before it: ties go to the lowest index, so it is never chosen."""
    seen: dict[bytes, int] = {}
    dead = np.zeros(len(rows), np.uint8)
    if np.unique(rows[:, 0], return_counts=True)[1].max() <= MAX_K:  # no first number is there often enough
        return dead
    for j, row in enumerate(rows):
        content = row.tobytes() + offset[j].tobytes()
        copies = seen[content] = seen.get(content, -1) + 1
        dead[j] = copies >= MAX_K
    return dead


def aligned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros that start at the start of a cache line: a load of 64 bytes then takes one line, not two."""
    size = prod(shape) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    zeros: NDArray[Any] = raw[start : start + size].view(dtype).reshape(shape)
    return zeros
