"""Several levels of Euclidean residuals decided together, by beam search, as faiss's ResidualQuantizer does.

Level by level, the nearest centroid of one level may leave a residual that the next levels describe badly. A beam keeps
the `beam` best choices so far and decides at the end:

    of all b K pairs of a choice with residual r and a centroid c, those with the least |r - c|^2 go on
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..engine.arrays import like, namespace, widened
from ..errors import SpecError
from ..files.folder import require_array
from ..geometry import Array
from ..rows.seam import Rows
from .product import check_sizes
from .stage import FitContext

__all__ = ["FittedResidualBeam", "ResidualBeam"]

AT_ONCE = 1 << 20  # distances in memory at once: 8 MB


@dataclass(frozen=True, eq=False)
class FittedResidualBeam:
    """A codebook per token, (K, d) each, and the number of choices that are followed."""

    books: tuple[NDArray[Any], ...]
    beam: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(book) for book in self.books)

    @property
    def codebooks(self) -> list[NDArray[Any]]:
        return list(self.books)

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {f"centroids{level}": book for level, book in enumerate(self.books)}

    def tokens(self, x: Array, codes: Array) -> Array:
        step = max(1, AT_ONCE // (self.beam * max(*self.sizes, x.shape[1])))
        parts = [self._search(x[start : start + step]) for start in range(0, max(len(x), 1), step)]
        return parts[0] if len(parts) == 1 else namespace(x).concatenate(parts)

    def carry(self, x: Array, codes: Array) -> Array:
        """The row minus the centroids of all its tokens."""
        tokens = codes[:, -len(self.books) :]
        return reduce(lambda r, m: r - like(self.books[m], x)[tokens[:, m]], range(len(self.books)), x)

    def decode(self, codes: NDArray[Any], rest: NDArray[Any], of_length_one: bool) -> NDArray[Any]:
        tokens = codes[:, -len(self.books) :]
        return np.asarray(rest + sum(like(book, rest)[tokens[:, m]] for m, book in enumerate(self.books)))

    def _search(self, x: Array) -> Array:
        """The tokens of the best choice, for rows x: (n, levels). Distances are compared in float32, as faiss does."""
        xp, n = namespace(x), len(x)
        rows = xp.arange(n)[:, None] if isinstance(x, np.ndarray) else xp.arange(n, device=x.device)[:, None]
        r = widened(x)[:, None]  # (n, choices, d)
        chosen = rows[:, :, None][:, :, :0]  # (n, choices, levels so far)
        for book in self.books:
            c = like(book, r)
            flat = r.reshape(-1, r.shape[-1])  # one product of matrices instead of one for every row
            scores = (flat * flat).sum(-1)[:, None] + (c * c).sum(-1) - 2 * (flat @ c.T)  # (n choices, K)
            best = _least(scores.reshape(n, -1), min(self.beam, r.shape[1] * len(book)))
            choice, code = best // len(book), best % len(book)
            r = r[rows, choice] - c[code]
            chosen = xp.concatenate([chosen[rows, choice], code[..., None]], -1)
        best_codes = chosen[:, 0]
        return best_codes.astype(np.int32) if isinstance(x, np.ndarray) else best_codes.int()


def _least(scores: Array, count: int) -> Array:
    """The indices of the `count` least scores of every row, least first."""
    if not isinstance(scores, np.ndarray):
        return scores.float().topk(count, dim=1, largest=False).indices
    scores = scores.astype(np.float32)
    some = np.sort(np.argpartition(scores, count - 1, axis=1)[:, :count], axis=1)
    order = np.argsort(np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


@dataclass(frozen=True)
class ResidualBeam:
    """Levels with these sizes whose codebooks were fitted elsewhere, decided by a beam of this width."""

    sizes: tuple[int, ...]
    beam: int = 5

    def __post_init__(self) -> None:
        check_sizes(self.sizes)
        if self.beam < 1:
            raise SpecError(f"the beam must be at least 1 wide, not {self.beam}")

    def check(self, shape: tuple[int, int], level: int, run: FitContext) -> NoReturn:
        raise SpecError("ResidualBeam takes codebooks that were fitted elsewhere (sidkit.Given); fit rq-kmeans instead")

    def fit(self, rows: Rows, run: FitContext) -> NoReturn:
        self.check(rows.shape, rows.width, run)

    def restore(self, arrays: Mapping[str, NDArray[Any]], d: int) -> FittedResidualBeam:
        books = (require_array(arrays, f"centroids{level}", (size, d)) for level, size in enumerate(self.sizes))
        return FittedResidualBeam(tuple(books), self.beam)
