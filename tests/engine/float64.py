"""What the GPU engine must come to: its inputs, and its results in float64 numpy."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import needs_gpu
from sidkit.engine import cpu
from sidkit.geometry import squared_length, unit

SMALL = [  # n, K, d, k, metric: every kind of codebook, in sizes for the interpreter
    (24, 130, 20, 5, "cosine"),  # three blocks: slots push out scores
    (24, 66, 5, 3, "euclidean"),
    (40, 1, 1, 1, "cosine"),
    (60, 3, 5, 2, "euclidean"),
    (30, 66, 32, 1, "cosine"),
    (10, 194, 16, 16, "cosine"),  # and four: slots of depth 3 do
]


def on_gpu(*values):
    """A parameter of tests that need a CUDA device."""
    return pytest.param(*values, marks=[pytest.mark.gpu, needs_gpu])


def rows_and_centroids(n, K, d, seed=0, alike=4):
    """Random rows, one in `alike` identical and one zero; random centroids, two of them identical."""
    rng = np.random.default_rng(seed)
    x, c = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(K, d))
    x[: n // alike] = x[0]
    x[n // 2] = 0
    if K > 10:
        c[7] = c[3]
    return x, c


def scores_in_float64(x, c, metric):
    """Every score, added up in one order: a matrix product may give two equal columns different last bits."""
    x = np.asarray(x, np.float64)
    c = unit(np.asarray(c, np.float64)) if metric == "cosine" else np.asarray(c, np.float64)
    product = np.stack([(x * codeword).sum(axis=1) for codeword in c], axis=1)
    return product - (0.0 if metric == "cosine" else 0.5 * squared_length(c).T)


def soft_sums_in_float64(x, c, metric, k, beta, scale):
    """mass, sums and objective of a fit's pass, as the formulas say."""
    x = np.asarray(x, np.float64)
    c = unit(np.asarray(c, np.float64)) if metric == "cosine" else np.asarray(c, np.float64)
    score = x @ c.T - (0.0 if metric == "cosine" else 0.5 * squared_length(c).T)
    index = np.argsort(-score, axis=1, kind="stable")[:, :k]
    value, square = np.take_along_axis(score, index, 1), squared_length(x)
    length = square**0.5
    s = value / (length + (length == 0)) if metric == "cosine" else 2 * scale * (value - 0.5 * square)
    weight = np.exp(beta * (s - s[:, :1]))
    weight /= weight.sum(1, keepdims=True)
    return *cpu.add_up(x, index.astype(np.int32), weight, len(c)), s[:, 0].sum()
