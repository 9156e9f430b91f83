"""The ranks of held-out items by counting: what is popular, what followed the last item, what was taken together, and
both of these mixed as a fusion mixes them, without a model: share * followed / (after + PRIOR) + (1 - share) *
together, scaled to one."""

from __future__ import annotations

import numpy as np
from scipy.sparse import diags_array

from sidkit.data.sequences import Sequences
from sidkit.measure.counting_tables import CountTables, entries_of
from sidkit.retriever.data import examples

COUNTED: dict[str, list[dict]] = {  # by method, the settings that validation chooses among
    "popular": [{}],
    "followed": [{}],
    "together": [{"history": history} for history in (1, 5, 20)],
    "mixed": [{"share": share} for share in (0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9)],
}
PRIOR = 2.0
USERS = 2000  # at once


def counted_ranks(
    sequences: Sequences, items: int, method: str, split: str, history: int = 20, share: float = 0.5
) -> dict:
    """(users,) ranks from 0, by whether items that the user had may be recommended again: all of them, however much of
    the history counts. Ties go by popularity, then by row; items that no count has come last, in the same order."""
    tables, held_out = CountTables.of(sequences.training(), items), examples(sequences, split, history)
    popular = np.empty(items, np.int64)  # the rank of every item
    popular[np.argsort(-tables.popular, kind="stable")] = np.arange(items)
    ranks = {True: [], False: []}
    for start in range(0, len(held_out), USERS):
        users = slice(start, start + USERS)
        position, length = held_out.position[users], held_out.length[users]
        entries = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        if method == "followed":
            entries = entries_of(tables.after(sequences.rows[position - 1]))
        elif method == "together":
            entries = entries_of(tables.near(sequences.rows, position, length))
        elif method == "mixed":
            near = tables.near(sequences.rows, position, length)
            entries = entries_of(mixed(tables.after(sequences.rows[position - 1]), near, share))
        who, item = had(sequences, split, users)
        taken = np.unique(who * items + item)
        target = sequences.rows[position]
        ranks[True].append(ranks_among(entries, taken[:0], target, popular))
        ranks[False].append(ranks_among(entries, taken, target, popular))
    return {repeats: np.concatenate(parts) for repeats, parts in ranks.items()}


def had(sequences: Sequences, split: str, users: slice) -> tuple[np.ndarray, np.ndarray]:
    """(user, item) of all that these users of a split had before the item to predict; users from 0."""
    held_out = examples(sequences, split, len(sequences.rows))
    position, length = held_out.position[users], held_out.length[users]
    user = np.repeat(np.arange(len(position)), length)
    ago = np.arange(len(user)) - np.repeat(np.cumsum(length) - length, length) + 1
    return user, sequences.rows[position[user] - ago]


def mixed(followed, near, share: float):
    """(users, items) sparse: the sum of both counts, each of every user scaled."""
    after, mass = (np.asarray(table.sum(1)).ravel() for table in (followed, near))
    scales = share / (after + PRIOR), (1 - share) / np.maximum(mass, 1e-30)
    return sum(
        diags_array(scale).tocsr() @ table for scale, table in zip(scales, (followed, near), strict=True)
    ).tocsr()


def ranks_among(entries: tuple, taken: np.ndarray, target: np.ndarray, popular: np.ndarray) -> np.ndarray:
    """entries: (user, item, score) of what has a score; taken: user * items + item of what is left out, sorted."""
    users, items = len(target), len(popular)
    user, item, score = entries
    kept = ~np.isin(user * items + item, taken)
    user, item, score = user[kept], item[kept], score[kept]
    own, wanted = np.zeros(users), item == target[user]
    own[user[wanted]] = score[wanted]
    earlier = popular[item] < popular[target][user]
    before = (score > own[user]) | ((score == own[user]) & earlier)
    scored = np.bincount(user[before], minlength=users)
    out, left_out = taken // items, taken % items
    ahead = np.bincount(user[earlier], minlength=users)  # popular ones that have a score already
    ahead = ahead + np.bincount(out[popular[left_out] < popular[target][out]], minlength=users)
    unscored = np.bincount(user, minlength=users) + popular[target] - ahead
    rank = np.where(own > 0, scored, unscored)
    return np.where(np.isin(np.arange(users) * items + target, taken), items, rank)
