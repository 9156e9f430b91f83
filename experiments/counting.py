"""What recommending without a model gives on the public datasets, to compare with the TIGER tables.

    python experiments/counting.py DATA -o experiments/results/counting.json

popular and followed are `sidkit.measure.counting.counted`; together is item-based nearest neighbours: items by the
cosine of who took them in training, summed over the user's last 20 items, each divided by how long ago it was.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import scipy
from made import made, write_datasets
from scipy import sparse
from tables import read_options
from tiger_codes import sequences_of

from sidkit.data.sequences import Sequences
from sidkit.measure.counting import counted
from sidkit.measure.ranking import mean_figures
from sidkit.retriever.data import examples

HISTORY, USERS = 20, 2000  # items of a history, and users at once


def together(sequences: Sequences, items: int) -> np.ndarray:
    """(users,) the rank of each test item, from 0; items of equal score come in the order of their rows."""
    seen = sequences.training()
    user = np.repeat(np.arange(len(seen)), np.diff(seen.starts))
    taken = sparse.csr_matrix((np.ones(len(user)), (user, seen.rows)), shape=(len(seen), items))
    taken.data[:] = 1.0  # however often
    taken = taken @ sparse.diags(1 / np.sqrt(np.maximum(taken.getnnz(0), 1)))
    alike = (taken.T @ taken).tocsr()
    alike.setdiag(0)
    test, ranks = examples(sequences, "test", HISTORY), []
    for start in range(0, len(test), USERS):
        position, length = test.position[start : start + USERS], test.length[start : start + USERS]
        ago = np.arange(1, HISTORY + 1)
        there = ago <= length[:, None]
        rows = sequences.rows[np.maximum(position[:, None] - ago, 0)]
        weights = np.broadcast_to(1 / ago, there.shape)[there]
        which = np.nonzero(there)[0]
        history = sparse.csr_matrix((weights, (which, rows[there])), shape=(len(position), items))
        scores, target = (history @ alike).toarray(), sequences.rows[position]
        score = scores[np.arange(len(target)), target][:, None]
        ranks.append((scores > score).sum(1) + ((scores == score) & (np.arange(items) < target[:, None])).sum(1))
    return np.concatenate(ranks)


def main() -> None:
    options = read_options(__doc__, "data")
    results = {}
    for dataset in options.datasets:
        folder: Path = options.data / dataset
        items, sequences = pq.read_metadata(folder / "items.parquet").num_rows, sequences_of(folder)
        figures = counted(sequences, items) | {"together": mean_figures(together(sequences, items))}
        results[dataset] = {"users": len(examples(sequences, "test"))} | figures
        print(dataset, {name: round(figure["ndcg@20"], 4) for name, figure in figures.items()}, flush=True)
    where = made("python experiments/counting.py DATA -o experiments/results/counting.json")
    write_datasets(options.output, where | {"scipy": scipy.__version__}, results)


if __name__ == "__main__":
    main()
