"""Whether prefixes follow categories: purity and mutual information, compared with shuffled labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.joined import as_labels
from ..errors import InputError
from ..sids.prefixes import by_first_token, prefix_numbers, require_codes, token_counts

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
    label, names = as_labels(labels)
    labelled = np.array([bool(name) for name in names])[label]
    if not labelled.any():
        raise InputError("no item has a label; is the category column empty?")
    rows = None if labelled.all() else np.flatnonzero(labelled)
    array, label = (array, label) if rows is None else (array[rows], label[rows])
    used, label = _renumbered(label, len(names))
    levels = _agreement(array, sizes, label)
    rng = np.random.default_rng(seed)
    by_chance = np.mean([_agreement(array, sizes, rng.permutation(label)) for _ in range(SHUFFLES)], axis=0)
    nmi, nmi_chance = levels[:, 1], by_chance[:, 1]
    adjusted = np.where(nmi_chance < 1, (nmi - nmi_chance) / np.where(nmi_chance < 1, 1 - nmi_chance, 1), 0.0)
    counts = {"items_labelled": len(label), "items_unlabelled": int((~labelled).sum()), "labels": used}
    return counts | {
        "purity": levels[:, 0].tolist(),
        "purity_chance": by_chance[:, 0].tolist(),
        "nmi": nmi.tolist(),
        "nmi_chance": nmi_chance.tolist(),
        "nmi_adjusted": adjusted.tolist(),
    }


def _renumbered(label: NDArray[np.int32], names: int) -> tuple[int, NDArray[np.int32]]:
    """The labels that occur: how many, and their numbers without gaps."""
    occurs = token_counts(label, names) > 0
    return int(occurs.sum()), (np.cumsum(occurs) - 1).astype(np.int32)[label]


def _agreement(codes: NDArray[Any], sizes: Sequence[int], label: NDArray[np.int32]) -> NDArray[np.float64]:
    """Purity and NMI of the prefixes of every level with the labels: (levels, 2).

    Prefixes are counted some first tokens at a time; sums over them are all that is needed.
    """
    n, kinds = len(label), int(label.max()) + 1
    pure, of_groups, of_pairs = (np.zeros(len(sizes)) for _ in range(3))
    for rows in by_first_token(codes, sizes):
        for level, number in enumerate(prefix_numbers(codes[rows], sizes)):
            values, group = np.unique(number, return_inverse=True)
            pair, count = np.unique(group * kinds + label[rows], return_counts=True)
            most = np.zeros(len(values), np.int64)
            np.maximum.at(most, pair // kinds, count)
            pure[level] += most.sum()
            of_groups[level] += _entropy_part(np.bincount(group), n)
            of_pairs[level] += _entropy_part(count, n)
    entropies = of_groups + _entropy_part(token_counts(label, kinds), n)
    nmi = np.where(entropies > 0, 2 * (entropies - of_pairs) / np.where(entropies > 0, entropies, 1), 1.0)
    return np.stack([pure / n, nmi], axis=1)


def _entropy_part(counts: Integers, n: int) -> float:
    """What groups of these sizes among n rows add to the entropy, in bits."""
    share = counts[counts > 0] / n
    return float(-(share @ np.log2(share))) + 0.0
