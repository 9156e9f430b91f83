"""How many rows of a training share their SID with another: the codes of all rows by the current weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...geometry import Array
from ...progress import Progress
from ...rows.seam import Rows
from ...sids.quality import quality
from .feed import ResidentFeed
from .network import Network, sizes_of
from .stack import RunStack
from .torch_layers import Tensor, as_rows

__all__ = ["collision_rates"]

BLOCKS = {"cpu": 1 << 10, "cuda": 1 << 14}  # rows whose codes are computed at once


def collision_rates(stacks: Sequence[RunStack], rows: Rows, progress: Progress) -> list[float]:
    """(n - distinct SIDs) / n of every run."""
    probe, n = _Probe([stack.network for stack in stacks], sum(stack.runs for stack in stacks)), rows.shape[0]
    feed = stacks[0].feed
    if isinstance(feed, ResidentFeed):
        codes = probe.codes(feed.x)
        progress.advance(n * probe.runs)
    else:
        codes = rows.map(probe).codes()[:, rows.width :]  # which tells its progress, of one run
        progress.advance(n * (probe.runs - 1))
    sizes = sizes_of(stacks[0].network)
    parts = np.split(codes, probe.runs, axis=1)
    return [float(quality(part, sizes)["surplus_per_item"]) for part in parts]


@dataclass(frozen=True, eq=False)
class _Probe:
    """The current networks, as one stage that only emits the tokens of every run, run after run."""

    networks: Sequence[Network]  # each of some of the runs
    runs: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sizes_of(self.networks[0])) * self.runs

    def tokens(self, x: Array, codes: Array) -> Array:
        if isinstance(x, np.ndarray):
            return self.codes(as_rows(x, self.networks[0].weights["codebook.0"].device))
        moved = ({name: weight.to(x.device) for name, weight in one.weights.items()} for one in self.networks)
        there = [one.having(weights) for one, weights in zip(self.networks, moved, strict=True)]
        return torch.as_tensor(_Probe(there, self.runs).codes(as_rows(x, x.device)), device=x.device)

    def carry(self, x: Array, codes: Array) -> Array:
        return x

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def codes(self, x: Tensor) -> NDArray[np.int32]:
        """(n, runs x levels), in blocks of one shape, the last one padded: rows do not depend on each other."""
        out = np.empty((len(x), len(self.sizes)), np.int32)
        size = BLOCKS[torch.device(x.device).type]
        block = x.new_zeros(size, x.shape[1])
        for start in range(0, len(x), size):
            part = x[start : start + size]
            block[: len(part)] = part
            out[start : start + len(part)] = self._block(block)[: len(part)]
        return out

    def _block(self, x: Tensor) -> Any:
        runs = (len(one.weights["codebook.0"]) for one in self.networks)
        codes = [one.codes(x.expand(R, *x.shape)) for one, R in zip(self.networks, runs, strict=True)]  # (R, B, L) each
        return torch.cat(codes).transpose(0, 1).flatten(1).cpu().numpy()
