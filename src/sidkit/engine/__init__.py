"""Where the arithmetic runs.

An engine is a module with seven functions on an (n, d) block of rows, chosen by where the rows live:

    book(centroids, metric, x, bonus)    a codebook ready to score rows like x; a bonus per codeword is optional
    top(x, book, k)                      the k best codewords of every row, best first, ties to the lowest index
    nearest(x, book)                     the best codeword of every row, near-ties decided in float64
    soft_sums(x, book, k, beta, scale, precision, skip_zero)   one fitting pass: mass, sums and objective
    column_sums(x)                       the sum of the rows, in float64
    add_up(x, index, weight, size)       weighted mass and sum of the rows under each codeword, in float64
    hard_sums(x, codes, sizes, mean)     the same of rows less a mean, under known codes of several codebooks

`cpu` is numpy and scipy, with compiled kernels where there is a compiler (`native`); `cuda` is Triton. Algorithms call
`engine_of(x)` and need not know where they run. `device` resolves the names of devices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["engine_of"]


def engine_of(x: Any) -> Any:
    """The engine for rows in this kind of array."""
    if isinstance(x, np.ndarray):
        from . import cpu

        return cpu
    from .cuda import engine as cuda

    return cuda
