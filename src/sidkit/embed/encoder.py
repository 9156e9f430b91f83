"""The interface of every encoder, and the folder that it is saved as."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files.folder import FolderFormat
from ..files.hub import HubFolder
from ..geometry import unit

__all__ = ["FORMAT", "PROBE", "Encoder"]

FORMAT = FolderFormat("sidkit-encoder", "encoder", "embed the items again", {"kind": str, "options": dict})
PROBE = "red shoes for women, size 7; ein rotes Haus; 红色鞋子"  # saved with its row, to be embedded again on loading


class Encoder(HubFolder, ABC):
    """Texts to rows of length one. A text without known words gets a row of zeros, as does None.

    d         dimensions of the rows
    options   plain values; options and arrays are all that `restore` needs
    arrays    what was fitted, if anything
    """

    kind: ClassVar[str]
    reader: ClassVar[Callable[[Path], Any]]  # `store.load`, which knows every kind
    d: int

    def embed(self, texts: Sequence[str | None], query: bool = False) -> NDArray[np.float32]:
        """(n, d) float32. query: the texts are queries, for models that treat these differently from items."""
        if isinstance(texts, str):
            raise InputError("texts must be a list of strings, not one string; put it in a list")
        filled = [text or "" for text in texts]
        rows = self._embed(filled, query) if filled else np.zeros((0, self.d))
        has_text = np.array([bool(text.strip()) for text in filled], bool)
        embedded: NDArray[np.float32] = unit(rows * has_text[:, None]).astype(np.float32)
        return embedded

    @abstractmethod
    def _embed(self, texts: list[str], query: bool) -> NDArray[Any]:
        """Rows of any length, (n, d)."""

    @property
    @abstractmethod
    def options(self) -> Mapping[str, Any]:
        """Plain values that `restore` takes."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return {}

    @classmethod
    @abstractmethod
    def restore(cls, options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Encoder:
        """The encoder that had these options and arrays."""

    def save(self, path: str | Path) -> Path:
        """Write the encoder as a folder, in one step."""
        facts = {"kind": self.kind, "options": dict(self.options)}
        arrays = {**self.arrays, "probe": self.embed([PROBE])}
        FORMAT.write(Path(path), facts, arrays)
        return Path(path)

    @classmethod
    def _read(cls, folder: Path, **options: Any) -> Any:
        return cls.reader(folder)

    def _card(self, name: str) -> str:
        options = "".join(f"| {key} | {value} |\n" for key, value in self.options.items() if type(value) in (str, int))
        return (
            f"# {name}\n\nAn encoder of texts for semantic IDs, made with sidkit.\n\n| | |\n|---|---|\n"
            f"| kind | {self.kind} |\n| output | {self.d}-dimensional |\n{options}\n```python\n"
            'from sidkit.embed import Encoder\n\nencoder = Encoder.from_pretrained("path/to/this/folder")\n```\n'
        )
