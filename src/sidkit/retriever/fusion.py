"""What counting knows, joined with what the model knows: one probability for every candidate.

    p(item) = reach * exp(s(item)) / sum of exp(s) over the user's candidates
    s(item) = sum of weight * term

The terms (`signals.py`) are the model's log-probability of the item, what counting says of it, how popular it is, what
of these is above their quartiles, and a few products. Weights are the likeliest on the users of validation whose item
is a candidate (a conditional logit, convex, by Newton's method), drawn towards the model alone by a ridge that counts
as RIDGE users do; reach is the share of those users. Whether items of the history may be recommended again is chosen by
NDCG@10. Fusion is off unless its gain over the model alone is more than twice its standard error over users. The gain
of a user is that of weights fitted to other users (five parts, each judged by the weights of the other four), so that
fitting many weights is no gain.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ..measure.counting_tables import CountTables
from ..measure.ranking import mean_figures
from .candidates import Candidates
from .signals import Term, columns_of, signals_of, terms_for, terms_from

__all__ = ["OFF", "Fusion", "FusionWeights", "fit_fusion", "fused_scores", "target_ranks", "weights_from"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Signals = dict[str, Floats]
CUT = 10
ERRORS = 2.0  # standard errors that a gain has to exceed
PARTS = 5  # of the users, each judged by weights of the others
RIDGE = 3.0  # users
STEPS = 50  # of Newton's method, at most
ENOUGH = 1e-9  # of the likelihood of a user, by which a step has to raise it
HALVINGS = 30  # of a step


@dataclass(frozen=True)
class FusionWeights:
    """terms: of the score, none for the model alone; repeats: whether items of the history are recommended; reach: the
    share of users whose next item is a candidate."""

    terms: tuple[Term, ...] = ()
    repeats: bool = True
    reach: float = 1.0

    @property
    def is_on(self) -> bool:
        return bool(self.terms or not self.repeats)

    def plain(self) -> dict[str, Any]:
        """As JSON has them; `weights_from` reads it."""
        terms = [{name: value for name, value in asdict(term).items() if value is not None} for term in self.terms]
        return asdict(self) | {"terms": terms}


OFF = FusionWeights()
NO_REPEATS = FusionWeights(repeats=False)


@dataclass(frozen=True, eq=False)
class Fusion:
    """The weights, the counts that they weigh, and the figures of validation that they were chosen by."""

    weights: FusionWeights
    tables: CountTables
    facts: dict[str, Any]


def weights_from(plain: dict[str, Any]) -> FusionWeights:
    """The weights that a file describes."""
    weights = FusionWeights(tuple(terms_from(plain["terms"])), plain["repeats"], plain["reach"])
    if type(weights.repeats) is not bool or type(weights.reach) not in (int, float) or not 0 <= weights.reach <= 1:
        raise StoreError(f"a fusion with repeats {weights.repeats!r} and reach {weights.reach!r} is none")
    return weights


def fused_scores(candidates: Candidates, weights: FusionWeights, signals: Signals | None = None) -> Floats:
    """The probability of every candidate; 0 for those that may not be recommended again.

    signals: of these candidates, where they are known already.
    """
    allowed = True if weights.repeats else ~candidates.past
    if not weights.terms:
        return np.where(allowed, candidates.model, 0.0)
    signals = signals_of(candidates) if signals is None else signals
    score = np.zeros(len(candidates.user))
    for term in weights.terms:
        score += term.weight * term.value(signals)
    score = np.where(allowed, score, -np.inf)
    top = np.full(candidates.users, -np.inf)
    np.maximum.at(top, candidates.user, score)
    share = np.exp(score - np.where(np.isfinite(top), top, 0.0)[candidates.user])
    whole = np.bincount(candidates.user, share, candidates.users)
    probability: Floats = weights.reach * share / np.maximum(whole, 1e-300)[candidates.user]
    return probability


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
    """The likeliest weights on these users, which are those of validation; off where they do not help."""
    users, is_target = len(target), candidates.item == target[candidates.user]
    reached = np.bincount(candidates.user[is_target], minlength=users) > 0
    found = candidates.where(reached[candidates.user])  # of the others nothing is gained, whatever the weights
    signals = signals_of(found)
    chances = _Chances(found, target, signals, reached)

    def gains(weights: FusionWeights) -> Floats:
        rank = target_ranks(found, target, fused_scores(found, weights, signals), len(tables))
        each: Floats = (rank < CUT) / np.log2(rank + 2.0)
        return each

    def chosen(of: NDArray[np.bool_]) -> FusionWeights:
        fused = chances.fitted(of)
        return max((fused, replace(fused, repeats=False)), key=lambda weights: float(gains(weights)[of].mean()))

    alone, without = gains(OFF), gains(NO_REPEATS)
    fused, part = np.zeros(users), np.random.default_rng(0).permutation(users) % PARTS
    for each in range(min(PARTS, users) if users > 1 else 0):
        fused[part == each] = gains(chosen(part != each))[part == each]
    best = chosen(np.ones(users, bool))
    tried = [(best, fused - alone), (NO_REPEATS, without - alone)] if users > 1 else []
    tried.sort(key=lambda one: -float(one[1].mean()))
    kept, gain = next(((one, by) for one, by in tried if by.mean() > ERRORS * _error(by)), (OFF, fused - alone))
    facts = {
        "users": users,
        f"model_ndcg@{CUT}": float(alone.mean()),
        f"model_without_history_ndcg@{CUT}": float(without.mean()),
        f"highest_ndcg@{CUT}": float(gains(best).mean()),
        f"fused_ndcg@{CUT}": float((alone + gain).mean()),
        "gain": float(gain.mean()),
        "standard_error": _error(gain),
        "on": kept.is_on,
    }
    return Fusion(kept, tables, facts)


def _error(gain: Floats) -> float:
    return float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("inf")


class _Chances:
    """The candidates of users whose item is among them, as the terms of a fusion.

    x: (candidates, terms), every term less its mean (which changes no probability) and divided by its standard
    deviation; an entry of `own` is a user's item; reached: of all users, whether they are among these.
    """

    def __init__(self, found: Candidates, target: Integers, signals: Signals, reached: NDArray[np.bool_]) -> None:
        self.user, self.own, self.reached = found.user, np.flatnonzero(found.item == target[found.user]), reached
        self.terms = terms_for(signals)
        self.x = columns_of(self.terms, signals)
        self.scale = np.maximum(self.x.std(0, dtype=np.float64), 1e-6) if len(self.x) else np.ones(len(self.terms))
        self.x -= self.x.mean(0, dtype=np.float64).astype(np.float32) if len(self.x) else np.float32(0)
        self.x /= self.scale.astype(np.float32)

    def fitted(self, of: NDArray[np.bool_]) -> FusionWeights:
        """The likeliest weights for these users, if the model alone is as likely as RIDGE users make it."""
        of_rows = of[self.user]
        starts = np.flatnonzero(np.diff(self.user[of_rows], prepend=-1))
        own = np.cumsum(of_rows)[self.own[of_rows[self.own]]] - 1
        first = np.zeros(len(self.terms))
        first[0] = self.scale[0]
        weights = likeliest(self.x[of_rows], own, starts, first, RIDGE) / self.scale
        terms = (replace(term, weight=float(weight)) for term, weight in zip(self.terms, weights, strict=True))
        return FusionWeights(tuple(terms), reach=float(self.reached[of].mean()))


def likeliest(x: NDArray[np.float32], own: Integers, starts: Integers, first: Floats, ridge: float) -> Floats:
    """The weights w that make each user's own entry likeliest under p ~ exp(x w), less ridge |w - first|^2 / 2 in all.

    x: (entries, terms), sorted by user; own, starts: (users,) entries.
    """
    user = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(x)))

    def loss(w: Floats) -> tuple[float, Floats]:
        score = x @ w.astype(np.float32).astype(np.float64)
        score -= np.maximum.reduceat(score, starts)[user]
        share = np.exp(score)
        mass = np.add.reduceat(share, starts)
        likely = float((np.log(mass) - score[own]).sum())
        return likely + ridge * float((w - first) @ (w - first)) / 2, share / mass[user]

    w = first.copy()
    if not len(starts):
        return w
    value, share = loss(w)
    for _ in range(STEPS):
        weighed = x * share[:, None].astype(np.float32)
        mean = np.add.reduceat(weighed, starts, dtype=np.float64)
        gradient = mean.sum(0) - x[own].sum(0, dtype=np.float64) + ridge * (w - first)
        curvature = (x.T @ weighed).astype(np.float64) - mean.T @ mean + ridge * np.eye(len(w))
        step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        for halving in range(HALVINGS):
            lower, shares = loss(w - step / 2**halving)
            if lower < value:
                break
        else:
            return w
        gained, w, value, share = value - lower, w - step / 2**halving, lower, shares
        if gained < ENOUGH * len(starts):
            break
    return w


def fused_figures(rank: Integers) -> dict[str, float]:
    """The figures of a fused list, named as those of a retriever."""
    return {f"fused_{name}": value for name, value in mean_figures(rank).items()}
