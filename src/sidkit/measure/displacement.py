"""How far items moved: the distance between what their old and their new semantic IDs stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.ids import match
from ..errors import InputError
from ..geometry import unit

if TYPE_CHECKING:
    from ..sids.table import SidTable
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["displacement"]

AT_ONCE = 1 << 16  # items decoded at once


def displacement(
    old: SidTable, new: SidTable, old_tokenizer: FittedTokenizer, new_tokenizer: FittedTokenizer
) -> dict[str, Any]:
    """1 - cos(decoded old SID, decoded new SID) of the items that moved: how many, mean, median, 90 % and largest.

    Each SID is decoded by the tokenizer that made it; both must have been fitted on vectors of one kind.
    """
    for table, fitted in ((old, old_tokenizer), (new, new_tokenizer)):
        if table.sizes != fitted.sizes:
            raise InputError(f"SIDs of sizes {table.sizes} were not made by a tokenizer of sizes {fitted.sizes}")
    if old_tokenizer.d != new_tokenizer.d:
        raise InputError(f"the tokenizers are for vectors of {old_tokenizer.d} and {new_tokenizer.d} dimensions")
    row = match(old.ids, new.ids)
    here = np.flatnonzero(row >= 0)
    here = here[(old.codes[here] != new.codes[row[here]]).any(axis=1)]
    parts = [np.empty(0)]
    for start in range(0, len(here), AT_ONCE):
        rows = here[start : start + AT_ONCE]
        before, after = old_tokenizer.decode(old.codes[rows]), new_tokenizer.decode(new.codes[row[rows]])
        parts.append(1 - (unit(before.astype(np.float64)) * unit(after.astype(np.float64))).sum(axis=1))
    moved = np.concatenate(parts)
    if not len(moved):
        return {"items": 0}
    middle, most = np.quantile(moved, (0.5, 0.9)).tolist()
    return {
        "items": len(moved),
        "mean": float(moved.mean()),
        "median": middle,
        "quantile_90": most,
        "largest": float(moved.max()),
    }
