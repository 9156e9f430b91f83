"""Sizes judged by what predicts training: fits that encode all items, counted on sequences, plain and spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..data.sequences import Sequences
from ..measure.counting import counted_by_token
from ..progress import Progress
from ..sids.quality import quality
from ..tokenizer.spread import can_spread, spread
from ..tokenizer.tokenizer import FittedTokenizer, Tokenizer
from .candidates import CountedNdcg

__all__ = ["counted_on", "first_stages"]

FIGURE = "ndcg@20"


def first_stages(fitted: FittedTokenizer, tokenizer: Tokenizer) -> FittedTokenizer:
    """The fit of a tokenizer that is the beginning of a fitted one."""
    if len(tokenizer.stages) == len(fitted.stages):
        return fitted
    return replace(fitted, spec=tokenizer, stages=fitted.stages[: len(tokenizer.stages)], fitted_rows=None)


def counted_on(
    fits: Sequence[FittedTokenizer], items: Any, sequences: Sequences, device: str, progress: Progress
) -> CountedNdcg:
    """The counted NDCG@20 of fits of the same sizes: the mean over them. items: the vectors that sequences name."""
    plain, apart, filled = list[float](), list[float](), list[tuple[float, float, float]]()
    for fitted in fits:
        codes = fitted.encode(items, device=device, progress=progress)
        plain.append(counted_by_token(codes, fitted.sizes, sequences)[FIGURE])
        if can_spread(fitted):
            codes = spread(fitted, items, codes, progress)
            apart.append(counted_by_token(codes, fitted.sizes, sequences)[FIGURE])
            found = quality(codes, fitted.sizes)
            filled.append((found["icr_per_sid"], 1 / found["items_per_sid"], float(found["largest_bucket"])))
    best = apart or plain
    spread_ndcg = _mean(apart) if apart else None
    return CountedNdcg(_mean(plain), spread_ndcg, min(filled, default=None), max(best) - min(best))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
