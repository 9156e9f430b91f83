"""Stages that rows go through, ready for the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import layout
from .packed import pack

if TYPE_CHECKING:
    from ..cpu import Book

__all__ = ["Chain", "Step"]

Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Step:
    """What one stage does to a row: take away its share of a vector (geometry.residual), then scale to length one.

    vectors: (K, d) with the row's code in `column`, (1, d) shared by all rows (column -1), or None.
    book: the codebook that finds the code in `encode`.
    """

    vectors: NDArray[Any] | None = None
    keep: float = 0.0
    normalize: bool = True
    column: int = -1
    book: Book | None = None


class Chain:
    """Steps in order, ready for the kernels."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self.width = 1 + max((step.column for step in self.steps), default=-1)
        self.vectors = [
            None if step.vectors is None else np.ascontiguousarray(step.vectors, np.float32) for step in self.steps
        ]
        self.books = [None if step.book is None else pack(step.book) for step in self.steps]
        self.known = self._structs(find=False)
        self.unknown = self._structs(find=True)
        self.work = sum(book.size for book in self.books if book)  # multiply-adds a coordinate

    def _structs(self, find: bool) -> Any:
        structs = (layout.Step * max(len(self.steps), 1))()
        for i, step in enumerate(self.steps):
            vectors, book = self.vectors[i], self.books[i]
            structs[i].vectors = None if vectors is None else vectors.ctypes.data
            structs[i].book = book.pointer if book and find else None
            structs[i].column = step.column
            structs[i].keep, structs[i].rest = step.keep, 1.0 - step.keep
            structs[i].normalize = step.normalize
            structs[i].last = find and i == len(self.steps) - 1
        return structs

    def check(self, n: int, d: int, codes: Codes | None) -> Codes:
        """Codes the kernels can follow: the right shape, every code a row of its vectors."""
        codes = np.empty((n, 0), np.int32) if codes is None else np.ascontiguousarray(codes, np.int32)
        if codes.shape[0] != n or codes.shape[1] < self.width:
            raise ValueError(f"codes of shape {codes.shape} cannot lead {n} rows through {self.width} levels")
        for step, vectors in zip(self.steps, self.vectors, strict=True):
            if vectors is None:
                continue
            if vectors.ndim != 2 or vectors.shape[1] != d:
                raise ValueError(f"vectors of shape {vectors.shape} cannot be taken from rows of {d} numbers")
            column = codes[:, step.column] if step.column >= 0 and n else np.zeros(1, np.int32)
            if column.min() < 0 or column.max() >= len(vectors):
                raise ValueError(f"codes run from {column.min()} to {column.max()}, not below {len(vectors)}")
        return codes
