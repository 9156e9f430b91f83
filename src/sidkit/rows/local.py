"""Rows of one machine: an array, or files larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import native
from ..geometry import Array
from ..progress import Progress, Silent
from .seam import CHUNK, Carrier, Sums, add_in_tree, choose, leading_steps, order_of, smallest_code_dtype
from .sources import Source
from .sparse import SparseChunks

__all__ = ["LocalRows"]


@dataclass(frozen=True)
class LocalRows:
    """Rows of one machine: a source, the stages they went through, and the codes these gave."""

    source: Source
    stages: tuple[Carrier, ...] = ()
    columns: tuple[NDArray[Any], ...] = ()  # one (n,) array of codes per token
    chunk: int = CHUNK
    progress: Progress = field(default_factory=Silent)
    cast: np.dtype[Any] | None = None  # the dtype to compute in, if not that of the source

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.cast or self.source.dtype

    @property
    def width(self) -> int:
        return len(self.columns)

    def sample(self, n: int, seed: Sequence[int]) -> NDArray[Any]:
        return self.take(choose(self.shape[0], n, seed))

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        x: NDArray[Any] = self._carried(self.source.take(indices), self._codes_of(indices))
        return x

    def reduce(self, f: Callable[[Array, Array], Sums], precision: str = "fp32") -> Sums:
        return add_in_tree(self._parts(f), -(-self.shape[0] // self.chunk))

    def map(self, stage: Carrier) -> LocalRows:
        columns = [np.empty(self.shape[0], smallest_code_dtype(size)) for size in stage.sizes]
        if columns:
            for rows, x in self._chunks():
                tokens = stage.tokens(x, self._codes_of(rows))
                for j, column in enumerate(columns):
                    column[rows] = tokens[:, j]
                self.progress.advance(len(x))
        return replace(self, stages=(*self.stages, stage), columns=(*self.columns, *columns))

    def batches(self, n: int, seed: Sequence[int], order: NDArray[np.int64] | None = None) -> Iterator[Array]:
        order = order_of(self.shape[0], seed) if order is None else order
        for start in range(0, len(order), n):
            yield self.take(order[start : start + n])

    def codes(self) -> NDArray[np.int32]:
        return self._codes_of(slice(None))

    def prepare(self, work: float) -> None:
        native.prepare(work)

    def ran_on(self) -> dict[str, Any]:
        return {"device": "cpu", "threads": native.threads()}

    def _parts(self, f: Callable[[Array, Array], Sums]) -> Iterator[Sums]:
        for rows, x in self._chunks(again=True):
            part = f(x, self._codes_of(rows))
            self.progress.advance(len(x))
            yield part

    def _chunks(self, again: bool = False) -> Iterator[tuple[slice, NDArray[Any]]]:
        """All rows in order, for use until the next are taken; again: more such passes may follow."""
        chunks, start = self._sparse.replayed(), 0
        if chunks is None:
            chunks = (
                self._sparse.recorded(self._computed(), self.shape[0]) if again and self.stages else self._computed()
            )
        for x in chunks:
            yield slice(start, start + len(x)), x
            start += len(x)

    def _computed(self) -> Iterator[NDArray[Any]]:
        start = 0
        for x in self.source.chunks(self.chunk):
            yield self._carried(x, self._codes_of(slice(start, start + len(x))))
            start += len(x)

    def _carried(self, x: NDArray[Any], codes: NDArray[np.int32]) -> NDArray[Any]:
        done, x = 0, x.astype(self.dtype, copy=False)
        if self.stages and native.ready(x):
            done, chain = self._chain
            x = native.carry(x, chain, codes) if done else x
        seen = sum(len(stage.sizes) for stage in self.stages[:done])
        for stage in self.stages[done:]:
            seen += len(stage.sizes)
            x = stage.carry(x, codes[:, :seen])
        return x

    @cached_property
    def _sparse(self) -> SparseChunks:
        return SparseChunks()

    @cached_property
    def _chain(self) -> tuple[int, native.CarryChain]:
        """How many stages, from the first on, one sweep of the compiled kernels can do, and the chain for it."""
        steps = leading_steps(self.stages)
        return len(steps), native.CarryChain(steps)

    def _codes_of(self, rows: Any) -> NDArray[np.int32]:
        n = len(range(*rows.indices(self.shape[0]))) if isinstance(rows, slice) else len(rows)
        out = np.empty((n, self.width), np.int32)
        for j, column in enumerate(self.columns):
            out[:, j] = column[rows]
        return out
