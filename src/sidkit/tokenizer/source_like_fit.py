"""What a tokenizer encodes: opened with the columns of its fit, and with the ids of its rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.embeddings import open_embeddings
from ..data.formats.arrays import READERS
from ..data.formats.parquet_file import parquet_columns
from ..data.frames import frame_columns, has_columns, is_frame
from ..data.inputs import as_source
from ..data.listing import files_of
from ..data.source import HasIds, id_name_of, paths_of
from ..rows.seam import Rows
from ..rows.sources import Source
from ..sids.origin import Origin

__all__ = ["ids_and_origin", "source_like_fit"]


def source_like_fit(columns: Mapping[str, Any], X: Any, id_column: str | None, column: str | None) -> Source | Rows:
    """A path or a frame with the columns named; else those that the fit read, if there are columns of these names."""
    if isinstance(X, Rows | Source):
        return X
    if not isinstance(X, str | os.PathLike) and not is_frame(X):
        return as_source(X)
    if has_columns(X) or not is_frame(X):
        fit = columns.get("items", {})
        present = _names(X) if fit.get("id") or fit.get("vectors") else ()
        remembered = {role: name for role, name in fit.items() if name in present}
        return open_embeddings(X, id_column or remembered.get("id"), column or remembered.get("vectors"))
    return open_embeddings(X)


def _names(X: Any) -> tuple[str, ...]:
    if is_frame(X):
        return tuple(frame_columns(X))
    first = files_of(X)[0]
    return () if first.suffix.lower() in READERS else tuple(parquet_columns(first).types)


def ids_and_origin(source: Any, digest: str) -> tuple[Any, Origin]:
    """The ids of the rows, or their numbers; and the note on what the SIDs are made from."""
    files = paths_of(source)
    origin = Origin(id_name_of(source), "", digest, str(files[0]) if len(files) == 1 else "")
    return source.ids if isinstance(source, HasIds) else np.arange(source.shape[0]), origin
