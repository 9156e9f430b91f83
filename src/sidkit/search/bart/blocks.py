"""Which `Blocks` a forward pass takes: Triton kernels for bfloat16 on a GPU, plain torch for everything else."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from .network import PLAIN, Blocks
from .shape import BartShape

__all__ = ["blocks_for"]

WIDTHS = (16, 32, 64, 128)  # of a head


def blocks_for(shape: BartShape, precision: Any, device: Any) -> Blocks:
    """The fastest blocks that compute this shape in this precision on this device."""
    fits = precision == torch.bfloat16 and torch.device(device).type == "cuda" and find_spec("triton") is not None
    if fits and shape.d_model // shape.heads in WIDTHS:
        from .triton.blocks import FUSED

        return FUSED
    return PLAIN
