"""Batches divided among processes: each takes the rows that it holds through the network. Imported by fits only.

The batches are those of one machine, and so is what is computed of them: gradients are summed over all rows, and what
is defined by a batch as a whole (Sinkhorn's assignment, the groups of R3-VAE, where unused codewords move to) is
computed by every process from the latent vectors of all. Only the order of additions differs, so that weights agree to
rounding at first, and quality in the end; the same number of processes gives the same bits again.

What travels in a step is a gradient, and a latent vector for each row of the batch. Rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...engine.device import find_device
from ...rows.chunks import read_ahead
from ...rows.seam import order_of
from ...rows.together import Exchange, Member
from .feed import all_rows, fits
from .network import Network
from .settings import Training
from .stack import RunStack
from .torch_layers import Tensor, as_rows

__all__ = ["EpochTogether", "epoch_together"]


class Divided:
    """A batch of which some rows are here, and others with other processes: a `BatchPart`."""

    def __init__(self, exchange: Exchange, first: bool) -> None:
        self.exchange, self.first = exchange, first  # first: whether this process counts what all have

    def take(self, places: Tensor, size: int) -> None:
        """From now on the rows that are here have these places in a batch of this size."""
        self.places, self.size = places, size

    def weighed(self, mean: Tensor) -> Tensor:
        if not len(self.places):  # the mean over no rows
            mean = mean.nan_to_num()
        return mean * (len(self.places) / self.size)

    def once(self, value: Tensor) -> Tensor:
        return value if self.first else value - value.detach()

    def gathered(self, v: Tensor) -> Tensor:
        return _Gathered.apply(v, self)

    def here(self, v: Tensor) -> Tensor:
        return v.index_select(1, self.places)

    def add(self, v: Tensor) -> None:
        host = v.detach().cpu()
        self.exchange.add(host.numpy())
        if host.data_ptr() != v.data_ptr():
            v.copy_(host)


class _Gathered(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, v: Tensor, part: Divided) -> Tensor:
        ctx.places = part.places
        whole = v.new_zeros(len(v), part.size, *v.shape[2:])
        whole.index_copy_(1, part.places, v)
        part.add(whole)
        return whole

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0].index_select(1, ctx.places), None


class DividedFeed:
    """The rows of each batch that are here: a `BatchFeed` of one run."""

    def __init__(self, member: Member, batch: int, seed: tuple[int, ...], rows: int, device: Any) -> None:
        """rows: their number in all processes."""
        self.batch, self.seed, self.rows, self.device = batch, seed, rows, device
        self.part = Divided(member.exchange, member.number == 0)
        self._starts = np.array([start for start, _ in member.parts])
        self._parts = [part for _, part in member.parts]
        self._before = np.cumsum([0, *(part.shape[0] for part in self._parts)])
        resident = all(fits(part, torch.device(device)) for part in self._parts)
        self._resident = torch.cat([all_rows(part, device) for part in self._parts]) if resident else None

    def steps(self, epoch: int) -> Iterator[int]:
        with closing(read_ahead(self._made(epoch))) as batches:
            for places, x, size in batches:
                self.part.take(torch.from_numpy(places).to(self.device), size)
                self._now = x[None].to(self.device)
                yield size

    def read(self, at: Tensor, size: int) -> Tensor:
        return self._now

    def _made(self, epoch: int) -> Generator[tuple[NDArray[np.int64], Tensor, int], None, None]:
        place, row = self._mine(order_of(self.rows, (*self.seed, epoch)))
        for start in range(0, self.rows, self.batch):
            first, last = np.searchsorted(place, [start, start + self.batch])
            yield place[first:last] - start, self._taken(row[first:last]), min(self.batch, self.rows - start)

    def _mine(self, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places in the order whose rows are here, and the numbers of these rows among those that are here."""
        places, rows = [], []
        for start, part, before in zip(self._starts, self._parts, self._before, strict=False):
            place = np.flatnonzero((order >= start) & (order < start + part.shape[0]))
            places.append(place)
            rows.append(order[place] - start + before)
        place, row = np.concatenate(places), np.concatenate(rows)
        sequence = np.argsort(place, kind="stable")
        return place[sequence], row[sequence]

    def _taken(self, rows: NDArray[np.int64]) -> Tensor:
        if self._resident is not None:
            return self._resident.index_select(0, torch.from_numpy(rows).to(self._resident.device))
        x = torch.empty(len(rows), self._parts[0].shape[1])
        of = np.searchsorted(self._before, rows, side="right") - 1
        for index, part in enumerate(self._parts):
            mine = np.flatnonzero(of == index)
            x[torch.from_numpy(mine)] = as_rows(part.take(rows[mine] - self._before[index]), "cpu")
        return x


@dataclass(frozen=True)
class EpochTogether:
    """An epoch of one run, called by every process that has some of its rows."""

    network: Network
    moments: tuple[NDArray[Any], NDArray[Any]]
    done: float  # steps before
    plan: Training
    seed: tuple[int, ...]
    epoch: int
    rows: int

    def __call__(self, member: Member) -> Any:
        device = torch.device(find_device(member.device))
        feed = DividedFeed(member, self.plan.batch, self.seed, self.rows, device)
        steps = -(-self.rows // self.plan.batch)
        stack = RunStack([self.network], self.plan, feed, steps, device, feed.part)
        stack.first.copy_(torch.from_numpy(self.moments[0]))
        stack.second.copy_(torch.from_numpy(self.moments[1]))
        stack.step.fill_(self.done)
        for _ in stack.epoch(self.epoch):
            member.progress.advance(len(feed.part.places))
        for total in (stack.sums, *stack.used):
            feed.part.add(total)
        if self.plan.reset_dead:
            stack.move_dead([(*self.seed, self.epoch, 1)])
        state = [stack.data, stack.first, stack.second, stack.step, stack.sums, *stack.used]
        return stack.terms, [tensor.cpu().numpy() for tensor in state]


def epoch_together(stack: RunStack, epoch: int, rows: Any, seed: Sequence[int]) -> None:
    """An epoch of a stack of one run by the processes that hold the rows (`WorksTogether`)."""
    weights = {name: weight.clone() for name, weight in stack.network.weights.items()}
    moments = stack.first.numpy(), stack.second.numpy()
    given = stack.network.having(weights), moments, float(stack.step), stack.plan, tuple(seed), epoch, rows.shape[0]
    stack.terms, state = rows.together(EpochTogether(*given))
    stack.sums = stack.sums.new_zeros(len(stack.terms), stack.runs)
    here = [stack.data, stack.first, stack.second, stack.step, stack.sums, *stack.used]
    for tensor, array in zip(here, state, strict=True):
        tensor.copy_(torch.from_numpy(np.array(array)))
