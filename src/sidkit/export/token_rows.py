"""Embedding rows for SID tokens, made from the centroids that the tokens stand for.

transformers starts new rows as one and the same vector, up to noise. Centroids give them the geometry of the items:

    row = m + s (c - c̄) P        c: the centroid, c̄: the mean of its level, P: to the width of the model
    m, s: so that the rows of a level have the mean and the spread of the rows that the model was trained with
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..stages.cluster.per_parent import ParentBooks
from ..stages.level import FittedLevel
from ..stages.stage import HasCodebooks

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["level_codebooks", "rows_from_centroids"]

Floats = NDArray[np.float64]


def level_codebooks(fitted: FittedTokenizer) -> list[Floats]:
    """One codebook per token, or an error where a token does not stand for one vector."""
    books: list[Floats] = []
    for stage in fitted.stages:
        if not stage.sizes:
            continue
        private = isinstance(stage, FittedLevel) and isinstance(stage.clusters, ParentBooks)
        if private or not isinstance(stage, HasCodebooks):
            why = "has a codebook under every parent" if private else "is a binary code"
            raise InputError(
                f"token {len(books) + 1} of {fitted.spec.name or 'this tokenizer'} {why}, so no centroid stands for "
                "it; extend the tokenizer alone with --set rows=false"
            )
        books += [np.asarray(book, np.float64) for book in stage.codebooks]
    return books


def rows_from_centroids(books: Sequence[NDArray[Any]], old: Floats, seed: int) -> Floats:
    """(tokens, width): a row for every code, level by level. old: (rows, width) that the model was trained with."""
    mean = old.mean(axis=0)
    spread = float(np.sqrt(((old - mean) ** 2).sum(axis=1).mean()))
    rows = []
    for level, book in enumerate(books):
        centred = book - book.mean(axis=0)
        turned = centred @ _to_width(centred, old.shape[1], np.random.default_rng((seed, level)))
        own = float(np.sqrt((turned**2).sum(axis=1).mean()))
        rows.append(mean + turned * (spread / own if own > 0 else 0.0))
    return np.concatenate(rows)


def _to_width(centred: Floats, width: int, rng: np.random.Generator) -> Floats:
    """(d, width): a random rotation into a wider space; the principal directions, rotated, where it is narrower.

    Every level has its own rotation, so that equal centroids of two levels do not start as equal rows.
    """
    d = centred.shape[1]
    turn, _ = np.linalg.qr(rng.normal(size=(width, width)))
    if d <= width:
        return np.asarray(turn[:d])
    _, _, directions = np.linalg.svd(centred, full_matrices=True)
    return np.asarray(directions[:width].T @ turn)
