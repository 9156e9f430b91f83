"""The codebooks of all parents, fitted on a GPU from rows that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...engine.cuda.own import MOST_TOGETHER, families
from ...engine.cuda.to_host import to_host
from ...progress import Progress
from ...rows.groups import GathersRows, ranges
from .device_books import DeviceBooks
from .parent_books import ParentBooks
from .parent_starts import repeated, start_numbers

if TYPE_CHECKING:
    from .per_parent import BooksOfParents

__all__ = ["books_on_device"]

Integers = NDArray[np.int64]


def books_on_device(
    fit: BooksOfParents, rows: GathersRows, tokens: int, common: NDArray[Any], progress: Progress
) -> ParentBooks:
    """As `BooksOfParents` on the host, for all parents: their rows are sorted, gathered and clustered on the device."""
    keys, count, order = rows.grouped(tokens)
    size = fit.level.size
    starts = np.concatenate([[0], np.cumsum(np.minimum(count, size))]).astype(np.int64)
    d = common.shape[1]
    table = torch.empty(int(starts[-1]) + len(common), d, dtype=torch.float32, device=order.device)
    done = 0
    for first, last in ranges(count, MOST_TOGETHER):
        numbers = order[done : (done := done + int(count[first:last].sum()))]
        x = rows.gathered(numbers)
        out = table[int(starts[first]) : int(starts[last])]
        _fit_some(fit, rows, x, count[first:last], first, out)
        progress.advance(len(x))
    table[len(table) - len(common) :] = torch.as_tensor(common).to(table)
    books = ParentBooks(keys, starts, to_host(table[: len(table) - len(common)]), common)
    books.keep_on_device(DeviceBooks.of(keys, starts, table, len(common)))
    return books


def _fit_some(fit: BooksOfParents, rows: Any, x: Any, count: Integers, first: int, out: Any) -> None:
    """Some parents' centroids, put into `out`: the rows themselves of parents with few, the others clustered."""
    size = fit.level.size
    small, lengths = count <= size, np.minimum(count, size)
    if small.all():
        out.copy_(x)
        return

    out[repeated(small, lengths, x)] = x[repeated(small, count, x)]
    large = np.flatnonzero(~small)
    mine = x[repeated(~small, count, x)]
    starts = start_numbers(mine, first + large, count[large], size, fit.salt)
    if count[large].max() > MOST_TOGETHER:  # this parent alone
        fitted = torch.as_tensor(fit.alone(rows.rows_of(mine), mine[starts[0]].cpu().numpy())).to(out)
    else:
        fitted = families(mine, count[large], starts, fit.level.iterations).reshape(-1, x.shape[1])
    out[repeated(~small, lengths, x)] = fitted
