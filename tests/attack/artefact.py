"""What the artefacts of the attacks share: what one is, and small data to make them of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["ROWS", "SIZES", "Artefact", "digest_of", "table_of"]

ROWS = np.random.default_rng(1).normal(size=(60, 8)).astype(np.float32)
SIZES = (6, 4, 3)


@dataclass(frozen=True)
class Artefact:
    """make(folder) writes it below a folder; use(folder) reads it there and gives what it answers.

    checked: whether sidkit writes digests into it, so that damage must be an error.
    """

    make: Callable[[Path], None]
    use: Callable[[Path], Any]
    checked: bool = True


def digest_of(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        plain = np.asarray(array)
        digest.update(str(plain.dtype).encode() + str(plain.shape).encode() + np.ascontiguousarray(plain).tobytes())
    return digest.hexdigest()


def table_of() -> Any:
    from sidkit import SidTable

    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, len(ROWS)) for size in SIZES], 1)
    return SidTable([f"P{i} é" for i in range(len(ROWS))], codes, SIZES)
