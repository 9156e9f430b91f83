"""Tries freshly compiled kernels: python -m sidkit.engine.native.probe kernels.so

Run in a child process, which may die of an illegal instruction. Exits with a message if an answer is wrong. All
screens, tile shapes and tails are passed through, against float64 numpy.
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


def try_search(x: cpu.Floats, book: cpu.CpuCodebook, k: int) -> None:
    score = x.astype(np.float64) @ book.exact.T + book.exact_offset
    right = np.argsort(-score, axis=1, kind="stable")[:, :k]
    index, found = top(x, book, k)
    require(np.array_equal(index, right), "the best codewords")
    require(np.allclose(found, np.take_along_axis(score, right, 1), rtol=1e-5, atol=1e-5), "their scores")
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


def require(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"wrong answer: {what}")


if __name__ == "__main__":
    main(sys.argv[1])
