"""SIDs as keys of a database: one number, or bytes where the numbers of 64 bits do not suffice.

Either sorts as codes do, so the SIDs under a prefix are one range of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, StoreError
from ..sids.prefixes import require_codes

__all__ = ["SidKey", "SidKeys"]

DAMAGED = "the registry is damaged; restore it from a backup"

SidKey: TypeAlias = int | bytes


@dataclass(frozen=True)
class SidKeys:
    """The keys of SIDs with these sizes.

    whole    c_1 * K_2 * K_3 + c_2 * K_3 + c_3, if the product of all sizes is at most 2^63 - 1
    bytes    else the codes one after the other, each in as few bytes as its size needs, the highest first
    """

    sizes: tuple[int, ...]

    @property
    def whole(self) -> bool:
        return prod(self.sizes) < 2**63

    @property
    def kind(self) -> str:
        """How a database stores them: whole or bytes."""
        return "whole" if self.whole else "bytes"

    def of(self, codes: Any) -> list[Any]:
        """The keys of codes (n, levels)."""
        if not len(codes):
            return []
        codes = require_codes(codes, self.sizes)
        if self.whole:
            keys = np.zeros(len(codes), np.int64)
            for column, size in zip(codes.T, self.sizes, strict=True):
                keys = keys * size + column
            return keys.tolist()
        parts = [self._bytes(column, width) for column, width in zip(codes.T, self._widths, strict=True)]
        rows = np.concatenate(parts, axis=1)
        return [row.tobytes() for row in rows]

    def codes_of(self, keys: Sequence[Any]) -> NDArray[np.int32]:
        """The inverse of `of`: (n, levels)."""
        out = np.empty((len(keys), len(self.sizes)), np.int32)
        if not all(isinstance(key, int if self.whole else bytes) for key in keys):
            raise StoreError(f"keys of SIDs of {self.sizes} are of another kind; {DAMAGED}")
        if self.whole:
            rest = np.asarray(keys, np.int64)
            for level in reversed(range(len(self.sizes))):
                rest, out[:, level] = np.divmod(rest, self.sizes[level])
            return out
        if any(len(key) != sum(self._widths) for key in keys):
            raise StoreError(f"keys of SIDs of {self.sizes} have another length; {DAMAGED}")
        rows = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), sum(self._widths)).astype(np.int32)
        start = 0
        for level, width in enumerate(self._widths):
            out[:, level] = 0
            for byte in range(start, start + width):
                out[:, level] = out[:, level] * 256 + rows[:, byte]
            start += width
        return out

    def span(self, prefix: Sequence[int]) -> tuple[SidKey, SidKey]:
        """The lowest and the highest key of SIDs that start with these codes."""
        if len(prefix) > len(self.sizes):
            raise InputError(f"{len(prefix)} codes asked for, but these SIDs have {len(self.sizes)}")
        for level, (code, size) in enumerate(zip(prefix, self.sizes, strict=False)):
            if not 0 <= code < size:
                raise InputError(f"level {level + 1} has the codes 0..{size - 1}, not {code}")
        if self.whole:
            number = 0
            for code, size in zip(prefix, self.sizes, strict=False):
                number = number * size + code
            rest = prod(self.sizes[len(prefix) :])
            return number * rest, (number + 1) * rest - 1
        start = b"".join(code.to_bytes(width, "big") for code, width in zip(prefix, self._widths, strict=False))
        rest = sum(self._widths[len(prefix) :])
        return start + b"\0" * rest, start + b"\xff" * rest

    @cached_property
    def _widths(self) -> tuple[int, ...]:
        return tuple(max(1, ((size - 1).bit_length() + 7) // 8) for size in self.sizes)

    @staticmethod
    def _bytes(column: NDArray[Any], width: int) -> NDArray[np.uint8]:
        return np.ascontiguousarray(column, ">u4").view(np.uint8).reshape(-1, 4)[:, 4 - width :]
