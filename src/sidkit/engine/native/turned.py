"""The codewords of a rotated product quantizer without rotating the rows.

A token is decided by y = R (x - mean), rounded to float32, whose block is compared with the codewords of the block.
Since y_block . c = (x - mean) . (R_block^T c), the codewords can be turned instead of the rows: one screen over d
numbers rules out all codewords but one for nearly every row. The others are decided as if there were no kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cpu import CpuCodebook
from . import _run as run
from .packed import Packed, pack
from .parents import busy_rows

__all__ = ["TurnedBooks"]

UNSETTLED = 2  # as in search.h
Decide = Callable[[NDArray[np.float32]], NDArray[Any]]


class TurnedBooks:
    """Codebooks (K, width) of the blocks of y, turned to the space of x.

    decide: the tokens of rows (n, blocks) by the formula itself; for near-ties, and for a row of zeros.
    """

    def __init__(
        self,
        books: Sequence[NDArray[Any]],
        cut: Sequence[slice],
        turn: NDArray[np.float64],
        mean: NDArray[np.float64],
        decide: Decide,
    ) -> None:
        self.decide = decide
        self.books, self.packed = [], []
        self.nothing = decide(np.zeros((1, len(mean)), np.float32))[0].astype(np.int32)
        for book, block, zero in zip(books, cut, self.nothing, strict=True):
            turned, packed = self._packed(np.asarray(book, np.float64), turn[block], mean)
            packed.struct.zero[0] = int(zero)
            self.books.append(turned)  # owns what is packed
            self.packed.append(packed)

    @staticmethod
    def _packed(
        book: NDArray[np.float64], turn: NDArray[np.float64], mean: NDArray[np.float64]
    ) -> tuple[CpuCodebook, Packed]:
        exact = book @ turn
        offset = -0.5 * (book * book).sum(axis=1) - exact @ mean
        turned = CpuCodebook(exact.astype(np.float32), offset.astype(np.float32), exact, offset)
        packed = pack(turned)
        # The screen allows for errors in proportion to |x| reach + slack; rounding y errs by |x - mean| reach.
        packed.struct.slack += float(np.linalg.norm(mean)) * packed.struct.reach
        return turned, packed

    def tokens(self, x: NDArray[np.float32]) -> NDArray[np.int32]:
        """(n, blocks). Where most rows are zero, as below parents with few rows, the others alone are looked at."""
        busy = busy_rows(x)
        count = np.count_nonzero(busy)
        if 2 * count > len(x):
            return self._tokens(x)
        out = np.broadcast_to(self.nothing, (len(x), len(self.packed))).copy()
        if count:
            out[busy] = self._tokens(x[busy])
        return out

    def _tokens(self, x: NDArray[np.float32]) -> NDArray[np.int32]:
        out = np.empty((len(self.packed), len(x)), np.int32)
        for packed, column in zip(self.packed, out, strict=True):
            run(x, packed, 1, screen=UNSETTLED, index=column)
        near = np.flatnonzero((out < 0).any(axis=0))
        if len(near):
            out[:, near] = self.decide(x[near]).T
        return np.ascontiguousarray(out.T)
