"""Threads of the libraries that compute: how they wait, and how many multiply matrices.

A thread of OpenBLAS or OpenMP that has nothing to do spins for a while, in case work comes. On cores that others use
too, that takes their time, and ours. The policy is read when a library is loaded, so the command line sets it first of
all (`cli.waiting`); in Python it is up to the caller. The number of threads can be changed at any time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["one_blas_thread"]


@contextmanager
def one_blas_thread(limit: bool = True) -> Iterator[None]:
    """Multiply with one thread inside the block: for many small products, where a second one waits more than it works.

    limit: whether the products are small; if not, nothing is changed. SIDKIT_SPIN=1 changes nothing either.
    """
    if not limit or os.environ.get("SIDKIT_SPIN"):
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield
