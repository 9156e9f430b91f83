"""Arrays added up among workers that compute together, by torch's gloo: processor to processor, without the driver.

The first member waits for the others at an address, where they learn of each other; sums then go from each to the next.
Sockets are bound to the address that the node has in the cluster, and to no other: 127.0.0.1 where Ray runs here alone.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import need
from .task import LostResult

__all__ = ["GlooExchange", "Meeting"]

PATIENCE = timedelta(seconds=300)  # for a member that says nothing; one whose process ended is noticed at once


class Meeting:
    """Where members learn of each other."""

    def __init__(self, host: str) -> None:
        distributed = _distributed()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family, backlog=1024) as listening:
            self.address = host, int(listening.getsockname()[1])
            self.store = distributed.TCPStore(
                *self.address, is_master=True, timeout=PATIENCE, wait_for_workers=False,
                master_listen_fd=listening.detach(),
            )  # fmt: skip


class GlooExchange:
    """`rows.together.Exchange` of one member of `members`; meeting: the one that it has opened, or its address."""

    def __init__(self, number: int, members: int, host: str, meeting: Meeting | tuple[str, int]) -> None:
        distributed = _distributed()
        with _members_may_be_lost():
            if isinstance(meeting, Meeting):
                store = meeting.store
            else:
                store = distributed.TCPStore(*meeting, is_master=False, timeout=PATIENCE, wait_for_workers=False)
            options = distributed.ProcessGroupGloo._Options()
            options._devices = [distributed.ProcessGroupGloo.create_device(hostname=host)]
            options._timeout = PATIENCE
            self._group = distributed.ProcessGroupGloo(store, number, members, options)

    def add(self, array: NDArray[Any]) -> None:
        import torch

        with _members_may_be_lost():
            self._group.allreduce([torch.from_numpy(np.asarray(array))]).wait()


def _distributed() -> Any:
    need("torch", "torch", "training on several workers")
    import torch.distributed

    return torch.distributed


@contextmanager
def _members_may_be_lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # of gloo and of the store
        raise LostResult(f"a worker was lost, and with it the step of all: {str(error).splitlines()[0]}") from None
