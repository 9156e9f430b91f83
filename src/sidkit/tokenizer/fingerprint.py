"""Digests of rows and of the files they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from ..files.address import Location
from ..rows.seam import CHUNK
from ..rows.sources import Source, Wrapped

if TYPE_CHECKING:
    from ..rows.seam import Rows

__all__ = ["content_digest", "fingerprint"]


FINGERPRINT_ROWS = 1024


@runtime_checkable
class HasPaths(Protocol):
    """A source that reads files."""

    @property
    def paths(self) -> Sequence[Location]: ...


def fingerprint(rows: Rows, count: int = FINGERPRINT_ROWS) -> str:
    """SHA-256 of the shape and of evenly spaced rows: identifies data without reading all of it."""
    n, d = rows.shape
    numbers = np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))
    sample = np.ascontiguousarray(rows.take(numbers), dtype="<f8")
    return hashlib.sha256(f"{n}x{d}".encode() + sample.tobytes()).hexdigest()


def content_digest(X: Any) -> str:
    """SHA-256 of what must be unchanged for a run to resume, besides the fingerprint: names, sizes and times of files,
    or every number of rows in memory. Rows on another device or machine add nothing."""
    digest = hashlib.sha256()
    while isinstance(X, Wrapped):
        digest.update(getattr(X, "identity", b""))
        X = X.source
    for part in getattr(X, "sources", ()):
        digest.update(content_digest(part).encode())
    if isinstance(X, HasPaths) and X.paths:
        for path in X.paths:
            status = path.stat()
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime}\0".encode())
    elif isinstance(X, Source) and not hasattr(X, "sources"):
        for x in X.chunks(CHUNK):
            digest.update(np.ascontiguousarray(x).tobytes())
    return digest.hexdigest()
