"""The tokenizers of a comparison with the SIDs they give, and what one separates of what another merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ..progress import Progress, Silent
from ..sids.table import SidTable
from ..tokenizer.tokenizer import load
from .comparison import Comparison
from .contrast import contrast

__all__ = ["Contender", "contenders_of", "pairs_of"]


@dataclass(frozen=True)
class Contender:
    """One tokenizer of a comparison, with its first seed: the SIDs of all items, and its centroids."""

    label: str
    table: SidTable
    codebooks: Sequence[Any]


def contenders_of(
    comparison: Comparison, X: Any, ids: Any, progress: Progress | None = None, device: str = "auto"
) -> list[Contender]:
    """Encode the items X, which have these ids, with the first run of every tokenizer."""
    contenders = []
    for label, folders in comparison.folders.items():
        fitted = load(folders[0])
        codes = fitted.encode(X, device=device, progress=progress or Silent(), spread=label in comparison.spread)
        contenders.append(Contender(label, SidTable(ids, codes, fitted.sizes), fitted.codebooks))
    return contenders


def pairs_of(contenders: Sequence[Contender], texts: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """For each two tokenizers, in both directions, what one separates of what the other merges.

    merged_by, separated_by   the labels of the two; the other keys are those of `contrast`
    """
    return [
        {"merged_by": a.label, "separated_by": b.label} | contrast(a.table, b.table, texts)
        for one, other in combinations(contenders, 2)
        for a, b in ((one, other), (other, one))
    ]
