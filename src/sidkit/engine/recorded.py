"""A step of a training as a CUDA graph: one call for all of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["recorded"]

Tensor = Any
TRIALS = 3  # steps before the recording: libraries choose kernels and take memory on their first calls


def recorded(step: Callable[[], None], state: Sequence[Tensor], device: Any) -> Callable[[], None]:
    """The step recorded on a CUDA device, as a function that replays it.

    state: all that a step changes; the trial steps before the recording are undone.
    """
    import torch

    saved = [value.detach().clone() for value in state]
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(TRIALS):
            step()
            with torch.no_grad():
                for value, before in zip(state, saved, strict=True):
                    value.copy_(before)
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay  # type: ignore[no-any-return]
