"""How a retriever is trained, as a value that can be printed, compared and saved."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from ..errors import SpecError
from .model import Shape

__all__ = ["Plan"]

MOST = 1 << 20  # of everything that is counted


@dataclass(frozen=True)
class Plan:
    """Adam on every prefix of every training sequence; the epoch with the best validation NDCG@20 is kept.

    The defaults are the paper's but for three things: its pipeline sets the seed after the model is built, generates
    any tokens and computes in float32; here the seed is set before, only SIDs of items are generated, and matrix
    products on a GPU are in bfloat16.

    patience       epochs without a better validation figure before training stops
    history        latest items of a history that are used
    beams          SIDs generated per user, in validation and test
    inference_batch  users whose SIDs are generated at once, in validation and test (the paper: 96); 0: as many as the
                   memory holds. Figures do not depend on it, but for rounding.
    constrained    whether only SIDs of items can be generated
    precision      of matrix products on a GPU: bfloat16, which "auto" is, or float32; on a CPU they are float32
    seed           decides first weights, order of examples and dropout
    """

    shape: Shape = field(default_factory=Shape)
    epochs: int = 200
    batch: int = 256
    learning_rate: float = 1e-4
    patience: int = 10
    history: int = 20
    beams: int = 30
    constrained: bool = True
    precision: Literal["auto", "bfloat16", "float32"] = "auto"
    seed: int = 0
    inference_batch: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "patience", "history", "beams"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} must be at least 1, not {getattr(self, name)}")
            if getattr(self, name) > MOST:
                raise SpecError(f"{name} must be at most {MOST:,}, not {getattr(self, name)}")
        if self.inference_batch < 0:
            raise SpecError(f"inference_batch cannot be negative ({self.inference_batch}); 0 is what the memory holds")
        if not 0 <= self.seed < 1 << 63:
            raise SpecError(f"seed must be at least 0 and below 2^63, not {self.seed}")
        if not 0 < self.learning_rate < math.inf:
            raise SpecError(f"learning_rate must be positive and finite, not {self.learning_rate}")
        if self.precision not in ("auto", "bfloat16", "float32"):
            raise SpecError(f"precision must be 'auto', 'bfloat16' or 'float32', not {self.precision!r}")
