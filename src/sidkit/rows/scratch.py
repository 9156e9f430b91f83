"""Rows that cost time to decode are decoded once, into a scratch file that vanishes with the process.

Decoding Parquet takes as long as a pass of k-means; reading plain numbers back takes a tenth of that. A fit reads its
rows dozens of times, so the pass that checks them also copies them. Where there is no room, rows are decoded each time.
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
from .sources import Source, Wrapped, require_rows

__all__ = ["Scratch", "checked_copy"]

ROOM = 1.2  # times the bytes of the rows that must be free on the disk


def checked_copy(source: Source, folder: Path | None, progress: Progress) -> Source:
    """The source, every row checked; as a copy in a scratch file if it is slow to read and there is room for one.

    Of a source made of others (`through`), each is checked and copied once, however often its rows come.
    """
    through = getattr(source, "through", None)
    if through is not None:
        made: Source = through(lambda part: checked_copy(part, folder, progress))
        return made
    n, d = source.shape
    file = _unnamed_file(folder, n * d * source.dtype.itemsize) if getattr(source, "slow", False) else None
    if file is None:
        require_good_rows(source, progress)
        return source
    kept, copy = Scratch(source, file), _Copy(file)
    require_good_rows(source, progress, copy)
    return source if copy.failed else kept


@dataclass(frozen=True, eq=False)
class Scratch(Wrapped):
    """The rows of a source, read from their copy."""

    file: IO[bytes] = field(repr=False)

    def __del__(self) -> None:
        with suppress(OSError):  # what a full disk kept from being written
            self.file.close()

    def chunks(self, size: int, start: int = 0) -> Iterator[NDArray[Any]]:
        return read_ahead(self._chunks(size, start))

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        numbers = require_rows(numbers, self.shape[0])
        out = np.empty((len(numbers), self.shape[1]), self.dtype)
        for i, number in enumerate(numbers):
            self._read(out[i], int(number))
        return out

    def _chunks(self, size: int, start: int) -> Generator[NDArray[Any], None, None]:
        n, d = self.shape
        for first in range(start, n, size):
            x = np.empty((min(size, n - first), d), self.dtype)
            self._read(x, first)
            yield x

    def _read(self, x: NDArray[Any], row: int) -> None:
        place, left = row * self.shape[1] * self.dtype.itemsize, x.data.cast("B")
        while left:
            got = os.preadv(self.file.fileno(), [left], place)
            if not got:
                raise OSError("a scratch file ended early")
            place, left = place + got, left[got:]


class _Copy:
    """Writes chunks to a file. A full disk ends the copying, not the reading."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.failed = False

    def __call__(self, x: NDArray[Any]) -> None:
        try:
            if not self.failed:
                self.file.write(np.ascontiguousarray(x).data.cast("B"))
                self.file.flush()
        except OSError:
            self.failed = True


def _unnamed_file(folder: Path | None, size: int) -> IO[bytes] | None:
    """A file that is gone when the process is, if the disk of this folder, or of temporary files, has room."""
    try:
        place = Path(tempfile.gettempdir()) if folder is None else folder
        place.mkdir(parents=True, exist_ok=True)
        if _in_memory(place) or shutil.disk_usage(place).free < ROOM * size:
            return None
        return tempfile.TemporaryFile(dir=place)
    except OSError:
        return None


def _in_memory(folder: Path) -> bool:
    """Whether the folder's files live in memory."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return False
    kinds = {Path(line.split()[1]): line.split()[2] for line in mounts.read_text().splitlines()}
    at = folder.resolve()
    while at not in kinds and at != at.parent:
        at = at.parent
    return kinds.get(at) in ("tmpfs", "ramfs")
