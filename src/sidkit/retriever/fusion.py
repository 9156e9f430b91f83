"""What counting knows, joined with what the model knows: one probability for every candidate.

    p(item) = (1 - a - b) model^g / z + a followed / (after + prior) + b together

model is the retriever's probability of the item, and z what keeps the sum over a user's candidates as it was; followed
counts how often the item came right after the user's last one, and after how often any did; together is how near it is
to the history (`candidates.py`). The weights a and b, the sharpness g, the prior, and whether items of the history may
be recommended again are chosen by NDCG@10 on validation. Fusion is off, a = b = 0, unless its gain over the model alone
is more than twice its standard error over users. The gain of a user is that of weights chosen by other users (five
parts, each judged by the weights of the other four), so that trying many weights is no gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..measure.counting_tables import CountTables
from ..measure.ranking import mean_figures
from .candidates import Candidates

__all__ = ["OFF", "Fusion", "fit_fusion", "fused_scores", "target_ranks"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
FOLLOWED = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # weights beside a model's of 1
TOGETHER = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # more, because it is spread over many more items
SHARPNESS = (1.0, 0.5, 0.25, 0.12)  # below 1 a model orders more than its first few items
NEARBY = (0.6, 1.0, 1.7)  # of the best weights, factors that are tried after them
SHARPER = (0.7, 1.4)  # of the best sharpness, likewise
PRIORS = (2.0, 0.5, 8.0, 32.0)  # the first is that of the search for the weights
CUT = 10
ERRORS = 2.0  # standard errors that a gain has to exceed
PARTS = 5  # of the users, each judged by weights of the others


@dataclass(frozen=True)
class FusionWeights:
    """followed: a, together: b, sharpness: g, prior, as in the formula; repeats: whether items of the history are
    recommended."""

    followed: float = 0.0
    together: float = 0.0
    prior: float = PRIORS[0]
    repeats: bool = True
    sharpness: float = 1.0

    @property
    def is_on(self) -> bool:
        return bool(self.followed or self.together or not self.repeats)


OFF = FusionWeights()


@dataclass(frozen=True, eq=False)
class Fusion:
    """The weights, the counts that they weigh, and the figures of validation that they were chosen by."""

    weights: FusionWeights
    tables: CountTables
    facts: dict[str, Any]


def fused_scores(candidates: Candidates, weights: FusionWeights) -> Floats:
    """The probability of every candidate; 0 for those that may not be recommended again."""
    score = _sharpened(candidates, weights.sharpness) * (1 - weights.followed - weights.together)
    if weights.followed:
        score = score + weights.followed * candidates.followed / (candidates.after + weights.prior)
    if weights.together:
        score = score + weights.together * candidates.together
    return score if weights.repeats else np.where(candidates.past, 0.0, score)


def _sharpened(candidates: Candidates, sharpness: float) -> Floats:
    """The model's probabilities to this power, with the same sum over the candidates of every user."""
    if sharpness == 1:
        return candidates.model
    raised = candidates.model**sharpness
    before, after = (np.bincount(candidates.user, each, candidates.users) for each in (candidates.model, raised))
    scaled: Floats = raised * (before / np.maximum(after, 1e-300))[candidates.user]
    return scaled


def target_ranks(candidates: Candidates, target: Integers, score: Floats, missing: int) -> Integers:
    """(users,) the rank of each target by score, from 0; of equal scores the earlier item is first.

    missing: the rank of a target that is no candidate, or has score 0.
    """
    user, item = candidates.user, candidates.item
    own, is_target = np.zeros(candidates.users), item == target[user]
    own[user[is_target]] = score[is_target]
    before = (score > own[user]) | ((score == own[user]) & (item < target[user]))
    rank = np.bincount(user[before], minlength=candidates.users)
    return np.where(own > 0, rank, missing)


def fit_fusion(candidates: Candidates, target: Integers, tables: CountTables) -> Fusion:
    """The weights with the best NDCG@10 on these users, which are those of validation; off where they do not help."""

    @cache
    def gains(weights: FusionWeights) -> Floats:
        rank = target_ranks(candidates, target, fused_scores(candidates, weights), len(tables))
        each: Floats = (rank < CUT) / np.log2(rank + 2.0)
        return each

    users = len(target)
    alone, best = gains(OFF), _best(gains, np.ones(users, bool))
    gain, part = np.zeros(users), np.random.default_rng(0).permutation(users) % PARTS
    for each in range(min(PARTS, users) if users > 1 else 0):
        others = _best(gains, part != each)
        gain[part == each] = (gains(others) - alone)[part == each]
    error = float(gain.std(ddof=1) / np.sqrt(users)) if users > 1 else float("inf")
    kept = best if gain.mean() > ERRORS * error else OFF
    facts = {
        "users": users,
        f"model_ndcg@{CUT}": float(alone.mean()),
        f"model_without_history_ndcg@{CUT}": float(gains(FusionWeights(repeats=False)).mean()),
        f"highest_ndcg@{CUT}": float(gains(best).mean()),
        f"fused_ndcg@{CUT}": float((alone + gain).mean()),
        "gain": float(gain.mean()),
        "standard_error": error,
        "on": kept.is_on,
    }
    return Fusion(kept, tables, facts)


def _best(gains: Callable[[FusionWeights], Floats], of: NDArray[np.bool_]) -> FusionWeights:
    """The weights with the highest mean gain of these users."""
    best, highest = OFF, float(gains(OFF)[of].mean())
    for stage in (_repeats, _shares, _priors, _sharper, _nearby, _repeats):
        for weights in stage(best):
            if (value := float(gains(weights)[of].mean())) > highest:
                best, highest = weights, value
    return best


def _repeats(now: FusionWeights) -> list[FusionWeights]:
    """At first for the model alone; at the end for what was found, as counts may be fonder of the history."""
    return [replace(now, repeats=not now.repeats)]


def _shares(now: FusionWeights) -> list[FusionWeights]:
    every = product(SHARPNESS, FOLLOWED, TOGETHER)
    return [_beside_one(a, b, replace(now, sharpness=g)) for g, a, b in every if a or b]


def _sharper(now: FusionWeights) -> list[FusionWeights]:
    return [replace(now, sharpness=now.sharpness * factor) for factor in SHARPER] if now.is_on else []


def _nearby(now: FusionWeights) -> list[FusionWeights]:
    model = 1 - now.followed - now.together
    return [_beside_one(a * now.followed / model, b * now.together / model, now) for a, b in product(NEARBY, NEARBY)]


def _priors(now: FusionWeights) -> list[FusionWeights]:
    return [replace(now, prior=prior) for prior in PRIORS[1:]] if now.followed else []


def _beside_one(followed: float, together: float, now: FusionWeights) -> FusionWeights:
    """Of weights beside a model's of 1, the shares."""
    whole = 1 + followed + together
    return replace(now, followed=followed / whole, together=together / whole)


def fused_figures(rank: Integers) -> dict[str, float]:
    """The figures of a fused list, named as those of a retriever."""
    return {f"fused_{name}": value for name, value in mean_figures(rank).items()}
