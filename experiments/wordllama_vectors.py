"""Vectors that anyone can remake: a file's texts embedded as `sidkit embed --text text` does it, kept in a cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sidkit.embed.wordllama import WordLlama
from sidkit.files.atomic import replace_file


def vectors(file: Path, cache: Path) -> np.ndarray:
    """The vectors of the column `text`, (n, 256): rows of length one, or zero where WordLlama knows no token."""
    kept = cache / f"{file.parent.name}-{file.stem}.npy"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with replace_file(kept) as temporary, temporary.open("wb") as out:
            np.save(out, embedded(file))
    return np.load(kept)


def embedded(file: Path) -> np.ndarray:
    return WordLlama().embed(pq.read_table(file)["text"].to_pylist(), query=file.stem == "queries")
