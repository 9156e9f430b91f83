"""Whether co-occurrence in the embeddings, and a separate SID for every item, will pay: said from the sequences alone.

The last two items of every sequence are put aside, for `judge`, `train` and `evaluate`. The item before them is
predicted by counting (`measure.counting`), from SIDs of embeddings blended with what comes before it:

    gain     counted NDCG@20 with a weight / without co-occurrence - 1, both with a separate SID for every item
    error    its standard error over sequences
    chosen   the weight with the highest gain - error, of those whose gain is at least CERTAIN errors; else 0

Where a list orders the sequences (`measure.order`), co-occurrence is counted over whole sequences: window 0.
docs/results/beyond.md says how often this choice was right on public data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..embed.co_occurrence import blend, co_occurrence
from ..errors import InputError
from ..measure.counting import held_out, ranks_by_token, require_counted
from ..measure.order import order_of
from ..measure.ranking import CUTS
from ..progress import Progress, Silent
from ..tokenizer.recipes import prq_kmeans
from ..tokenizer.spread import spread

__all__ = ["WEIGHTS", "Blending", "Gain", "advise_blending", "chosen_weight"]

WEIGHTS = (0.25, 0.5, 1.0)
CERTAIN = 2.0
FEWEST = 100  # sequences with an item to predict
WINDOW = 5


@dataclass(frozen=True)
class Gain:
    """What a weight of co-occurrence brings: relative, with its standard error."""

    weight: float
    gain: float
    error: float


@dataclass(frozen=True)
class Blending:
    """The advice. window, weight: for `sidkit blend`; spread: what `encode --spread` brings without co-occurrence."""

    window: int
    weight: float
    gains: tuple[Gain, ...]
    spread: Gain
    order: dict[str, Any]
    users: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"spread_pays": self.spread.gain >= CERTAIN * self.spread.error > 0}


def advise_blending(
    X: Any,
    sequences: Sequences,
    dimensions: int = 128,
    weights: Sequence[float] = WEIGHTS,
    seeds: int = 1,
    sizes: tuple[int, ...] | None = None,
    progress: Progress | None = None,
) -> Blending:
    """X: (n, d), the rows that sequences name. seeds: fits per weight, whose figures are averaged."""
    report = progress or Silent()
    known = require_counted(sequences)
    earlier = known.without_last(1)  # its validation is the item before those that are put aside
    users = len(held_out(earlier, "valid")[0])
    if users < FEWEST:
        raise InputError(
            f"{users:,} sequences have four items or more, of which the last two are put aside; {FEWEST} are needed to "
            "choose a weight: give one with --weight"
        )
    order = order_of(known)
    window = 0 if order["arranged"] else WINDOW
    vectors = co_occurrence(earlier.training(), len(X), min(dimensions, len(X) - 1), window, report)
    sizes = sizes or (int(np.clip(len(X) // 16, 4, 256)),) * 3
    report.start("weights", len(weights) + 1)
    plain, base = _counted(X, sizes, earlier, seeds)
    report.advance(1)
    gains = []
    for weight in weights:
        gains.append(gain_of(weight, _counted(blend(X, vectors, weight), sizes, earlier, seeds)[1], base))
        report.advance(1)
    return Blending(window, chosen_weight(gains), tuple(gains), gain_of(0.0, base, plain), order, users)


def chosen_weight(gains: Sequence[Gain], certain: float = CERTAIN) -> float:
    """The weight with the highest gain - error among those that are certain; 0 if none is."""
    sure = [one for one in gains if one.gain >= certain * one.error]
    return max(sure, key=lambda one: one.gain - one.error).weight if sure else 0.0


def gain_of(weight: float, ndcg: NDArray[np.float64], base: NDArray[np.float64]) -> Gain:
    """ndcg, base: (users,). The error is that of the mean difference, over users."""
    mean = max(float(base.mean()), 1e-12)
    error = float((ndcg - base).std() / np.sqrt(len(base)))
    return Gain(weight, float(ndcg.mean()) / mean - 1, error / mean)


def _counted(
    X: Any, sizes: tuple[int, ...], sequences: Sequences, seeds: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """NDCG@20 of every user by counting, the mean over fits: of SIDs as they are, and of spread ones."""
    plain, apart = [], []
    for seed in range(seeds):
        fitted = prq_kmeans(sizes).fit(X, seed=seed, device="cpu")
        codes = fitted.fit_codes
        plain.append(_ndcg(*ranks_by_token(codes, sizes, sequences)))
        apart.append(_ndcg(*ranks_by_token(spread(fitted, X, codes), sizes, sequences)))
    return np.mean(plain, axis=0), np.mean(apart, axis=0)


def _ndcg(rank: NDArray[np.int64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(rank < max(CUTS), share / np.log2(rank + 2.0), 0.0)
