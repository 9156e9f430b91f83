"""Runs of one network trained at once: stacked weights, one step for all of them. Imported by fits only.

The networks are so small that a GPU mostly waits for the next kernel. Stacked, several seeds share every kernel;
recorded as a CUDA graph, a step costs one call, and nothing waits for the host until an epoch has ended. A CPU runs the
same functions step by step, in a stack for each run: there one run fills the processor, and has the same bits alone and
beside others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ...engine.recorded import recorded
from .feed import BatchFeed
from .flat_weights import WeightLayout, adamw
from .network import WHOLE, BatchPart, Network, sizes_of
from .settings import Training
from .torch_layers import Tensor, Weights

__all__ = ["RunStack"]


class RunStack:
    """R runs in the middle of a training.

    data             (R, P) the weights; first and second, grad: AdamW's moments and the gradient, alike
    network          the runs' network, its weights in the memory of data
    step, at         steps taken, float64; (1,) the batch of the next one
    rates            the learning rate of every step of the epoch, float64
    sums             (1 + terms, R) of losses over the epoch's rows, float64
    used             per level (R, K), how often a code was chosen in the epoch
    part             which rows of a batch the feed reads
    """

    def __init__(
        self,
        networks: Sequence[Network],
        plan: Training,
        feed: BatchFeed | None,
        steps: int,
        device: Any,
        part: BatchPart = WHOLE,
    ) -> None:
        """networks: one for each run; feed: None where other processes take the steps; steps: of an epoch."""
        self.feed: Any = feed
        self.plan, self.part, self.runs, self.device = plan, part, len(networks), device
        self.layout = WeightLayout.of(networks[0].weights)
        self.data, self.grad, self.first, self.second = (self.layout.empty(self.runs, device) for _ in range(4))
        views = self.layout.views(self.data)
        for name, view in views.items():
            view.copy_(torch.cat([network.weights[name] for network in networks]))
        self.network = networks[0].having(views)
        self.step = torch.zeros((), dtype=torch.float64, device=device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.rates = torch.zeros(steps, dtype=torch.float64, device=device)
        sizes = sizes_of(self.network)
        self.used = [torch.zeros(self.runs, size, dtype=torch.int64, device=device) for size in sizes]
        self.sums = torch.zeros(1, self.runs, dtype=torch.float64, device=device)
        self.terms: tuple[str, ...] = ()  # the names of sums, known after the first step
        self._graphs: dict[int, Callable[[], None]] = {}

    def network_of(self, run: int) -> Network:
        """The network of one run alone, its weights in the same memory."""
        return self.network.having({name: weight[run : run + 1] for name, weight in self.network.weights.items()})

    def named(self, flat: Tensor) -> Weights:
        """`data` or a moment by the names of the weights, (R, ...) each."""
        return self.layout.views(flat)

    def epoch(self, epoch: int) -> Iterator[int]:
        """One pass over all rows, each run in its own order; gives the number of rows after each step."""
        steps = len(self.rates)
        rates = [self.plan.rate(epoch * steps + i, steps) for i in range(steps)]
        self.rates.copy_(torch.tensor(rates, dtype=torch.float64))
        for state in (self.at, self.sums, *self.used):
            state.zero_()
        for size in self.feed.steps(epoch):
            self._advance(size)
            self.last = size
            yield size

    def _advance(self, size: int) -> None:
        if torch.device(self.device).type != "cuda" or self.part is not WHOLE:  # an exchange cannot be recorded
            self.take_step(size)
            return
        if size not in self._graphs:
            self._graphs[size] = self._recorded(size)
        self._graphs[size]()

    def take_step(self, size: int) -> None:
        """One step on the next batch. It changes tensors in place and reads none of them on the host.

        Weights that want gradients are made anew: those of a step before would tie the recording to its stream.
        """
        leaves = {name: weight.detach().requires_grad_() for name, weight in self.network.weights.items()}
        result = self.network.having(leaves).loss(self.feed.read(self.at, size), self.part)
        grads = torch.autograd.grad(result.loss.sum(), list(leaves.values()))
        with torch.no_grad():
            torch._foreach_copy_(list(self.layout.views(self.grad).values()), list(grads))
            self.part.add(self.grad)
            if self.plan.clip:
                norm = torch.linalg.vector_norm(self.grad, dim=1, keepdim=True)
                self.grad.mul_((self.plan.clip / (norm + 1e-6)).clamp_(max=1.0))
            self.step += 1
            rate = self.rates.index_select(0, self.at)
            adamw(self.data, self.grad, self.first, self.second, self.step, rate, self.plan.weight_decay)
            self._count(size, result.codes, {"loss": result.loss, **result.terms})
            self.at += 1

    def _count(self, size: int, codes: Tensor, terms: dict[str, Tensor]) -> None:
        if not self.terms:
            self.terms = tuple(terms)
            self.sums = self.sums.new_zeros(len(terms), self.runs)
        self.sums += torch.stack(list(terms.values())).double() * size
        for level, count in enumerate(self.used):
            code = codes[:, :, level]
            count.scatter_add_(1, code, torch.ones_like(code))

    def _recorded(self, size: int) -> Callable[[], None]:
        if not self.terms:  # the first step makes room for the sums
            with torch.no_grad():
                self.terms = ("loss", *self.network.loss(self.feed.read(self.at, size)).terms)
            self.sums = self.sums.new_zeros(len(self.terms), self.runs)
        state = [self.data, self.first, self.second, self.step, self.at, self.sums, *self.used]
        return recorded(lambda: self.take_step(size), state, self.device)

    def report(self, rows: int) -> tuple[dict[str, list[float]], list[list[float]]]:
        """Of the epoch, per run: the mean of every term over rows, and per level the share of codes in use."""
        shares = [(count > 0).double().mean(dim=1)[None] for count in self.used]
        values = torch.cat([self.sums / rows, *shares]).tolist()  # the only time that the host waits for an epoch
        return dict(zip(self.terms, values, strict=False)), values[len(self.terms) :]

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def move_dead(self, seeds: Sequence[tuple[int, ...]]) -> None:
        """Codewords that no row chose move to residuals of the last batch, and their moments are set to zero.

        seeds: of every run, for the rows they move to.
        """
        x = self.feed.read(self.at - 1, self.last)
        draws = [np.random.default_rng(seed) for seed in seeds]
        for level, count in enumerate(self.used):
            name, dead = f"codebook.{level}", (count == 0)[:, :, None]
            drawn = np.stack([one.integers(self.last, size=count.shape[1]) for one in draws])
            pick = torch.from_numpy(drawn).to(x.device)[:, :, None]
            book = self.network.weights[name]
            left = self.part.gathered(self.network.residual(x, level, self.part))
            book.copy_(torch.where(dead, left.gather(1, pick.expand(-1, -1, left.shape[2])), book))
            for moment in (self.first, self.second):
                self.layout.views(moment)[name].masked_fill_(dead, 0.0)
