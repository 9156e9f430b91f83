"""Triton functions that several kernels share. A name such as x_ is a pointer, x is what it points to."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from ..network import EPSILON

__all__ = ["keep_mask", "layer_norm", "layer_norm_gradient"]

EPS = tl.constexpr(EPSILON)


@triton.jit
def layer_norm(x, scale, D: tl.constexpr):
    """T5's layer norm of rows. x: (BM, D), scale: (D,) -> (BM, D)."""
    return x * tl.rsqrt(tl.sum(x * x, 1) / D + EPS)[:, None] * scale[None, :]


@triton.jit
def layer_norm_gradient(dy, x, scale, D: tl.constexpr):
    """dy, x: (BM, D), scale: (D,) -> the gradients of layer_norm in x, (BM, D), and in scale, (D,)."""
    root = tl.rsqrt(tl.sum(x * x, 1) / D + EPS)[:, None]
    x = x * root
    dscale = tl.sum(dy * x, 0)
    dy = dy * scale[None, :]
    return root * (dy - x * (tl.sum(dy * x, 1) / D)[:, None]), dscale


@triton.jit
def keep_mask(seed_, run, site, line, least, W: tl.constexpr):
    """Which elements dropout keeps. seed_: (R,), line: (BM,) indices of lines of W elements -> (BM, W).

    An element is kept if the hash of seed, site, line and column is not below `least`. One hash serves two neighbours:
    all of its bits for the first, its lower half for the second.
    """
    index = line[:, None] * (W // 2) + tl.arange(0, W // 2)[None, :]
    key = index.to(tl.uint32) * 0x9E3779B1 + (tl.load(seed_ + run).to(tl.uint32) ^ (site.to(tl.uint32) * 0x85EBCA77))
    key = (key ^ (key >> 16)) * 0x85EBCA6B
    key = (key ^ (key >> 13)) * 0xC2B2AE35
    return tl.reshape(tl.join(key, key << 16), (line.shape[0], W)) >= least.to(tl.uint32)
