"""Stages that rows go through, in the layout of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..steps import CarryStep
from . import layout
from .packed import pack

__all__ = ["CarryChain"]

Codes = NDArray[np.int32]


class CarryChain:
    """Steps in order, in the layout of the kernels; ends: nothing is passed on by a last step that finds its code."""

    def __init__(self, steps: Sequence[CarryStep], ends: bool = True) -> None:
        self.steps, self.ends = tuple(steps), ends
        self.width = 1 + max((step.column for step in self.steps), default=-1)
        self.vectors = [
            None if step.vectors is None else np.ascontiguousarray(step.vectors, np.float32) for step in self.steps
        ]
        self.books = [None if step.book is None else pack(step.book) for step in self.steps]
        self.work = sum(book.size for book in self.books if book)  # multiply-adds per coordinate
        for vectors, book in zip(self.vectors, self.books, strict=True):
            if vectors is not None and (vectors.ndim != 2 or len(vectors) < (book.size if book else 1)):
                raise ValueError(f"a step cannot take away vectors of shape {vectors.shape}")
        self.dims = {part.shape[1] for part in self.vectors if part is not None}
        self.dims |= {book.d for book in self.books if book}
        self.known = self._structs(find=False)
        self.unknown = self._structs(find=True)

    def _structs(self, find: bool) -> Any:
        structs = (layout.StepStruct * max(len(self.steps), 1))()
        for i, step in enumerate(self.steps):
            vectors, book = self.vectors[i], self.books[i]
            structs[i].vectors = None if vectors is None else vectors.ctypes.data
            structs[i].book = book.pointer if book and find else None
            structs[i].column = step.column
            structs[i].keep, structs[i].rest = step.keep, 1.0 - step.keep
            structs[i].normalize = step.normalize
            structs[i].last = find and self.ends and i == len(self.steps) - 1
        return structs

    def check(self, n: int, codes: Codes | None) -> Codes:
        """The codes, if the kernels can use them: of the right shape, every code the index of one of its vectors."""
        codes = np.empty((n, 0), np.int32) if codes is None else np.ascontiguousarray(codes, np.int32)
        if codes.shape[0] != n or codes.shape[1] < self.width:
            raise ValueError(f"codes of shape {codes.shape} cannot lead {n} rows through {self.width} levels")
        for step, vectors in zip(self.steps, self.vectors, strict=True):
            if vectors is not None and step.column >= 0 and n:
                low, high = codes[:, step.column].min(), codes[:, step.column].max()
                if low < 0 or high >= len(vectors):
                    raise ValueError(f"codes run from {low} to {high}, not below {len(vectors)}")
        return codes
