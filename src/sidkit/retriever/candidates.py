"""The items that a fused list may hold: those of the beams, and those that counting knows; each with all it has.

Every candidate has the model's probability, whether a beam reached it or not: SIDs that counting brings are scored by
the model as well. All is flat, an entry per user and item, so that users may have any number of candidates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..decoding.device_trie import DeviceTrie
from ..measure.counting_tables import CountTables, entries_of
from ..sids.trie import Trie
from ..sids.vocabulary import Vocabulary
from .beams import search_and_score
from .evaluation import users_at_once
from .model import Shape, Weights

__all__ = ["Candidates", "Searcher", "UserHistories"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
COUNTED = 40  # items that each count may add to a user's candidates, and as many that the user did not have
COUNTED_AT_ONCE = 2048  # users whose counts are looked up at once
ENTRIES = 1 << 22  # candidates of all users at once


class UserHistories(NamedTuple):
    """Users' histories: rows[position - length : position], table rows in time order, each of at least one item; had:
    how many items before the position each user had, of which the model reads the latest."""

    rows: Integers
    position: Integers
    length: Integers
    had: Integers

    @classmethod
    def of(cls, histories: Any, most: int) -> UserHistories:
        """Of lists of table rows, of which the latest `most` are read."""
        joined = Sequences.of(histories)
        had = np.diff(joined.starts)
        return cls(joined.rows, joined.starts[1:], np.minimum(had, most), had)

    def table(self) -> tuple[Integers, NDArray[np.bool_]]:
        """(n, longest) the items, padded on the left, and which are real."""
        back = np.arange(int(self.length.max()), 0, -1)
        return self.rows[np.maximum(self.position[:, None] - back, 0)], back <= self.length[:, None]

    def past(self, items: int) -> Integers:
        """user * items + item of everything that the users had."""
        user = np.repeat(np.arange(len(self.had)), self.had)
        back = _order_within(user) + 1
        past: Integers = user * items + self.rows[self.position[user] - back]
        return past


class Candidates(NamedTuple):
    """An entry per user and item, sorted by both.

    model      the model's probability of the item: that of its SID, shared equally by the SID's items
    followed   how often it came right after the user's last item; after: how often any item did
    flow       how much of the history flows into it (`measure/counting_tables.py`)
    together   how near it is to the history, all items of a user adding up to one
    beside     how near it is to the last item alone
    popular    how often it was taken
    length     how many items of the history the model reads
    past       whether the user had it, however long ago
    """

    users: int
    user: Integers
    item: Integers
    model: Floats
    followed: Floats
    after: Floats
    flow: Floats
    together: Floats
    beside: Floats
    popular: Integers
    length: Integers
    past: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: list[Candidates]) -> Candidates:
        """Those of several groups of users as those of one."""
        first = np.cumsum([0, *(part.users for part in parts)])
        users = np.concatenate([part.user + start for part, start in zip(parts, first, strict=False)])
        rest = [np.concatenate(values) for values in zip(*(part[2:] for part in parts), strict=True)]
        return cls(int(first[-1]), users, *rest)

    def where(self, kept: NDArray[np.bool_]) -> Candidates:
        """These entries alone, of as many users."""
        entries: list[Any] = [values[kept] for values in self[1:]]
        return Candidates(self.users, *entries)


class Searcher:
    """Finds the candidates of users: beams of a model, and counts."""

    def __init__(
        self, weights: Weights, shape: Shape, trie: Trie, sizes: tuple[int, ...], items: int, tables: CountTables
    ) -> None:
        """weights: of one run, in the dtype of matrix products."""
        self.weights, self.shape, self.trie, self.tables = weights, shape, trie, tables
        self.device = weights["shared"].device
        self.vocabulary = Vocabulary(sizes)
        self.on_device = DeviceTrie(trie, self.vocabulary, self.device)
        self.leaf = trie.leaf_of(items)

    def at_once(self, beams: int) -> int:
        """Users whose candidates are found at once, so that memory is bounded whatever the codebook and collisions."""
        return max(
            1, min(COUNTED_AT_ONCE, users_at_once(self.vocabulary.sizes, beams), ENTRIES // self.of_a_user(beams))
        )

    def of_a_user(self, beams: int) -> int:
        """About how many candidates a user has: the items of the beams, and those that counts add."""
        counts = np.asarray(self.trie.counts, np.float64)
        return int(beams * (counts**2).sum() / counts.sum()) + 6 * COUNTED

    def __call__(self, histories: UserHistories, tokens: NDArray[Any], beams: int) -> Candidates:
        """tokens: (items, levels) of the table."""
        rows, real = histories.table()
        read = torch.as_tensor(np.where(real[..., None], tokens[rows], 0), device=self.device).flatten(1)
        counts = _Counts.of(self.tables, histories)
        past = np.unique(histories.past(len(self.leaf)))
        several = (counts.followed, counts.flow, counts.near)
        known = np.unique(np.concatenate([self._counted(table, past) for table in several]))
        user, item = np.divmod(known, len(self.leaf))
        grid, place = _padded(user, len(histories.position))
        further = np.zeros((*grid, tokens.shape[1]), np.int64)
        further[user, place] = tokens[item] - np.asarray(self.vocabulary.first)
        best, scores = search_and_score(
            self.weights, self.shape, self.on_device, read, beams, torch.as_tensor(further, device=self.device)
        )
        counted = (known, scores.double().cpu().numpy()[user, place] - np.log(self._group(item)))
        found = self._beams(best.leaf.cpu().numpy(), best.score.double().cpu().numpy())
        return self._union(histories, counted, found, counts, past)

    def _counted(self, table: Any, past: Integers) -> Integers:
        """user * items + item of the COUNTED largest of each row that can be recommended, and of the COUNTED largest
        among those that are not in the past; of equal values, those of earlier items."""
        user, item, value = entries_of(table)
        inside = self.leaf[item] >= 0
        order = np.lexsort((item[inside], -value[inside], user[inside]))
        user, item = user[inside][order], item[inside][order]
        key = user * len(self.leaf) + item
        new = ~np.isin(key, past)
        among_new = np.empty(len(key), np.int64)
        among_new[new], among_new[~new] = _order_within(user[new]), COUNTED
        return key[(_order_within(user) < COUNTED) | (among_new < COUNTED)]

    def _group(self, item: Integers) -> Integers:
        """How many items have the SID of each."""
        return np.asarray(self.trie.counts)[self.leaf[item]]

    def _beams(self, leaf: Integers, score: Floats) -> tuple[Integers, Floats]:
        """The items of the beams: user * items + item, log-probability."""
        user, beam = np.nonzero(leaf >= 0)
        which = leaf[user, beam]
        group = np.asarray(self.trie.counts)[which]
        within = _order_within(np.repeat(np.arange(len(group)), group))
        item = self.trie.rows[np.repeat(self.trie.bounds[which], group) + within].astype(np.int64)
        return np.repeat(user, group) * len(self.leaf) + item, np.repeat(score[user, beam] - np.log(group), group)

    def _union(self, histories: UserHistories, counted: Any, found: Any, counts: _Counts, past: Integers) -> Candidates:
        every, score = (np.concatenate(parts) for parts in zip(found, counted, strict=True))
        key, first = np.unique(every, return_index=True)
        user, item = np.divmod(key, len(self.leaf))
        after, mass = (np.asarray(table.sum(1)).ravel() for table in (counts.followed, counts.near))
        return Candidates(
            len(histories.position), user, item, np.exp(score[first]),
            _looked_up(counts.followed, user, item), after[user].astype(np.float64),
            _looked_up(counts.flow, user, item),
            _looked_up(counts.near, user, item) / np.maximum(mass, 1e-30)[user],
            _looked_up(counts.beside, user, item),
            self.tables.popular[item], histories.length[user], np.isin(key, past),
        )  # fmt: skip


class _Counts(NamedTuple):
    """What counting says of every item to every user: sparse tables (users, items)."""

    followed: Any  # came right after the last item
    flow: Any
    near: Any
    beside: Any

    @classmethod
    def of(cls, tables: CountTables, histories: UserHistories) -> _Counts:
        last, read = histories.rows[histories.position - 1], tables.histories(*histories[:3])
        return cls(tables.after(last), read @ tables.flow, read @ tables.together, tables.together[last])


def _order_within(user: Integers) -> Integers:
    """For each entry, how many entries of the same user are before it; user: sorted."""
    counts = np.bincount(user) if len(user) else np.zeros(0, np.int64)
    return np.arange(len(user)) - np.repeat(np.cumsum(counts) - counts, counts)


def _padded(user: Integers, users: int) -> tuple[tuple[int, int], Integers]:
    """The shape of a table with the entries of every user in a row, and the column of each; user: sorted."""
    return (users, int(np.bincount(user, minlength=users).max(initial=0))), _order_within(user)


def _looked_up(table: Any, row: Integers, column: Integers) -> Floats:
    """The values of a sparse table at these places, 0 where it has none."""
    rows, columns, values = entries_of(table)
    width = table.shape[1]
    order = np.argsort(rows * width + columns)
    keys = (rows * width + columns)[order]
    if not len(keys):
        return np.zeros(len(row))
    wanted = row * width + column
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[order][at], 0.0)
