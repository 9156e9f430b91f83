"""Which implementation computes: Triton kernels where they serve the model, else plain torch, compiled on a GPU.

Only this module decides it, for training and for beam search; both sides of each choice are modules below it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from .dropout import RunDropout
from .model import Shape, Weights
from .network import ForwardParts
from .search_blocks import PLAIN_BLOCKS, SearchBlocks
from .step import StepParts, adam, gather_examples

__all__ = ["choose_blocks", "choose_parts", "kernel_parts", "kernels_serve", "why_no_kernels"]


def kernels_serve(shape: Shape, dtype: Any, device: Any, tokens: int) -> bool:
    """Whether Triton kernels serve a model: on a GPU, in bfloat16, of common widths, with rows of few tokens."""
    return not why_no_kernels(shape, dtype, device, tokens)


def why_no_kernels(shape: Shape, dtype: Any, device: Any, tokens: int) -> str:
    """Why Triton kernels do not serve a model, in words; empty if they do."""
    reasons = {
        "they need a GPU": torch.device(device).type != "cuda",
        "they compute in bfloat16": dtype != torch.bfloat16,
        f"a width of {shape.d_model} is not 64 or 128": shape.d_model not in (64, 128),
        f"heads of width {shape.d_kv} are not of 16, 32, 64 or 128": shape.d_kv not in (16, 32, 64, 128),
        "the widths of all heads together and of the feed-forward layer are not multiples of 64": bool(
            shape.inner % 64 or shape.d_ff % 64
        ),
        f"rows of {tokens} tokens are over 64": tokens > 64,
        "triton is not installed": find_spec("triton") is None,
    }
    return "; ".join(words for words, holds in reasons.items() if holds)


def choose_blocks(weights: Weights, shape: Shape, levels: int, users: int, width: int, beams: int) -> SearchBlocks:
    """The fastest blocks for a beam search over this number of users with histories of `width` tokens."""
    matrix = weights["decoder.o"]
    largest = users * max(3 * width, beams) * max(shape.inner, shape.d_model)  # numbers of one run, counted in 32 bits
    if levels <= 4 and largest < 1 << 31 and kernels_serve(shape, matrix.dtype, matrix.device, max(width, beams)):
        from .triton.search_blocks import KERNEL_BLOCKS

        return KERNEL_BLOCKS
    return PLAIN_BLOCKS


def choose_parts(shape: Shape, runs: int, dtype: Any, device: Any, tokens: int) -> StepParts:
    """The fastest parts for training steps with rows of at most `tokens` tokens."""
    if kernels_serve(shape, dtype, device, tokens):
        return kernel_parts(shape, runs, device)
    if torch.device(device).type == "cuda":
        network = ForwardParts.compiled()
        fast_adam, gather = (torch.compile(part, dynamic=False) for part in (adam, gather_examples))
        return StepParts("compiled", network, fast_adam, gather, shape.dropout, start_epoch=_seed_torch)
    each = RunDropout(shape.dropout, runs)
    return StepParts("plain", ForwardParts(), adam, gather_examples, each, start_epoch=each.seed)


def kernel_parts(shape: Shape, runs: int, device: Any) -> StepParts:
    """A step of Triton kernels; what they drop is a function of each run's seed and step."""
    from .triton import step
    from .triton.layers import KernelDropout, Layers

    drop = KernelDropout(shape.dropout, torch.zeros(runs, dtype=torch.int32, device=device))
    parts = Layers(drop, device).parts
    return StepParts("kernels", parts, step.adam, step.gather_examples, shape.dropout, start_step=drop.start_step)


def _seed_torch(seeds: list[int]) -> None:
    """Compiled, dropout is torch's, drawn for all runs together: it follows the first run's seed."""
    torch.manual_seed(seeds[0])
