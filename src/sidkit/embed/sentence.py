"""Any sentence-transformers model: a folder, or a name, which is downloaded once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import InputError, need
from .encoder import Encoder

__all__ = ["Sentence"]

EXTRA = "sentence-transformers"


class Sentence(Encoder):
    """model: its name or folder; d: dimensions to keep, the first of all; device: as torch names it."""

    kind = "sentence-transformers"

    def __init__(self, model: str, d: int | None = None, device: str | None = None) -> None:
        self.model = str(Path(model).resolve()) if Path(model).is_dir() else model
        self._truncate = d
        self._model = self._load(device)
        self.d = self._embed(["width"], query=False).shape[1]

    def _embed(self, texts: list[str], query: bool) -> NDArray[Any]:
        encode = self._model.encode_query if query else self._model.encode_document
        rows: NDArray[Any] = encode(texts, convert_to_numpy=True, show_progress_bar=False)
        return rows

    def _load(self, device: str | None) -> Any:
        library = need("sentence_transformers", EXTRA, f"embedding with {self.model}")
        try:
            model = library.SentenceTransformer(self.model, device=device, truncate_dim=self._truncate)
            # Some processors advertise bfloat16 and crash on it; weights may be stored in it.
            return model.float() if model.device.type == "cpu" else model
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).strip().split("\n")[0][:200]
            raise InputError(
                f"cannot load the sentence-transformers model {self.model!r} ({reason}); give a folder that holds one, "
                "a name that can be downloaded, or one of wordllama, tfidf"
            ) from error

    @property
    def options(self) -> Mapping[str, Any]:
        return {"model": self.model, "d": self._truncate}

    @classmethod
    def restore(cls, options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Sentence:
        return cls(**options)
