"""Where a long fit leaves off, so that a killed run resumes and ends as if it had never stopped.

    folder/
      level-1/               one folder per key, replaced whole in one rename
        state.safetensors    arrays: weights, moments, random states
        state.json           plain facts, whose fit it is, and the SHA-256 of the arrays and of itself

A reader finds the state before a save or the state after it, whenever the writer was killed. Nothing is pickled.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import StoreError
from .folder import ARRAYS, FACTS, read_state, write_state

__all__ = ["Checkpoint", "State", "unfinished"]

FORMAT = "sidkit-checkpoint"

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
