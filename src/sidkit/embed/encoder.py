"""What every encoder offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..geometry import unit

__all__ = ["Encoder"]


class Encoder(ABC):
    """Texts to rows of length one. A text of which nothing is known gets a row of zeros, as does None.

    d         width of the rows
    options   plain values that, with the arrays, bring it back
    arrays    what was fitted, if anything
    """

    kind: ClassVar[str]
    d: int

    def embed(self, texts: Sequence[str | None], query: bool = False) -> NDArray[np.float32]:
        """(n, d) float32. query: the texts are questions, for models that treat those differently."""
        if isinstance(texts, str):
            raise InputError("texts must be a list of strings, not one string; put it in a list")
        given = [text or "" for text in texts]
        rows = self._embed(given, query) if given else np.zeros((0, self.d))
        something = np.array([bool(text.strip()) for text in given], bool)
        embedded: NDArray[np.float32] = unit(rows * something[:, None]).astype(np.float32)
        return embedded

    @abstractmethod
    def _embed(self, texts: list[str], query: bool) -> NDArray[Any]:
        """Rows of any length, (n, d)."""

    @property
    @abstractmethod
    def options(self) -> Mapping[str, Any]: ...

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {}

    @classmethod
    @abstractmethod
    def restore(cls, options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Encoder: ...

    def save(self, path: str | Path) -> Path:
        """Write the encoder as a folder, whole or not at all."""
        from .store import save

        return save(self, Path(path))
