"""R3-VAE's two measures of a batch grouped by SID prefix, with gradients. Imported by fits only.

`sids.coherence` computes the same measures over a catalogue, without torch. Here shapes do not depend on values, so
that a step can be recorded: there are as many places for groups as a batch can have, and those left over count for
nothing. Every function works on all runs of a stack, (R, ...); a measure is given with whether it has a value.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn.functional import normalize

from .dense import dense
from .torch_layers import Tensor

__all__ = ["Groups", "cohesion", "discrimination", "group_means", "mean_over_levels", "renumber"]


class Groups(NamedTuple):
    """The rows of a batch by group."""

    index: Tensor  # (R, B): the group of each row, numbered from 0
    count: Tensor  # (R, places): rows of each group, 0 where there is none

    @property
    def number(self) -> Tensor:
        """How many groups there are: (R,)."""
        return (self.count > 0).sum(dim=1)


def renumber(index: Tensor, code: Tensor, size: int, places: int) -> Groups:
    """The groups at the next level: rows of one group with one code (below size), in the order of group, then code."""
    key, order = (index * size + code).sort(dim=1, stable=True)
    rank = (key[:, 1:] != key[:, :-1]).cumsum(dim=1)
    index = torch.zeros_like(index).scatter_(1, order[:, 1:], rank)
    count = index.new_zeros(len(index), places).scatter_add_(1, index, torch.ones_like(index))
    return Groups(index, count)


def cohesion(v: Tensor, groups: Groups) -> tuple[Tensor, Tensor]:
    """SC: the mean over groups of the mean cosine over pairs of a group; without a value where all rows are alone.

    v: (R, B, e). Pairs are never formed: the cosines of a group add up to (|sum u|^2 - sum |u|^2) / 2, u = v / |v|.
    """
    u = normalize(v, dim=2)
    total = _sums(u, groups)
    squares = _sums((u * u).sum(dim=2, keepdim=True), groups)[:, :, 0]
    several = groups.count >= 2
    pairs = torch.where(several, groups.count * (groups.count - 1), 1)
    cosines = torch.where(several, (total * total).sum(dim=2) - squares, 0.0) / pairs
    number = several.sum(dim=1)
    return cosines.sum(dim=1) / number.clamp(min=1), number > 0


def group_means(v: Tensor, groups: Groups, most: int) -> tuple[Tensor, Tensor]:
    """The mean vector of every group, or of `most` evenly spaced ones, and which of them exist: (R, M, e), (R, M)."""
    means = _sums(v, groups) / groups.count.clamp(min=1)[:, :, None]
    places = means.shape[1]
    at = torch.arange(min(most, places), device=v.device)[None]
    number = groups.number[:, None]
    if places > most:  # there may be more groups than are taken
        step = (number - 1).double() / (most - 1)  # as torch.linspace, from both ends
        spaced = torch.where(at < most // 2, step * at, (number - 1) - step * (most - 1 - at)).long()
        at = torch.where(number > most, spaced, at)
    taken = means.gather(1, at.expand(len(v), -1)[:, :, None].expand(-1, -1, v.shape[2]))
    return taken, at < number


def discrimination(p: Tensor, exists: Tensor, t: float) -> tuple[Tensor, Tensor]:
    """PD = log of the mean over pairs a < b of exp(-t (1 - cos(p_a, p_b))); without a value for fewer than two."""
    u = normalize(p, dim=2)
    apart = torch.exp(-t * (1.0 - dense(u, u)))
    real = exists[:, :, None] & exists[:, None] & ~torch.eye(p.shape[1], dtype=torch.bool, device=p.device)
    m = exists.sum(dim=1)
    mean = torch.where(real, apart, 0.0).sum(dim=(1, 2)) / (m * (m - 1)).clamp(min=1)
    return torch.where(m >= 2, mean, 1.0).log(), m >= 2


def mean_over_levels(by_level: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The mean over the levels that have a value, (R,); zero where none has."""
    values, known = (torch.stack(parts) for parts in zip(*by_level, strict=True))
    return torch.where(known, values, 0.0).sum(dim=0) / known.sum(dim=0).clamp(min=1)


def _sums(v: Tensor, groups: Groups) -> Tensor:
    """The sum of the rows of each group: (R, places, e)."""
    runs, places = groups.count.shape
    index = groups.index + places * torch.arange(runs, device=v.device)[:, None]
    zeros = v.new_zeros(runs * places, v.shape[2])
    return zeros.index_add(0, index.reshape(-1), v.reshape(-1, v.shape[2])).view(runs, places, -1)
