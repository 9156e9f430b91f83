"""Tensors in a .pt file, read as weights only: nothing in it is executed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from warnings import catch_warnings
from zipfile import is_zipfile

import numpy as np

from ...errors import need
from .stored_array import BFLOAT16, Stored

__all__ = ["read_pt"]


def read_pt(path: Path) -> dict[str, Stored]:
    """The tensor of a file, or its dict of tensors (and lists, for ids) by name."""
    torch = need("torch", "torch", f"reading {path.name}")
    zipped = is_zipfile(path)  # older files are not, and cannot be mapped
    with catch_warnings(action="ignore"):  # on a damaged file torch warns before it fails
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
        except UnpicklingError:  # torch advises to run what is in the file
            raise ValueError("it holds more than tensors, or torch did not write it") from None
    if not isinstance(loaded, dict):
        loaded = {"": loaded}
    stored = {}
    for name, value in loaded.items():
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            stored[str(name)] = _tensor(value.detach(), torch)
        elif isinstance(value, list):
            stored[str(name)] = Stored((len(value),), np.dtype(object), "a list", partial(list, value))
    return stored


def _tensor(tensor: Any, torch: Any) -> Stored:
    label = str(tensor.dtype).removeprefix("torch.")
    shape = tuple(int(n) for n in tensor.shape)
    if tensor.dtype == torch.bfloat16:
        return Stored(shape, BFLOAT16, label, lambda: tensor.view(torch.int16).numpy().view(BFLOAT16))
    known = label.startswith(("float", "int", "uint")) and label in np.sctypeDict
    return Stored(shape, np.dtype(label) if known else None, label, tensor.numpy)
