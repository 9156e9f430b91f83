"""Sources of rows for a GPU: rows on the device, or rows on the host that stream to it through pinned memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakValueDictionary, finalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.cuda import engine as cuda
from ..errors import InputError
from .checks import NAMED, complaint, refused
from .sources import ArraySource, Source

__all__ = ["DeviceSource", "Resident", "Streamed", "require_good_rows"]

FLOATS = {np.dtype(np.float16): torch.float16, np.dtype(np.float32): torch.float32}


class DeviceSource(Protocol):
    """Embeddings that are read as chunks on a device."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def overhead(self) -> int:
        """Bytes that each number of a chunk takes on the device in addition, while the chunk is there."""

    def chunks(self, size: int) -> Iterator[Tensor]:
        """All rows in order, `size` at a time, on the device; a chunk is valid until the next one is read."""

    def take(self, indices: NDArray[np.int64]) -> Tensor: ...


@dataclass(frozen=True)
class Resident:
    """Rows in the memory of the device: float32, float16 or bfloat16, never written to."""

    x: Tensor

    def __post_init__(self) -> None:
        if self.x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise InputError(
                f"rows on a GPU must be float32, float16 or bfloat16, not {self.x.dtype}; convert them first"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.x.shape[0], self.x.shape[1]

    @property
    def device(self) -> torch.device:
        return self.x.device

    @property
    def overhead(self) -> int:
        return 0

    def chunks(self, size: int) -> Iterator[Tensor]:
        x = self.x if self.x.is_contiguous() else self.x.contiguous()
        for start in range(0, len(x), size):
            yield x[start : start + size]

    def take(self, indices: NDArray[np.int64]) -> Tensor:
        return self.x[torch.as_tensor(indices).to(self.device)].contiguous()


@dataclass(frozen=True)
class Streamed:
    """Rows on the host, read and copied to the device while the chunk before is being worked on.

    A matrix in memory is copied directly, once the driver has pinned its pages; rows from files go through two pinned
    buffers.
    """

    source: Source
    device: torch.device
    _pinned: list[Any] = field(default_factory=list, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def overhead(self) -> int:
        return 8  # two buffers

    def take(self, indices: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(self.source.take(indices), np.float32)).to(self.device)

    def chunks(self, size: int) -> Iterator[Tensor]:
        size = max(1, min(size, self.shape[0]))
        pages = self._pages()
        parts = self._staged(size) if pages is None else (pages[i : i + size] for i in range(0, len(pages), size))
        dtype = torch.float32 if pages is None else pages.dtype
        buffers = [torch.empty(size, self.shape[1], dtype=dtype, device=self.device) for _ in range(2)]
        copier, worker = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)
        copier.wait_stream(worker)  # the buffers' memory may still be in use
        used: list[Any] = []
        for turn, part in enumerate(parts):
            buffer = buffers[turn % 2][: len(part)]
            with torch.cuda.stream(copier):
                if turn >= 2:
                    copier.wait_event(used[turn - 2])
                buffer.copy_(part, non_blocking=True)
                landed = copier.record_event()
            if pages is None:
                landed.synchronize()  # before the pinned buffer is filled again
            worker.wait_event(landed)
            yield buffer
            used.append(worker.record_event())

    def _staged(self, size: int) -> Iterator[Tensor]:
        """Chunks read into two pinned buffers, the next while the last is copied."""
        buffers = [_pinned(size, self.shape[1]) for _ in range(2)]
        with ThreadPoolExecutor(1) as reader:
            chunks = self.source.chunks(size)
            coming = reader.submit(_read, chunks, buffers[0])
            turn = 0
            while (part := coming.result()) is not None:
                turn += 1
                coming = reader.submit(_read, chunks, buffers[turn % 2])
                yield part

    def _pages(self) -> Tensor | None:
        """The matrix itself, its pages pinned, if it is a contiguous array in memory."""
        array = self.source.array if isinstance(self.source, ArraySource) else None
        if array is None or array.dtype not in FLOATS or isinstance(array, np.memmap):
            return None
        if not (array.flags.c_contiguous and array.flags.writeable and array.size):
            return None
        if not self._pinned:
            self._pinned.append(_pin(array, self.device))
        return torch.from_numpy(array) if self._pinned[0] is not None else None


class _Pin:
    """Pinned pages, released with the last rows that need them."""

    def __init__(self, array: NDArray[Any], runtime: Any) -> None:
        self.array = array
        finalize(self, runtime.cudaHostUnregister, array.ctypes.data).atexit = False


_pins: WeakValueDictionary[tuple[int, int], _Pin] = WeakValueDictionary()  # by address and length


def _pin(array: NDArray[Any], device: torch.device) -> _Pin | None:
    """The array's pages pinned, now or by an earlier call; None if the driver refuses."""
    span = array.ctypes.data, array.nbytes
    pin = _pins.get(span)
    if pin is None:
        runtime = torch.cuda.cudart()
        if int(runtime.cudaHostRegister(*span, 0)) != 0:
            with suppress(RuntimeError):
                torch.zeros(1, device=device)  # the next launch reports the error of this call: here it does no harm
            return None
        pin = _pins[span] = _Pin(array, runtime)
    return pin


def require_good_rows(source: Resident) -> None:
    """The check of `checks.require_good_rows`, on the device."""
    bad: dict[int, Tensor] = {}
    for start, x in zip(range(0, source.shape[0], 1 << 22), source.chunks(1 << 22), strict=True):
        length = cuda.lengths(x)
        rows = torch.nonzero(~(torch.isfinite(length) & (length > 0)))[:, 0].tolist()
        bad |= {start + row: x[row] for row in rows}
    if bad:
        named = [f"row {row} {complaint(x.float().cpu().numpy())}" for row, x in list(bad.items())[:NAMED]]
        raise refused(list(bad), named, source.shape[0])


def _pinned(n: int, d: int) -> Tensor:
    return torch.empty(n, d, dtype=torch.float32, pin_memory=True)


def _read(chunks: Iterator[NDArray[Any]], buffer: Tensor) -> Tensor | None:
    chunk = next(chunks, None)
    if chunk is None:
        return None
    np.copyto(buffer.numpy()[: len(chunk)], chunk, casting="same_kind")
    return buffer[: len(chunk)]
