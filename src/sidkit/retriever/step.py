"""What a training step has besides the network, in plain torch: its examples and Adam; and the tuple by which a stack
calls the pieces of its step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F

from .dropout import Dropout
from .network import ForwardParts

__all__ = ["BETAS", "EPSILON", "StepParts", "adam", "gather_examples"]

Tensor = Any
BETAS, EPSILON = (0.9, 0.999), 1e-8


def adam(
    weights: list[Tensor], copies: list[Tensor], grads: Sequence[Tensor], first: list[Tensor], second: list[Tensor],
    step: Tensor, rate: float | Tensor,
) -> None:  # fmt: skip
    """One step of Adam (no weight decay) for every run, in place; step: (R,), counted from 1; rate: one, or (R,).

    copies are the weights in the dtype of matrix products; where that is the weights' own, they are the weights.
    """
    one, two = BETAS
    for w, copy, grad, m, v in zip(weights, copies, grads, first, second, strict=True):
        t = step.view(-1, *[1] * (w.ndim - 1))
        each = rate.view(t.shape) if isinstance(rate, torch.Tensor) else rate
        g = grad.float()
        m.lerp_(g, 1 - one)
        v.mul_(two).addcmul_(g, g, value=1 - two)
        w.sub_(each / (1 - one**t) * m / (v.sqrt() / (1 - two**t).sqrt() + EPSILON))
        if copy is not w:
            copy.copy_(w)


def gather_examples(
    order: Tensor, at: Tensor, slot: Tensor, item: Tensor, level: Tensor, mine: Tensor, within: Tensor,
    position: Tensor, length: Tensor, items: Tensor, tokens: Tensor, read: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The fields of a Batch: examples order[:, at], at the positions of the layout.

    order: (R, batches, slots + 1), at: (1,) the batch; slot, item, level: (rows, W) and mine: (rows, D) of the layout;
    within: (D,) the level of a target token; position: (examples,); length: (R, examples); items: (all,);
    tokens: (R, items, L) the SIDs of targets; read: the same of items in histories.
    """
    ids = order.index_select(1, at)[:, 0]  # (R, slots + 1)
    runs = torch.arange(len(ids), device=ids.device)[:, None, None]
    which = ids[:, slot]
    used = torch.where(which >= 0, length[runs, which], 0)
    real = item < used
    row = items[(position[which] - used + item).clamp(0, len(items) - 1)]
    history = torch.where(real, read[runs, row, level], 0)
    owner = torch.where(real, slot, -1)
    which = ids[:, mine]
    target = tokens[runs, items[position[which]], within]  # of an empty slot: any, with weight 0
    before = torch.where(within > 0, F.pad(target, (1, -1)), 0)
    return history, slot, owner, target, before, mine, (which >= 0).float()


class StepParts(NamedTuple):
    """The pieces of a training step: in plain torch, compiled by torch, or Triton kernels.

    dropout       what the network is given
    start_epoch   called before an epoch with a seed for every run, drawn from its seed and the epoch
    start_step    called before a step with the seeds and the steps of all runs, (R,) each, on the device
    """

    kind: Literal["plain", "compiled", "kernels"]
    network: ForwardParts
    adam: Any
    gather_examples: Any
    dropout: Dropout
    start_epoch: Callable[[list[int]], None] = lambda seeds: None
    start_step: Callable[[Tensor, Tensor], None] = lambda seeds, steps: None
