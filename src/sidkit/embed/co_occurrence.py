"""Co-occurrence vectors: which items occur together in sequences, to be appended to embeddings.

    counts    how often two items are at most `window` apart, in either order; with window 0, in how many sequences both
              are, each divided by its number of items, so that the order of sequences makes no difference
    PMI       the logarithm of (the pair's share of all counts) / (one item's share * the other's), or zero where that
              is negative; an item's share is of sums of counts to the power 0.75, which favours rare items less
    vectors   the first d singular vectors of that matrix, each times the root of its value; rows of length one

Items that occur with the same others get similar vectors. A tokenizer fitted to embeddings and these gives similar
codes to items that are similar in either sense; docs/results/beyond.md has what that gains.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..data.embeddings import open_embeddings
from ..data.items import match
from ..data.listing import files_of, readable
from ..data.sequences import Sequences
from ..data.source import id_name_of
from ..data.write import write_vectors
from ..engine.threads import one_blas_thread
from ..errors import InputError, SpecError
from ..files.address import Location, for_arrow
from ..geometry import unit
from ..progress import Progress, Silent

__all__ = ["blend", "blend_file", "co_occurrence", "pair_counts", "require_weight", "vectors_of"]

POWER = 0.75
FAINT = 1e-6  # of the longest vector: shorter ones are rounding errors
KEY = b"sidkit.blend"
PART = 1 << 15  # rows written at a time
LARGEST_WEIGHT = 1e6
SMALL = 1 << 24  # numbers of the vectors up to which one thread multiplies about as fast as several

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]


def co_occurrence(
    sequences: Sequences, items: int, d: int = 128, window: int = 5, progress: Progress | None = None
) -> Vectors:
    """A vector for every item, (items, d): of length one, or zero where an item occurs with no other, or with so few
    that the d dimensions do not represent them.

    Everything in the sequences is counted: give their `training()` part where the rest is for validation and test.
    """
    if window < 0:
        raise SpecError(f"the window must be at least 1, or 0 for whole sequences, not {window}")
    if items < 2:
        raise InputError("co-occurrence needs two items at least")
    if not 1 <= d < items:
        raise SpecError(f"co-occurrence of {items:,} items can have 1 to {items - 1:,} dimensions, not {d}")
    report = progress or Silent()
    counts = pair_counts(sequences, items, window, report)
    if not counts.nnz:
        raise InputError("no two items occur together in the sequences; are they too short, or of other items?")
    report.start("vectors", 0)
    vectors, values = _leading(_positive_pmi(counts), d, report.note)
    rows = vectors * np.sqrt(values)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows[length[:, 0] < FAINT * length.max()] = 0.0  # rounding errors never become a direction
    return np.asarray(unit(rows), np.float32)


def pair_counts(sequences: Sequences, items: int, window: int = 5, progress: Progress | None = None) -> Any:
    """How often two items are at most `window` apart: a symmetric sparse matrix (items, items).

    window 0: the sequences that have both, each divided by its number of different items. Unknown items (-1), and an
    item next to itself, are not counted.
    """
    from scipy.sparse import coo_array, csr_array

    if window == 0:
        return _sequences_with_both(sequences, items)
    rows, which = sequences.rows, np.repeat(np.arange(len(sequences)), np.diff(sequences.starts))
    counts = csr_array((items, items))
    window = min(window, int(np.diff(sequences.starts).max(initial=1)) - 1)  # no two are further apart
    report = progress or Silent()
    report.start("count", window)
    for gap in range(1, window + 1):
        a, b = rows[:-gap], rows[gap:]
        pairs = (which[:-gap] == which[gap:]) & (a >= 0) & (b >= 0) & (a != b)
        counts = counts + coo_array((np.ones(pairs.sum()), (a[pairs], b[pairs])), (items, items)).tocsr()
        report.advance(1)
    return (counts + counts.T).tocsr()


def _sequences_with_both(sequences: Sequences, items: int) -> Any:
    from scipy.sparse import coo_array, diags_array

    which = np.repeat(np.arange(len(sequences)), np.diff(sequences.starts))
    has, known = sequences.rows, sequences.rows >= 0
    taken = coo_array((np.ones(known.sum()), (which[known], has[known])), (len(sequences), items)).tocsr()
    taken.data[:] = 1.0  # repeats were summed
    share = 1.0 / np.maximum(np.asarray(taken.sum(axis=1)), 1.0)
    counts = (taken.T @ diags_array(share) @ taken).tocoo()
    row, column = counts.coords if hasattr(counts, "coords") else (counts.row, counts.col)
    pairs = row != column
    return coo_array((counts.data[pairs], (row[pairs], column[pairs])), (items, items)).tocsr()


def _positive_pmi(counts: Any) -> Any:
    mass = np.asarray(counts.sum(axis=1)) ** POWER
    pmi = counts.tocoo()
    row, column = pmi.coords if hasattr(pmi, "coords") else (pmi.row, pmi.col)
    pmi.data = np.maximum(np.log(pmi.data * mass.sum() ** 2 / (counts.sum() * mass[row] * mass[column])), 0.0)
    return pmi.tocsr()


def _leading(matrix: Any, d: int, note: Callable[[str], None]) -> tuple[Floats, Floats]:
    """The d largest singular values of a symmetric matrix, and their vectors (items, d)."""
    # Not `text.directions`, which is faster and not exact: the figures in docs/results/beyond.md are of these vectors.
    from scipy.sparse.linalg import LinearOperator, eigsh

    class Counted(LinearOperator):  # type: ignore[misc]
        done = 0

        def _matvec(self, x: Floats) -> Floats:
            self.done += 1
            note(f"{self.done:,} products")
            return np.asarray(matrix @ x)

    start = np.random.default_rng(0).uniform(0.5, 1.5, matrix.shape[0])
    restarts = {"rng": 0} if "rng" in signature(eigsh).parameters else {}  # random vectors of ARPACK's restarts
    with one_blas_thread(matrix.shape[0] * d <= SMALL):
        values, vectors = eigsh(Counted(matrix.dtype, matrix.shape), k=d, which="LM", v0=start, **restarts)
    return vectors, np.abs(values)


def blend(X: Any, vectors: Any, weight: float = 1.0) -> Vectors:
    """Rows (n, d), scaled to length one, with `weight` times their vectors (n, k) appended: (n, d + k)."""
    require_weight(weight)
    if len(X) != len(vectors):
        raise InputError(f"cannot append {len(vectors):,} vectors to {len(X):,} embeddings")
    return np.concatenate([unit(np.asarray(X, np.float32)), weight * np.asarray(vectors)], 1).astype(np.float32)


def require_weight(weight: float) -> None:
    if not 0 < weight <= LARGEST_WEIGHT:
        raise SpecError(f"the weight must be a positive number, {LARGEST_WEIGHT:,.0f} at most, not {weight}")


def blend_file(
    source: Any,
    vectors: Vectors,
    weight: float,
    output: Location,
    facts: dict[str, Any],
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the ids and blended rows of embeddings to a Parquet file that `vectors_of` reads; the facts about it."""
    report = progress or Silent()
    d, k = source.shape[1], vectors.shape[1]
    report.start("blend", source.shape[0])

    def parts() -> Iterator[Vectors]:
        start = 0
        for chunk in source.chunks(PART):
            yield blend(chunk, vectors[start : start + len(chunk)], weight)
            start += len(chunk)
            report.advance(len(chunk))

    facts = facts | {"d": d, "beside": k}
    notes = {KEY: json.dumps(facts).encode()}
    write_vectors(output, source.ids, parts(), d + k, notes, id_name_of(source) or "item_id")
    return facts | {"items": len(source.ids), "alone": int((~vectors.any(axis=1)).sum())}


def vectors_of(path: str | Path, ids: Any, d: int) -> tuple[Vectors, dict[str, Any]]:
    """The co-occurrence vectors of these ids in a blended file, zeros for ids it lacks; and the facts about the file.

    d: the dimension of the embeddings that they will be appended to.
    """
    first = files_of(path)[0]
    with readable(first):
        note = (pq.read_schema(for_arrow(first)).metadata or {}).get(KEY)
    try:
        facts = json.loads(note or b"null")
        before, k = int(facts["d"]), int(facts["beside"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise InputError(f"{path} was not written by `sidkit blend`") from None
    known = open_embeddings(path)
    if known.shape[1] != before + k or before < 1 or k < 1:
        raise InputError(f"{path} should have {before} + {k} dimensions by its metadata, but has {known.shape[1]}")
    if before != d:
        raise InputError(f"the embeddings have {d} dimensions, those in {path} had {before}")
    rows = match(ids, known.ids)
    vectors = np.zeros((len(rows), k), np.float32)
    vectors[rows >= 0] = known.take(rows[rows >= 0])[:, d:]
    return vectors, facts
