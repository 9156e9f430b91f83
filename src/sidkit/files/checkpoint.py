"""The saved states of a long run, so that a killed run resumes and ends as if it had never stopped.

    folder/
      level-1/               one folder per key, replaced in one rename
        state.safetensors    arrays: weights, moments, random states
        state.json           plain facts, the identity of the run, and the SHA-256 of the arrays and of itself

A reader finds the state before a save or the state after it, whenever the writer was killed. Nothing is pickled.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import StoreError
from .folder import Arrays, FolderFormat

__all__ = ["Checkpoint", "State"]

STATE = FolderFormat(
    "sidkit-checkpoint",
    "checkpoint",
    "remove it to start again",
    {"identity": str, "facts": dict},
    "state.json",
    "state.safetensors",
    limit=1 << 26,  # an identity contains the initial rows that a user named
)

# what wrong contents end in
UNFIT = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RuntimeError)

State = tuple[Arrays, dict[str, Any]]


class Checkpoint:
    """A folder of saved states of one run.

    identity   which run: spec, seed and data. The state of another run is refused, never mixed in.
    every      seconds between saves; `due` is true once they have passed. The first save is due after half of them.
    """

    def __init__(self, folder: str | Path, identity: str, every: float = 50.0) -> None:
        self.folder = Path(folder)
        self.identity = identity
        self.every = every
        self._last, self._saved = time.monotonic(), False
        if self.folder.is_file():
            raise StoreError(f"{self.folder} is a file; name a folder for checkpoints")

    def due(self) -> bool:
        """Whether it is time to save again."""
        return self.age() >= (self.every if self._saved else self.every / 2)

    def age(self) -> float:
        """Seconds since the last save, or since the start."""
        return time.monotonic() - self._last

    def save(self, key: str, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Replace the state of this key in one step."""
        STATE.write(self._folder_of(key), {"identity": self.identity, "facts": dict(facts)}, arrays)
        self._last, self._saved = time.monotonic(), True

    def load(self, key: str) -> State | None:
        """The arrays and facts saved under this key, or None if there are none; damage is an error."""
        folder = self._folder_of(key)
        if not folder.is_dir():
            return None
        state, arrays = STATE.read(folder)
        if state["identity"] != self.identity:
            raise StoreError(
                f"the checkpoint {folder} is of another fit (its spec, seed or data differ); name another folder, "
                "or remove it to start again"
            )
        return arrays, state["facts"]

    def facts(self, key: str) -> dict[str, Any] | None:
        """The facts saved under this key, without the arrays; None if there are none."""
        folder = self._folder_of(key)
        facts: dict[str, Any] | None = STATE.read_config(folder)["facts"] if folder.is_dir() else None
        return facts

    @contextmanager
    def using(self, key: str) -> Iterator[None]:
        """For the block that uses what `load` gave: content that does not fit is an error that names the folder.

        Without a saved state, and for errors of a device that is full, the block's own errors remain.
        """
        try:
            yield
        except UNFIT as error:
            if "out of memory" in str(error) or not self._folder_of(key).is_dir():
                raise
            what = f"{type(error).__name__}: {error}"
            raise StoreError(
                f"the checkpoint {self._folder_of(key)} does not fit this run ({what}); {STATE.advice}"
            ) from error

    def _folder_of(self, key: str) -> Path:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", key):
            raise StoreError(f"a checkpoint's key is letters, digits, '.', '_' and '-', not {key!r}")
        return self.folder / key
