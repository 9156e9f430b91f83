"""Parts of any length cut into chunks of one length, and read ahead of the computation."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_ahead", "rechunked"]

Item = TypeVar("Item")


def rechunked(parts: Iterable[NDArray[Any]], size: int) -> Iterator[NDArray[Any]]:
    """The rows of all parts in order, `size` at a time. Rows are copied only where a chunk spans two parts."""
    waiting: list[NDArray[Any]] = []
    missing = size
    for part in parts:
        while len(part) >= missing:
            yield _joined([*waiting, part[:missing]])
            part, waiting, missing = part[missing:], [], size
        if len(part):
            waiting.append(part)
            missing -= len(part)
    if waiting:
        yield _joined(waiting)


def read_ahead(items: Generator[Item, None, None], depth: int = 2) -> Generator[Item, None, None]:
    """The items, `depth` of which are made ahead in a thread.

    Errors in the thread are raised here. A consumer that stops early closes this generator, which ends the thread.
    """
    waiting: deque[Future[Item | None]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="sidkit-read")
    try:
        waiting.extend(pool.submit(next, items, None) for _ in range(depth))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, items, None))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
        items.close()


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
