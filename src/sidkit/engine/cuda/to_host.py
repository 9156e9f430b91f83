"""Results of a GPU on the host: large ones by way of pinned buffers and several threads, others while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..native import threads as cores

__all__ = ["later", "to_host"]

PIECE = 32 << 20  # bytes of a pinned buffer
WORTH_PINNING = 128 << 20  # bytes: pinning takes as long as copying so many
BUFFERS = 4


def to_host(x: Tensor) -> NDArray[Any]:
    """The tensor as an array: the driver fills one pinned buffer while threads empty the others."""
    x = x.contiguous()
    if not x.is_cuda or x.numel() * x.element_size() < WORTH_PINNING:
        return x.cpu().numpy()  # type: ignore[no-any-return]
    flat = x.reshape(-1)
    out = np.empty(x.shape, dtype=torch.empty(0, dtype=x.dtype).numpy().dtype)
    target, step = torch.from_numpy(out).reshape(-1), PIECE // x.element_size()
    buffers = [torch.empty(step, dtype=x.dtype, pin_memory=True) for _ in range(BUFFERS)]
    busy: list[Future[Any] | None] = [None] * BUFFERS
    with ThreadPoolExecutor(min(BUFFERS, cores())) as threads:
        for turn, start in enumerate(range(0, len(flat), step)):
            part = flat[start : start + step]
            last, buffer = busy[turn % BUFFERS], buffers[turn % BUFFERS][: len(part)]
            if last is not None:
                last.result()
            buffer.copy_(part, non_blocking=True)
            landed = torch.cuda.Event()
            landed.record()
            busy[turn % BUFFERS] = threads.submit(_put, target[start : start + step], buffer, landed)
        for one in busy:
            if one is not None:
                one.result()
    return out


def later(x: Tensor) -> Callable[[], NDArray[Any]]:
    """A call that waits for the tensor as it is now, on the host, and for nothing that the device is told after this.

    The array is in pinned memory, for as long as it lives.
    """
    if not x.is_cuda:
        here = x.numpy().copy()
        return lambda: here
    there = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    there.copy_(x, non_blocking=True)
    landed = torch.cuda.Event()
    landed.record(torch.cuda.current_stream(x.device))

    def wait() -> NDArray[Any]:
        landed.synchronize()
        return there.numpy()  # type: ignore[no-any-return]

    return wait


def _put(target: Tensor, buffer: Tensor, landed: Any) -> None:
    landed.synchronize()
    target.numpy()[:] = buffer.numpy()  # releases the interpreter's lock
