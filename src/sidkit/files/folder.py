"""One folder format: plain facts as JSON, arrays as safetensors, and their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as read_arrays
from safetensors.numpy import save as write_arrays

from ..errors import StoreError
from .atomic import replace_folder

__all__ = ["read_state", "require_array", "write_state"]

VERSION = 1
FACTS, ARRAYS = "state.json", "state.safetensors"


def write_state(
    place: Path,
    kind: str,
    state: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    names: tuple[str, str] = (FACTS, ARRAYS),
) -> None:
    """Plain facts and arrays as a folder of two files with checksums, replaced whole or not at all."""
    data = write_arrays({name: np.array(array, order="C") for name, array in arrays.items()})
    kept = {"format": kind, "version": VERSION, **state, "arrays_sha256": hashlib.sha256(data).hexdigest()}
    kept["sha256"] = _digest(kept)
    with replace_folder(place) as folder:
        (folder / names[1]).write_bytes(data)
        (folder / names[0]).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def read_state(
    place: Path, kind: str, noun: str, advice: str, names: tuple[str, str] = (FACTS, ARRAYS)
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What `write_state` wrote, checked; damage is an error that calls it by its noun and ends with the advice."""
    try:
        state = json.loads((place / names[0]).read_text(encoding="utf-8"))
        data = (place / names[1]).read_bytes()
    except (OSError, ValueError) as error:
        raise StoreError(f"the {noun} {place} cannot be read ({error}); {advice}") from error
    if not isinstance(state, dict) or (state.get("format"), state.get("version")) != (kind, VERSION):
        raise StoreError(f"{place} is no {noun} that this sidkit reads; {advice}")
    if state.pop("sha256", None) != _digest(state):
        raise StoreError(f"the {noun} {place} is damaged: {names[0]} fails its SHA-256; {advice}")
    if hashlib.sha256(data).hexdigest() != state.get("arrays_sha256"):
        raise StoreError(f"the {noun} {place} is damaged: its arrays fail their SHA-256; {advice}")
    try:
        return state, read_arrays(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"the {noun} {place} is damaged: {error}; {advice}") from error


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def require_array(arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """The stored array of that name, if it is there, of that shape (None: any length) and finite."""
    if name not in arrays:
        raise StoreError(f"the weights hold no tensor {name!r} (found: {', '.join(sorted(arrays)) or 'none'})")
    a = arrays[name]
    if len(a.shape) != len(shape) or any(want not in (None, got) for got, want in zip(a.shape, shape, strict=True)):
        wanted = "(" + ", ".join("*" if n is None else str(n) for n in shape) + ")"
        raise StoreError(f"tensor {name!r} has shape {a.shape}, expected {wanted}")
    if a.dtype.kind == "f" and not np.isfinite(a).all():
        raise StoreError(f"tensor {name!r} holds NaN or infinity")
    return a
