"""Tests freshly compiled kernels: python -m sidkit.engine.native.probe kernels.so

Runs in a child process, which may die of an illegal instruction. Exits with a message if an answer is wrong. Every
screen, tile shape and tail is compared with float64 numpy.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from .. import cpu
from ..steps import CarryStep
from . import CarryChain, build, carry, encode, nearest, soft_sums, top
from . import _run as run
from .packed import pack
from .parents import busy_rows, families, nearest_own
from .sums import add_by_code

__all__ = ["main"]


def main(path: str) -> None:
    build._library, build._settled = build.load(Path(path)), True
    rng = np.random.default_rng(0)
    for n, d, size, k in (
        (1, 5, 3, 2),
        (40, 128, 100, 5),
        (300, 33, 40, 16),
        (1, 128, 256, 1),
        (7, 300, 7, 1),
    ):
        for metric in ("cosine", "euclidean"):
            x = rng.standard_normal((n, d)).astype(np.float32)
            try_search(x, cpu.book(rng.standard_normal((size, d)), metric, x), k)
        try_stages(x, rng.standard_normal((size, d)).astype(np.float32))
        try_parents(x, rng.standard_normal((size, d)).astype(np.float32))


def try_search(x: cpu.Floats, book: cpu.CpuCodebook, k: int) -> None:
    score = x.astype(np.float64) @ book.exact.T + book.exact_offset
    right = np.argsort(-score, axis=1, kind="stable")[:, :k]
    index, best = top(x, book, k)
    require(np.array_equal(index, right), "the best codewords")
    require(np.allclose(best, np.take_along_axis(score, right, 1), rtol=1e-5, atol=1e-5), "their scores")
    require(np.array_equal(nearest(x, book), right[:, 0]), "the nearest codeword")
    plain = np.empty_like(index)
    run(x, pack(book), k, screen=0, index=plain)
    require(np.array_equal(plain, right), "the best codewords (float32 screen)")
    mass, total, _ = soft_sums(x, book, 1, 1.0, 0.5)
    require(np.array_equal(mass, np.bincount(right[:, 0], minlength=len(book))), "the mass of the codewords")
    require(np.allclose(total.sum(axis=0), x.sum(axis=0, dtype=np.float64)), "the sums of the rows")


def try_stages(x: cpu.Floats, centroids: cpu.Floats) -> None:
    from ...geometry import residual, unit

    book = cpu.book(centroids, "cosine", x)
    chain = CarryChain(
        [CarryStep(), CarryStep(centroids, 0.0, True, 0, book), CarryStep(centroids, 0.25, False, 1, book)]
    )
    codes = encode(x, chain)
    row = unit(x)
    require(np.array_equal(codes[:, 0], nearest(row, book)), "the first code")
    row = unit(residual(row, centroids[codes[:, 0]], 0.0))
    require(np.array_equal(codes[:, 1], nearest(row, book)), "the second code")
    row = residual(row, centroids[codes[:, 1]], 0.25)
    require(np.allclose(carry(x, chain, codes), row, rtol=1e-5, atol=1e-6), "the rows passed on")


def try_parents(x: cpu.Floats, centroids: cpu.Floats) -> None:
    n, size = len(x), len(centroids)
    first = np.arange(n) % size
    count = 1 + np.arange(n) % (size - first)
    score = x.astype(np.float64) @ centroids.T - 0.5 * (centroids.astype(np.float64) ** 2).sum(axis=1)
    right = np.array([score[i, f : f + c].argmax() for i, (f, c) in enumerate(zip(first, count, strict=True))])
    require(np.array_equal(nearest_own(x, centroids, first, count), right), "the nearest of a row's own codewords")
    total = add_by_code(x, right[:, None], size, 16)
    require(np.allclose(total.sum(axis=0), x.sum(axis=0, dtype=np.float64)), "the sums of rows by known codes")
    nearest_of_all = nearest(x, cpu.book(centroids, "euclidean", x))
    means = families(x, np.array([[0, n]]), centroids[None], 1)[0]
    for code in np.unique(nearest_of_all):
        mean = x[nearest_of_all == code].mean(axis=0, dtype=np.float64)
        require(np.allclose(means[code], mean, rtol=1e-5, atol=1e-6), "the means of a parent's rows")
    require(bool(busy_rows(x).all()) and not busy_rows(x * 0).any(), "which rows are zero")


def require(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"wrong answer: {what}")


if __name__ == "__main__":
    main(sys.argv[1])
