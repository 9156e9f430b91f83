"""The codebooks of all parents on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...engine.arrays import like
from ...engine.cuda.own import half_squares, nearest_of_table
from .parent_index import ParentIndex

__all__ = ["DeviceBooks"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DeviceBooks:
    """As `ParentBooks`: one table of all centroids, the common ones last, and where every parent's begin."""

    keys: Integers
    index: ParentIndex
    numbers: Tensor | None  # of `index`, on the device
    lookup: Tensor | None
    first: Tensor  # (P + 1,) int64; the last is where the common ones begin
    count: Tensor  # (P + 1,)
    table: Tensor  # (M + K, d) float32
    half: Tensor  # (M + K,) float64, |c|^2 / 2

    @classmethod
    def of(cls, keys: Integers, starts: Integers, table: Tensor, common: int) -> DeviceBooks:
        """Of parents (P, tokens), where their centroids start (P + 1,), and the table, the last `common` for all."""
        index, put = ParentIndex.of(keys), table.device
        numbers, lookup = (None if a is None else torch.as_tensor(a).to(put) for a in (index.numbers, index.table))
        count = np.append(np.diff(starts), common)
        first, sizes = (torch.as_tensor(a).to(put) for a in (starts, count))
        return cls(keys, index, numbers, lookup, first, sizes, table, half_squares(table))

    def assign(self, x: Tensor, codes: Tensor) -> Tensor:
        parents = self._parents(codes)
        return nearest_of_table(x, self.table, self.half, self.first[parents], self.count[parents])

    def chosen(self, x: Tensor, codes: Tensor) -> Tensor:
        parents = self._parents(codes[:, :-1])
        code = torch.minimum(codes[:, -1].long(), self.count[parents] - 1)  # codes may be of others
        return self.table[self.first[parents] + code].to(x.dtype)

    def _parents(self, codes: Tensor) -> Tensor:
        """The index of each row's parent; the number of parents if the fit did not have it: (n,)."""
        codes = codes[:, -self.keys.shape[1] :]
        if self.numbers is None:
            found = like(self.index.find(self.keys, codes.cpu().numpy()), codes.long())
            return torch.where(found < 0, len(self.keys), found)
        inside = torch.ones(len(codes), dtype=torch.bool, device=codes.device)
        number = torch.zeros(len(codes), dtype=torch.int64, device=codes.device)
        for column, width in enumerate(self.index.widths.tolist()):
            token = codes[:, column]
            inside &= (token >= 0) & (token < width)
            number = number * width + token.clamp(0, width - 1)
        if self.lookup is not None:
            found = self.lookup[number].long()
            return torch.where(inside & (found >= 0), found, len(self.keys))
        found = torch.searchsorted(self.numbers, number).clamp(max=len(self.keys) - 1)
        return torch.where(inside & (self.numbers[found] == number), found, len(self.keys))
