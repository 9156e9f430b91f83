"""Items with their texts and vectors, and one or two tables of SIDs, read once and joined by id.

Rows are those of the first table; items that only the second has come after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..data.columns import Chosen
from ..data.items import find_ids, match, text_column
from ..errors import InputError
from ..files.address import Location
from ..geometry import unit
from ..progress import Progress, Silent
from ..rows.checks import require_good_rows
from ..rows.sources import Source
from ..sids.table import SidTable
from ..sids.template import TEMPLATES, Template
from .search import Words
from .tree import Tree

__all__ = ["Catalogue", "Side", "read"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Side:
    """One table of SIDs: codes and the tree of their prefixes.

    rows       the catalogue's row of each of its items
    position   the inverse: the index of a row in codes, -1 where this table does not have the item
    """

    key: str
    name: str
    codes: NDArray[np.int32]
    sizes: tuple[int, ...]
    rows: Integers
    position: Integers
    template: Template = TEMPLATES["letters"]  # of its file

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.codes, self.sizes, self.rows)

    @cached_property
    def _tokens(self) -> list[list[str]]:
        return [self.template.words(level, size) for level, size in enumerate(self.sizes)]

    def token(self, level: int, code: int) -> str:
        """A token as its file writes it: <b_3> for code 3 of level 1 (from 0)."""
        return self._tokens[level][code]

    def sid(self, codes: Sequence[int]) -> str:
        """A SID or a prefix as its file writes it: <a_12><b_3> for (12, 3)."""
        return self.template.write_prefix(codes, len(self.sizes))

    def rest(self, codes: Sequence[int], known: int) -> str:
        """A SID without its first tokens, `known` of them, which the page shows already."""
        tokens = [self.token(level, code) for level, code in enumerate(codes)]
        return self.template.between.join(tokens[known:]) if known else self.sid(codes)

    def codes_of(self, row: int) -> list[int] | None:
        at = int(self.position[row])
        return None if at < 0 else [int(code) for code in self.codes[at]]

    def part(self, rows: Integers) -> Tree:
        """The tree of these rows alone."""
        at = self.position[rows]
        known = at >= 0
        return Tree(self.codes[at[known]], self.sizes, rows[known])


@dataclass(frozen=True, eq=False)
class Catalogue:
    """All that a page can show. ids are strings; texts and vectors are None where not given."""

    ids: Any
    sides: dict[str, Side]
    texts: Any = None
    words: Words | None = None
    vectors: NDArray[np.float32] | None = None
    chosen: tuple[Chosen, ...] = ()  # the column of ids that texts were joined by

    def __len__(self) -> int:
        return len(self.ids)

    def row_of(self, item: str) -> int | None:
        row = pc.index(self.ids, item).as_py()
        return None if row < 0 else int(row)

    def other(self, side: Side) -> Side | None:
        return next((other for key, other in self.sides.items() if key != side.key), None)


def read(
    sids: Location,
    compare: Location | None = None,
    items: Location | None = None,
    text: str = "title",
    vectors: Source | None = None,
    progress: Progress | None = None,
    id_column: str | None = None,
) -> Catalogue:
    """Read and index all files; about six seconds for a million items with titles."""
    progress = progress or Silent()
    paths = {"a": sids} | ({"b": compare} if compare else {})
    progress.start("read", len(paths))
    tables = {}
    for key, path in paths.items():
        tables[key] = SidTable.from_parquet(path)
        if not len(tables[key]):
            raise InputError(f"{path} holds no items")
        progress.advance(1)
    ids = _strings(tables["a"].ids)
    if compare:
        others = _strings(tables["b"].ids)
        alone = pc.filter(others, pa.array(match(others, ids) < 0))
        if len(alone) == len(others):
            raise InputError(f"{sids} and {compare} have no item in common; are these the same ids?")
        ids = pa.concat_arrays([ids, alone])
    names = _names(paths)
    sides = {key: _side(key, names[key], table, ids) for key, table in tables.items()}
    chosen = find_ids(items, id_column, ids, tables["a"].origin.id_column) if items else None
    texts = text_column(items, text, ids, chosen.column) if items and chosen else None
    if texts is not None and not pc.any(pc.not_equal(texts, "")).as_py():
        raise InputError(f"no item of {sids} has a {text!r} in {items}; are these the same ids?")
    progress.start("index", len(ids))
    words = Words(texts) if texts is not None else None
    for side in sides.values():
        side.tree  # noqa: B018  built now, not at the first request
    progress.advance(len(ids))
    aligned = _aligned(vectors, ids, progress) if vectors is not None else None
    return Catalogue(ids, sides, texts, words, aligned, (chosen,) if chosen else ())


def _names(paths: dict[str, Location]) -> dict[str, str]:
    """The shortest ends of the paths that differ."""
    parts_of = {key: Path(str(path)).resolve().parts for key, path in paths.items()}
    for length in range(1, max(map(len, parts_of.values()))):
        names = {key: "/".join(parts[-length:]) for key, parts in parts_of.items()}
        if len(set(names.values())) == len(names):
            return names
    return {key: f"{key}: {path}" for key, path in paths.items()}


def _side(key: str, name: str, table: SidTable, ids: Any) -> Side:
    position = match(ids, _strings(table.ids))
    rows = np.empty(len(table), np.int64)
    rows[position[position >= 0]] = np.flatnonzero(position >= 0)
    return Side(key, name, table.codes, table.sizes, rows, position, table.template)


def _aligned(source: Source, ids: Any, progress: Progress) -> NDArray[np.float32]:
    """The vectors of the rows, scaled to length one; zeros where a row has none."""
    rows = match(_strings(source.ids), ids)  # type: ignore[attr-defined]
    if not (rows >= 0).any():
        raise InputError("no item of the semantic IDs has an embedding; are these the same ids?")
    vectors = np.zeros((len(ids), source.shape[1]), np.float32)
    progress.start("embeddings", source.shape[0])
    start = 0
    for chunk in source.chunks(1 << 14):
        at = rows[start : start + len(chunk)]
        known = chunk[at >= 0].astype(np.float32, copy=False)
        if not np.isfinite(known).all():
            require_good_rows(source)
        vectors[at[at >= 0]] = unit(known)
        start += len(chunk)
        progress.advance(len(chunk))
    return vectors


def _strings(ids: Any) -> Any:
    return ids.cast(pa.large_string())
