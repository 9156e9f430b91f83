"""How a retriever is trained, as a value that can be printed, compared and saved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..errors import SpecError, did_you_mean
from .model import PRESETS, Shape

__all__ = ["PLANS", "Plan", "changed", "plan_of"]

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
    warmup         steps over which the learning rate rises to its value
    decay          what it does after them: "none", or "linear" or "cosine" down to zero at the end of the last epoch
    smoothing      label smoothing: the share of a target's probability that is spread over all tokens
    weight_decay   of all weights but the scales of norms, as in AdamW: a step takes them by rate * weight_decay of
                   themselves towards zero
    average        weights are averaged over steps, the older ones by this factor a step (`rates.py`), and the average
                   is what is validated and kept; 0: the weights themselves
    crop           the share of examples whose history is cut to a random length, anew in every epoch
    swap           the share of items that histories name by another of their SIDs, anew in every epoch, where a run
                   has several
    fusion         whether counts are fused with the model's lists after training, where that helps in validation
                   (`fusion.py`); the model itself does not depend on it, and its figures are reported alone as well
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
    fusion: bool = True
    warmup: int = 0
    decay: Literal["none", "linear", "cosine"] = "none"
    smoothing: float = 0.0
    weight_decay: float = 0.0
    average: float = 0.0
    crop: float = 0.0
    swap: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "patience", "history", "beams"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} must be at least 1, not {getattr(self, name)}")
            if getattr(self, name) > MOST:
                raise SpecError(f"{name} must be at most {MOST:,}, not {getattr(self, name)}")
        for name, most in (("smoothing", 1), ("average", 1), ("crop", None), ("swap", None)):
            value = getattr(self, name)
            if not (0 <= value < 1 if most else 0 <= value <= 1):
                raise SpecError(f"{name} must lie in [0, 1{')' if most else ']'}, not {value}")
        if not 0 <= self.weight_decay * self.learning_rate < 1:
            raise SpecError(
                f"weight_decay must be at least 0, and below 1 when multiplied by the rate, not {self.weight_decay}"
            )
        if not 0 <= self.warmup <= MOST:
            raise SpecError(f"warmup must be at least 0 steps and at most {MOST:,}, not {self.warmup}")
        if self.decay not in ("none", "linear", "cosine"):
            raise SpecError(f"decay must be 'none', 'linear' or 'cosine', not {self.decay!r}")
        if self.inference_batch < 0:
            raise SpecError(f"inference_batch cannot be negative ({self.inference_batch}); 0 is what the memory holds")
        if not 0 <= self.seed < 1 << 63:
            raise SpecError(f"seed must be at least 0 and below 2^63, not {self.seed}")
        if not 0 < self.learning_rate < math.inf:
            raise SpecError(f"learning_rate must be positive and finite, not {self.learning_rate}")
        if self.precision not in ("auto", "bfloat16", "float32"):
            raise SpecError(f"precision must be 'auto', 'bfloat16' or 'float32', not {self.precision!r}")


PLANS = {name: Plan(shape) for name, shape in PRESETS.items()} | {
    # experiments/results/plan.json, which a search on validation figures found: docs/recommending.md
    "best": Plan(
        epochs=50,
        batch=512,
        learning_rate=2e-3,
        warmup=500,
        decay="cosine",
        smoothing=0.1,
        weight_decay=0.3,
        average=0.999,
        crop=0.2,
    ),
}


def plan_of(name: str) -> Plan:
    """A plan by the name of its preset: the paper's with a model of another size, or `best`."""
    if name not in PLANS:
        raise SpecError(f"no model preset {name!r}{did_you_mean(name, PLANS)} (known: {', '.join(PLANS)})")
    return PLANS[name]


def changed(plan: Plan, shape: Mapping[str, Any], **fields: Any) -> Plan:
    """The plan with other fields, and with other fields of its shape; None leaves one as it is."""
    sizes = replace(plan.shape, **{name: value for name, value in shape.items() if value is not None})
    return replace(plan, shape=sizes, **{name: value for name, value in fields.items() if value is not None})
