"""From codes back to vectors: what a SID, or a prefix of one, stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError
from ..stages.level import FittedLevel
from ..stages.prepare import FittedNormalize, FittedRemoveMean
from ..stages.stage import Decodes, Fitted

__all__ = ["decode_codes"]

AT_ONCE = 1 << 16  # rows


def decode_codes(stages: Sequence[Fitted], codes: Any, d: int, dtype: str) -> NDArray[Any]:
    """The vectors of codes (n, tokens), which may be the first tokens of SIDs: (n, d)."""
    sizes = [size for stage in stages for size in stage.sizes]
    array = _codes(codes, sizes)
    used = _first_stages(stages, array.shape[1])
    of_length_one = [False, *map(_has_length_one, used)]
    out = np.empty((len(array), d), dtype)
    for start in range(0, max(len(array), 1), AT_ONCE):
        part = array[start : start + AT_ONCE]
        x, left = np.zeros((len(part), d)), part.shape[1]
        for i, stage in reversed(list(enumerate(used))):
            if not isinstance(stage, Decodes):
                raise SpecError(f"{type(stage).__name__} does not tell what its codes stand for: it has no decode")
            x = stage.decode(part[:, :left], x, of_length_one[i])
            left -= len(stage.sizes)
        out[start : start + len(part)] = x
    return out


def _has_length_one(stage: Fitted) -> bool:
    """Whether what a stage passes on has length one."""
    if isinstance(stage, FittedLevel):
        return stage.spec.rule.normalize
    return isinstance(stage, FittedNormalize | FittedRemoveMean)


def _first_stages(stages: Sequence[Fitted], tokens: int) -> Sequence[Fitted]:
    """The stages that emit this many tokens."""
    done = 0
    for i, stage in enumerate(stages):
        if done + len(stage.sizes) > tokens:
            if done < tokens:
                raise SpecError(
                    f"the tokens {done + 1} to {done + len(stage.sizes)} stand for one vector together; "
                    f"decode all of them{f', or the first {done}' if done else ''}, not {tokens}"
                )
            return stages[:i]
        done += len(stage.sizes)
    return stages


def _codes(codes: Any, sizes: Sequence[int]) -> NDArray[np.int64]:
    array = np.asarray(codes)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        hint = "; give one SID as codes[None, :]" if array.ndim == 1 else ""
        raise InputError(f"codes must be whole numbers of shape (n, tokens); got {array.dtype} {array.shape}{hint}")
    if not 1 <= array.shape[1] <= len(sizes):
        raise InputError(f"these SIDs have {len(sizes)} tokens; got codes with {array.shape[1]}")
    for level, (column, size) in enumerate(zip(array.T, sizes, strict=False)):
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < size:
            raise InputError(f"level {level + 1} holds codes outside 0..{size - 1}")
    return array.astype(np.int64)
