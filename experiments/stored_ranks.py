"""The ranks of all users' test items in a line of results, so that methods can be compared user by user later.

Ranks count from 0. Those of 20 and more are stored as 20: no figure looks further. They are bytes, compressed, in
base64.
"""

from __future__ import annotations

import base64
import zlib

import numpy as np

from sidkit.measure.ranking import CUTS

__all__ = ["gains", "pack", "unpack"]


def pack(ranks: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(np.minimum(ranks, max(CUTS)).astype(np.uint8).tobytes(), 9)).decode()


def unpack(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).astype(np.int64)


def gains(ranks: np.ndarray, cut: int = 10) -> np.ndarray:
    """(users,) the NDCG@cut of every user."""
    return (ranks < cut) / np.log2(ranks + 2.0)
