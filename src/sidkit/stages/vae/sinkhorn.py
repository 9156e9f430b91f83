"""Sinkhorn: assignments that use all codewords about equally often in a batch (as LC-Rec does). For training only."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["sinkhorn"]

Tensor = Any  # (B, K)

SPAN = 670.0  # exp(-SPAN) is still a normal float64, with room for the sums


def sinkhorn(distance: Tensor, epsilon: float, iterations: int) -> Tensor:
    """The plan Q (B, K) whose columns sum to B / K and whose rows come close to 1; a row's code is its argmax.

        d' = (d - middle) / amplitude in [-1, 1],   Q = exp(-d' / epsilon),
        then in turn rows scaled to 1 / B and columns to 1 / K; at last Q times B

    In float64, each row divided by its largest entry first. With epsilon = 0.003 the entries span e^667, within the
    range of float64; for a smaller epsilon the same scaling runs on logarithms, slower and without limit.
    """
    middle = (distance.max() + distance.min()) / 2
    amplitude = distance.max() - middle + 1e-5
    log_q = ((middle - distance) / amplitude).double() / epsilon
    log_q = log_q - log_q.amax(dim=1, keepdim=True)
    return by_products(log_q, iterations) if 2.0 / epsilon <= SPAN else by_logarithms(log_q, iterations)


def by_products(log_q: Tensor, iterations: int) -> Tensor:
    """Q = diag(u) exp(log_q) diag(v): only the two scalings change, by matrix-vector products."""
    rows, columns = log_q.shape
    kernel = log_q.exp()
    across = kernel.T.contiguous()
    u, v = kernel.new_ones(rows), kernel.new_ones(columns)
    for _ in range(iterations):
        u = 1.0 / (rows * (kernel @ v))
        v = 1.0 / (columns * (across @ u))
    return rows * u[:, None] * kernel * v


def by_logarithms(log_q: Tensor, iterations: int) -> Tensor:
    """The same on logarithms."""
    rows, columns = log_q.shape
    for _ in range(iterations):
        log_q = log_q - log_q.logsumexp(dim=1, keepdim=True) - math.log(rows)
        log_q = log_q - log_q.logsumexp(dim=0, keepdim=True) - math.log(columns)
    return rows * log_q.exp()
