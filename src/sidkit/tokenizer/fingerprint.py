"""Digests of rows and of the files they come from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..data.joint import Joint
from ..data.source import paths_of
from ..rows.seam import CHUNK
from ..rows.sources import Source, Wrapped
from .spec import essence

if TYPE_CHECKING:
    from ..rows.seam import Rows
    from ..stages.stage import Fitted

__all__ = [
    "DIGEST_ROWS",
    "content_digest",
    "embeddings_digest",
    "fingerprint",
    "fingerprint_of",
    "spaced_rows",
    "tokenizer_digest",
]


FINGERPRINT_ROWS = 1024
DIGEST_ROWS = 16


@runtime_checkable
class HasIdentity(Protocol):
    """A source that changes the rows of another, and can identify how."""

    @property
    def identity(self) -> bytes:
        """A digest that must be unchanged for a run to resume."""


def fingerprint(rows: Rows, count: int = FINGERPRINT_ROWS) -> str:
    """SHA-256 of the shape and of evenly spaced rows: identifies data without reading all of it."""
    return fingerprint_of(spaced_rows(rows, count), rows.shape)


def spaced_rows(rows: Rows, count: int) -> NDArray[Any]:
    """Evenly spaced rows, `count` of them or all."""
    n = rows.shape[0]
    return np.asarray(rows.take(np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))))


def fingerprint_of(sample: NDArray[Any], shape: tuple[int, int]) -> str:
    """The fingerprint of rows of this shape, from their spaced rows."""
    n, d = shape
    return hashlib.sha256(f"{n}x{d}".encode() + np.ascontiguousarray(sample, "<f8").tobytes()).hexdigest()


def embeddings_digest(sample: NDArray[Any], shape: tuple[int, int]) -> str:
    """1000x64:3f… of embeddings, from DIGEST_ROWS spaced rows; the same for every type that they may be stored in."""
    digest = hashlib.sha256(np.ascontiguousarray(sample, "<f4").tobytes()).hexdigest()
    return f"{shape[0]}x{shape[1]}:{digest[:16]}"


def tokenizer_digest(stages: Sequence[Fitted], spec: Any, dtype: str) -> str:
    """16 digits that identify a fitted tokenizer: of its spec, its numbers and what it computes in."""
    digest = hashlib.sha256(json.dumps([essence(spec), dtype]).encode())
    for stage in stages:
        for name, array in sorted(stage.arrays.items()):
            digest.update(f"{name}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def content_digest(X: Any) -> str:
    """SHA-256 of what must be unchanged for a run to resume, besides the fingerprint: names, sizes and times of files,
    or every number of rows in memory. Rows on another device or machine add nothing."""
    digest = hashlib.sha256()
    while isinstance(X, Wrapped):
        digest.update(X.identity if isinstance(X, HasIdentity) else b"")
        X = X.source
    if isinstance(X, Joint):
        for part in X.sources:
            digest.update(content_digest(part).encode())
    elif paths := paths_of(X):
        for path in paths:
            status = path.stat()
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime}\0".encode())
    elif isinstance(X, Source):
        for x in X.chunks(CHUNK):
            digest.update(np.ascontiguousarray(x).tobytes())
    return digest.hexdigest()
