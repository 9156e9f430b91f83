"""What moving items to other codes does to their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.inputs import as_source
from ..errors import InputError, SpecError
from ..progress import Progress
from ..rows.checks import Checked
from ..sids.prefixes import require_codes
from .neighbours import agreement, nearest_rows

__all__ = ["neighbours_before_and_after"]


def neighbours_before_and_after(
    before: Any,
    after: Any,
    sizes: Sequence[int],
    vectors: Any,
    neighbours: int = 10,
    queries: int = 2000,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """`neighbour_agreement` of two codings of the same items, with one search for neighbours.

    before, after: (n, levels); vectors: (n, d). "overlap_before" and "overlap_after": of an item's k nearest by code,
    those among its k nearest by embedding / k. "share_before" and "share_after": of its k nearest by embedding, those
    that share its complete SID / k.
    """
    codes, source = [require_codes(array, sizes) for array in (before, after)], as_source(vectors)
    n = len(codes[0])
    if source.shape[0] != n or len(codes[1]) != n:
        raise InputError(f"{source.shape[0]} vectors do not fit {n} and {len(codes[1])} rows of codes")
    if not 1 <= neighbours < n or queries < 1:
        raise SpecError(f"cannot find {neighbours} neighbours of {queries} items among {n} items")
    query = np.sort(np.random.default_rng(seed).choice(n, min(queries, n), replace=False))
    near = nearest_rows(Checked(source), query, neighbours, progress)
    figures = [agreement(array, sizes, query, near) for array in codes]
    return {
        "neighbours": neighbours,
        "queries": len(query),
        "overlap_before": figures[0]["overlap"],
        "overlap_after": figures[1]["overlap"],
        "share_before": figures[0]["share"][-1],
        "share_after": figures[1]["share"][-1],
    }
