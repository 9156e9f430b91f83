"""The loss and the gradients of a batch; on a GPU as a CUDA graph for each shape of batch that occurs.

A step of BART-base is a thousand small calls, and issuing them takes a CPU longer than computing them takes a GPU. A
graph issues them at once. What differs between steps lies in fixed places that the graph reads: weights, tokens, and
the seed of the dropout.
"""

from __future__ import annotations

from typing import Any

import torch

from ..bart.network import Blocks, Dropout, loss
from ..bart.packing import PackedBatch
from ..bart.weights import Weights

__all__ = ["Gradients"]

Tensor = Any
MOST = 64  # graphs; batches of further shapes are computed call by call
SEEDS = 2**31


class Gradients:
    """Call it with a batch and a seed: the loss, and in `weights` the gradients, which take the place of earlier ones.

    weights     float32 leaves; matrix products take copies of them in `precision`
    rate        of the dropout
    """

    def __init__(self, weights: Weights, heads: int, rate: float, precision: Any, blocks: Blocks) -> None:
        self.weights, self.heads, self.rate, self.precision, self.blocks = weights, heads, rate, precision, blocks
        first = next(iter(weights.values()))
        self.seed = torch.zeros((), dtype=torch.int64, device=first.device)
        self.records = first.is_cuda and blocks.recorded > 0
        self._graphs: dict[tuple[int, ...], tuple[list[Tensor], Any, Tensor]] = {}
        self._pool: Any = None

    def __call__(self, batch: PackedBatch, seed: int) -> Tensor:
        shape = _shape_of(batch)
        fits = self.records and batch.source.history is None and max(shape[:2]) <= self.blocks.recorded
        fits = fits and (shape in self._graphs or len(self._graphs) < MOST)
        if fits and shape not in self._graphs:
            self._graphs[shape] = self._recorded(batch, shape)
        torch.manual_seed(seed)  # after a recording, which draws numbers too
        self.seed.fill_(seed % SEEDS)
        if not fits:
            return self._computed(batch)
        places, graph, value = self._graphs[shape]
        for place, given in zip(places, _tensors(batch), strict=True):
            place.copy_(given, non_blocking=True)
        graph.replay()
        return value

    def _computed(self, batch: PackedBatch) -> Tensor:
        leaves = [value.detach().to(self.precision).requires_grad_() for value in self.weights.values()]
        named = dict(zip(self.weights, leaves, strict=True))
        value = loss(named, self.heads, *batch, Dropout(self.rate, self.seed), self.blocks)
        found = torch.autograd.grad(value, leaves, allow_unused=True)
        for weight, grad in zip(self.weights.values(), found, strict=True):
            if grad is None:  # not used by this stage
                weight.grad = None
            elif weight.is_cuda:  # always to the same place, laid out as a fused optimiser wants it
                weight.grad = torch.empty_like(weight) if weight.grad is None else weight.grad
                weight.grad.copy_(grad)
            else:
                weight.grad = grad
        return value.detach()

    def _recorded(self, batch: PackedBatch, shape: tuple[int, ...]) -> tuple[list[Tensor], Any, Tensor]:
        fixed = _copied(batch, shape)
        self._computed(fixed)  # what is compiled or set up at a first call, and the gradients' places
        graph = torch.cuda.CUDAGraph()
        # another thread brings the next batches to the device meanwhile
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            value = self._computed(fixed)
        self._pool = graph.pool() if self._pool is None else self._pool
        return _tensors(fixed), graph, value


def _shape_of(batch: PackedBatch) -> tuple[int, ...]:
    """The longest input and output as a power of two, which the kernels' tiles depend on, and the tensors' lengths."""
    longest = (1 << (rows.longest - 1).bit_length() for rows in (batch.source, batch.target))
    return *longest, *(len(one) for one in _tensors(batch))


def _tensors(batch: PackedBatch) -> list[Tensor]:
    return [*batch.source[:3], *batch.target[:3], batch.labels]


def _copied(batch: PackedBatch, shape: tuple[int, ...]) -> PackedBatch:
    source, target = (
        rows._replace(tokens=rows.tokens.clone(), position=rows.position.clone(), starts=rows.starts.clone(), longest=n)
        for rows, n in zip((batch.source, batch.target), shape[:2], strict=True)
    )
    return PackedBatch(source, target, batch.labels.clone())
