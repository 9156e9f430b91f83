"""A catalogue for constrained decoding: the trie of its SIDs and the tokens of a model, in a memory-mapped folder.

    SidCatalogue.of(table, SidTokens.level_major(table.sizes, first=151669)).save("catalogue/")
    catalogue = SidCatalogue.load("catalogue/")

Processes on one machine that map the same folder share its memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.formats.safetensors import read_safetensors
from ..errors import InputError, SpecError, StoreError
from ..files.folder import FolderFormat
from ..sids.table import SidTable
from ..sids.trie import Trie
from .tokens import SidTokens

__all__ = ["SidCatalogue"]

FORMAT = FolderFormat(
    name="sidkit-catalogue",
    noun="catalogue for decoding",
    advice="make it again with `sidkit trie`",
    fields={"sizes": list, "begin": int, "end": int},  # -1: no such token
    tensors="trie.safetensors",
)


@dataclass(frozen=True, eq=False)
class SidCatalogue:
    trie: Trie
    tokens: SidTokens

    def __post_init__(self) -> None:
        if self.tokens.sizes != tuple(self.trie.sizes):
            raise InputError(f"tokens for {self.tokens.sizes} codes were given, not for {tuple(self.trie.sizes)}")

    @classmethod
    def of(cls, table: SidTable, tokens: SidTokens) -> SidCatalogue:
        return cls(Trie.of(table), tokens)

    def save(self, path: str | Path) -> None:
        """Write the folder in one step."""
        trie, tokens = self.trie, self.tokens
        arrays: dict[str, Any] = {"rows": trie.rows, "bounds": trie.bounds}
        for level in range(len(trie.sizes)):
            arrays |= {f"codes.{level}": trie.codes[level], f"children.{level}": trie.children[level]}
            arrays[f"tokens.{level}"] = tokens.levels[level]
        marks = {name: -1 if one is None else one for name, one in (("begin", tokens.begin), ("end", tokens.end))}
        FORMAT.write(Path(path), {"sizes": list(trie.sizes), **marks}, arrays)

    @classmethod
    def load(cls, path: str | Path) -> SidCatalogue:
        """Map the folder; its bytes are read once, to compare their checksum."""
        path = Path(path)
        config = FORMAT.read_config(path)
        sizes = config["sizes"]
        if not sizes or any(type(size) is not int or size < 1 for size in sizes):
            raise StoreError(f"{path / FORMAT.config}: sizes must be positive integers; {FORMAT.advice}")
        file = FORMAT.checked_tensors(path, config[FORMAT.tensors_digest])
        try:
            arrays = {name: stored.load() for name, stored in read_safetensors(file).items()}
            trie, tokens = _parts(arrays, tuple(sizes), config)
        except (KeyError, ValueError, TypeError, OverflowError, IndexError, InputError, SpecError) as error:
            raise StoreError(f"{file} does not hold the trie of a catalogue ({error}); {FORMAT.advice}") from error
        return cls(trie, tokens)


def _parts(arrays: dict[str, Any], sizes: tuple[int, ...], config: dict[str, Any]) -> tuple[Trie, SidTokens]:
    levels = range(len(sizes))
    codes, children = (tuple(arrays[f"{name}.{level}"] for level in levels) for name in ("codes", "children"))
    trie = Trie(sizes, codes, children, arrays["rows"], arrays["bounds"])
    parents = 1
    for level, size in enumerate(sizes):
        _require_bounds(children[level], parents, len(codes[level]), f"children.{level}")
        if not len(codes[level]) or codes[level].min() < 0 or codes[level].max() >= size:
            raise ValueError(f"codes.{level} lie outside 0..{size - 1}")
        parents = len(codes[level])
    _require_bounds(trie.bounds, parents, len(trie.rows), "bounds")
    marks = (None if config[name] < 0 else config[name] for name in ("begin", "end"))
    return trie, SidTokens.of(sizes, [arrays[f"tokens.{level}"] for level in levels], *marks)


def _require_bounds(bounds: Any, parents: int, end: int, name: str) -> None:
    """Every parent has a range of at least one, from 0 to the end."""
    if bounds.shape != (parents + 1,) or bounds[0] != 0 or bounds[-1] != end or (np.diff(bounds) < 1).any():
        raise ValueError(f"{name} are not {parents} ranges of {end}")
