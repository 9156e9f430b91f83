"""Work beside other work on a GPU: adding up is bound by memory and scoring by products, so each leaves room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

__all__ = ["Aside"]


class Aside:
    """A second stream of a device, which waits for what it is given; none where there are no streams."""

    def __init__(self, device: torch.device) -> None:
        self.stream = _stream(device) if device.type == "cuda" else None

    @contextmanager
    def of(self, *given: Tensor) -> Iterator[None]:
        """Calls within run on the second stream, after what the first has been told so far; given: what they read."""
        if self.stream is None:
            yield
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        for tensor in given:
            tensor.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            yield

    def join(self, *results: Tensor) -> None:
        """The first stream waits for the second, and may read its results."""
        if self.stream is None:
            return
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        for tensor in results:
            tensor.record_stream(current)


@cache
def _stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device, priority=-1)
