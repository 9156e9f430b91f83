"""An encoder by name."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError, SpecError
from .encoder import Encoder

__all__ = ["choose"]


def choose(
    model: str = "wordllama",
    texts: Sequence[str | None] | None = None,
    d: int | None = None,
    device: str | None = None,
    allow_download: bool = False,
) -> Encoder:
    """wordllama, tfidf (fitted on `texts`), or a sentence-transformers model by name or folder.

    d keeps the first d dimensions, all of them by default. device and allow_download (of a name that is not on
    this machine) are for sentence-transformers only.
    """
    if d is not None and d < 1:
        raise SpecError(f"cannot embed texts in {d} dimensions; ask for at least 1")
    if model == "wordllama":
        from .wordllama import WordLlama

        return WordLlama(d)
    if model == "tfidf":
        from .tfidf import TfIdf

        if texts is None:
            raise InputError("tfidf learns from the texts it will embed; give them")
        return TfIdf.fit(texts, d)
    from .sentence import Sentence

    return Sentence(model, d, device, allow_download)
