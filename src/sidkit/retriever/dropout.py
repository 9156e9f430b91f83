"""Dropout in plain torch: for all runs of a stack together, or for each by its seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

__all__ = ["Dropout", "RunDropout", "drop"]

Tensor = Any


class RunDropout:
    """Dropout drawn by a generator per run, so that a run drops the same elements whichever runs share its stack."""

    def __init__(self, share: float, runs: int) -> None:
        self.share, self.generators = share, [torch.Generator() for _ in range(runs)]

    def seed(self, seeds: Sequence[int]) -> None:
        """Start every run's draws from its seed."""
        for generator, seed in zip(self.generators, seeds, strict=True):
            generator.manual_seed(seed)

    def draws(self, run: int) -> Tensor:
        """Where the draws of a run have come to, (bytes,)."""
        return self.generators[run].get_state()

    def resume(self, run: int, draws: Tensor) -> None:
        """Draw on from there."""
        self.generators[run].set_state(draws)

    def __call__(self, x: Tensor) -> Tensor:
        """x: (R, ...), as torch drops elements on a CPU."""
        if not self.share:
            return x
        factor = torch.empty_like(x)
        for each, generator in zip(factor, self.generators, strict=True):
            each.bernoulli_(1 - self.share, generator=generator)
        return x * factor.div_(1 - self.share)


Dropout = float | RunDropout  # a share, drawn by torch for all runs together, or run by run


def drop(x: Tensor, dropout: Dropout) -> Tensor:
    return dropout(x) if isinstance(dropout, RunDropout) else F.dropout(x, dropout)
