"""The state of a training at the end of an epoch, saved to a checkpoint and loaded. Imported by fits only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...files.checkpoint import Checkpoint
from .stack import RunStack
from .torch_layers import Tensor

__all__ = ["TrainingState"]


class TrainingState:
    """The runs of some stacks: weights, AdamW's moments, the best weights so far and the number of epochs done.

    Batches and resets are drawn from the seed and the epoch alone, so this is the complete state: resumed runs end with
    the same bits (on one machine; the sums over groups of R3-VAE have no fixed order on a GPU). Checkpoints of versions
    that trained one run at a time have the same names without the axis of runs, and are resumed too.
    """

    def __init__(self, stacks: Sequence[RunStack]) -> None:
        self.stacks = stacks
        self.best = [torch.zeros_like(stack.data) for stack in stacks]
        self.best_rates: list[float | None] = [None] * sum(stack.runs for stack in stacks)
        self.epoch = 0  # epochs done

    def consider(self, rates: Sequence[float], keep: str) -> None:
        """Save the current weights of every run as its best if they are the best so far."""
        for run, (stack, best, index) in enumerate(self._runs()):
            before = self.best_rates[run]
            if keep == "last" or before is None or rates[run] <= before:
                best[index] = stack.data[index]
                self.best_rates[run] = rates[run]

    def results(self) -> list[dict[str, NDArray[Any]]]:
        """The best weights of every run as plain arrays."""
        return [
            {name: _array(weight[index]) for name, weight in stack.named(best).items()}
            for stack, best, index in self._runs()
        ]

    def save(self, checkpoint: Checkpoint, key: str) -> None:
        parts = [list(self._named(stack, best)) for stack, best in zip(self.stacks, self.best, strict=True)]
        arrays = {same[0][0]: np.concatenate([_array(value) for _, value in same]) for same in zip(*parts, strict=True)}
        checkpoint.save(key, arrays, {"epoch": self.epoch, "best_rate": self.best_rates})

    def load(self, checkpoint: Checkpoint, key: str) -> bool:
        """Load the saved state; False where there is none."""
        saved = checkpoint.load(key)
        if saved is None:
            return False
        arrays, facts = saved
        with checkpoint.using(key), torch.no_grad():
            first = 0
            for stack, best in zip(self.stacks, self.best, strict=True):
                for name, value in self._named(stack, best):
                    if name in arrays or not name.startswith("best/"):
                        given = torch.tensor(arrays[name]).reshape(len(self.best_rates), *value.shape[1:])
                        value.copy_(given[first : first + stack.runs])
                first += stack.runs
                stack.step.fill_(facts["epoch"] * len(stack.rates))
            rates = facts["best_rate"]
            self.epoch, self.best_rates = facts["epoch"], rates if isinstance(rates, list) else [rates]
        return True

    def _runs(self) -> Iterator[tuple[RunStack, Tensor, int]]:
        """The runs one by one: stack, best weights, index."""
        for stack, best in zip(self.stacks, self.best, strict=True):
            for index in range(stack.runs):
                yield stack, best, index

    @staticmethod
    def _named(stack: RunStack, best: Tensor) -> Iterator[tuple[str, Tensor]]:
        """All that is saved of a stack, by the names in the file."""
        kinds = {"weights": stack.data, "exp_avg": stack.first, "exp_avg_sq": stack.second, "best": best}
        for kind, flat in kinds.items():
            for name, value in stack.named(flat).items():
                yield f"{kind}/{name}", value


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = np.array(tensor.detach().cpu().numpy())
    return array
