"""The operations between matrix products, as differentiable functions of one kernel each way."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from . import kernels

__all__ = ["add_norm", "gelu_linear"]

Tensor = Any
EPSILON = 1e-5
PROGRAMS = 528  # of a backward pass: four for each processor of a large GPU
ROWS = 4


def add_norm(
    x: Tensor, z: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, dropout: float, seed: Tensor | None, site: int
) -> Tensor:
    """layer_norm(x + dropout(z + bias)): x, z (n, d) -> (n, d). What is dropped depends on the seed, an integer in the
    device's memory, and on the site; without dropout there need be no seed."""
    return _AddNorm.apply(x, z, bias, gamma, beta, dropout, seed, site)


def gelu_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """gelu(x weight' + bias): (n, d) -> (n, width)."""
    return _GeluLinear.apply(x, weight, bias)


class _AddNorm(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, z: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor,
        dropout: float, seed: Tensor | None, site: int,
    ) -> Tensor:  # fmt: skip
        (n, d), r, y = x.shape, torch.empty_like(x), torch.empty_like(x)
        seed = gamma if seed is None else seed  # any address: it is read only where numbers are dropped
        how = (site, min(int(dropout * 2**32), 2**32 - 1), 1.0 / (1.0 - dropout), EPSILON)
        width = _power(d)
        kernels.add_norm_kernel[((n + ROWS - 1) // ROWS,)](
            x, z, bias, gamma, beta, r, y, seed, n, d, *how, ROWS=ROWS, W=width, DROP=dropout > 0, num_warps=4
        )
        ctx.save_for_backward(r, gamma, seed)
        ctx.how, ctx.drop = how, dropout > 0
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        r, gamma, seed = ctx.saved_tensors
        (n, d), dx, dz, dy = r.shape, torch.empty_like(r), torch.empty_like(r), dy.contiguous()
        width = _power(d)
        programs = min(PROGRAMS, (n + ROWS - 1) // ROWS)
        sums = torch.empty(programs, 3, width, dtype=torch.float32, device=r.device)
        kernels.add_norm_backward_kernel[(programs,)](
            dy, r, gamma, dx, dz, sums, seed, n, d, *ctx.how, ROWS=ROWS, W=width, DROP=ctx.drop, num_warps=4
        )
        for_gamma, for_beta, for_bias = sums.sum(0)[:, :d].to(gamma.dtype)
        return dx, dz, for_bias, for_gamma, for_beta, None, None, None


class _GeluLinear(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        h = F.linear(x, weight, bias)
        ctx.save_for_backward(x, weight, h)
        return F.gelu(h)

    @staticmethod
    def backward(ctx: Any, dg: Tensor) -> tuple[Any, ...]:
        x, weight, h = ctx.saved_tensors
        (n, d), dh, dg = h.shape, torch.empty_like(h), dg.contiguous()
        programs, rows, width = min(64, (n + 31) // 32), 32, min(128, _power(d))
        sums = torch.empty(programs, d, dtype=torch.float32, device=h.device)
        kernels.gelu_backward_kernel[(programs, (d + width - 1) // width)](
            dg, h, dh, sums, n, d, ROWS=rows, W=width, num_warps=4
        )
        return dh @ weight, dh.T @ x, sums.sum(0).to(weight.dtype)


def _power(n: int) -> int:
    return 1 << (n - 1).bit_length()
