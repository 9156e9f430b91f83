"""Several sources fitted together: items and queries share one set of codebooks.

    Joint([("items", items), ("queries", queries)])    the rows of all, one source after the other, each with a role
    repeated(source, counts)                           a source whose row i comes counts[i] times, or not at all

A count is a weight: a fit on `repeated(source, counts)` is the fit on the rows written out, to the bit, because it sees
each row as often. Rows are repeated as they are read and take no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import InputError, SpecError, did_you_mean
from ..files.address import Location, for_arrow
from ..rows.chunks import rechunked
from ..rows.sources import Source, Wrapped, is_slow, require_rows
from .listing import is_table, readable
from .source import paths_of
from .subset import Without, without

__all__ = ["ITEMS", "Joint", "Repeated", "counts_of", "item_rows", "items_of", "repeated", "spans_of"]

ITEMS = "items"  # the role whose rows quality is measured on


@dataclass(frozen=True, eq=False)
class Joint:
    """The rows of several sources of one dimension, one after the other. Ids are unique within a role only."""

    members: Sequence[tuple[str, Source]]

    def __post_init__(self) -> None:
        roles = [role for role, _ in self.members]
        if not roles:
            raise InputError("there are no embeddings to join")
        if not all(roles) or len(set(roles)) < len(roles):
            raise SpecError(f"every file needs a different role, such as items and queries; got {', '.join(roles)}")
        widths = {role: source.shape[1] for role, source in self.members}
        if len(set(widths.values())) > 1:
            listed = ", ".join(f"{role} {width}" for role, width in widths.items())
            raise InputError(f"embeddings that are fitted together need one dimension; these have: {listed}")

    @cached_property
    def starts(self) -> list[int]:
        """The first row of every source, and the number of rows."""
        return [0, *accumulate(source.shape[0] for source in self.sources)]

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(source for _, source in self.members)

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """Role -> its first row and the row after its last."""
        return dict(zip((role for role, _ in self.members), pairwise(self.starts), strict=True))

    @property
    def shape(self) -> tuple[int, int]:
        return self.starts[-1], self.sources[0].shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(source.dtype for source in self.sources))

    @property
    def slow(self) -> bool:
        """Whether reading any of them takes so long that rows which are read often are worth a copy."""
        return any(map(is_slow, self.sources))

    def through(self, f: Callable[[Source], Source]) -> Joint:
        """The same roles with f applied to each source."""
        return Joint([(role, f(source)) for role, source in self.members])

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        return rechunked(self._parts(size, start), size)

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        indices = require_rows(indices, self.shape[0])
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        for source, (first, last) in zip(self.sources, pairwise(self.starts), strict=True):
            inside = (indices >= first) & (indices < last)
            if inside.any():
                out[inside] = source.take(indices[inside] - first)
        return out

    def name(self, row: int) -> str:
        which = int(np.searchsorted(self.starts, row, side="right")) - 1
        role, source = self.members[which]
        return f"{source.name(row - self.starts[which])} of {role}"

    def _parts(self, size: int, start: int) -> Iterator[NDArray[Any]]:
        for source, (first, last) in zip(self.sources, pairwise(self.starts), strict=True):
            if start < last:
                for x in source.chunks(size, max(start - first, 0)):
                    yield x.astype(self.dtype, copy=False)


def spans_of(source: Any) -> dict[str, tuple[int, int]]:
    """Role -> its rows, of a `Joint`; {} of another source."""
    return source.spans if isinstance(source, Joint) else {}


def item_rows(spans: Mapping[str, tuple[int, int]]) -> slice:
    """The rows that figures count: those of the items, else of the first role; all where there are no roles."""
    return slice(*spans.get(ITEMS, next(iter(spans.values())))) if spans else slice(None)


def items_of(source: Any) -> Any:
    """The source whose rows figures count: of a `Joint`, that of the items; another source as it is."""
    return dict(source.members).get(ITEMS, source.sources[0]) if isinstance(source, Joint) else source


def repeated(source: Source, counts: Any) -> Source:
    """The source with row i counts[i] times, rows without a count left out. counts: (n,), whole numbers from 0."""
    times = np.asarray(counts)
    if times.shape != source.shape[:1] or times.dtype.kind not in "iu":
        raise InputError(
            f"repeats must be a whole number for each of {source.shape[0]} rows; got {times.dtype} {times.shape}"
        )
    times = times.astype(np.int64)
    if times.min(initial=0) < 0:
        raise InputError(f"{source.name(int(times.argmin()))} has {times.min()} repeats; counts are at least 0")
    if not times.any():
        raise InputError("no rows are left: all counts of repeats are 0")
    none = np.flatnonzero(times == 0)
    used = without(source, none) if len(none) else source
    return used if (times <= 1).all() else Repeated(used, times[times > 0])


@dataclass(frozen=True, eq=False)
class Repeated(Wrapped):
    """A source whose row i comes counts[i] times in a row; counts are at least 1."""

    counts: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._ends[-1]), self.source.shape[1]

    @property
    def identity(self) -> bytes:
        """Digest of the counts, which must be unchanged for a run to resume."""
        return sha256(self.counts.tobytes()).digest()

    def through(self, f: Callable[[Source], Source]) -> Repeated:
        """The same repeats, with f applied to the source."""
        return Repeated(f(self.source), self.counts)

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        return rechunked(self._parts(size, start), size) if start < self.shape[0] else iter(())

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        original, which = np.unique(self._original(require_rows(indices, self.shape[0])), return_inverse=True)
        return self.source.take(original)[which]

    def name(self, row: int) -> str:
        return self.source.name(int(self._original(np.asarray([row]))[0]))

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """For each row of the source, the number of rows up to and including it."""
        return np.cumsum(self.counts)

    def _original(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self._ends, indices, side="right")

    def _parts(self, size: int, start: int) -> Iterator[NDArray[Any]]:
        """At most `size` rows at a time, however often one is repeated."""
        row = int(self._original(np.asarray([start]))[0])
        for x in self.source.chunks(size, row):
            last = int(self._ends[row + len(x) - 1])
            while start < last:
                stop = min(start + size, last)
                yield x[self._original(np.arange(start, stop)) - row]
                start = stop
            row += len(x)


def counts_of(source: Any, column: str) -> NDArray[np.int64]:
    """The whole numbers of a column of the Parquet files that a source reads, one for each of its rows."""
    if isinstance(source, Without):
        return np.delete(counts_of(source.source, column), source.dropped)
    paths = paths_of(source)
    if not paths:
        raise InputError("repeats come from a column of a Parquet file, and these embeddings have none")
    values = pa.chunked_array([chunk for path in paths for chunk in _column(path, column).chunks])
    if not pa.types.is_integer(values.type) or values.null_count:
        contents = f"{values.type} with {values.null_count} nulls"
        raise InputError(f"repeats must be whole numbers; {column!r} in {paths[0].name} holds {contents}")
    return np.asarray(values.to_numpy()).astype(np.int64)


def _column(path: Location, name: str) -> Any:
    if not is_table(path):
        raise InputError(f"repeats come from a column of a Parquet file; {path} is not one")
    with readable(path):
        names = pq.read_schema(for_arrow(path)).names
    if name not in names:
        raise InputError(f"no column {name!r} in {path.name} (columns: {', '.join(names)}){did_you_mean(name, names)}")
    with readable(path):
        return pq.read_table(for_arrow(path), columns=[name]).column(name)
