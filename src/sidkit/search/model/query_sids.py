"""SIDs of queries that nobody typed before: embedded, aligned and encoded as the known ones were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...embed.encoder import Encoder
from ...embed.store import load as load_encoder
from ...errors import SpecError
from ...tokenizer.tokenizer import FittedTokenizer
from ...tokenizer.tokenizer import load as load_tokenizer
from ..align.alignment import Alignment

__all__ = ["QueryEncoder"]

PARTS = ("encoder", "alignment", "tokenizer")


@dataclass(frozen=True, eq=False)
class QueryEncoder:
    """encoder -> alignment -> tokenizer. Without an alignment the tokenizer reads the encoder's vectors."""

    encoder: Encoder
    alignment: Alignment | None
    tokenizer: FittedTokenizer

    def __post_init__(self) -> None:
        inner = self.alignment.query.shape if self.alignment is not None else (self.encoder.d, self.encoder.d)
        if inner != (self.encoder.d, self.tokenizer.d):
            raise SpecError(
                f"the encoder gives {self.encoder.d} dimensions, the alignment turns {inner[0]} into {inner[1]}, and "
                f"the tokenizer reads {self.tokenizer.d}; name those with which the SIDs were made"
            )

    def codes(self, queries: Sequence[str]) -> NDArray[np.int32]:
        """(n, levels), -1 for a query without a word that the encoder knows."""
        rows = self.encoder.embed(queries, query=True)
        if self.alignment is not None:
            rows = self.alignment.queries(rows, queries)
        known = rows.any(axis=1)
        codes = np.full((len(queries), len(self.tokenizer.sizes)), -1, np.int32)
        if known.any():
            codes[known] = self.tokenizer.encode(rows[known], device="cpu")
        return codes

    def save(self, folder: Path) -> None:
        """One folder for each part."""
        folder.mkdir()
        self.encoder.save(folder / "encoder")
        self.tokenizer.save(folder / "tokenizer")
        if self.alignment is not None:
            self.alignment.save(folder / "alignment")

    @classmethod
    def load(cls, folder: Path) -> QueryEncoder:
        alignment = folder / "alignment"
        return cls(
            load_encoder(folder / "encoder"),
            Alignment.load(alignment) if alignment.is_dir() else None,
            load_tokenizer(folder / "tokenizer"),
        )
