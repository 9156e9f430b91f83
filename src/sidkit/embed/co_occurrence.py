"""Embeddings say what items are. What they are taken with stands in sequences; here it comes beside the embeddings.

    counts    how often two items stand at most `window` apart, in either order
    PMI       the logarithm of (the pair's share of all counts) / (one item's share * the other's), or zero where that
              is negative; an item's share is of sums of counts to the power 0.75, which favours rare items less
    vectors   the first d singular vectors of that matrix, each times the root of its value; rows of length one

Items that are taken with the same others get vectors that are alike. Tokenizers fitted to both give near items near
codes in both senses; how much that is worth is told in docs/results.md.
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
from ..data.listing import readable
from ..data.sequences import Sequences
from ..data.write import write_vectors
from ..errors import InputError, SpecError
from ..files.address import Location
from ..geometry import unit
from ..progress import Progress, Silent

__all__ = ["blend", "blend_file", "co_occurrence", "require_weight", "taken_together", "vectors_of"]

POWER = 0.75
FAINT = 1e-6  # of the longest vector: what is shorter says nothing
KEY = b"sidkit.blend"
PART = 1 << 15  # rows written at a time
MOST = 1e6  # weight

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]


def co_occurrence(
    sequences: Sequences, items: int, d: int = 128, window: int = 5, progress: Progress | None = None
) -> Vectors:
    """A vector for every one of so many items, (items, d): of length one, or zero where an item is taken with no other,
    or with so few that the d dimensions say nothing of them.

    Everything in the sequences is counted: give their `training()` part where the rest is for validation and test.
    """
    if window < 1:
        raise SpecError(f"the window must be at least 1, not {window}")
    if items < 2:
        raise InputError("co-occurrence needs two items at least")
    if not 1 <= d < items:
        raise SpecError(f"co-occurrence of {items:,} items can have 1 to {items - 1:,} dimensions, not {d}")
    report = progress or Silent()
    counts = taken_together(sequences, items, window, report)
    if not counts.nnz:
        raise InputError("no two items stand together in the sequences; are they too short, or of other items?")
    report.start("vectors", 0)
    vectors, values = _leading(_positive_pmi(counts), d, report.note)
    rows = vectors * np.sqrt(values)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows[length[:, 0] < FAINT * length.max()] = 0.0  # rounding errors never become a direction
    return np.asarray(unit(rows), np.float32)


def taken_together(sequences: Sequences, items: int, window: int = 5, progress: Progress | None = None) -> Any:
    """How often two items stand at most `window` apart: a symmetric sparse matrix (items, items).

    Items that no table knows (-1), and an item beside itself, do not count.
    """
    from scipy.sparse import coo_array, csr_array

    rows, which = sequences.rows, np.repeat(np.arange(len(sequences)), np.diff(sequences.starts))
    counts = csr_array((items, items))
    window = min(window, int(np.diff(sequences.starts).max(initial=1)) - 1)  # no two are further apart
    report = progress or Silent()
    report.start("count", window)
    for gap in range(1, window + 1):
        a, b = rows[:-gap], rows[gap:]
        kept = (which[:-gap] == which[gap:]) & (a >= 0) & (b >= 0) & (a != b)
        counts = counts + coo_array((np.ones(kept.sum()), (a[kept], b[kept])), (items, items)).tocsr()
        report.advance(1)
    return (counts + counts.T).tocsr()


def _positive_pmi(counts: Any) -> Any:
    mass = np.asarray(counts.sum(axis=1)) ** POWER
    pmi = counts.tocoo()
    row, column = pmi.coords if hasattr(pmi, "coords") else (pmi.row, pmi.col)
    pmi.data = np.maximum(np.log(pmi.data * mass.sum() ** 2 / (counts.sum() * mass[row] * mass[column])), 0.0)
    return pmi.tocsr()


def _leading(matrix: Any, d: int, note: Callable[[str], None]) -> tuple[Floats, Floats]:
    """The d largest singular values of a symmetric matrix, and their vectors (items, d)."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    class Told(LinearOperator):  # type: ignore[misc]
        done = 0

        def _matvec(self, x: Floats) -> Floats:
            self.done += 1
            note(f"{self.done:,} products")
            return np.asarray(matrix @ x)

    start = np.random.default_rng(0).uniform(0.5, 1.5, matrix.shape[0])
    again = {"rng": 0} if "rng" in signature(eigsh).parameters else {}  # where ARPACK has to start anew
    values, vectors = eigsh(Told(matrix.dtype, matrix.shape), k=d, which="LM", v0=start, **again)
    return vectors, np.abs(values)


def blend(X: Any, beside: Any, weight: float = 1.0) -> Vectors:
    """Rows (n, d) at length one with their vectors (n, k), `weight` times, beside them: (n, d + k)."""
    require_weight(weight)
    if len(X) != len(beside):
        raise InputError(f"{len(X):,} embeddings and {len(beside):,} vectors to go beside them")
    return np.concatenate([unit(np.asarray(X, np.float32)), weight * np.asarray(beside)], 1).astype(np.float32)


def require_weight(weight: float) -> None:
    if not 0 < weight <= MOST:
        raise SpecError(f"the weight must be a positive number, {MOST:,.0f} at most, not {weight}")


def blend_file(
    source: Any,
    beside: Vectors,
    weight: float,
    output: Location,
    facts: dict[str, Any],
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the ids and blended rows of embeddings to a Parquet file that `vectors_of` understands; what it says."""
    report = progress or Silent()
    d, k = source.shape[1], beside.shape[1]
    report.start("blend", source.shape[0])

    def parts() -> Iterator[Vectors]:
        start = 0
        for chunk in source.chunks(PART):
            yield blend(chunk, beside[start : start + len(chunk)], weight)
            start += len(chunk)
            report.advance(len(chunk))

    facts = facts | {"d": d, "beside": k}
    write_vectors(output, source.ids, parts(), d + k, {KEY: json.dumps(facts).encode()})
    return facts | {"items": len(source.ids), "alone": int((~beside.any(axis=1)).sum())}


def vectors_of(path: str | Path, ids: Any, d: int) -> tuple[Vectors, dict[str, Any]]:
    """What a blended file has beside the embeddings of these ids, zeros for others; and what it says of itself.

    d: the dimension of the embeddings they are to go beside.
    """
    with readable(Path(path)):
        told = (pq.read_schema(path).metadata or {}).get(KEY)
    try:
        facts = json.loads(told or b"null")
        before, k = int(facts["d"]), int(facts["beside"])
    except (ValueError, TypeError, KeyError, OverflowError):
        raise InputError(f"{path} was not written by `sidkit blend`") from None
    known = open_embeddings(path)
    if known.shape[1] != before + k or before < 1 or k < 1:
        raise InputError(f"{path} says it holds {before} + {k} dimensions and has {known.shape[1]}")
    if before != d:
        raise InputError(f"the embeddings have {d} dimensions, those in {path} had {before}")
    rows = match(ids, known.ids)
    found = np.zeros((len(rows), k), np.float32)
    found[rows >= 0] = known.take(rows[rows >= 0])[:, d:]
    return found, facts
