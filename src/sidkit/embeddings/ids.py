"""Item ids: strings or integers, none missing, none given twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError

__all__ = ["is_id_type", "require_unique"]


def is_id_type(kind: Any) -> bool:
    """Whether a pyarrow type can be an id: strings and integers, plain or dictionary-encoded."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_integer(kind)) or _is_text(kind)


def require_unique(ids: Any, column: str, place: Callable[[int], str]) -> None:
    """An error naming the first id that is missing or repeated, or nothing.

    place: what a user calls the place of a row number, "row 3 of a.parquet".
    """
    plain = _plain(ids)
    if plain.null_count:
        row = pc.index(pc.is_null(plain), True).as_py()
        raise InputError(f"{place(row)}: {column!r} is null; every row needs an id")
    if _all_different(plain):
        return
    counts = pc.value_counts(plain)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    rows = np.flatnonzero(pc.equal(plain, repeated[0]).to_numpy(zero_copy_only=False))
    more = f" ({len(repeated) - 1} more ids repeat)" if len(repeated) > 1 else ""
    raise InputError(
        f"{column!r} must be different in every row; {repeated[0].as_py()!r} is in "
        f"{place(int(rows[0]))} and in {place(int(rows[1]))}{more}"
    )


def _plain(ids: Any) -> Any:
    """As integers or large strings: a table of 2 GB of strings overflows the smaller type."""
    kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    ids = ids.cast(kind)
    return ids.cast(pa.large_string()) if _is_text(kind) else ids


def _all_different(ids: Any) -> bool:
    if pa.types.is_integer(ids.type):  # sorting numbers is several times faster than hashing them
        ordered = np.sort(ids.to_numpy())
        return not bool((ordered[1:] == ordered[:-1]).any())
    return len(pc.unique(ids)) == len(ids)  # twice as fast as count_distinct


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")
