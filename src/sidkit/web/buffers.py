"""Memory for large bodies, used again: the pages of new memory take as long to get as the bytes to receive."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Buffers"]

STEP = 1 << 20  # sizes are multiples of this, so that bodies of similar length share


class Buffers:
    """body = buffers.take(n)   n bytes, which come back by themselves once nothing refers to the body any more."""

    def __init__(self, kept: int = 3) -> None:
        """kept: most buffers that wait for their next use."""
        self.kept, self.free = kept, list[NDArray[Any]]()

    def take(self, length: int) -> memoryview:
        fitting = [i for i, one in enumerate(self.free) if len(one) >= length]
        if fitting:
            whole = self.free.pop(min(fitting, key=lambda i: len(self.free[i])))
        else:
            whole = np.empty(-(-length // STEP) * STEP, np.uint8)  # numpy asks for large pages
        lent = whole[:length]
        weakref.finalize(lent, self._back, whole).atexit = False
        return lent.data

    def _back(self, whole: NDArray[Any]) -> None:
        self.free.append(whole)
        self.free.sort(key=len)
        del self.free[: -self.kept]  # the largest stay
