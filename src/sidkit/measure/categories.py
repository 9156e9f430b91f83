"""Whether prefixes follow categories: purity and mutual information, compared with shuffled labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..sids.prefixes import prefix_numbers, require_codes
from ..sids.quality import entropy_bits

__all__ = ["purity"]

Integers = NDArray[np.int64]
SHUFFLES = 5


def purity(codes: Any, sizes: Sequence[int], labels: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """How well each level's prefixes agree with labels; items whose label is '' or None are left out.

    items_labelled, items_unlabelled, labels    how many there are
    purity               per level, items that have the commonest label of their prefix / items labelled
    purity_chance        the same with the labels shuffled, mean of SHUFFLES: small groups are pure by chance
    nmi                  per level, 2 I(prefix; label) / (H(prefix) + H(label)), 0 to 1
    nmi_chance           with the labels shuffled
    nmi_adjusted         (nmi - nmi_chance) / (1 - nmi_chance): 0 for chance, 1 for the same grouping
    """
    array = require_codes(codes, sizes)
    if len(labels) != len(array):
        raise InputError(f"{len(labels)} labels do not fit {len(array)} rows of codes")
    labelled = np.array([label is not None and label != "" for label in labels])
    if not labelled.any():
        raise InputError("no item has a label; is the category column empty?")
    names, label = np.unique(np.array([str(text) for text in labels])[labelled], return_inverse=True)
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(label) for _ in range(SHUFFLES)]
    levels = [_level(number[labelled], label, shuffled) for number in prefix_numbers(array, sizes)]
    counts = {"items_labelled": len(label), "items_unlabelled": int((~labelled).sum()), "labels": len(names)}
    return counts | {key: [level[key] for level in levels] for key in levels[0]}


def _level(number: Integers, label: Integers, shuffled: list[Integers]) -> dict[str, float]:
    group = np.unique(number, return_inverse=True)[1]
    pure, nmi = _agreement(group, label)
    by_chance = np.mean([_agreement(group, other) for other in shuffled], axis=0)
    adjusted = (nmi - by_chance[1]) / (1 - by_chance[1]) if by_chance[1] < 1 else 0.0
    return {
        "purity": pure,
        "purity_chance": float(by_chance[0]),
        "nmi": nmi,
        "nmi_chance": float(by_chance[1]),
        "nmi_adjusted": float(adjusted),
    }


def _agreement(group: Integers, label: Integers) -> tuple[float, float]:
    """Purity and NMI of two groupings."""
    kinds = int(label.max()) + 1
    pair, count = np.unique(group * kinds + label, return_counts=True)
    most = np.zeros(int(group.max()) + 1, np.int64)
    np.maximum.at(most, pair // kinds, count)
    entropies = entropy_bits(np.bincount(group)) + entropy_bits(np.bincount(label))
    shared = entropies - entropy_bits(count)
    return float(most.sum() / len(group)), float(2 * shared / entropies) if entropies else 1.0
