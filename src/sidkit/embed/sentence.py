"""Any sentence-transformers model: a folder, or a name, which is downloaded once and only if that is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import need
from ..files.pretrained import reading
from .encoder import Encoder
from .sentence_folder import folder_of

__all__ = ["Sentence"]

EXTRA = "sentence-transformers"


class Sentence(Encoder):
    """model: its name or folder; d: dimensions to keep, the first of all; device: as torch names it.

    allow_download: a name that is not on this machine may be fetched from a hub.
    """

    kind = "sentence-transformers"

    def __init__(
        self, model: str, d: int | None = None, device: str | None = None, allow_download: bool = False
    ) -> None:
        self.model = str(Path(model).resolve()) if Path(model).is_dir() else model
        self._truncate = d
        self._model = self._load(device, allow_download)
        self.d = self._embed(["width"], query=False).shape[1]

    def _embed(self, texts: list[str], query: bool) -> NDArray[Any]:
        encode = self._model.encode_query if query else self._model.encode_document
        with reading(f"embed with the sentence-transformers model {self.model!r}", "use another model or device"):
            rows: NDArray[Any] = encode(texts, convert_to_numpy=True, show_progress_bar=False)
        return rows

    def _load(self, device: str | None, download: bool) -> Any:
        library = need("sentence_transformers", EXTRA, f"embedding with {self.model}")
        folder = folder_of(self.model, download)
        advice = "give a folder that holds one, a name that can be downloaded, or one of wordllama, tfidf"
        with reading(f"load the sentence-transformers model {self.model!r}", advice):
            model = library.SentenceTransformer(
                str(folder),
                device=device,
                truncate_dim=self._truncate,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
            # Some processors advertise bfloat16 and crash on it; weights may be stored in it.
            return model.float() if model.device.type == "cpu" else model

    @property
    def options(self) -> Mapping[str, Any]:
        return {"model": self.model, "d": self._truncate}

    @classmethod
    def restore(cls, options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Sentence:
        if set(options) != {"model", "d"}:  # what is saved decides nothing else, downloads least of all
            raise ValueError(f"its options are {sorted(options)}")
        return cls(options["model"], options["d"])
