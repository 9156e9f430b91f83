"""The state of a training run at the end of an epoch, saved to a checkpoint and loaded. Imported by fits only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...files.checkpoint import Checkpoint
from .torch_layers import Tensor, Weights

__all__ = ["TrainingState"]


@dataclass(eq=False)
class TrainingState:
    """Weights, AdamW's moments, the random state, the best weights so far and the number of epochs done.

    Batches are drawn from the seed and the epoch alone, so this is the complete state: a resumed run ends with the
    same bits (on one machine; the sums over groups of R3-VAE have no fixed order on a GPU).
    """

    weights: Weights
    optimizer: Any
    generator: Any
    best: Weights = field(default_factory=dict)
    best_rate: float | None = None
    epoch: int = 0  # epochs done

    def consider(self, rate: float, keep: str) -> None:
        """Save the current weights as the best if they are the best so far."""
        if keep == "last" or self.best_rate is None or rate <= self.best_rate:
            self.best = {name: weight.detach().clone() for name, weight in self.weights.items()}
            self.best_rate = rate

    def result(self) -> dict[str, NDArray[Any]]:
        """The best weights as plain arrays."""
        return {name: _array(weight) for name, weight in self.best.items()}

    def save(self, checkpoint: Checkpoint, key: str) -> None:
        arrays = {f"weights/{name}": _array(weight) for name, weight in self.weights.items()}
        arrays |= {f"best/{name}": _array(weight) for name, weight in self.best.items()}
        for name, weight in self.weights.items():
            arrays |= {f"{kind}/{name}": _array(value) for kind, value in self.optimizer.state[weight].items()}
        arrays["random"] = _array(self.generator.get_state())
        checkpoint.save(key, arrays, {"epoch": self.epoch, "best_rate": self.best_rate})

    def load(self, checkpoint: Checkpoint, key: str) -> bool:
        """Load the saved state; False where there is none."""
        saved = checkpoint.load(key)
        if saved is None:
            return False
        arrays, facts = saved
        with checkpoint.using(key):
            for name, weight in self.weights.items():
                with torch.no_grad():
                    weight.copy_(torch.tensor(arrays[f"weights/{name}"]))
                self.optimizer.state[weight] = {
                    "step": torch.tensor(arrays[f"step/{name}"]),
                    "exp_avg": torch.tensor(arrays[f"exp_avg/{name}"], device=weight.device),
                    "exp_avg_sq": torch.tensor(arrays[f"exp_avg_sq/{name}"], device=weight.device),
                }
                if f"best/{name}" in arrays:
                    self.best[name] = torch.tensor(arrays[f"best/{name}"], device=weight.device)
            self.generator.set_state(torch.tensor(arrays["random"]))
            self.epoch, self.best_rate = facts["epoch"], facts["best_rate"]
        return True


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = np.array(tensor.detach().cpu().numpy())
    return array
