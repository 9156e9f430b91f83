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
    """A second stream of a device, which waits for what it is given; none where there are no streams.

    What it reads is held until the first stream has waited for it, so that memory is used again in the order of the
    calls, however far the host is ahead.
    """

    def __init__(self, device: torch.device) -> None:
        self.stream = _stream(device) if device.type == "cuda" else None
        self._held: tuple[Tensor, ...] = ()

    @contextmanager
    def of(self, *given: Tensor) -> Iterator[None]:
        """Calls within run on the second stream, after what the first has been told so far; given: what they read.

        What the first is told afterwards waits for the calls before these.
        """
        if self.stream is None:
            yield
            return
        torch.cuda.current_stream().wait_stream(self.stream)
        self.stream.wait_stream(torch.cuda.current_stream())
        self._held = given
        with torch.cuda.stream(self.stream):
            yield

    def join(self, *results: Tensor) -> None:
        """The first stream waits for the second, and may read its results."""
        if self.stream is None:
            return
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        self._held = ()
        for tensor in results:
            tensor.record_stream(current)


@cache
def _stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device, priority=-1)
