"""T5's blocks on a GPU, forward and backward: the launches of matmul_kernels.py and attention_kernels.py.

Fewer, larger steps than a compiler finds, for models as small as TIGER's. Shapes as in network.py: R runs, each with
its own weights. Matrix products take the dtype of the matrices (bfloat16), everything else is float32. Nothing random
is stored: whether an element is dropped is a hash of the run's seed, the dropout site in the model and the element's
position, computed again for the gradient. layers.py makes a model of these blocks.
"""

from __future__ import annotations

from typing import Any

import torch
import triton

from . import attention_kernels, matmul_kernels

__all__ = [
    "Drop",
    "attention",
    "attention_gradient",
    "drop_arguments",
    "hidden",
    "hidden_gradient",
    "matmul_add",
    "norm_gradient",
    "norm_matmul",
]

Tensor = Any
Drop = tuple[float, Any, int]  # the share to drop, a seed for every run (R,), and the index of the dropout site
TILES: dict[str, dict[str, int]] = {  # fastest on an H200 with the paper's model
    "norm_matmul": {"BM": 64, "BN": 64, "num_warps": 4, "num_stages": 3},
    "matmul_add": {"BM": 64, "BK": 64, "num_warps": 4, "num_stages": 4},
    "grad_hidden": {"BM": 64, "BN": 64, "num_warps": 4, "num_stages": 3},
    "grad_norm": {"BM": 64, "BK": 64, "num_warps": 4, "num_stages": 3, "maxnreg": 168},
    "attend": {"num_warps": 4, "num_stages": 1},
    "grad_attend": {"ROWS": 4, "num_warps": 4, "num_stages": 2, "maxnreg": 168},
}


