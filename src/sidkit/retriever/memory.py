"""How much memory a run needs in training, and how many runs fit on a device at once."""

from __future__ import annotations

from typing import Any

import torch

from ..data.sequences import Sequences
from ..engine.device import product_dtype
from .data import examples
from .model import Shape
from .plan import Plan

__all__ = ["bytes_of_run", "runs_at_once"]

MOST_RUNS = 15  # beyond these a GPU gains nothing from another run in its stack


def runs_at_once(runs: int, plan: Plan, sizes: tuple[int, ...], sequences: Sequences, device: Any) -> int:
    """How many of these runs to train in one stack: all that half of a GPU's free memory holds; on a CPU one, because
    its cores are busy with one."""
    if torch.device(device).type != "cuda":
        return 1
    free, _ = torch.cuda.mem_get_info(device)
    need = bytes_of_run(plan, sizes, sequences, product_dtype(plan.precision, device).itemsize)
    return max(1, min(runs, MOST_RUNS, int(free) // 2 // need))


def bytes_of_run(plan: Plan, sizes: tuple[int, ...], sequences: Sequences, itemsize: int) -> int:
    """An estimate of the memory that a run needs in training; itemsize: bytes of a number in matrix products.

    For each weight: itself, its best value and Adam's moments in float32, its copy and its gradient. For each token of
    a batch and each layer: what the gradient needs, and as much again while it is computed. And a batch's logits.
    """
    shape, levels, words = plan.shape, len(sizes), 1 + sum(sizes)
    length = examples(sequences, "train", plan.history).length
    items = length.sum() / max(1, len(length))
    history, target = plan.batch * items * levels, plan.batch * levels
    weights = words * shape.d_model + shape.layers * _weights_of_layers(shape)
    row = 8 * shape.d_model + itemsize * (2 * shape.d_model + 6 * shape.inner + shape.d_ff)
    scores = (4 + itemsize) * shape.heads * plan.history * levels
    activations = 2 * shape.layers * (history + 2 * target) * (row + scores)
    return int(weights * (16 + 2 * itemsize) + activations + target * words * (8 + 2 * itemsize))


def _weights_of_layers(shape: Shape) -> int:
    """Numbers in the matrices of an encoder layer and a decoder layer, which attends twice."""
    return 3 * 4 * shape.d_model * shape.inner + 2 * 2 * shape.d_model * shape.d_ff
