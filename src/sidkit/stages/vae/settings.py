"""How a VAE is trained: the optimiser's settings, as a value that can be printed, compared and saved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ...errors import SpecError
from ..cluster.kmeans import check_size

__all__ = ["PAPER", "PUBLIC", "WIDEST", "Training", "require_widths"]

WIDEST, DEEPEST = 1 << 16, 64  # of a network's layers


def require_widths(hidden: tuple[int, ...], latent: int) -> None:
    """An error unless all layers of a network have at least one unit, and no more than fit a memory."""
    if min(*hidden, latent, latent) < 1:
        raise SpecError(f"layers must be at least 1 wide; got hidden {hidden}, latent {latent}")
    if max(*hidden, latent, latent) > WIDEST or len(hidden) > DEEPEST:
        raise SpecError(f"a network has at most {DEEPEST} layers of {WIDEST:,} units; got {str(hidden)[:80]}, {latent}")


@dataclass(frozen=True)
class Training:
    """AdamW on shuffled minibatches, each row once per epoch; the last batch of an epoch may be short.

    schedule         the learning rate after the warm-up: falls to zero linearly or as a half cosine, or is constant
    clip             the largest norm of all gradients together; 0 for none
    evaluate_every   epochs between counts of collisions over all rows; the last epoch is always counted
    keep             "best" returns the weights of the epoch with the lowest collision rate, (n - distinct SIDs) / n,
                     the latest of equals (inferred); "last" those of the last epoch
    init_rows        number of rows drawn for the initial codebooks; 0: the first batch, as the public pipeline does
    init_iterations  k-means passes for each initial codebook
    reset_dead       after each epoch, codewords that no row chose move to residuals of that epoch's last batch
                     (off: the public pipeline has no such step)
    """

    epochs: int
    batch: int
    learning_rate: float
    weight_decay: float = 1e-4
    warmup_epochs: int = 0
    schedule: Literal["linear", "constant", "cosine"] = "linear"
    clip: float = 1.0
    evaluate_every: int = 50
    keep: Literal["best", "last"] = "best"
    init_rows: int = 0
    init_iterations: int = 100
    reset_dead: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "evaluate_every"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("weight_decay", "warmup_epochs", "clip", "init_rows", "init_iterations"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SpecError(f"{name} cannot be negative ({getattr(self, name)})")
        if not 0 < self.learning_rate < math.inf:
            raise SpecError(f"learning_rate must be positive and finite, not {self.learning_rate}")
        if self.schedule not in ("linear", "constant", "cosine"):
            raise SpecError(f"schedule must be 'linear', 'constant' or 'cosine', not {self.schedule!r}")
        if self.keep not in ("best", "last"):
            raise SpecError(f"keep must be 'best' or 'last', not {self.keep!r}")

    def require_start(self, sizes: tuple[int, ...]) -> None:
        """An error unless there is a codebook, and each has enough rows to be started from."""
        if not sizes:
            raise SpecError("a tokenizer needs at least one codebook size")
        for size in sizes:
            check_size(size)
        rows = self.init_rows or self.batch
        if rows < max(sizes):
            raise SpecError(
                f"codebooks of {max(sizes)} cannot be started from {rows} rows; use a larger batch, or init_rows"
            )

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step (from 0); steps: the number of steps in an epoch.

        The first warm-up step has rate zero, as in the schedules of the transformers library.
        """
        warm, total = self.warmup_epochs * steps, self.epochs * steps
        if step < warm:
            return self.learning_rate * step / warm
        if self.schedule == "constant":
            return self.learning_rate
        left = max(0.0, (total - step) / max(1, total - warm))
        share = left if self.schedule == "linear" else 0.5 - 0.5 * math.cos(math.pi * left)
        return self.learning_rate * share


PUBLIC = Training(3000, 1024, 1e-3, weight_decay=1e-4, warmup_epochs=50, schedule="linear")
PAPER = Training(20, 4096, 5e-4, weight_decay=1e-4, schedule="constant", evaluate_every=5)
# Paper: gives epochs, batch and learning rate only. The rest is inferred: no warm-up, since 50 epochs of it would not
# fit, and a constant rate; weight decay and clipping as in PUBLIC.
