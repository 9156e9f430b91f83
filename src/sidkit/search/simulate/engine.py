"""The search engine whose results the simulated users see: it matches the words of titles, and prefers what sells.

It draws candidates from the items that have the category, kind and brand of a query, by their appeal, and orders them
by the words that their titles share with the query, by appeal, and by chance. It knows nothing of the user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .draws import stream
from .items import SLOTS, Traits
from .queries import Typed
from .sessions import INTENTS, SearchRecords
from .world import World

__all__ = ["SearchIndex", "build_index", "draw_targets", "results"]

NARROW, WIDE = 36, 20  # candidates from the items that match kind and brand, and from the whole category
PAGE = 20  # most results shown
APPEAL = 0.8  # Zipf's exponent
KNOWN = {"precise": 0.9, "broad": 0.15, "weak": 0.0}  # how often the item in mind is among the candidates
WEIGHT = {"brand": 1.2, "noun": 0.5, "kind": 1.0, "material": 0.8, "who": 0.6, "use": 0.6, "trait": 0.6, "part": 0.4,
          "colour": 0.8, "size": 0.6, "amount": 0.6}  # fmt: skip
LEAF, BRAND, KIND, USE = (SLOTS.index(name) for name in ("leaf", "brand", "kind", "use"))


@dataclass(frozen=True, eq=False)
class _Order:
    """Items sorted by a code, so that all with the same beginning of it are neighbours."""

    rows: NDArray[np.int32]
    code: NDArray[np.int32]  # sorted
    total: NDArray[np.float64]  # (n + 1,) cumulative appeal, from 0

    def draw(self, low: NDArray[np.int64], high: NDArray[np.int64], u: NDArray[np.float64]) -> NDArray[np.int32]:
        """Items with low <= code < high, one per number u: (n, m), by their appeal; -1 where there are none."""
        first, last = np.searchsorted(self.code, low), np.searchsorted(self.code, high)
        begin, end = self.total[first][:, None], self.total[last][:, None]
        at = np.searchsorted(self.total, begin + u * (end - begin), side="right") - 1
        at = np.clip(at, first[:, None], np.maximum(last - 1, first)[:, None])
        drawn = self.rows[np.minimum(at, len(self.rows) - 1)]
        return np.where((last > first)[:, None], drawn, -1).astype(np.int32)


@dataclass(frozen=True, eq=False)
class SearchIndex:
    """The items by category and kind, and by category and brand."""

    traits: Traits
    appeal: NDArray[np.float32]  # (n,) its logarithm
    by_kind: _Order
    by_brand: _Order


def build_index(traits: Traits, seed: int) -> SearchIndex:
    n = len(traits)
    appeal = np.power(1.0 + stream(seed, "appeal").permutation(n), -APPEAL, dtype=np.float64)
    words = traits.words.astype(np.int32)
    by_kind = _code(words[:, LEAF], words[:, KIND] + 1, words[:, BRAND])
    by_brand = _code(words[:, LEAF], words[:, BRAND], words[:, KIND] + 1)
    return SearchIndex(traits, np.log(appeal).astype(np.float32), _ordered(by_kind, appeal), _ordered(by_brand, appeal))


def _code(leaf: Any, second: Any, third: Any) -> Any:
    return (leaf * 128 + second) * 128 + third


def _ordered(code: NDArray[np.int32], appeal: NDArray[np.float64]) -> _Order:
    rows = np.argsort(code, kind="stable")
    return _Order(rows.astype(np.int32), code[rows], np.concatenate([[0.0], np.cumsum(appeal[rows])]))


def draw_targets(index: SearchIndex, leaf: NDArray[np.int64], u: NDArray[np.float64]) -> NDArray[np.int32]:
    """Items of a category by their appeal, one per number u: (n, m); any item where the category has none."""
    drawn = index.by_kind.draw(_code(leaf, 0, 0), _code(leaf + 1, 0, 0), u)
    return np.where(drawn < 0, index.by_kind.draw(np.zeros_like(leaf), np.full_like(leaf, 1 << 30), u), drawn)


def results(
    index: SearchIndex,
    records: SearchRecords,
    typed: Typed,
    target: NDArray[np.int32],
    world: World,
    rng: np.random.Generator,
) -> NDArray[np.int32]:
    """The results of each query: (n, 20) items, best first, -1 where there are no more."""
    shown = _candidates(index, records, typed, target, world, rng)
    words = index.traits.words[shown]  # (n, m, 12)
    wanted = index.traits.words[target]
    wanted[:, SLOTS.index("noun")] = typed.noun
    in_title = (index.traits.mentioned[shown][..., None] >> np.arange(len(SLOTS), dtype=np.uint16)) & 1
    same_leaf = words[..., LEAF] == records.leaf[:, None]
    weight = np.array([WEIGHT.get(slot, 0.0) for slot in SLOTS], np.float32) * typed.readable
    score = ((words == wanted[:, None]) & (in_title > 0)) @ weight[..., None]
    score = score[..., 0] * same_leaf + 0.12 * index.appeal[shown] + 0.45 * rng.standard_normal(shown.shape)
    weak = typed.word >= 0
    use = world.use_of_word[typed.word][np.arange(len(records))[:, None], words[..., LEAF]]
    score += (weak[:, None] & (use >= 0) & (use == words[..., USE]) & (in_title[..., USE] > 0)) * 0.8
    score[_repeated(shown)] = -np.inf
    best = np.argsort(-score, axis=1, kind="stable")[:, :PAGE]
    top = np.take_along_axis(shown, best, axis=1)
    pages = np.where(rng.random(len(records)) < 0.6, PAGE // 2, PAGE)
    gone = np.isneginf(np.take_along_axis(score, best, axis=1)) | (np.arange(PAGE) >= pages[:, None])
    return np.where(gone, -1, top).astype(np.int32)


def _candidates(
    index: SearchIndex,
    records: SearchRecords,
    typed: Typed,
    target: NDArray[np.int32],
    world: World,
    rng: np.random.Generator,
) -> NDArray[np.int32]:
    n, leaf = len(records), records.leaf.astype(np.int64)
    words = index.traits.words[target].astype(np.int64)
    kind, brand, u = words[:, KIND] + 1, words[:, BRAND], rng.random((n, NARROW + WIDE))
    by_kind, by_brand = typed.readable[:, KIND], typed.readable[:, BRAND]
    low = _code(leaf, np.where(by_kind, kind, 0), np.where(by_kind & by_brand, brand, 0))
    high = np.where(by_kind, np.where(by_brand, low + 1, _code(leaf, kind + 1, 0)), _code(leaf + 1, 0, 0))
    narrow = index.by_kind.draw(low, high, u[:, :NARROW])
    only_brand = np.flatnonzero(by_brand & ~by_kind)
    low, high = (_code(leaf[only_brand], brand[only_brand] + more, 0) for more in (0, 1))
    narrow[only_brand] = index.by_brand.draw(low, high, u[only_brand, :NARROW])
    wide = draw_targets(index, leaf, u[:, NARROW:])
    candidates = np.concatenate([np.where(narrow < 0, wide[:, :1], narrow), wide], axis=1)
    weak = np.flatnonzero(typed.word >= 0)
    if len(weak):
        candidates[weak] = _of_word(index, typed.word[weak], u[weak], world, rng)
    known = np.array([KNOWN[name] for name in INTENTS])[records.intent]
    candidates[:, 0] = np.where(rng.random(n) < known, target, candidates[:, 0])
    return candidates


def _of_word(
    index: SearchIndex, word: NDArray[np.int64], u: NDArray[np.float64], world: World, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Items of the categories that a weak word leads to."""
    counts = np.array([len(known) for known in world.leaves_of_word])
    table = np.zeros((len(counts), counts.max()), np.int64)
    for number, known in enumerate(world.leaves_of_word):
        table[number, : len(known)] = known
    chosen = (counts[word][:, None] * rng.random(u.shape)).astype(np.int64)
    leaf = np.take_along_axis(table[word], chosen, axis=1)
    return draw_targets(index, leaf.ravel(), u.reshape(-1, 1)).reshape(u.shape)


def _repeated(rows: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether an item occurs earlier in its row."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    again = np.zeros(rows.shape, bool)
    np.put_along_axis(again, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    return again
