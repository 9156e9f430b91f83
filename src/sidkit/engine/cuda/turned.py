"""One fitting pass of product quantization after a rotation, on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp, isfinite
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import fit
from .codebook import CudaCodebook

__all__ = ["turned_sums"]

Doubles = NDArray[np.float64]


def turned_sums(
    x: Tensor, books: Sequence[NDArray[Any]], cut: Sequence[slice], turn: Doubles, mean: Doubles
) -> list[tuple[Tensor, Tensor]]:
    """Mass (K,) and sum (K, d) of the rows less the mean, by the nearest codeword in every block of y = R (x - mean).

    Codewords are turned instead of rows: c.y_m - |c|^2 / 2 = (c R_m).x - (c R_m).mean - |c|^2 / 2. As for k-means,
    rows are scored, and added up, in 16 bits where all sums are one product, and in TensorFloat-32 where they are not.
    """
    small = x.shape[1] <= fit.DENSE and max(len(book) for book in books) <= fit.DENSE
    scale = _power(float(torch.linalg.vector_norm(x, float("inf")))) if small and len(x) else 1.0
    rows = (x * scale).half() if small else x
    shift = torch.as_tensor(mean).to(x.device)
    sums = []
    for book, block in zip(books, cut, strict=True):
        exact = torch.as_tensor(np.asarray(book, np.float64) @ turn[block])
        offset = -(exact @ torch.as_tensor(mean)) - 0.5 * (exact**2).sum(1)
        reach, highest = float(exact.norm(dim=1).max()), float(offset.abs().max())
        ready = CudaCodebook(exact.to(x.device), scale * offset.to(x.device), False, reach, scale * highest)
        mass, total, _ = fit.soft_sums(rows, ready, 1, 1.0)
        sums.append((mass, total / scale - mass[:, None] * shift))
    return sums


def _power(peak: float) -> float:
    """The power of two that brings numbers up to `peak` below 16."""
    return 2.0 ** (4 - frexp(peak)[1]) if peak > 0 and isfinite(peak) else 1.0
