"""The tokens of a model that stand for the codes of semantic IDs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError
from ..sids.template import Template
from ..sids.vocabulary import Vocabulary

__all__ = ["SidTokens"]


@dataclass(frozen=True, eq=False)
class SidTokens:
    """For each level, the token of every code; the tokens before and after a SID, or None.

    SidTokens.level_major((256, 256, 256), first=151669, begin=152437, end=152438)
    """

    levels: tuple[NDArray[np.int64], ...]
    begin: int | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        every = np.concatenate([*self.levels, [one for one in (self.begin, self.end) if one is not None]])
        if len(every) and every.min() < 0:
            raise SpecError(f"tokens of semantic IDs must be at least 0, not {int(every.min())}")
        values, counts = np.unique(every, return_counts=True)
        if (counts > 1).any():
            raise SpecError(f"token {int(values[counts > 1][0])} stands for two codes, or for a code and a marker")

    @classmethod
    def of(
        cls, sizes: Sequence[int], tokens: Any = None, begin: int | None = None, end: int | None = None
    ) -> SidTokens:
        """Lists of tokens per level; without any sidkit's own: code + sizes before + 1."""
        sizes = tuple(int(size) for size in sizes)
        if tokens is None:
            return cls.level_major(sizes, Vocabulary(sizes).first[0], begin, end)
        levels = tuple(np.asarray(list(level), np.int64) for level in tokens)
        if [len(level) for level in levels] != list(sizes):
            raise InputError(f"tokens for {[len(level) for level in levels]} codes were given, not for {sizes}")
        return cls(levels, begin, end)

    @classmethod
    def level_major(
        cls, sizes: Sequence[int], first: int, begin: int | None = None, end: int | None = None
    ) -> SidTokens:
        """All codes of the first level from token `first` on, then all of the second, and so on."""
        starts = np.cumsum([first, *sizes])
        return cls(tuple(np.arange(size) + start for start, size in zip(starts, sizes, strict=False)), begin, end)

    @classmethod
    def of_tokenizer(
        cls, tokenizer: Any, sizes: Sequence[int], template: Template, begin: str | None = None, end: str | None = None
    ) -> SidTokens:
        """Of a transformers tokenizer to which the tokens of a template were added, as `sidkit export` adds them."""
        known = tokenizer.get_vocab()

        def token(word: str) -> int:
            if word not in known:
                raise InputError(f"the tokenizer has no token {word!r}; add the tokens of all codes to it first")
            return int(known[word])

        levels = [[token(word) for word in template.words(level, size)] for level, size in enumerate(sizes)]
        return cls.of(sizes, levels, *(None if one is None else token(one) for one in (begin, end)))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(level) for level in self.levels)

    @property
    def largest(self) -> int:
        return max(int(one) for one in (*(level.max() for level in self.levels), self.begin or 0, self.end or 0))

    @cached_property
    def _codes(self) -> list[dict[int, int]]:
        return [{int(token): code for code, token in enumerate(level)} for level in self.levels]

    def sids_in(self, text: Sequence[int]) -> list[tuple[int, ...]]:
        """The codes of every complete SID in a row of tokens, in order."""
        sids, at = [], 0
        while at + len(self.levels) <= len(text):
            codes = [of.get(token) for of, token in zip(self._codes, text[at:], strict=False)]
            complete = tuple(code for code in codes if code is not None)
            if len(complete) == len(self.levels):
                sids.append(complete)
            at += len(self.levels) if len(complete) == len(self.levels) else 1
        return sids

    def tokens(self, codes: Any) -> NDArray[np.int64]:
        """codes: (..., levels) -> tokens of the same shape."""
        codes = np.asarray(codes)
        return np.stack([level[codes[..., i]] for i, level in enumerate(self.levels)], -1)
