"""Where a job on a GPU spends its time: kernels, copies, and what the host waits for."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd import DeviceType

__all__ = ["busy", "profiled"]


def profiled(job: Callable[[], Any], most: int = 10) -> str:
    """The time by the clock, the time in which the device worked, and the `most` largest parts of both.

    The profiler itself slows the host down, a few percent of a job of many small kernels.
    """
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        start = time.perf_counter()
        job()
        torch.cuda.synchronize()
        took = 1e3 * (time.perf_counter() - start)
    spans: dict[bool, list[tuple[str, float, float]]] = defaultdict(list)
    for event in trace.events() or []:
        name, span = event.name, event.time_range
        spans[event.device_type == DeviceType.CUDA].append((name, span.start / 1e3, span.end / 1e3))
    worked = busy((begin, end) for _, begin, end in spans[True])
    return "\n".join([
        f"{took:.1f} ms by the clock, {worked:.1f} ms of it the device worked",
        "on the device:", *_largest(spans[True], most), "calls of the host:", *_largest(spans[False], most),
    ])  # fmt: skip


def busy(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of these spans of time was on."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _largest(spans: Iterable[tuple[str, float, float]], most: int) -> list[str]:
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, begin, end in spans:
        sums[name][0] += end - begin
        sums[name][1] += 1
    order = sorted(sums.items(), key=lambda item: -item[1][0])[:most]
    return [f"{ms:10.2f} ms {int(count):6d} times  {name[:100]}" for name, (ms, count) in order]
