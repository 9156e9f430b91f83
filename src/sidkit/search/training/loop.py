"""Training a search model: stage after stage, each from the weights of the last, resumable at any batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import SpecError
from ...files.checkpoint import Checkpoint
from ...progress import Progress, Silent
from ..bart.blocks import blocks_for
from ..bart.packing import PackedBatch, batch_of, epoch
from ..bart.weights import Weights
from .examples import Filled
from .plan import SearchPlan
from .recorded import Gradients
from .tokens import Tokens

__all__ = ["Position", "Trainer"]

KEY = "train"
SHOWN = 20  # steps between looks at the loss
BETAS, EPSILON = (0.9, 0.999), 1e-8


@dataclass
class Position:
    """The progress of a training: stage, epoch and batch within it, steps of the stage, and the mean losses so far."""

    stage: int = 0
    epoch: int = 0
    batch: int = 0
    step: int = 0
    losses: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0


class Trainer:
    """Weights, optimiser and position of one training.

    stages      the examples of each stage, by name
    log         called with (name, value, step of the stage) for TensorBoard and tests
    """

    def __init__(
        self,
        weights: Weights,
        stages: Mapping[str, Filled],
        tokens: Tokens,
        plan: SearchPlan,
        device: str,
        precision: Any,
        checkpoint: Checkpoint | None = None,
        log: Callable[[str, float, int], None] = lambda name, value, step: None,
    ) -> None:
        self.plan, self.tokens, self.device, self.precision = plan, tokens, torch.device(device), precision
        self.stages, self.checkpoint, self.log = dict(stages), checkpoint, log
        self.weights = {
            name: value.detach().to(self.device, copy=True).requires_grad_() for name, value in weights.items()
        }
        self.optimiser = self._optimiser()
        blocks = blocks_for(plan.shape, precision, self.device)
        self.gradients = Gradients(self.weights, plan.shape.heads, plan.shape.dropout, precision, blocks)
        self.at = Position()
        self.loss = torch.zeros((), device=self.device)  # of the batches of this epoch, added up
        self.since = time.monotonic()  # when the time of `at` was last added up
        self._resume()

    def run(self, progress: Progress | None = None) -> Position:
        """Train every stage to its end; what a checkpoint had done is not done again."""
        report = progress or Silent()
        self.since = time.monotonic()
        for number, (name, examples) in enumerate(self.stages.items()):
            if number < self.at.stage:
                continue
            if not len(examples) or not self.plan.epochs[number]:
                self.at.stage = number + 1
                continue
            report.start(name, len(examples) * self.plan.epochs[number])
            report.advance(len(examples) * self.at.epoch + min(self.plan.batch * self.at.batch, len(examples)))
            while self.at.epoch < self.plan.epochs[number]:
                self._epoch(number, name, examples, report)
            self.optimiser = self._optimiser()
            self.at = Position(number + 1, losses=self.at.losses, seconds=self.at.seconds)
            self._save()
        self._add_time()
        return self.at

    def _epoch(self, number: int, name: str, examples: Filled, report: Progress) -> None:
        batches = list(epoch(len(examples), self.plan.batch, (self.plan.seed, number, self.at.epoch)))
        for index, batch in self._ahead(examples, batches[self.at.batch :]):
            self.loss += self._step(number, batch, len(batches))
            self.at.batch, self.at.step = self.at.batch + 1, self.at.step + 1
            report.advance(len(index))
            if self.at.batch % SHOWN == 0 or self.at.batch == len(batches):
                mean = self._mean_loss(name)
                report.note(f"epoch {self.at.epoch + 1}/{self.plan.epochs[number]}, loss {mean:.4f}")
                self.log(f"{name}/loss", mean, self.at.step)
            if self.checkpoint is not None and self.checkpoint.due():
                self._mean_loss(name)  # a model that diverged is not saved
                self._save()
        self.at.losses.append({"stage": name, "epoch": self.at.epoch + 1, "loss": float(self.loss) / len(batches)})
        self.at.epoch, self.at.batch = self.at.epoch + 1, 0
        self.loss.zero_()

    def _mean_loss(self, stage: str) -> float:
        mean = float(self.loss) / self.at.batch
        if not math.isfinite(mean):
            raise SpecError(f"the loss became {mean} in stage {stage}; lower the learning rate")
        return mean

    def _step(self, stage: int, batch: PackedBatch, batches: int) -> Any:
        seed = int(np.random.SeedSequence((self.plan.seed, stage, self.at.step)).generate_state(1, np.uint64)[0] >> 1)
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate(stage, batches)
        value = self.gradients(batch, seed)
        self.optimiser.step()
        return value

    def _rate(self, stage: int, batches: int) -> float:
        step, total = self.at.step, batches * self.plan.epochs[stage]
        rising = min(1.0, (step + 1) / self.plan.warmup) if self.plan.warmup else 1.0
        falling = 1.0 - step / total if self.plan.decay == "linear" else 1.0
        return self.plan.learning_rate * rising * falling

    def _ahead(
        self, examples: Filled, batches: list[NDArray[np.int64]]
    ) -> Iterator[tuple[NDArray[np.int64], PackedBatch]]:
        """Batches on the device, the next one put together while this one is computed."""

        def made(index: NDArray[np.int64]) -> PackedBatch:
            filled = examples.take(index)
            return batch_of(filled, np.arange(len(index)), self.tokens.eos, self.tokens.pad, self.device)

        with ThreadPoolExecutor(1) as pool:
            coming = [pool.submit(made, index) for index in batches[:2]]
            for i, index in enumerate(batches):
                batch = coming.pop(0).result()
                if i + 2 < len(batches):
                    coming.append(pool.submit(made, batches[i + 2]))
                yield index, batch

    def _optimiser(self) -> Any:
        fused = {"fused": True} if self.device.type == "cuda" else {}
        decay = self.plan.weight_decay
        return torch.optim.AdamW(
            list(self.weights.values()), self.plan.learning_rate, BETAS, EPSILON, weight_decay=decay, **fused
        )

    def _add_time(self) -> None:
        now = time.monotonic()
        self.at.seconds, self.since = self.at.seconds + now - self.since, now

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        self._add_time()
        arrays = {f"now/{name}": value.detach().cpu().numpy() for name, value in self.weights.items()}
        arrays["loss"] = self.loss.cpu().numpy()
        for name, value in self.weights.items():
            for part, moment in self.optimiser.state.get(value, {}).items():
                arrays[f"{part}/{name}"] = moment.cpu().numpy()
        self.checkpoint.save(KEY, arrays, vars(self.at))

    def _resume(self) -> None:
        saved = self.checkpoint.load(KEY) if self.checkpoint is not None else None
        if saved is None or self.checkpoint is None:
            return
        arrays, facts = saved
        with self.checkpoint.using(KEY):
            self.at = Position(**facts)
            self.loss.copy_(torch.as_tensor(arrays["loss"]))
            with torch.no_grad():
                for name, value in self.weights.items():
                    value.copy_(torch.as_tensor(arrays[f"now/{name}"]))
                    named = ((key.partition("/"), array) for key, array in arrays.items())
                    parts = {part: array for (part, _, key), array in named if key == name and part != "now"}
                    if any(array.shape not in ((), tuple(value.shape)) for array in parts.values()):
                        raise ValueError(f"moments of {name!r} have another shape")
                    if parts:
                        self.optimiser.state[value] = {
                            part: torch.as_tensor(array).to(self.device) for part, array in parts.items()
                        }
