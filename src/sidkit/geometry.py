"""The formulas, on (n, d) arrays of numpy or torch alike.

Every function works row by row with a fixed order of additions, so a row's result never depends on other rows: a
vector has the same semantic ID in any batch.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any  # an (n, d) numpy array or torch tensor

__all__ = ["Array", "expected_abs_cosine", "residual", "restored", "squared_length", "unit", "vanishing"]


def squared_length(x: Array) -> Array:
    """|x|^2 of every row: (n, d) -> (n, 1)."""
    return (x * x).sum(axis=-1, keepdims=True)


def unit(x: Array) -> Array:
    """Rows scaled to length one; a zero row stays zero."""
    length = squared_length(x) ** 0.5
    return x / (length + (length == 0))


def vanishing(dtype: Any) -> float:
    """The share of a row's length below which a remainder is rounding error."""
    return 1e-12 if "float64" in str(dtype) else 1e-6


def residual(r: Array, c: Array, keep: float) -> Array:
    """What is left of r once its share of c is taken away (paper, Eq. 23).

        r' = r - [keep * c + (1 - keep) * (r.c / |c|^2) * c]

    keep = 1 subtracts the whole centroid; keep = 0 projects it out. A zero c removes nothing.
    A remainder shorter than rounding error (`vanishing`) is set to exactly zero, so that noise is never
    scaled up to look like a direction.

    r, c: (n, d), row i of c being the centroid that row i of r selected.
    """
    if keep == 1.0:
        left = r - c
    else:
        length = squared_length(c)
        share = (r * c).sum(axis=-1, keepdims=True) / (length + (length == 0))
        left = r - (keep + (1.0 - keep) * share) * c
    survives = squared_length(left) > vanishing(r.dtype) ** 2 * squared_length(r)
    return left * survives


def restored(c: Array, rest: Array, keep: float) -> Array:
    """A row of length one that chose c, as far as c and an estimate of its residual tell.

        r^ = c + sqrt(1 - |c|^2) [rest - (1 - keep) (rest.c / |c|^2) c]

    The inverse of `unit(residual(r, c, keep))`, whose lengths no code contains: where c is the mean of its rows, r.c is
    |c|^2 on average, so that sqrt(1 - |c|^2) is what is left of a row of length one. A residual that c was projected
    out of has nothing along c. A zero rest gives c itself, the mean of the rows that chose it.
    """
    length = squared_length(c)
    if keep != 1.0:
        rest = rest - (1.0 - keep) * ((rest * c).sum(axis=-1, keepdims=True) / (length + (length == 0))) * c
    return c + (1.0 - length).clip(min=0.0) ** 0.5 * rest


def expected_abs_cosine(d: int) -> float:
    """E|u.v| of two independent uniform directions in d dimensions (paper, Eq. 22).

    Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)); 0.0707 for d = 128, 1 for d = 1.
    """
    from math import exp, lgamma, pi, sqrt

    return exp(lgamma(d / 2) - lgamma((d + 1) / 2)) / sqrt(pi)


def compute_dtype(dtype: Any) -> np.dtype[Any]:
    """float64 stays float64; everything else is computed in float32."""
    kind = np.dtype(dtype)
    return np.dtype(np.float64) if kind.kind == "f" and kind.itemsize == 8 else np.dtype(np.float32)
