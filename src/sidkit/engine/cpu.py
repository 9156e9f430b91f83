"""numpy and scipy: scores are a matrix product, winners their `argmax`, sums a sparse product.

Scores are the only large intermediate, so rows are scored BLOCK at a time. Short blocks are padded, because BLAS takes
other kernels for small products, whose last bits differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from ..geometry import squared_length, unit
from . import native

Floats = NDArray[np.floating[Any]]
Codes = NDArray[np.int32]

BLOCK = 4096  # rows scored at once: 16 MB of float32 scores at 1,024 centroids
PAIRS = 1 << 20  # numbers in memory at once while near-ties are settled
SPARE = 1  # codewords beyond the k best by rounded scores that are scored again
SMALL = 1 << 22  # multiplications below which a matrix product may take another path


@dataclass(frozen=True, eq=False)
class CpuCodebook:
    """A codebook ready for scoring: score(x, j) = x . rows[j] + offset[j].

    cosine: rows of length one, no offset, so the score is |x| cos(x, c).
    euclidean: the centroids and -|c|^2 / 2, so the score is (|x|^2 - |x - c|^2) / 2.
    """

    rows: Floats  # (K, d), in the dtype of the rows to be scored
    offset: Floats | None  # (K,)
    exact: NDArray[np.float64]  # rows and offset again, for near-ties
    exact_offset: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)


def book(centroids: Floats, metric: str, x: Floats, bonus: Floats | None = None) -> CpuCodebook:
    """Centroids (K, d) made ready to score rows of x's dtype; a bonus (K,) is added to euclidean scores."""
    exact = np.asarray(centroids, np.float64)
    if metric == "cosine":
        exact = unit(exact)
        return CpuCodebook(exact.astype(x.dtype), None, exact, np.zeros(len(exact)))
    half = -0.5 * squared_length(exact)[:, 0] + (0.0 if bonus is None else bonus)
    return CpuCodebook(exact.astype(x.dtype), half.astype(x.dtype), exact, half)


def top(x: Floats, book: CpuCodebook, k: int) -> tuple[Codes, Floats]:
    """The k best codewords of every row and their scores, best first: (n, k), (n, k)."""
    if native.ready(x, k):
        return native.top(x, book, k)
    index = np.empty((len(x), k), np.int32)
    score = np.empty((len(x), k), x.dtype)
    for rows, scores in _scored(x, book):
        lane = np.arange(len(scores))
        for rank in range(k):
            best = scores.argmax(axis=1)
            index[rows, rank] = best
            score[rows, rank] = scores[lane, best]
            scores[lane, best] = -np.inf
    return index, score


def nearest(x: Floats, book: CpuCodebook) -> Codes:
    """The best codeword of every row: (n,).

    Codewords closer than rounding error are compared in float64, ties to the lowest index, so that a row gets the same
    codeword whatever block it is scored in.
    """
    if native.ready(x):
        return native.nearest(x, book)
    best = np.empty(len(x), np.int32)
    margin = rounding(x, book)
    for rows, scores in _scored(x, book):
        ahead = scores.max(axis=1) - margin[rows]
        near = scores >= ahead[:, None]
        best[rows] = near.argmax(axis=1)
        doubtful = np.flatnonzero(np.count_nonzero(near, axis=1) > 1)
        if len(doubtful):
            best[rows][doubtful] = _settle(x[rows][doubtful], near[doubtful], book)
    return best


def soft_sums(
    x: Floats, book: CpuCodebook, k: int, beta: float, scale: float, precision: str = "fp32", skip_zero: bool = False
) -> tuple[NDArray[np.float64], ...]:
    """One fitting pass: mass (K,) and sums (K, d) of softly assigned rows, and the best similarities summed (1,).

    s = cos(x, c) or, for a book with offsets, -scale |x - c|^2;   w_j = exp(beta s_j) / sum over the k best

    skip_zero leaves rows of length zero out. precision is for GPUs: this engine scores in the dtype of the rows.
    """
    x = x[squared_length(x)[:, 0] > 0] if skip_zero else x
    if native.ready(x, k):
        return native.soft_sums(x, book, k, beta, scale)
    index, score = _exact_top(x, book, k)
    square = squared_length(x.astype(np.float64, copy=False))
    if book.offset is None:  # the score is |x| cos
        length = np.sqrt(square)
        similarity = score / (length + (length == 0))
    else:
        similarity = 2.0 * scale * (score - 0.5 * square)
    mass, total = add_up(x, index, soft_weights(similarity, beta), len(book))
    return mass, total, similarity[:, 0].sum(keepdims=True)


