"""Averaged token vectors of WordLlama (MIT licence), whose weights are part of its package: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError, SpecError, need
from .encoder import Encoder

__all__ = ["WordLlama"]

WIDTH = 256
WEIGHTS, TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"


class WordLlama(Encoder):
    """The sum of the vectors of a text's tokens. They were trained so that their first d entries can be used alone."""

    kind = "wordllama"

    def __init__(self, d: int | None = None) -> None:
        self.d = d or WIDTH
        if self.d > WIDTH:
            raise SpecError(f"wordllama has {WIDTH} dimensions, not {d}")
        self._home = _home()

    def _embed(self, texts: list[str], query: bool) -> NDArray[Any]:
        from scipy import sparse

        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        ends = np.cumsum([0, *map(len, tokens)])
        columns = np.fromiter((token for row in tokens for token in row), np.int64, ends[-1])
        shape = (len(texts), len(self._vectors))
        picked = sparse.csr_matrix((np.ones(len(columns), np.float32), columns, ends), shape=shape)
        rows: NDArray[Any] = picked @ self._vectors
        return rows

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        from safetensors.numpy import load_file

        (vectors,) = load_file(self._home / WEIGHTS).values()
        return np.ascontiguousarray(vectors[:, : self.d], np.float32)

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizers = need("tokenizers", "embed", "embedding with wordllama")
        tokenizer = tokenizers.Tokenizer.from_file(str(self._home / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @property
    def options(self) -> Mapping[str, Any]:
        return {"d": self.d}

    @classmethod
    def restore(cls, options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> WordLlama:
        return cls(**options)


def _home() -> Path:
    """The folder of the package, which is not imported: that would configure the logging of the process."""
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            "embedding with wordllama needs the 'embed' extra: pip install 'sidkit[embed]'; --model tfidf needs nothing"
        )
    return Path(spec.origin).parent
