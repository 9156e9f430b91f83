"""Items with equal embeddings told apart by a private codebook, as OneSearch's release numbers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..stages.cluster.parent_books import ParentBooks
from ..stages.level import FittedLevel

if TYPE_CHECKING:
    from .tokenizer import FittedTokenizer

__all__ = ["number_equal", "require_private"]


def number_equal(fitted: FittedTokenizer, codes: NDArray[Any]) -> NDArray[np.int32]:
    """The codes (n, tokens) of a catalogue, in which equal rows of a small parent have different third tokens.

    A parent with at most K rows has all its rows as centroids. The first of equal rows keeps its code, each further one
    takes, in row order, the next code with that same centroid. So the residual, and every later token, stays.
    """
    done, out = 0, np.array(codes, np.int32)
    for stage in require_private(fitted).stages:
        done += len(stage.sizes)
        if isinstance(stage, FittedLevel) and isinstance(stage.clusters, ParentBooks):
            out[:, done - 1] = stage.clusters.numbered(out[:, :done])
    return out


def require_private(fitted: FittedTokenizer) -> FittedTokenizer:
    """The tokenizer; an error unless it has a level with a codebook per parent."""
    if not any(isinstance(stage, FittedLevel) and isinstance(stage.clusters, ParentBooks) for stage in fitted.stages):
        raise SpecError("only a tokenizer with a codebook per parent numbers equal rows, such as rq-opq")
    return fitted
