"""What a format cannot hold, checked before the first byte. Every message says why, and what to do instead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError
from ..sids.crowded import slots_of
from ..sids.prefixes import prefix_numbers
from ..sids.table import SidTable
from .target import RECORD, ExportOption

__all__ = [
    "require_file_name",
    "require_levels",
    "require_name",
    "require_one_size",
    "require_path",
    "require_product",
    "shares_of",
    "slots_in",
]


def require_levels(sizes: Sequence[int], levels: int, reader: str, why: str) -> None:
    """An error unless SIDs have this many levels."""
    if len(sizes) != levels:
        raise InputError(f"{reader} reads SIDs of {levels} levels, and these have {len(sizes)}: {why}")


def require_one_size(sizes: Sequence[int], reader: str) -> int:
    """The size that all levels have, or an error."""
    if len(set(sizes)) != 1:
        raise InputError(
            f"{reader} knows one codebook size for all levels, and these are {'-'.join(map(str, sizes))}; its numbers "
            "would mean other codes. Fit with equal sizes, or export to a target that takes several"
        )
    return sizes[0]


def require_product(sizes: Sequence[int], reader: str) -> None:
    """An error if the mixed-radix number of a SID does not fit an int64."""
    total = 1
    for size in sizes:
        total *= int(size)
    if total > 2**63 - 1:
        raise InputError(f"{reader} numbers SIDs in 64 bits, and {'-'.join(map(str, sizes))} has more of them")


def require_name(name: str, option: str) -> str:
    """A name that is safe as the first part of file names."""
    if not name or any(sign in name for sign in "./\\ \0"):
        raise SpecError(f"--set {option} must be a name without dots, blanks and slashes, not {name!r}")
    return name


def require_file_name(name: str, option: str, *others: str) -> str:
    """A name for a file or folder in the export, beside those that it has anyway."""
    if Path(name).name != name or name in ("", ".", "..") or not name.isprintable():
        raise SpecError(f"--set {option} must be a name without a path, not {name!r}")
    if name in (RECORD, *others):
        raise SpecError(f"--set {option} must be another name than {name!r}, which the export has already")
    return name


def slots_in(table: SidTable) -> NDArray[np.int64]:
    """(items,) the number of earlier items with the same SID: 0 for the first one."""
    return slots_of(prefix_numbers(table.codes, table.sizes)[-1])


def shares_of(table: SidTable) -> NDArray[np.int64]:
    """(items,) how many items have the same SID."""
    numbers = prefix_numbers(table.codes, table.sizes)[-1]
    _, which, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    return np.asarray(counts[which.ravel()], np.int64)


def require_path(value: Any, option: ExportOption) -> Path:
    """An existing folder or file that an option names."""
    if value is None:
        raise SpecError(f"this target needs --set {option.name}=PATH, the {option.meaning}")
    path = Path(value)
    if not path.exists():
        raise InputError(f"no such file or folder: {path} (--set {option.name})")
    return path
