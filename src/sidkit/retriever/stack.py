"""Runs trained side by side: one set of stacked weights, one optimiser, one step for all of them.

TIGER's model is so small that a modern GPU mostly waits for the next kernel. Stacked, several runs (seeds, tokenizers)
share every kernel; recorded as a CUDA graph, a step costs one call. On a CPU the same code runs as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ..data.sequences import Sequences
from .data import Examples, Vocabulary, examples
from .device import dtype_of
from .dropout import Dropout, RunDropout
from .layout import Layout
from .model import Weights, one_run
from .network import Batch, Parts, fused_fits, in_dtype, loss
from .plan import Plan

__all__ = ["Stack", "adam"]

Tensor = Any
BETAS, EPSILON = (0.9, 0.999), 1e-8


def adam(
    weights: list[Tensor], copies: list[Tensor], grads: Sequence[Tensor], first: list[Tensor], second: list[Tensor],
    step: Tensor, rate: float,
) -> None:  # fmt: skip
    """One step of Adam (no weight decay) for every run, in place; step: (R,), counted from 1.

    copies are the weights in the dtype of matrix products; where that is the weights' own, they are the weights.
    """
    one, two = BETAS
    for w, copy, grad, m, v in zip(weights, copies, grads, first, second, strict=True):
        t = step.view(-1, *[1] * (w.ndim - 1))
        g = grad.float()
        m.lerp_(g, 1 - one)
        v.mul_(two).addcmul_(g, g, value=1 - two)
        w.sub_(rate / (1 - one**t) * m / (v.sqrt() / (1 - two**t).sqrt() + EPSILON))
        if copy is not w:
            copy.copy_(w)


def gather_examples(
    order: Tensor, at: Tensor, slot: Tensor, item: Tensor, level: Tensor, mine: Tensor, within: Tensor,
    position: Tensor, length: Tensor, items: Tensor, tokens: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The fields of a Batch: examples order[:, at], dealt into the layout's places."""
    ids = order.index_select(1, at)[:, 0]  # (R, slots + 1)
    runs = torch.arange(len(ids), device=ids.device)[:, None, None]
    which = ids[:, slot]
    used = torch.where(which >= 0, length[which], 0)
    real = item < used
    row = items[(position[which] - used + item).clamp(min=0)]
    history = torch.where(real, tokens[runs, row, level], 0)
    owner = torch.where(real, slot, -1)
    which = ids[:, mine]
    target = tokens[runs, items[position[which]], within]  # of empty places: any, weight 0
    before = torch.where(within > 0, F.pad(target, (1, -1)), 0)
    return history, slot, owner, target, before, mine, (which >= 0).float()


