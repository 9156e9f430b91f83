"""Figures of ranked lists: their names, the list lengths they are taken at, and their means over users.

There is one target per user, so Recall@K and HitRate@K are the same number; both names are given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CUTS", "LABELS", "labels_at", "mean_figures"]

CUTS = (5, 10, 20)
LABELS = {"recall": "Recall", "ndcg": "NDCG", "mrr": "MRR"}  # those that are printed


def labels_at(*cuts: int) -> dict[str, str]:
    """Name -> label of the printed figures at these list lengths, by figure: {"recall@5": "Recall@5", ...}."""
    return {f"{name}@{cut}": f"{label}@{cut}" for name, label in LABELS.items() for cut in cuts}


def mean_figures(rank: NDArray[np.int64], share: Any = 1.0) -> dict[str, float]:
    """The mean figures of targets at these ranks, counted from 0; each target counts with its share."""
    figures: dict[str, float] = {}
    for cut in CUTS:
        hit = (rank < cut) * share
        values = {"recall": hit, "hit_rate": hit, "ndcg": hit / np.log2(rank + 2), "mrr": hit / (rank + 1)}
        figures |= {f"{name}@{cut}": float(value.mean()) if len(rank) else 0.0 for name, value in values.items()}
    return figures
