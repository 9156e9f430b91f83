"""Rows on a CUDA device: in its memory, or streamed from the host through pinned buffers where they do not fit.

The methods are those of `seam.Rows`. As on the host, residuals are not stored: each pass carries a share of the rows
through the earlier stages, in one kernel, into a buffer of bounded size (`spare`). Where the buffer is large enough for
all rows, it is filled once for each level instead of once for each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..engine.cuda import engine as cuda
from ..engine.cuda.to_host import later, to_host
from ..progress import Progress, Silent
from .device_source import DeviceSource, Resident, Streamed, require_good_rows
from .digests import digests
from .local import LocalRows
from .seam import Carrier, HasStages, HasTaken, Sums, choose, leading_steps, order_of

__all__ = ["DeviceRows", "Resident", "Streamed", "fused", "on_device", "spare_memory"]

SPARE = 1100 << 20  # bytes of device memory for the rows of one pass, at least
ONCE = 4 * SPARE  # at most, where rows are carried for one use
BESIDE = 48  # bytes for a row while its token is decided, besides the row itself
SHARE = 4  # the part of the memory that is free for them: 1 / SHARE


def spare_memory(device: torch.device | str = "cuda") -> int:
    """Bytes for the rows of one pass: a share of the memory that is free now."""
    return max(SPARE, torch.cuda.mem_get_info(device)[0] // SHARE) if torch.cuda.is_available() else SPARE


@dataclass(frozen=True)
class DeviceRows:
    """Rows of one GPU: a source, the stages they went through, and the codes these gave."""

    source: DeviceSource
    stages: tuple[Carrier, ...] = ()
    tokens: Tensor | None = None  # (width, n) int32, on the device
    spare: int = field(default_factory=spare_memory)
    progress: Progress = field(default_factory=Silent)
    scored_in: set[str] = field(default_factory=set)  # precisions below float32 that passes used
    _filled: dict[torch.dtype, Tensor] = field(default_factory=dict, repr=False)  # all rows carried, where they fit

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    @property
    def width(self) -> int:
        return 0 if self.tokens is None else len(self.tokens)

    def sample(self, n: int, seed: Sequence[int]) -> NDArray[Any]:
        return self.take(choose(self.shape[0], n, seed))

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        return self._take(indices).cpu().numpy()  # type: ignore[no-any-return]

    def take_different(self, indices: NDArray[np.int64]) -> Tensor | None:
        """As `seam.ReducesThere` says, by a digest of each row."""
        x = self._take(indices)
        found = digests(x).sort().values
        return None if bool((found[1:] == found[:-1]).any() | ~x.any(1).all()) else x

    def reduce(self, f: Callable[[Any, Any], Sums], precision: str = "fp32") -> Sums:
        """The sum over chunks of f(x, codes), as arrays on the host.

        precision is what f needs at least: with "fp16" or "bf16", rows of length one are rounded to 16 bits for it;
        with "half", rows of any length that is neither tiny nor huge.
        """
        return tuple(a.cpu().numpy() for a in self.reduce_there(f, precision))

    def reduce_there(self, f: Callable[[Any, Any], Sums], precision: str = "fp32") -> Sums:
        """`reduce`, its result on the device."""
        halves = {"fp16": torch.float16, "bf16": torch.bfloat16}
        coarse = halves.get(precision) if self._plan.unit else None
        if precision == "half":
            coarse = torch.float16 if self._suits_half else None
        if precision != "fp32":
            kinds: dict[Any, str] = {torch.float16: "fp16", torch.bfloat16: "bf16"}
            self.scored_in.add(kinds.get(coarse, "tf32"))
        total: list[Any] = []
        for x, codes in self._chunks(coarse or torch.float32):
            part = f(x, codes)
            total = [a + b for a, b in zip(total, part, strict=True)] if total else list(part)
            self.progress.advance(len(x))
        return tuple(torch.as_tensor(a).to(self.source.device) for a in total)

    def column_sums(self) -> Tensor:
        """As `seam.ReducesThere` says; the rows themselves are not written anywhere."""
        if not self._on_the_way:
            return self.reduce_there(lambda x, codes: (cuda.column_sums(x),))[0]
        total = torch.zeros(self.shape[1], dtype=torch.float64, device=self.source.device)
        for rows in self._uncarried(beside=1):
            total += rows.column_sums()
            self.progress.advance(len(rows.x))
        return total

    def later(self, *numbers: Tensor) -> Callable[[], list[float]]:
        """As `seam.ReducesThere` says."""
        call = later(torch.stack([number.double() for number in numbers]))
        return lambda: call().tolist()

    @cached_property
    def _suits_half(self) -> bool:
        """Whether float16 has the range for these rows: what it rounds to zero is nothing beside their largest."""
        peaks = [torch.linalg.vector_norm(x, float("inf")) for x, _ in self._chunks(torch.float32, keep=False)]
        return bool(peaks) and 2.0**-6 <= float(torch.stack(peaks).max()) <= 2.0**14

    def map(self, stage: Carrier) -> DeviceRows:
        if isinstance(stage, HasStages):  # one by one: each level's pass rebuilds its rows in one kernel
            rows = self
            for part in stage.stages:
                rows = rows.map(part)
            return rows
        codes = self._codes
        if stage.sizes:
            fresh = torch.empty(len(stage.sizes), self.shape[0], dtype=torch.int32, device=self.source.device)
            start = 0
            for tokens in self._tokens(stage):
                fresh[:, start : start + len(tokens)] = tokens.T
                start += len(tokens)
                self.progress.advance(len(tokens))
            codes = torch.cat([codes, fresh])
        self._filled.clear()
        return replace(self, stages=(*self.stages, stage), tokens=codes, _filled={})

    def batches(self, n: int, seed: Sequence[int], order: NDArray[np.int64] | None = None) -> Iterator[Tensor]:
        order = order_of(self.shape[0], seed) if order is None else order
        for start in range(0, len(order), n):
            yield self._take(order[start : start + n])

    def rows_of(self, x: NDArray[Any] | Tensor) -> DeviceRows:
        resident = Resident(torch.as_tensor(x).to(self.source.device, torch.float32).contiguous())
        return DeviceRows(resident, spare=self.spare)

    def has_room(self, size: int) -> bool:
        """As `groups.GathersRows` says."""
        device = self.source.device
        return bool(device.type != "cuda" or 2 * size < torch.cuda.mem_get_info(device)[0])

    def grouped(self, tokens: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Tensor]:
        """As `groups.GathersRows` says."""
        columns = self._codes[-tokens:]
        number = torch.zeros(self.shape[0], dtype=torch.int64, device=self.source.device)
        widths = [size for stage in self.stages for size in stage.sizes][-tokens:]
        if prod(widths) >= 1 << 62:
            keys, number = torch.unique(columns.T.contiguous(), dim=0, return_inverse=True)
            counts, order = torch.bincount(number, minlength=len(keys)), number.argsort(stable=True)
            return keys.cpu().numpy().astype(np.int64), counts.cpu().numpy(), order
        for column, width in zip(columns, widths, strict=True):
            number.mul_(width).add_(column)
        number, order = torch.sort(number, stable=True)
        numbers, counts = (part.cpu().numpy() for part in torch.unique_consecutive(number, return_counts=True))
        keys = np.empty((len(numbers), tokens), np.int64)
        for i in range(tokens - 1, -1, -1):
            numbers, keys[:, i] = np.divmod(numbers, widths[i])
        return keys, counts, order

    def gathered(self, numbers: Tensor | NDArray[np.int64]) -> Tensor:
        numbers = torch.as_tensor(numbers).to(self.source.device)
        codes = self._codes[:, numbers].contiguous()
        raw = self.source.x[numbers] if isinstance(self.source, Resident) else self.source.take(numbers.cpu().numpy())
        return self._carried(raw, codes, 0, torch.float32)

    def on_host(self) -> LocalRows | None:
        """The same rows without tokens where they are kept, if that is the host."""
        if isinstance(self.source, Resident) or self.tokens is not None:
            return None
        return LocalRows(self.source.source, self.stages, cast=self.dtype)  # type: ignore[attr-defined]

    def ran_on(self) -> dict[str, Any]:
        """The device, where the rows were, the precisions of their scores, and the memory used."""
        device = self.source.device
        return {
            "device": torch.cuda.get_device_name(device),
            "rows": "on the card" if isinstance(self.source, Resident) else "streamed from the host",
            "scored_in": sorted(self.scored_in) or ["fp32"],
            "peak_bytes": torch.cuda.max_memory_allocated(device),
        }

    def codes(self) -> NDArray[np.int32]:
        return to_host(self._codes.T.contiguous())

    def prepare(self, work: float) -> None:
        """Triton compiles its kernels as they are called."""

    def _take(self, indices: NDArray[np.int64]) -> Tensor:
        codes = self._codes[:, torch.as_tensor(indices).to(self.source.device)].contiguous()
        return self._carried(self.source.take(indices), codes, 0, torch.float32)

    @property
    def _codes(self) -> Tensor:
        if self.tokens is not None:
            return self.tokens
        return torch.empty(0, self.shape[0], dtype=torch.int32, device=self.source.device)

    def _chunks(self, dtype: torch.dtype, keep: bool = True) -> Iterator[tuple[Tensor, Tensor]]:
        """(rows carried through the stages, their codes (n, width)), a share of the rows at a time.

        keep: there will be more passes, for which the carried rows stay where they fit.
        """
        n, d = self.shape
        codes = self._codes
        wide = d * (self.source.overhead + (8 if dtype == torch.float32 else 2))
        fits = self.spare // wide >= n
        resident = self.source.overhead == 0  # rows that are copied meanwhile come in small shares
        most = SPARE if not resident or (dtype == torch.float32 and keep) else ONCE if not keep else self.spare
        size = max(1, min(self.spare, most) // wide)
        size = -(-n // -(-n // size))  # even shares
        if dtype not in self._filled:
            held = n if fits and keep else size
            yield from self._fresh(dtype, size, torch.empty(held, d, dtype=dtype, device=codes.device), keep and fits)
            return
        for start in range(0, n, size):
            yield self._filled[dtype][start : start + size], codes[:, start : start + size].T

    def _fresh(self, dtype: torch.dtype, size: int, buffer: Tensor, keep: bool) -> Iterator[tuple[Tensor, Tensor]]:
        """As `_chunks`, computed; kept or not, in a buffer of all rows or of one share."""
        codes, start = self._codes, 0
        for raw in self.source.chunks(size):
            rows = slice(start, start + len(raw))
            x = self._carried(raw, codes, start, dtype, buffer[rows] if keep else buffer[: len(raw)])
            yield x, codes[:, rows].T
            start += len(raw)
        if keep:
            self._filled[dtype] = buffer

    def _carried(self, x: Tensor, codes: Tensor, start: int, dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
        done, plan = self._fused
        out = torch.empty(x.shape, dtype=dtype, device=x.device) if out is None else out
        if done == len(self.stages):
            return cuda.carried(x, plan, codes, start, out)
        x = cuda.carried(x, plan, codes, start)
        seen = sum(len(stage.sizes) for stage in self.stages[:done])
        for stage in self.stages[done:]:
            seen += len(stage.sizes)
            x = stage.carry(x, codes[:seen, start : start + len(x)].T)
        return out.copy_(x)

    def _tokens(self, stage: Carrier) -> Iterator[Tensor]:
        """The tokens of a stage (n, their number), a share of the rows at a time."""
        taken = stage.taken if isinstance(stage, HasTaken) else None
        if taken is None or taken.book is None or not self._on_the_way:
            for x, seen in self._chunks(torch.float32, keep=False):
                yield stage.tokens(x, seen)
            return
        book = taken.book(torch.empty(0, self.shape[1], device=self.source.device))
        for rows in self._uncarried(BESIDE):
            yield cuda.nearest_after(rows, book)[:, None]

    @property
    def _on_the_way(self) -> bool:
        """Whether one kernel can carry the rows and use them at once, and they have not been carried yet."""
        return self._fused[0] == len(self.stages) and torch.float32 not in self._filled

    def _uncarried(self, beside: int) -> Iterator[cuda.Uncarried]:
        """All rows, a share at a time, for work that takes so many bytes for a row beside the row itself."""
        (n, d), start = self.shape, 0
        size = max(1, min(self.spare, SPARE) // (d * self.source.overhead + beside))
        for raw in self.source.chunks(-(-n // max(1, -(-n // size)))):
            yield cuda.Uncarried(raw, self._fused[1], self._codes, start)
            start += len(raw)

    @property
    def _plan(self) -> cuda.CarryPlan:
        """The plan for all stages; an empty one where a stage needs more than the kernel."""
        done, plan = self._fused
        return plan if done == len(self.stages) else cuda.CarryPlan()

    @cached_property
    def _fused(self) -> tuple[int, cuda.CarryPlan]:
        return fused(self.stages, torch.empty(0, self.shape[1], device=self.source.device))


def fused(stages: Sequence[Carrier], x: Tensor) -> tuple[int, cuda.CarryPlan]:
    """How many stages, from the first on, one kernel can carry rows like x through, and the plan for it."""
    steps = leading_steps(stages, x, books=False)
    return len(steps), cuda.plan_carry(steps, x)


def on_device(X: Any, device: str = "cuda", spare: int | None = None, progress: Progress | None = None) -> DeviceRows:
    """Rows for the GPU: a CUDA tensor as it is; anything else is copied to the device if it fits, streamed if not."""
    target = torch.device(device)
    current = X.device if isinstance(X, torch.Tensor) and X.is_cuda else target
    if current.index is not None:
        torch.cuda.set_device(current)  # where Triton launches its kernels
    report = progress or Silent()
    if isinstance(X, torch.Tensor):
        resident = Resident(X if X.is_cuda else X.to(target))
        require_good_rows(resident)
        return DeviceRows(resident, spare=spare or spare_memory(current), progress=report)
    streamed = Streamed(X, target)
    n, d = X.shape
    free, _ = torch.cuda.mem_get_info(target)
    if n * d * 4 + 2 * (spare or SPARE) > free:
        return DeviceRows(streamed, spare=spare or spare_memory(target), progress=report)
    x, start = None, 0
    for part in streamed.chunks(max(1, (spare or SPARE) // (d * 8))):
        x = torch.empty(n, d, dtype=part.dtype, device=target) if x is None else x
        x[start : start + len(part)] = part
        start += len(part)
    x = torch.empty(n, d, device=target) if x is None else x
    return DeviceRows(Resident(x), spare=spare or spare_memory(target), progress=report)