def _split(blocks: int, runs: int, columns: int) -> tuple[int, int]:
    """Over how many programs to divide the column blocks of a row block, and how many each takes, to fill a GPU."""
    wanted = max(1, -(-264 // (blocks * runs)))
    turns = max(1, columns // wanted)
    return -(-columns // turns), turns


def drop_arguments(share: float) -> tuple[int, float]:
    """The least hash that is kept, as the bits of an int32, and the factor of what is kept."""
    least = round(share * 2**32)
    return least if least < 2**31 else least - 2**32, 1 / (1 - share)


def norm_matmul(x: Tensor, scale: Tensor, w: Tensor) -> Tensor:
    """x: (R, n, d) float32, scale: (R, d), w: (R, d, m) -> norm(x) w, (R, n, m) in the dtype of w."""
    return hidden(x, scale, w, keep=False)[0]


def hidden(
    x: Tensor, scale: Tensor, w: Tensor, relu: bool = False, drop: Drop | None = None, keep: bool = True
) -> tuple[Tensor, Tensor]:
    """norm_matmul, or dropout(relu(norm_matmul)); and norm(x), (R, n, d), if the gradient will need it (keep)."""
    (R, n, d), m, tile = x.shape, w.shape[2], TILES["norm_matmul"]
    y = torch.empty(R, n, m, dtype=w.dtype, device=x.device)
    normed = torch.empty(R, n, d, dtype=w.dtype, device=x.device) if keep else y
    share, seed, site = drop or (0.0, y, 0)
    blocks = triton.cdiv(n, tile["BM"])
    split, turns = _split(blocks, R, triton.cdiv(m, tile["BN"]))
    matmul_kernels.norm_matmul[blocks, split, R](
        x, scale, w, y, normed, seed, n, m, scale.stride(0), w.stride(0), turns, site, *drop_arguments(share),
        D=d, RELU=relu, DROP=share > 0, KEEP=keep, **tile,
    )  # fmt: skip
    return y, normed


def matmul_add(x: Tensor, h: Tensor, w: Tensor, drop: Drop | None = None) -> Tensor:
    """x: (R, n, d) float32, h: (R, n, m), w: (R, m, d) -> x + dropout(h w), (R, n, d) float32."""
    (R, n, d), m, tile = x.shape, w.shape[1], TILES["matmul_add"]
    y = torch.empty_like(x)
    share, seed, site = drop or (0.0, y, 0)
    matmul_kernels.matmul_add[triton.cdiv(n, tile["BM"]), R](
        x, h, w, y, seed, n, m, w.stride(0), site, *drop_arguments(share), D=d, DROP=share > 0, **tile
    )
    return y


def hidden_gradient(dy: Tensor, w: Tensor, h: Tensor, drop: Drop, relu: bool = False) -> tuple[Tensor, Tensor]:
    """Of matmul_add: the gradient of h, (R, n, m), through the relu and dropout of `hidden` as well if relu; and dy
    through dropout, (R, n, d)."""
    (R, n, d), m, tile = dy.shape, w.shape[1], TILES["grad_hidden"]
    dh, dropped = torch.empty_like(h), torch.empty(R, n, d, dtype=w.dtype, device=dy.device)
    share, seed, site = drop
    blocks = triton.cdiv(n, tile["BM"])
    split, turns = _split(blocks, R, triton.cdiv(m, tile["BN"]))
    matmul_kernels.grad_hidden[blocks, split, R](
        dy, w, h, dh, dropped, seed, n, m, w.stride(0), turns, site, *drop_arguments(share),
        D=d, RELU=relu, DROP=share > 0, **tile,
    )  # fmt: skip
    return dh, dropped


def norm_gradient(x: Tensor, scale: Tensor, g: Tensor, w: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    """Of x + f(norm_matmul(x)): the gradients of x, (R, n, d), and of scale, (R, d). g: (R, n, m), dy: (R, n, d)."""
    (R, n, d), m, tile = x.shape, w.shape[2], TILES["grad_norm"]
    dx, dscale = torch.empty_like(x), torch.zeros(R, d, device=x.device)
    matmul_kernels.grad_norm[triton.cdiv(n, tile["BM"]), R](
        x, scale, g, w, dy, dx, dscale, n, m, scale.stride(0), w.stride(0), D=d, **tile
    )
    return dx, dscale


def _attention_arguments(q: Tensor, k: Tensor, mine: Tensor, owner: Tensor) -> tuple[list[int], dict[str, int]]:
    """Strides by run, row and token and the counts, in the kernels' order; and the sizes of tiles."""
    (R, rows, A, heads, E), B = q.shape, k.shape[2]
    owners = [mine.stride(0) if mine.ndim == 3 else 0, owner.stride(0) if len(owner) == R else 0]
    AP, BP = (max(16, triton.next_power_of_2(tokens)) for tokens in (A, B))
    size = {"AP": AP, "BP": BP, "E": E, "FULL": AP == A and BP == B}
    return [*q.stride()[:3], *k.stride()[:3], *owners, rows, heads, A, B], size


def attention(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mine: Tensor, owner: Tensor,
    drop: Drop | None = None,
) -> Tensor:  # fmt: skip
    """As network.attend. q: (R, rows, A, H, h), k and v: (R, rows, B, H, h), views of one layout each, bias:
    (R, H, A, B) or None, mine: (rows, A) or (R, rows, A), owner: (R or 1, rows, B) -> (R, rows * A, H * h)."""
    R, rows, A, heads, E = q.shape
    out = torch.empty(R, rows * A, heads * E, dtype=q.dtype, device=q.device)
    strides, size = _attention_arguments(q, k, mine, owner)
    share, seed, site = drop or (0.0, out, 0)
    attention_kernels.attend[rows, heads, R](
        q, k, v, out if bias is None else bias, mine, owner, out, seed, *strides, site, *drop_arguments(share),
        BIAS=bias is not None, DROP=share > 0, **size, **TILES["attend"],
    )  # fmt: skip
    return out


def attention_gradient(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, mine: Tensor, owner: Tensor,
    do: Tensor, dq: Tensor, dk: Tensor, dv: Tensor, drop: Drop,
) -> Tensor | None:  # fmt: skip
    """Write dq, dk and dv, which are laid out as q, k and v; return the gradient of bias, (R, H, A, B)."""
    (R, rows, A, heads), B = q.shape[:4], k.shape[2]
    strides, size = _attention_arguments(q, k, mine, owner)
    tile = TILES["grad_attend"]
    chunks = triton.cdiv(rows, tile["ROWS"])
    part = do if bias is None else torch.empty(R, heads, chunks, A, B, device=q.device)
    share, seed, site = drop
    attention_kernels.grad_attend[chunks, heads, R](
        q, k, v, do if bias is None else bias, mine, owner, do, dq, dk, dv, part, seed, *strides,
        site, *drop_arguments(share), BIAS=bias is not None, DROP=share > 0, **size, **tile,
    )  # fmt: skip
    return None if bias is None else part.sum(2)
