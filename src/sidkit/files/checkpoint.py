"""Where a long fit leaves off, so that a killed run resumes and ends as if it had never stopped.

    folder/
      level-1/               one folder per key, replaced whole in one rename
        state.safetensors    arrays: weights, moments, random states
        state.json           plain facts, whose fit it is, and the SHA-256 of the arrays and of itself

A reader finds the state before a save or the state after it, whenever the writer was killed. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
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

__all__ = ["Checkpoint", "State", "unfinished"]

FORMAT, VERSION = "sidkit-checkpoint", 1
FACTS, ARRAYS = "state.json", "state.safetensors"

State = tuple[dict[str, NDArray[Any]], dict[str, Any]]


def unfinished(output: Any) -> Path:
    """The folder for what a stopped run leaves beside its output, or here where that is on another machine."""
    return (output.parent if isinstance(output, Path) else Path()) / f"{output.name}.unfinished"


class Checkpoint:
    """A folder of saved states of one fit.

    identity   says which fit: spec, seed and data. A state of another fit is refused, never mixed in.
    every      seconds between saves; `due` tells whether they have passed.
    """

    def __init__(self, folder: str | Path, identity: str, every: float = 60.0) -> None:
        self.folder = Path(folder)
        self.identity = identity
        self.every = every
        self._last = time.monotonic()
        if self.folder.is_file():
            raise StoreError(f"{self.folder} is a file; name a folder for checkpoints")

    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self._last >= self.every

    def save(self, key: str, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Replace the state of this key, whole or not at all."""
        write_state(self._place(key), FORMAT, {"identity": self.identity, "facts": dict(facts)}, arrays)
        self._last = time.monotonic()

    def load(self, key: str) -> State | None:
        """The arrays and facts saved under this key, or None where nothing was; damage is an error."""
        place = self._place(key)
        if not place.is_dir():
            return None
        state, arrays = read_state(place, FORMAT, "checkpoint", _ADVICE)
        if state.get("identity") != self.identity:
            raise StoreError(
                f"the checkpoint {place} is of another fit (its spec, seed or data differ); name another folder, "
                "or remove it to start afresh"
            )
        return arrays, dict(state["facts"])

    def clear(self) -> None:
        """Remove every saved state, and the folder if nothing else is in it."""
        if not self.folder.is_dir():
            return
        for place in [p for p in self.folder.iterdir() if p.is_dir() and not p.is_symlink()]:
            inside = {p.name for p in place.iterdir()}
            if inside and inside <= {FACTS, ARRAYS}:
                shutil.rmtree(place)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _place(self, key: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", key):
            raise StoreError(f"a checkpoint's key is letters, digits, '.', '_' and '-', not {key!r}")
        return self.folder / key


_ADVICE = "remove it to start afresh"


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