@dataclass(eq=False)
class Stack:
    """R runs over one dataset. tokens: (R, items, L) the SIDs of each run, as tokens."""

    sequences: Sequences
    vocabulary: Vocabulary
    plan: Plan
    runs: int
    device: Any

    def __post_init__(self) -> None:
        plan, device = self.plan, torch.device(self.device)
        self.examples: Examples = examples(self.sequences, "train", plan.history)
        levels = len(self.vocabulary.sizes)
        self.layout = Layout.plan(self.examples.length, plan.batch, plan.history, levels)
        self.dtype = dtype_of(plan.precision, device)

        def there(array: NDArray[Any]) -> Tensor:
            return torch.as_tensor(array, dtype=torch.long, device=device)

        self.items = there(self.sequences.rows)
        self.position, self.length = there(self.examples.position), there(self.examples.length)
        self.slot, self.item, self.level = there(self.layout.slot), there(self.layout.item), there(self.layout.level)
        self.mine = there(self.layout.mine)
        self.within = torch.arange(self.mine.shape[1], device=device) % levels  # which token of a SID
        self.tokens = torch.zeros(self.runs, int(self.items.max()) + 1, levels, dtype=torch.long, device=device)
        self.order = torch.zeros(self.runs, self.layout.batches, self.layout.slots + 1, dtype=torch.long, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.step = torch.zeros(self.runs, device=device)
        self.total = torch.zeros(self.runs, dtype=torch.float64, device=device)
        self.weights: Weights = {}
        self._graph: Any = None
        self._compiled = False
        self._helper, self._ahead = ThreadPoolExecutor(1), dict[tuple[int, int], Future[NDArray[np.int32]]]()
        self.seeds = torch.zeros(self.runs, dtype=torch.long, device=device)
        self._drop: Any = None
        self._dropout: Dropout = plan.shape.dropout
        self._parts, self._adam, self._examples = Parts(), adam, gather_examples
        if fused_fits(plan.shape, self.dtype, device, max(self.slot.shape[1], self.mine.shape[1])):
            from .triton import step as fused_step
            from .triton.layers import Dropout, Layers

            self._drop = Dropout(plan.shape.dropout, self.seeds)
            self._parts = Layers(self._drop, device).parts
            self._adam, self._examples = fused_step.adam, fused_step.gather_examples
        elif device.type == "cuda":
            self._compiled, self._parts = True, Parts.compiled()
            self._adam, self._examples = (torch.compile(part, dynamic=False) for part in (adam, gather_examples))
        else:
            self._dropout = RunDropout(plan.shape.dropout, self.runs)

    def too_large(self, runs: int) -> bool:
        """Whether this number of runs is better off in a smaller stack, which may have to be compiled first."""
        return runs <= self.runs // 2 if self._compiled else runs < self.runs

    def resized(self, runs: int) -> Stack:
        """An empty stack for another number of runs over the same data."""
        return Stack(self.sequences, self.vocabulary, self.plan, runs, self.device)

    def put(self, index: int, weights: Weights, codes: NDArray[Any], moments: Any = None, step: int = 0) -> None:
        """Put a run, fresh or resumed, into the stack. weights: of one run; moments: Adam's, first and second."""
        if not self.weights:
            self._allocate(weights)
        table = self.vocabulary.tokens(codes)[: self.tokens.shape[1]]
        self.tokens[index, : len(table)] = torch.as_tensor(table, device=self.device)
        with torch.no_grad():
            for name, value in weights.items():
                self.weights[name][index] = value[0].to(self.device)
                self.copies[name][index] = self.weights[name][index]
                for held, given in zip(self.moments, moments or (None, None), strict=True):
                    held[name][index] = 0.0 if given is None else given[name][0].to(self.device)
        self.step[index] = step

    def _allocate(self, weights: Weights) -> None:
        def like(value: Tensor) -> Tensor:
            return torch.zeros(self.runs, *value.shape[1:], device=self.device)

        self.weights = {name: like(value) for name, value in weights.items()}
        self.moments = tuple({name: like(value) for name, value in weights.items()} for _ in range(2))
        self.copies = in_dtype(self.weights, self.dtype)
        for copy in self.copies.values():
            copy.requires_grad_()

    def epoch(self, seeds: Sequence[int], epochs: Sequence[int], every: int = 0) -> Iterator[int]:
        """One pass over all examples, each run in its own order; yields how many steps were taken, every so often."""
        on_gpu = torch.device(self.device).type == "cuda"
        every = every or (64 if on_gpu else 1)
        self._seed_dropout([_mix(*one) for one in zip(seeds, epochs, strict=True)])
        self.seeds.copy_(torch.as_tensor(list(seeds)))
        self.order.copy_(torch.as_tensor(self._orders(seeds, epochs)))
        self.at.zero_()
        self.total.zero_()
        advance = self._replay() if on_gpu else self._step
        for done in range(self.layout.batches):
            advance()
            if (done + 1) % every == 0 or done + 1 == self.layout.batches:
                if on_gpu:
                    torch.cuda.synchronize(self.device)
                yield done % every + 1

    def _seed_dropout(self, seeds: list[int]) -> None:
        if isinstance(self._dropout, RunDropout):
            self._dropout.seed(seeds)
        elif self._compiled:
            torch.manual_seed(seeds[0])  # torch draws for all runs together

    def _orders(self, seeds: Sequence[int], epochs: Sequence[int]) -> NDArray[np.int32]:
        """(R, batches, slots + 1) of an epoch; those of the next are found while it is trained."""
        asked = list(zip(seeds, epochs, strict=True))
        found = {
            one: self._ahead[one].result() if one in self._ahead else self.layout.order(*one) for one in set(asked)
        }
        self._ahead = {
            (seed, epoch + 1): self._helper.submit(self.layout.order, seed, epoch + 1) for seed, epoch in found
        }
        return np.stack([found[one] for one in asked])

    def losses(self) -> list[float]:
        """The mean training loss of every run over the epoch so far."""
        return (self.total / len(self.examples)).tolist()  # type: ignore[no-any-return]

    def weights_of(self, index: int) -> Weights:
        """A copy of one run's weights as they are now, in float32."""
        return {name: value.detach().clone() for name, value in one_run(self.weights, index).items()}

    def moments_of(self, index: int) -> tuple[Weights, Weights]:
        """Adam's moments of one run, first and second; nothing is copied."""
        first, second = (one_run(part, index) for part in self.moments)
        return first, second

    def batch(self) -> Batch:
        """The examples at hand."""
        return Batch(*self._examples(
            self.order, self.at, self.slot, self.item, self.level, self.mine, self.within,
            self.position, self.length, self.items, self.tokens,
        ))  # fmt: skip

    def _step(self) -> None:
        if self._drop is not None:
            self._drop.begin(self.seeds, self.step)
        batch, levels = self.batch(), len(self.vocabulary.sizes)
        losses = loss(self.copies, self.plan.shape, levels, batch, self._dropout, self._parts)
        grads = torch.autograd.grad(losses.sum(), list(self.copies.values()))
        self.step += 1
        with torch.no_grad():
            first, second = (list(held.values()) for held in self.moments)
            self._adam(
                list(self.weights.values()), list(self.copies.values()), grads,
                first, second, self.step, self.plan.learning_rate,
            )  # fmt: skip
            self.total += losses.detach().double() * batch.weight.sum((1, 2)).double() / levels
        self.at += 1

    def _replay(self) -> Any:
        """The step as a CUDA graph, recorded at first use; what the trial runs before it changed is put back."""
        if self._graph is None:
            held = [self.at, self.step, self.total, *self.weights.values(), *self.copies.values()]
            held += [value for part in self.moments for value in part.values()]
            saved = [value.detach().clone() for value in held]
            stream = torch.cuda.Stream(self.device)
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self.at.zero_()
                    self._step()
            torch.cuda.current_stream(self.device).wait_stream(stream)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._step()
            with torch.no_grad():
                for value, before in zip(held, saved, strict=True):
                    value.copy_(before)
        return self._graph.replay


def _mix(seed: int, epoch: int) -> int:
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)[0] >> np.uint64(1))
