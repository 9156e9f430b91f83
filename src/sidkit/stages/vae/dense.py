"""Products of every run of a stack, and their gradients. Imported by fits only.

On a GPU all runs go through one batched product. On a CPU a stack has one run, and its large products are oneDNN's
where torch has them: on AMD processors they take half the time of MKL's, with which torch multiplies by itself.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["codewords", "dense"]

Tensor = Any

LARGE = 1 << 23  # multiply-adds from which oneDNN's product is faster than MKL's


def dense(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """x W^T + b, then ReLU if asked for: (R, B, i), (R, o, i), (R, o) -> (R, B, o)."""
    return _Dense.apply(x, weight, bias, relu)


def codewords(book: Tensor, code: Tensor) -> Tensor:
    """The chosen codewords: (R, K, e), (R, B) -> (R, B, e). The gradient is summed in a fixed order on every device."""
    return _Codewords.apply(book, code)


class _Dense(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        y = product(x, weight, bias, relu)
        ctx.save_for_backward(x, weight, y if relu else None)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (grad,), (x, weight, y) = gradients, ctx.saved_tensors
        if y is not None:
            grad = torch.ops.aten.threshold_backward(grad, y, 0)
        for_x, for_weight, for_bias, _ = ctx.needs_input_grad
        return (
            product(grad, weight.transpose(1, 2)) if for_x else None,
            product(grad.transpose(1, 2), x.transpose(1, 2)) if for_weight else None,
            grad.sum(dim=1) if for_bias else None,
            None,
        )


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """`dense` without gradients."""
    if _is_for_onednn(x, weight):
        first = None if bias is None else bias[0]
        return torch.ops.mkldnn._linear_pointwise(x[0], weight[0], first, "relu" if relu else "none", [], "")[None]
    across = weight.transpose(1, 2)
    y = torch.bmm(x, across) if bias is None else torch.baddbmm(bias[:, None], x, across)
    return y.relu_() if relu else y


def _is_for_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether one run's product is large enough; `torch.backends.mkldnn.enabled = False` switches it off."""
    if x.device.type != "cpu" or len(x) != 1 or x.dtype != torch.float32 or not torch.backends.mkldnn.enabled:
        return False
    return x[0].numel() * weight.shape[1] >= LARGE and _has_onednn()


def _has_onednn() -> bool:
    return bool(torch.backends.mkldnn.is_available()) and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class _Codewords(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, book: Tensor, code: Tensor) -> Tensor:
        ctx.save_for_backward(code)
        ctx.size = book.shape[1]
        return book.gather(1, code[:, :, None].expand(-1, -1, book.shape[2]))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (grad,), (code,) = gradients, ctx.saved_tensors
        return (by_products if grad.is_cuda else by_sums)(grad, code, ctx.size), None


def by_products(grad: Tensor, code: Tensor, size: int) -> Tensor:
    """The sums of grad (R, B, e) by code, as a product with ones and zeros: (R, size, e)."""
    ones = grad.new_zeros(*code.shape, size).scatter_(2, code[:, :, None], 1.0)
    return torch.bmm(ones.transpose(1, 2), grad)


def by_sums(grad: Tensor, code: Tensor, size: int) -> Tensor:
    """The same, row after row: a CPU's order of additions is fixed, and few are needed."""
    runs, _, e = grad.shape
    index = code + size * torch.arange(runs, device=code.device)[:, None]
    return grad.new_zeros(runs * size, e).index_add_(0, index.reshape(-1), grad.reshape(-1, e)).view(runs, size, e)
