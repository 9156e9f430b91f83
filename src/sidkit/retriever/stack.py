"""Runs trained at once: one set of stacked weights, one optimiser, one step for all of them.

TIGER's model is so small that a modern GPU mostly waits for the next kernel. Stacked, several runs (seeds, tokenizers)
share every kernel; recorded as a CUDA graph, a step costs one call. A CPU runs the same code step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..engine.device import product_dtype
from ..engine.recorded import recorded
from .augment import cut_lengths, drawn_tokens
from .backend import choose_parts
from .data import Examples, Vocabulary, examples
from .dropout import RunDropout
from .layout import Layout
from .model import Weights, one_run
from .network import Batch, in_dtype, loss
from .plan import Plan
from .rates import move_average, rates_at, shrink

__all__ = ["Stack"]

Tensor = Any


@dataclass(eq=False)
class Stack:
    """R runs over one dataset.

    tokens    (R, items, L) the SIDs of each run, as tokens
    order     (R, batches, slots + 1) the examples of every batch of the epoch
    at        (1,) the batch of the next step
    step      (R,) steps taken by each run
    total     (R,) the sum of losses over the epoch's examples
    weights   by name, (R, ...) in float32; copies: the same in the dtype of matrix products
    moments   Adam's, first and second, as weights
    averages  of the weights over steps; the weights themselves where the plan does not average
    read      (R, items, L) the SIDs that histories are read by in this epoch; length: (R, examples) of histories in it
    """

    sequences: Sequences
    vocabulary: Vocabulary
    plan: Plan
    runs: int
    device: Any

    def __post_init__(self) -> None:
        plan, device, runs = self.plan, torch.device(self.device), self.runs
        self.examples: Examples = examples(self.sequences, "train", plan.history)
        levels = len(self.vocabulary.sizes)
        self.layout = Layout.plan(self.examples.length, plan.batch, plan.history, levels)
        self.dtype = product_dtype(plan.precision, device)

        def on_device(array: NDArray[Any]) -> Tensor:
            return torch.as_tensor(array, dtype=torch.long, device=device)

        self.items = on_device(self.sequences.rows)
        self.position = on_device(self.examples.position)
        self.length = on_device(self.examples.length).repeat(runs, 1)
        self.slot, self.item = on_device(self.layout.slot), on_device(self.layout.item)
        self.level, self.mine = on_device(self.layout.level), on_device(self.layout.mine)
        self.within = torch.arange(self.mine.shape[1], device=device) % levels  # the level of each target token
        self.tokens = torch.zeros(runs, int(self.items.max()) + 1, levels, dtype=torch.long, device=device)
        self.read = self.tokens.clone() if plan.swap else self.tokens
        self.several: dict[int, NDArray[Any]] = {}  # by run, the tokens (1 + A, items, L) of all SIDs that items have
        self.order = torch.zeros(runs, self.layout.batches, self.layout.slots + 1, dtype=torch.long, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.step = torch.zeros(runs, device=device)
        self.total = torch.zeros(runs, dtype=torch.float64, device=device)
        self.seeds = torch.zeros(runs, dtype=torch.long, device=device)
        self.weights: Weights = {}
        self.parts = choose_parts(plan.shape, runs, self.dtype, device, max(self.slot.shape[1], self.mine.shape[1]))
        if plan.smoothing:
            head = partial(self.parts.network.head, smoothing=plan.smoothing)
            self.parts = self.parts._replace(network=self.parts.network._replace(head=head))
        self._graph: Callable[[], None] | None = None
        self._within: dict[int, Weights] = {}
        self._helper, self._ahead = ThreadPoolExecutor(1), dict[tuple[int, int], Future[NDArray[np.int32]]]()

    def too_large(self, runs: int) -> bool:
        """Whether this number of runs is better off in a smaller stack, which may have to be compiled first."""
        return runs <= self.runs // 2 if self.parts.kind == "compiled" else runs < self.runs

    def resized(self, runs: int) -> Stack:
        """An empty stack for another number of runs over the same data."""
        return Stack(self.sequences, self.vocabulary, self.plan, runs, self.device)

    def put(
        self, index: int, weights: Weights, codes: NDArray[Any], moments: Any = None, step: int = 0,
        averages: Weights | None = None, others: Sequence[NDArray[Any]] = (),
    ) -> None:  # fmt: skip
        """Put a run, fresh or resumed, into the stack. weights, averages: of one run; moments: Adam's, first and
        second; others: further codes of all items, which histories may be read by."""
        if not self.weights:
            self._allocate(weights)
        several = np.stack([self.vocabulary.tokens(each)[: self.tokens.shape[1]] for each in (codes, *others)])
        self.several[index] = several
        for table in (self.tokens, self.read):
            table[index, : several.shape[1]] = torch.as_tensor(several[0], device=self.device)
        with torch.no_grad():
            for name, value in weights.items():
                self.weights[name][index] = value[0].to(self.device)
                self.copies[name][index] = self.weights[name][index]
                self.averages[name][index] = (averages or weights)[name][0].to(self.device)
                for moment, given in zip(self.moments, moments or (None, None), strict=True):
                    moment[name][index] = 0.0 if given is None else given[name][0].to(self.device)
        self.step[index] = step

    def _allocate(self, weights: Weights) -> None:
        def like(value: Tensor) -> Tensor:
            return torch.zeros(self.runs, *value.shape[1:], device=self.device)

        self.weights = {name: like(value) for name, value in weights.items()}
        self.moments = tuple({name: like(value) for name, value in weights.items()} for _ in range(2))
        self.averages = {name: like(value) for name, value in weights.items()} if self.plan.average else self.weights
        self.copies = in_dtype(self.weights, self.dtype)
        for copy in self.copies.values():
            copy.requires_grad_()

    @property
    def stops_anywhere(self) -> bool:
        """Whether an epoch can be resumed in its middle: dropout is then drawn run by run, on the CPU."""
        return isinstance(self.parts.dropout, RunDropout)

    def within_epoch(self, index: int) -> Weights:
        """What a run needs besides its weights to resume in the middle of an epoch."""
        dropout = self.parts.dropout
        draws = {"draws": dropout.draws(index)} if isinstance(dropout, RunDropout) else {}
        return {"total": self.total[index : index + 1].clone(), **draws}

    def resume_within(self, index: int, state: Weights) -> None:
        """The inverse of `within_epoch`, for the next call of `epoch`; what does not fit is an error here."""
        if state["total"].shape != (1,) or not torch.isfinite(state["total"]).all():
            raise ValueError("within/total must be one finite number")
        if self.stops_anywhere:
            torch.Generator().set_state(state["draws"])
        self._within[index] = state

    def epoch(self, seeds: Sequence[int], epochs: Sequence[int], every: int = 0, first: int = 0) -> Iterator[int]:
        """One pass over all examples, each run in its own order; after every `every` steps, yields how many.

        first: the batch to start from, for runs given to `resume_within`.
        """
        on_gpu = torch.device(self.device).type == "cuda"
        every = every or (64 if on_gpu else 1)
        self.parts.start_epoch([_mix(*one) for one in zip(seeds, epochs, strict=True)])
        self.seeds.copy_(torch.as_tensor(list(seeds)))
        self.order.copy_(torch.as_tensor(self._orders(seeds, epochs)))
        self._augment(seeds, epochs)
        self.at.fill_(first)
        self.total.zero_()
        for index, state in self._within.items():
            self.total[index] = state["total"][0]
            if isinstance(self.parts.dropout, RunDropout):
                self.parts.dropout.resume(index, state["draws"])
        self._within.clear()
        advance = self._replay() if on_gpu else self._step
        for taken in range(first, self.layout.batches):
            advance()
            if (taken + 1) % every == 0 or taken + 1 == self.layout.batches:
                if on_gpu:
                    torch.cuda.synchronize(self.device)
                yield taken % every + 1

    def _augment(self, seeds: Sequence[int], epochs: Sequence[int]) -> None:
        """Draw what the plan varies from epoch to epoch."""
        for index, one in enumerate(zip(seeds, epochs, strict=True)):
            if self.plan.crop:
                self.length[index] = torch.as_tensor(cut_lengths(self.examples.length, self.plan.crop, *one))
            if self.plan.swap and index in self.several:
                drawn = drawn_tokens(self.several[index], self.plan.swap, *one)
                self.read[index, : len(drawn)] = torch.as_tensor(drawn)

    def _orders(self, seeds: Sequence[int], epochs: Sequence[int]) -> NDArray[np.int32]:
        """(R, batches, slots + 1) of an epoch; those of the next epoch are drawn while this one is trained."""
        runs = list(zip(seeds, epochs, strict=True))
        orders = {
            one: self._ahead[one].result() if one in self._ahead else self.layout.order(*one) for one in set(runs)
        }
        self._ahead = {
            (seed, epoch + 1): self._helper.submit(self.layout.order, seed, epoch + 1) for seed, epoch in orders
        }
        return np.stack([orders[one] for one in runs])

    def losses(self) -> list[float]:
        """The mean training loss of every run over the epoch so far."""
        return (self.total / len(self.examples)).tolist()  # type: ignore[no-any-return]

    def weights_of(self, index: int) -> Weights:
        """A copy of one run's weights as they are now, in float32."""
        return {name: value.detach().clone() for name, value in one_run(self.weights, index).items()}

    def averages_of(self, index: int) -> Weights:
        """A copy of what a run is judged by: the average of its weights, or the weights where none is taken."""
        return {name: value.detach().clone() for name, value in one_run(self.averages, index).items()}

    def judged(self, indices: list[int]) -> Weights:
        """The same of several runs, in the dtype of matrix products."""
        if not self.plan.average:
            return {name: value.detach()[indices] for name, value in self.copies.items()}
        return in_dtype({name: value[indices] for name, value in self.averages.items()}, self.dtype)

    def moments_of(self, index: int) -> tuple[Weights, Weights]:
        """Adam's moments of one run, first and second; nothing is copied."""
        first, second = (one_run(moment, index) for moment in self.moments)
        return first, second

    def batch(self) -> Batch:
        """The examples of the next step."""
        return Batch(*self.parts.gather_examples(
            self.order, self.at, self.slot, self.item, self.level, self.mine, self.within,
            self.position, self.length, self.items, self.tokens, self.read,
        ))  # fmt: skip

    def _step(self) -> None:
        self.parts.start_step(self.seeds, self.step)
        batch, levels = self.batch(), len(self.vocabulary.sizes)
        losses = loss(self.copies, self.plan.shape, levels, batch, self.parts.dropout, self.parts.network)
        grads = torch.autograd.grad(losses.sum(), list(self.copies.values()))
        self.step += 1
        with torch.no_grad():
            first, second = (list(moment.values()) for moment in self.moments)
            weights, copies = (list(each.values()) for each in (self.weights, self.copies))
            rates = rates_at(self.step, self.plan, self.plan.epochs * self.layout.batches)
            if self.plan.weight_decay:
                shrink(self.weights, rates, self.plan.weight_decay)
            self.parts.adam(weights, copies, grads, first, second, self.step, rates)
            if self.plan.average:
                move_average(list(self.averages.values()), weights, self.step, self.plan.average)
            self.total += losses.detach().double() * batch.weight.sum((1, 2)).double() / levels
        self.at += 1

    def _replay(self) -> Callable[[], None]:
        """The step as a CUDA graph, recorded at first use."""
        if self._graph is None:
            state = [self.at, self.step, self.total, *self.weights.values(), *self.copies.values()]
            state += [value for moment in self.moments for value in moment.values()]
            state += list(self.averages.values()) if self.plan.average else []
            self._graph = recorded(self._step, state, self.device)
        return self._graph


def _mix(seed: int, epoch: int) -> int:
    """One seed from two, below 2^63."""
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)[0] >> np.uint64(1))
