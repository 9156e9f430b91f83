"""Sinkhorn: assignments that use all codewords about equally often in a batch (as LC-Rec does). For training only."""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["sinkhorn"]

Tensor = Any  # (R, B, K)

SPAN = 670.0  # exp(-SPAN) is still a normal float64, with room for the sums


def sinkhorn(distance: Tensor, epsilon: float, iterations: int) -> Tensor:
    """Per run the plan Q (B, K) whose columns sum to B / K and whose rows come close to 1; a row's code is its argmax.

        d' = (d - middle) / amplitude in [-1, 1],   Q = exp(-d' / epsilon),
        then in turn rows scaled to 1 / B and columns to 1 / K; at last Q times B

    In float64, each row divided by its largest entry first. With epsilon = 0.003 the entries span e^667, within the
    range of float64; for a smaller epsilon the same scaling runs on logarithms, slower and without limit.
    """
    largest, smallest = distance.amax(dim=(1, 2), keepdim=True), distance.amin(dim=(1, 2), keepdim=True)
    middle = (largest + smallest) / 2
    amplitude = largest - middle + 1e-5
    log_q = ((middle - distance) / amplitude).double().div_(epsilon)
    log_q -= log_q.amax(dim=2, keepdim=True)
    return by_products(log_q, iterations) if 2.0 / epsilon <= SPAN else by_logarithms(log_q, iterations)


def by_products(log_q: Tensor, iterations: int) -> Tensor:
    """Q = diag(u) exp(log_q) diag(v): only the two scalings change, by matrix-vector products.

    B and K are multiplied into the matrices, so that an iteration is two products and two reciprocals.
    """
    runs, rows, columns = log_q.shape
    kernel = log_q.exp()
    across = kernel.transpose(1, 2).contiguous().mul_(columns)
    kernel *= rows
    u, v = kernel.new_empty(runs, rows, 1), kernel.new_ones(runs, columns, 1)
    for _ in range(iterations):
        torch.bmm(kernel, v, out=u).reciprocal_()
        torch.bmm(across, u, out=v).reciprocal_()
    return kernel.mul_(v.transpose(1, 2)).mul_(u) if iterations else kernel


def by_logarithms(log_q: Tensor, iterations: int) -> Tensor:
    """The same on logarithms."""
    rows, columns = log_q.shape[1:]
    for _ in range(iterations):
        log_q = log_q - log_q.logsumexp(dim=2, keepdim=True) - math.log(rows)
        log_q = log_q - log_q.logsumexp(dim=1, keepdim=True) - math.log(columns)
    return rows * log_q.exp()
