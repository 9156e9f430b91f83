"""The learning rate of every step, weight decay, and the average of weights over steps, for a whole stack.

rate      rises evenly over the first `warmup` steps, then stays or decays, evenly or by half a cosine, towards zero
          at the end of the last epoch
decay     w <- (1 - rate * weight_decay) w before the step of Adam, as AdamW has it, of all but the scales of norms
average   a_t = d_t a_(t-1) + (1 - d_t) w_t with d_t = min(average, (1 + t) / (10 + t)): the first steps, whose
          weights are far from the last, are forgotten soon
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .model import Weights
from .plan import Plan

__all__ = ["move_average", "rates_at", "shrink"]

Tensor = Any
NORMS = (".norm", ".final")  # how the names of their scales end


def rates_at(step: Tensor, plan: Plan, steps: int) -> Tensor | float:
    """The learning rates (R,) of runs at these steps (R,), counted from 1; steps: of the whole training.

    A plan without warm-up and decay has one rate, which is a number.
    """
    if not plan.warmup and plan.decay == "none":
        return plan.learning_rate
    factor = (step / max(plan.warmup, 1)).clamp(max=1.0) if plan.warmup else torch.ones_like(step)
    if plan.decay != "none":
        done = ((step - plan.warmup) / max(steps + 1 - plan.warmup, 1)).clamp(0.0, 1.0)
        factor = factor * (1 - done if plan.decay == "linear" else 0.5 + 0.5 * torch.cos(math.pi * done))
    return plan.learning_rate * factor


def shrink(weights: Weights, rate: Tensor | float, weight_decay: float) -> None:
    """Weight decay of one step, in place; weights: (R, ...), of which the scales of norms stay as they are."""
    kept = 1 - rate * weight_decay
    for name, weight in weights.items():
        if not name.endswith(NORMS):
            weight.mul_(kept if isinstance(kept, float) else kept.view(-1, *[1] * (weight.ndim - 1)))


def move_average(averages: list[Tensor], weights: list[Tensor], step: Tensor, average: float) -> None:
    """One step of the average, in place; step: (R,), counted from 1."""
    share = 1 - ((1 + step) / (10 + step)).clamp(max=average)
    for mean, weight in zip(averages, weights, strict=True):
        mean.lerp_(weight, share.view(-1, *[1] * (weight.ndim - 1)))
