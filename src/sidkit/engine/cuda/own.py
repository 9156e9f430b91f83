"""The nearest centroid on a GPU where every row has centroids of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...geometry import squared_length
from ..arrays import like, pieces, widened

__all__ = ["nearest_own"]


def nearest_own(x: Tensor, centroids: NDArray[Any], first: NDArray[Any], count: NDArray[Any]) -> Tensor:
    """As `engine.own.nearest_own`: every row against the few centroids of its parent, in float64."""
    begin = torch.as_tensor(first).to(x.device)
    last = torch.as_tensor(first + count - 1).to(x.device)
    table = like(centroids, widened(x[:1]))
    half, slot = 0.5 * squared_length(table)[:, 0], torch.arange(int(np.max(count, initial=1)), device=x.device)
    best, done = [], 0
    for piece in pieces(x, len(slot) * x.shape[1]):
        rows = slice(done, done := done + len(piece))
        index = torch.minimum(begin[rows, None] + slot, last[rows, None])  # past the end: the last one again
        score = (table[index] * widened(piece)[:, None, :]).sum(dim=2) - half[index]
        best.append(score.argmax(dim=1))
    return torch.cat(best).to(torch.int32)
