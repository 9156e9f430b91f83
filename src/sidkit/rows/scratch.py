"""Rows that are slow to decode are decoded once, into a scratch file that is deleted with the process.

Decoding Parquet takes as long as a pass of k-means; reading plain numbers back takes a tenth of that. A fit reads its
rows dozens of times, so the pass that checks them also copies them. Without room on the disk, every pass decodes them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..progress import Progress
from .checks import require_good_rows
from .chunks import read_ahead
from .sources import Composed, Source, Wrapped, is_checked, is_slow, require_rows

__all__ = ["Copy", "Scratch", "checked_copy"]

ROOM = 1.2  # free space needed on the disk, in sizes of the rows


def checked_copy(source: Source, folder: Path | None, progress: Progress) -> Source:
    """The source, every row checked; as a copy in a scratch file if it is slow to read and there is room for one.

    Each part of a composed source is checked and copied once, however often its rows come.
    """
    if isinstance(source, Composed):
        return source.through(lambda part: checked_copy(part, folder, progress))
    if is_checked(source):  # and copied, if there was room
        progress.advance(source.shape[0])
        return source
    copy = Copy(source, folder)
    require_good_rows(source, progress, copy.add)
    return copy.of(source)


@dataclass(frozen=True, eq=False)
class Scratch(Wrapped):
    """The rows of a source, read from their copy."""

    copy: Copy = field(repr=False)

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        return read_ahead(self._chunks(size, start))

    def take(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        indices = require_rows(indices, self.shape[0])
        out = np.empty((len(indices), self.shape[1]), self.dtype)
        for i, row in enumerate(indices):
            self._read(out[i], int(row))
        return out

    def _chunks(self, size: int, start: int) -> Generator[NDArray[Any], None, None]:
        n, d = self.shape
        for first in range(start, n, size):
            x = np.empty((min(size, n - first), d), self.dtype)
            self._read(x, first)
            yield x

    def _read(self, x: NDArray[Any], row: int) -> None:
        offset, left = row * self.shape[1] * self.dtype.itemsize, x.data.cast("B")
        while left:
            got = os.preadv(self.copy.fileno(), [left], offset)
            if not got:
                raise OSError("a scratch file ended early")
            offset, left = offset + got, left[got:]


class Copy:
    """A scratch file that rows are appended to, if their source is slow to read and there is room for them.

    A full disk ends the copying, not the reading. The file is closed, and gone, when nothing reads from it any more.
    """

    def __init__(self, source: Source, folder: Path | None) -> None:
        n, d = source.shape
        self._file = _unnamed_file(folder, n * d * source.dtype.itemsize) if is_slow(source) else None
        self._failed = self._file is None

    def __del__(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # what a full disk kept from being written
                self._file.close()

    def add(self, x: NDArray[Any]) -> None:
        try:
            if self._file is not None and not self._failed:
                self._file.write(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)
                self._file.flush()
        except OSError:
            self._failed = True

    def of(self, source: Source) -> Source:
        """The source, whose rows were added, read from this copy; the source itself where there is no copy."""
        return source if self._failed else Scratch(source, self)

    def fileno(self) -> int:
        if self._file is None:
            raise OSError("there is no scratch file")
        return self._file.fileno()


def _unnamed_file(folder: Path | None, size: int) -> IO[bytes] | None:
    """A file that is deleted with the process, if the disk of this folder, or of temporary files, has room for it."""
    try:
        folder = Path(tempfile.gettempdir()) if folder is None else folder
        folder.mkdir(parents=True, exist_ok=True)
        if _in_memory(folder) or shutil.disk_usage(folder).free < ROOM * size:
            return None
        return tempfile.TemporaryFile(dir=folder)
    except OSError:
        return None


def _in_memory(folder: Path) -> bool:
    """Whether the files of this folder are in memory, not on a disk."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return False
    kinds = {Path(line.split()[1]): line.split()[2] for line in mounts.read_text().splitlines()}
    at = folder.resolve()
    while at not in kinds and at != at.parent:
        at = at.parent
    return kinds.get(at) in ("tmpfs", "ramfs")
