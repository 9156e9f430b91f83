"""A tokenizer with its codewords renumbered: the arrays of its stages in another order, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..stages.cluster.per_parent import ParentBooks
from ..stages.level import FittedLevel
from ..stages.scalar import FittedFSQ
from ..stages.stage import Fitted
from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["BitMap", "CodeMap", "ParentMap", "Renumbering", "TokenMap", "renumbered"]

Integers = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class CodeMap:
    """One permutation for a token: code j becomes new[j]."""

    new: Integers  # (K,)

    def apply(self, codes: NDArray[Any]) -> NDArray[Any]:
        """The new codes (n,) of rows whose tokens so far, with this one as the last, are codes."""
        moved: Integers = self.new[codes[:, -1]]
        return moved


@dataclass(frozen=True, eq=False)
class ParentMap:
    """A permutation under every parent: the centroid in row r of all books becomes code new[r] of its parent."""

    books: ParentBooks
    new: Integers  # (M,)

    def apply(self, codes: NDArray[Any]) -> NDArray[Any]:
        """As for `CodeMap`; under a parent that the fit did not have, codes stay."""
        parent, code = self.books.parents_of(codes[:, :-1]), codes[:, -1].astype(np.int64)
        row = np.where(parent >= 0, self.books.starts[np.maximum(parent, 0)] + code, 0)
        return np.where(parent >= 0, self.new[np.minimum(row, len(self.new) - 1)], code)


@dataclass(frozen=True, eq=False)
class BitMap(CodeMap):
    """A permutation that reorders the bits of a code and inverts some: bit i of a code becomes bit to[i]."""

    to: Integers  # (bits,)
    flipped: NDArray[np.bool_]  # (bits,) by the old bit

    @classmethod
    def of(cls, to: Sequence[int], flipped: Sequence[bool]) -> BitMap:
        codes, turned = np.arange(2 ** len(to)), np.zeros(2 ** len(to), np.int64)
        for bit, (target, turn) in enumerate(zip(to, flipped, strict=True)):
            turned |= (((codes >> bit) & 1) ^ int(turn)) << int(target)
        return cls(turned, np.asarray(to, np.int64), np.asarray(flipped, bool))


TokenMap = CodeMap | ParentMap


@dataclass(frozen=True, eq=False)
class Renumbering:
    """A map for every token."""

    maps: tuple[TokenMap, ...]

    def apply(self, codes: Any) -> NDArray[np.int32]:
        """The renumbered codes of rows with codes (n, tokens), or of their first tokens."""
        array = np.asarray(codes)
        columns = [self.maps[token].apply(array[:, : token + 1]) for token in range(array.shape[1])]
        return np.stack(columns, axis=1).astype(np.int32) if columns else array.astype(np.int32)


def renumbered(fitted: FittedTokenizer, renumbering: Renumbering) -> FittedTokenizer:
    """The same tokenizer with other code numbers. Its spec, and whatever has no number, stay as they are."""
    stages, done = list[Fitted](), 0
    for spec, stage in zip(fitted.spec.stages, fitted.stages, strict=True):
        maps = renumbering.maps[done : done + len(stage.sizes)]
        arrays = _arrays(stage, maps, renumbering, done) if maps else stage.arrays
        stages.append(spec.restore(arrays, fitted.d))
        done += len(stage.sizes)
    return replace(fitted, stages=tuple(stages), fitted_rows=None)


def _arrays(stage: Fitted, maps: Sequence[TokenMap], renumbering: Renumbering, done: int) -> Mapping[str, Any]:
    """The arrays of a stage after its tokens, and those of the stages before it, were renumbered."""
    out = {name: np.array(array) for name, array in stage.arrays.items()}
    if isinstance(stage, FittedFSQ):
        return _turned_bits(stage, maps)
    if isinstance(stage, FittedLevel):
        first = maps[0]
        if isinstance(first, ParentMap):
            return _parent_arrays(first, renumbering, done)
        return {name: _moved(array, first.new) for name, array in out.items()}
    for token, one in enumerate(maps):
        name = next((name for name in (f"centroids{token}", f"codebook.{token}") if name in out), None)
        if name is None or not isinstance(one, CodeMap) or len(out[name]) != len(one.new):
            raise SpecError(f"the codes of {type(stage).__name__} cannot be renumbered: it has no codebook per token")
        out[name] = _moved(out[name], one.new)
    return out


def _moved(array: NDArray[Any], new: Integers) -> NDArray[Any]:
    """The rows of an array at their new numbers."""
    out = np.empty_like(array)
    out[new] = array
    return out


def _turned_bits(stage: FittedFSQ, maps: Sequence[TokenMap]) -> Arrays:
    """Directions and bias of FSQ with bits in their new positions; an inverted bit has the opposite direction."""
    directions, bias = np.array(stage.directions), np.array(stage.bias)
    each = len(bias) // stage.count
    for token, one in enumerate(maps):
        if not isinstance(one, BitMap):
            raise SpecError("the codes of FSQ are bits; only whole bits can be reordered or inverted")
        sign = np.where(one.flipped, -1, 1).astype(bias.dtype)
        columns = slice(token * each, (token + 1) * each)
        moved_directions, moved_bias = np.empty_like(directions[:, columns]), np.empty_like(bias[columns])
        moved_directions[:, one.to] = stage.directions[:, columns] * sign
        moved_bias[one.to] = stage.bias[columns] * sign
        directions[:, columns], bias[columns] = moved_directions, moved_bias
    return {"directions": directions, "bias": bias}


def _parent_arrays(one: ParentMap, renumbering: Renumbering, done: int) -> Arrays:
    """The books of all parents by their new keys, each with its centroids at their new numbers."""
    books = one.books
    width = books.keys.shape[1]
    if width == done:
        keys = renumbering.apply(books.keys).astype(np.int64)
    elif isinstance(last := renumbering.maps[done - 1], CodeMap):
        keys = last.new[books.keys]
    else:
        raise SpecError("a level with codebooks per last token cannot follow one with codebooks per parent")
    order = np.lexsort(keys[:, ::-1].T)
    length = np.diff(books.starts)
    starts = np.concatenate([[0], np.cumsum(length[order])]).astype(np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    parent = np.repeat(np.arange(len(length)), length)
    centroids = np.empty_like(books.centroids)
    centroids[starts[rank[parent]] + one.new] = books.centroids
    return {"parents": keys[order], "starts": starts, "centroids": centroids, "common": np.array(books.common)}
