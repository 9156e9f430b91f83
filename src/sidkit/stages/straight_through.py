"""The training of FSQ's bits and a linear decoder of them. Imported by fits only.

A bit is 1 or 0, and its gradient that of a sigmoid. A step is a dozen small calls, so a GPU takes it as one graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ..engine.recorded import recorded
from ..geometry import Array

__all__ = ["StraightThrough"]

Tensor = Any


class BitSchedule(Protocol):
    """What the training needs of `FSQ`."""

    @property
    def use_bias(self) -> bool: ...
    @property
    def normalize(self) -> bool: ...
    @property
    def batch(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...


class StraightThrough:
    """weights: W (d, bits) the directions, b (bits,), V (bits, d) the decoder, and c (d,); b last, trained or not."""

    def __init__(
        self, plan: BitSchedule, directions: NDArray[Any], bias: NDArray[Any], decoder: NDArray[Any], device: Any
    ) -> None:
        tensor = partial(torch.tensor, dtype=torch.float32, device=device)
        self.plan, self.on_card = plan, torch.device(device).type == "cuda"
        self.weights = [tensor(a) for a in (directions, decoder[:-1], decoder[-1], bias)]
        self.trained = self.weights if plan.use_bias else self.weights[:-1]
        self.optimiser = torch.optim.AdamW(
            self.trained, lr=plan.learning_rate, weight_decay=plan.weight_decay,
            fused=self.on_card, capturable=self.on_card,
        )  # fmt: skip
        self.sums = torch.zeros((), dtype=torch.float64, device=device)
        self._place: Tensor = None  # the batch that a recorded step reads
        self._replay: Callable[[], None] | None = None

    def directions(self) -> tuple[Tensor, Tensor]:
        """Copies of W and b, on the host."""
        return self.weights[0].cpu().clone(), self.weights[3].cpu().clone()

    def epoch(self, batches: Iterable[Array], steps: bool) -> float:
        """The sum of the rows' losses, each before the step on its batch, if steps are taken."""
        self.sums.zero_()
        for batch in batches:
            part = torch.from_numpy(np.asarray(batch, np.float32)) if isinstance(batch, np.ndarray) else batch.float()
            self._advance(part) if steps else self._measure(part)
        return float(self.sums)

    def _measure(self, part: Tensor) -> None:
        with torch.no_grad():
            self.sums += self._loss(part, *self.weights).double() * len(part)

    def _advance(self, part: Tensor) -> None:
        if not (self.on_card and self.optimiser.state and len(part) == self.plan.batch):
            self._step(part)  # the first makes the optimiser's state
            return
        if self._replay is None:
            self._place = part.clone()
            state = [self.sums, *self.trained, *(v for kept in self.optimiser.state.values() for v in kept.values())]
            self._replay = recorded(lambda: self._step(self._place), state, part.device)
        self._place.copy_(part)
        self._replay()

    def _step(self, part: Tensor) -> None:
        """Gradients are of leaves made anew: those of a step before would tie a recording to its stream."""
        leaves = [weight.detach().requires_grad_() for weight in self.trained]
        loss = self._loss(part, *leaves, *self.weights[len(leaves) :])
        for weight, grad in zip(self.trained, torch.autograd.grad(loss, leaves), strict=True):
            weight.grad = grad
        self.optimiser.step()
        self.sums += loss.detach().double() * len(part)

    def _loss(self, part: Tensor, W: Tensor, V: Tensor, c: Tensor, b: Tensor) -> Tensor:
        x = torch.nn.functional.normalize(part) if self.plan.normalize else part
        soft = torch.sigmoid(x @ W + b)
        hard = soft + ((soft > 0.5).float() - soft).detach()
        return ((hard @ V + c - x) ** 2).mean()
