"""Fitting a tokenizer again from where an old one ended, and not further than a budget of changed IDs allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError
from ..progress import Progress, Silent
from ..sids.changed import changed_shares
from ..sids.quality import quality
from ..stages.cluster import GMM, Balanced, KMeans
from ..stages.level import Level
from ..stages.product import PQ, FittedProduct, blocks
from .card import facts_of

if TYPE_CHECKING:
    from .tokenizer import FittedTokenizer

__all__ = ["WarmFit", "fit_from", "warm_starts"]

STEPS = 8  # halvings of the way from the old tokenizer to the refit


@dataclass(frozen=True, eq=False)
class WarmFit:
    """A tokenizer that was fitted from an old one, the tokens of its rows, and what changed, ready for JSON."""

    fitted: FittedTokenizer
    codes: NDArray[np.int32]
    facts: dict[str, Any]


def warm_starts(old: FittedTokenizer) -> dict[int, NDArray[Any]]:
    """The centroids (K, d) that start every level of a refit; an error for a tokenizer that cannot be started so."""
    starts: dict[int, NDArray[Any]] = {}
    level = 0
    for spec, stage in zip(old.spec.stages, old.stages, strict=True):
        if isinstance(spec, Level) and isinstance(spec.cluster, KMeans | Balanced | GMM):
            starts[level] = np.asarray(stage.arrays["centroids"])
        elif isinstance(spec, PQ) and isinstance(stage, FittedProduct):
            for token, (book, block) in enumerate(zip(stage.books, blocks(old.d, len(stage.books)), strict=True)):
                starts[level + token] = np.zeros((len(book), old.d), book.dtype)
                starts[level + token][:, block] = book
        elif stage.sizes:
            kind = type(spec.cluster if isinstance(spec, Level) else spec).__name__
            raise SpecError(
                f"a fit can start from levels of KMeans, Balanced and GMM and from PQ; this tokenizer has {kind}: "
                "fit it afresh, then sidkit publish align"
            )
        level += len(stage.sizes)
    return starts


def fit_from(
    old: FittedTokenizer,
    X: Any,
    budget: float | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
) -> WarmFit:
    """Fit the recipe of a tokenizer to rows X, from its codebooks.

    budget   the largest share of rows that may get another SID. If the refit changes more, every number of it is moved
             back towards the old tokenizer,  c(t) = (1 - t) c_old + t c_refit,  to the largest t that keeps to the
             budget, found by halving. At t = 0 it is the old tokenizer, which changes nothing.
    """
    if budget is not None and not 0.0 <= budget <= 1.0:
        raise SpecError(f"a churn budget is a share between 0 and 1, not {budget}")
    report = progress or Silent()
    before = old.encode(X, device)
    refit = old.spec.fit(X, seed, None, device, report, checkpoint, warm_starts(old))
    if refit.d != old.d or refit.dtype != old.dtype:
        raise InputError(
            f"{old.dtype} rows of {old.d} dimensions were fitted before; these are {refit.dtype}, {refit.d}"
        )
    codes, t = _codes_of(refit), 1.0
    fitted = refit
    if budget is not None and _moved(before, codes) > budget:
        t, fitted, codes = _within(old, refit, X, before, budget, device)
    facts = {"t": t, "budget": budget, "changed": _moved(before, codes), **changed_shares(before, codes)}
    about = facts_of(refit) | {"quality": quality(codes, fitted.sizes)}
    return WarmFit(replace(fitted, facts=about), codes, facts)


def _within(
    old: FittedTokenizer, refit: FittedTokenizer, X: Any, before: NDArray[np.int32], budget: float, device: str
) -> tuple[float, FittedTokenizer, NDArray[np.int32]]:
    """The largest step towards the refit that keeps to the budget, to 1 / 2^STEPS."""
    low, high = 0.0, 1.0
    best = (0.0, _between(old, refit, 0.0), before)
    for _ in range(STEPS):
        t = (low + high) / 2
        fitted = _between(old, refit, t)
        codes = fitted.encode(X, device)
        if _moved(before, codes) <= budget:
            low, best = t, (t, fitted, codes)
        else:
            high = t
    return best


def _between(old: FittedTokenizer, refit: FittedTokenizer, t: float) -> FittedTokenizer:
    stages = []
    for spec, first, last in zip(old.spec.stages, old.stages, refit.stages, strict=True):
        arrays = {name: _mixed(first.arrays[name], array, t) for name, array in last.arrays.items()}
        stages.append(spec.restore(arrays, old.d))
    return replace(refit, stages=tuple(stages))


def _mixed(first: NDArray[Any], last: NDArray[Any], t: float) -> NDArray[Any]:
    """Part of the way from one array to another; exactly the first at 0."""
    if t == 0:
        return np.array(first)
    return ((1 - t) * first.astype(np.float64) + t * last.astype(np.float64)).astype(last.dtype)


def _codes_of(fitted: FittedTokenizer) -> NDArray[np.int32]:
    codes = fitted.fit_codes
    assert codes is not None  # of a tokenizer that was just fitted
    return codes


def _moved(before: NDArray[Any], after: NDArray[Any]) -> float:
    return float((before != after).any(axis=1).mean())
