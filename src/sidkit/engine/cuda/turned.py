"""One fitting pass of product quantization after a rotation, on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .codebook import CudaCodebook
from .fit import soft_sums

__all__ = ["turned_sums"]

Doubles = NDArray[np.float64]


def turned_sums(
    x: Tensor, books: Sequence[NDArray[Any]], cut: Sequence[slice], turn: Doubles, mean: Doubles
) -> list[tuple[Tensor, Tensor]]:
    """Mass (K,) and sum (K, d) of the rows less the mean, by the nearest codeword in every block of y = R (x - mean).

    Codewords are turned instead of rows: c.y_m - |c|^2 / 2 = (c R_m).x - (c R_m).mean - |c|^2 / 2. As for
    k-means, float16 rows are scored in float16, and others in TensorFloat-32.
    """
    shift = torch.as_tensor(mean).to(x.device)
    sums = []
    for book, block in zip(books, cut, strict=True):
        exact = np.asarray(book, np.float64) @ turn[block]
        squares = (exact**2).sum(axis=1)
        offset = -(exact @ mean) - 0.5 * squares
        codewords, offsets = (torch.from_numpy(part).to(x.device) for part in (exact, offset))
        ready = CudaCodebook(codewords, offsets, False, float(squares.max() ** 0.5), float(np.abs(offset).max()))
        mass, total, _ = soft_sums(x, ready, 1, 1.0)
        sums.append((mass, total - mass[:, None] * shift))
    return sums
