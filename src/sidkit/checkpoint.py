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

from .errors import StoreError
from .files import replace_folder

__all__ = ["Checkpoint", "State"]

FORMAT, VERSION = "sidkit-checkpoint", 1
FACTS, ARRAYS = "state.json", "state.safetensors"

State = tuple[dict[str, NDArray[Any]], dict[str, Any]]


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
        data = write_arrays({name: np.array(array, order="C") for name, array in arrays.items()})
        state: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "identity": self.identity,
            "facts": dict(facts),
            "arrays_sha256": hashlib.sha256(data).hexdigest(),
        }
        state["sha256"] = _digest(state)
        with replace_folder(self._place(key)) as folder:
            (folder / ARRAYS).write_bytes(data)
            (folder / FACTS).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        self._last = time.monotonic()

    def load(self, key: str) -> State | None:
        """The arrays and facts saved under this key, or None where nothing was; damage is an error."""
        place = self._place(key)
        if not place.is_dir():
            return None
        try:
            state = json.loads((place / FACTS).read_text(encoding="utf-8"))
            data = (place / ARRAYS).read_bytes()
        except (OSError, ValueError) as error:
            raise StoreError(f"the checkpoint {place} cannot be read ({error}); {_ADVICE}") from error
        if not isinstance(state, dict) or (state.get("format"), state.get("version")) != (FORMAT, VERSION):
            raise StoreError(f"{place} is no checkpoint that this sidkit reads; {_ADVICE}")
        if state.pop("sha256", None) != _digest(state):
            raise StoreError(f"the checkpoint {place} is damaged: {FACTS} fails its SHA-256; {_ADVICE}")
        if state.get("identity") != self.identity:
            raise StoreError(
                f"the checkpoint {place} is of another fit (its spec, seed or data differ); name another folder, "
                "or remove it to start afresh"
            )
        if hashlib.sha256(data).hexdigest() != state.get("arrays_sha256"):
            raise StoreError(f"the checkpoint {place} is damaged: its arrays fail their SHA-256; {_ADVICE}")
        try:
            return read_arrays(data), dict(state["facts"])
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"the checkpoint {place} is damaged: {error}; {_ADVICE}") from error

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


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
