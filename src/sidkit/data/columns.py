"""Which column, or array, holds the vectors, and which the ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from shlex import quote

from ..errors import InputError

__all__ = ["EMBEDDING_NAMES", "ID_NAMES", "choose_name", "no_such"]

EMBEDDING_NAMES = ("embedding", "emb", "vector", "embeddings")
ID_NAMES = ("item_id", "id", "pid", "query_id", "item", "ids")


def choose_name(wanted: str | None, usual: Sequence[str], fits: Mapping[str, bool]) -> str | None:
    """The wanted name; else a usual one, preferably one whose type fits; None where there is neither.

    fits: for every column or array, whether its type fits.
    """
    if wanted is not None:
        return wanted if wanted in fits else None
    present = [name for name in usual if name in fits]
    return next((name for name in present if fits[name]), present[0] if present else None)


def no_such(noun: str, wanted: str, file: str, fits: Mapping[str, bool], option: str) -> InputError:
    """no column 'embedding' in items.parquet (columns: id, title, emb); did you mean --column emb?"""
    close = get_close_matches(wanted, [name for name in fits if fits[name]], n=1, cutoff=0.0)
    hint = f"; did you mean {option} {quote(close[0])}?" if close else ""
    names = list(fits)
    listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return InputError(f"no {noun} {wanted!r} in {file} ({noun}s: {listed or 'none'}){hint}")
