"""Many codes as SIDs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .template import Template

__all__ = ["SidWriter"]


class SidWriter:
    """Codes (n, levels) as an Arrow array of SIDs.

    What each code of each level puts into a SID is a part of one array, all levels after one another. Parts taken in
    the order of a row's codes lie side by side in memory, so every levels-th end of a part is the end of a SID.
    """

    def __init__(self, form: Template, words: Sequence[Sequence[str]]) -> None:
        """words: per level the strings of its codes (`Template.words`)."""
        last = len(words) - 1
        parts = [
            (form.between if level else form.begin) + word + (form.end if level == last else "")
            for level, each in enumerate(words)
            for word in each
        ]
        self._parts = pa.array(parts, pa.string())
        self._starts = np.cumsum([0, *(len(each) for each in words)], dtype=np.int32)[:-1]

    @classmethod
    def of(cls, form: Template, sizes: Sequence[int]) -> SidWriter:
        """For all codes of these codebooks."""
        return cls(form, [form.words(level, size) for level, size in enumerate(sizes)])

    def __call__(self, codes: NDArray[np.int32]) -> Any:
        _, ends, text = self._parts.take(pa.array((codes + self._starts).ravel())).buffers()
        ends = np.frombuffer(ends, np.int32)[: codes.size + 1 : codes.shape[1]].copy()
        return pa.StringArray.from_buffers(len(codes), pa.py_buffer(ends), text)
