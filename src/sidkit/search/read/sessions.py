"""Sessions of a log: where one ends, and whether time goes backwards in one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["BACKWARDS", "backwards", "sessions_by_gap"]

BACKWARDS = "go back in time within their session"  # why a record cannot be used


def sessions_by_gap(user: Any, time: NDArray[np.int64], gap: float) -> NDArray[np.int64]:
    """A session number for every record: a new one after a pause of its user longer than the gap.

    A record without a user is a session alone. Sessions are numbered in the order of users and times.
    """
    code = _codes(user)
    order = np.lexsort((time, code))
    later = np.diff(time[order]) > gap
    starts = np.append(True, later | (np.diff(code[order]) != 0)) if len(order) else np.zeros(0, bool)
    session = np.empty(len(order), np.int64)
    session[order] = np.cumsum(starts) - 1
    return session


def backwards(session: Any, time: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which records are earlier than one that stands before them in their session."""
    code = _codes(session)
    order = np.argsort(code, kind="stable")
    begin = np.flatnonzero(np.append(True, np.diff(code[order]) != 0)) if len(order) else np.zeros(0, np.int64)
    lengths = np.diff(np.append(begin, len(order)))
    rank = np.unique(time[order], return_inverse=True)[1]
    base = np.repeat(np.arange(len(begin)), lengths) * (rank.max(initial=0) + 1)
    latest = np.maximum.accumulate(rank + base) - base  # of the session so far
    back = np.zeros(len(order), bool)
    back[order] = rank < latest
    return back


def _codes(column: Any) -> NDArray[np.int64]:
    """Numbers of the different values; every null has its own."""
    encoded = pc.dictionary_encode(column)
    encoded = encoded.combine_chunks() if hasattr(encoded, "combine_chunks") else encoded
    codes: NDArray[np.int64] = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    alone = np.flatnonzero(codes < 0)
    codes[alone] = len(encoded.dictionary) + np.arange(len(alone))
    return codes
