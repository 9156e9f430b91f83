"""R3-VAE's two measures of a batch grouped by SID prefix, with gradients. Imported by fits only.

`sids.coherence` computes the same measures over a catalogue, without torch.
"""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

from .torch_layers import Tensor

__all__ = ["cohesion", "discrimination", "group_means", "renumber"]


def renumber(group: Tensor, code: Tensor) -> Tensor:
    """The index of the group of each row at the next level: rows of one group with one code, (B,)."""
    pair = torch.stack([group, code], dim=1)
    index: Tensor = torch.unique(pair, dim=0, return_inverse=True)[1]
    return index


def cohesion(v: Tensor, group: Tensor) -> Tensor | None:
    """SC: the mean over groups of the mean cosine over pairs of a group; None where all rows are alone.

    v: (B, e). Pairs are never formed: the cosines of a group add up to (|sum u|^2 - sum |u|^2) / 2, u = v / |v|.
    """
    u = normalize(v, dim=1)
    count, total = _sums(u, group)
    squares = _sums((u * u).sum(dim=1, keepdim=True), group)[1][:, 0]
    several = count >= 2
    if not bool(several.any()):
        return None
    pairs = (count * (count - 1))[several]
    return (((total * total).sum(dim=1) - squares)[several] / pairs).mean()


def group_means(v: Tensor, group: Tensor, most: int) -> Tensor:
    """The mean vector of every group, or of `most` evenly spaced ones: (M, e)."""
    count, total = _sums(v, group)
    means = total / count[:, None]
    if len(means) <= most:
        return means
    return means[torch.linspace(0, len(means) - 1, most, dtype=torch.float64).long().to(v.device)]


def discrimination(p: Tensor, t: float) -> Tensor | None:
    """PD = log of the mean over pairs a < b of exp(-t (1 - cos(p_a, p_b))); None for fewer than two vectors."""
    m = len(p)
    if m < 2:
        return None
    u = normalize(p, dim=1)
    apart = torch.exp(-t * (1.0 - u @ u.T))
    return ((apart.sum() - apart.diagonal().sum()) / (m * (m - 1))).log()


def _sums(v: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """The number of rows of each group, and their sum: (M,), (M, e)."""
    count = torch.bincount(group)
    return count, v.new_zeros(len(count), v.shape[1]).index_add(0, group, v)