def _exact_top(x: Floats, book: CpuCodebook, k: int) -> tuple[Codes, NDArray[np.float64]]:
    """The k best codewords of every row by their scores in float64, and these scores: (n, k), (n, k).

    They are chosen among the k + SPARE best by rounded scores, so that a fit ends with the same codebooks with and
    without the compiled kernels.
    """
    index = top(x, book, min(k + SPARE, len(book)))[0]
    score = np.empty(index.shape)
    step = max(1, PAIRS // (x.shape[1] * index.shape[1]))
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        score[rows] = np.einsum("nd,nkd->nk", x[rows].astype(np.float64, copy=False), book.exact[index[rows]])
    score += book.exact_offset[index]
    order = np.lexsort((index, -score), axis=1)[:, :k]
    return np.take_along_axis(index, order, 1), np.take_along_axis(score, order, 1)


def soft_weights(score: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """exp(beta s) over each row's candidates, made to sum to one (paper, Eq. 11): (n, k) -> (n, k)."""
    weight = np.exp(beta * (score - score[:, :1]))
    normal: NDArray[np.float64] = weight / weight.sum(axis=1, keepdims=True)
    return normal


def hard_sums(
    x: Floats, codes: Codes, sizes: Sequence[int], mean: Floats | None = None
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Mass (K,) and sum (K, d) of the rows, less the mean, under the codes of each column: codes (n, m), m sizes."""
    mass = [np.bincount(column, minlength=size).astype(np.float64) for column, size in zip(codes.T, sizes, strict=True)]
    if native.ready(x):
        from .native.sums import add_by_code

        past = np.cumsum(sizes)
        total = add_by_code(x, codes + (past - sizes).astype(np.int32), int(past[-1]), BLOCK, mean)
        return list(zip(mass, np.split(total, past[:-1]), strict=True))
    full, ones = x if mean is None else x - mean, np.ones((len(x), 1))
    return [(m, add_up(full, codes[:, [j]], ones, len(m))[1]) for j, m in enumerate(mass)]


def add_up(x: Floats, index: Codes, weight: NDArray[np.float64], size: int) -> tuple[NDArray[np.float64], ...]:
    """Weighted mass (size,) and sum (size, d) of the rows under each codeword; index, weight: (n, k)."""
    k = index.shape[1]
    mass: NDArray[np.float64] = np.bincount(index.ravel(), weight.ravel(), minlength=size).astype(np.float64)
    total = np.zeros((size, x.shape[1]))
    for start in range(0, len(x), BLOCK):
        rows = slice(start, start + BLOCK)
        codes = index[rows]
        starts = np.arange(0, codes.size + 1, k)
        shares = csr_matrix((weight[rows].ravel(), codes.ravel(), starts), shape=(len(codes), size))
        total += shares.T @ x[rows].astype(np.float64, copy=False)
    return mass, total


def column_sums(x: Floats) -> NDArray[np.float64]:
    """The sum of the rows, in float64: (d,)."""
    total: NDArray[np.float64] = x.sum(axis=0, dtype=np.float64)
    return total


def rounding(x: Floats, book: CpuCodebook) -> Floats:
    """The most by which two computed scores of a row can differ from the true ones, together: (n,).

    The classical bound for a d-term sum, 2 (d + 4) u (|x| max|c| + max|offset|).
    """
    d = x.shape[1]
    reach = np.sqrt(squared_length(book.exact).max()) if len(book) else 0.0
    length = np.sqrt(squared_length(x)[:, 0])
    slack: Floats = (d + 4) * np.finfo(x.dtype).eps * (length * reach + np.abs(book.exact_offset).max(initial=0.0))
    return slack


def _settle(x: Floats, near: NDArray[np.bool_], book: CpuCodebook) -> Codes:
    """The best of the near codewords of every row, scored in float64 in a fixed order of additions."""
    row, code = np.nonzero(near)
    score = np.empty(len(row))
    step = max(1, PAIRS // x.shape[1])
    for start in range(0, len(row), step):
        pairs = slice(start, start + step)
        product = x[row[pairs]].astype(np.float64) * book.exact[code[pairs]]
        score[pairs] = product.sum(axis=1) + book.exact_offset[code[pairs]]
    order = np.lexsort((code, -score, row))
    first = np.searchsorted(row[order], np.arange(len(x)))
    return code[order][first].astype(np.int32)


def _scored(x: Floats, book: CpuCodebook) -> Iterator[tuple[slice, Floats]]:
    """(rows, scores) block by block; the scores may be overwritten."""
    least = min(BLOCK, max(64, SMALL // book.rows.size))
    buffer = np.empty((min(BLOCK, max(len(x), least)), len(book)), x.dtype)
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        n = len(block)
        if n < least:
            block = np.concatenate([block, np.zeros((least - n, x.shape[1]), x.dtype)])
        scores = np.matmul(block, book.rows.T, out=buffer[: len(block)])
        if book.offset is not None:
            scores += book.offset
        yield slice(start, start + n), scores[:n]
