"""Writing so that a reader sees the old file or the new one, never half of either.

New content goes to a hidden neighbour, is flushed to disk, and takes its place in one rename. A process killed in
between leaves only the neighbour, which the next write beside it sweeps away.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import StoreError

__all__ = ["discard", "replace_file", "replace_folder", "sweep"]

_LEFTOVER = re.compile(r"^\..+\.sidkit-(\d+)-[0-9a-f]{8}$")


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A temporary path to write to; on success it becomes `path`, on any failure it is gone."""
    with _neighbour(path) as temporary:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        _flush(path.parent)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill; on success it becomes `path`. Other files of an existing folder are kept."""
    with _neighbour(path) as temporary:
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            _flush(file)
        _flush(temporary)
        if not path.exists():
            os.rename(temporary, path)
        else:
            _exchange(temporary, path)
            for old in temporary.iterdir():
                if not (path / old.name).exists():
                    os.rename(old, path / old.name)
        _flush(path.parent)


def discard(folder: Path) -> None:
    """Remove a folder that may be read again: it is gone in one rename, whenever we are killed."""
    hidden = folder.parent / f".{folder.name}.sidkit-{os.getpid()}-{secrets.token_hex(4)}"
    with suppress(OSError):
        os.rename(folder, hidden)
        _remove(hidden)


def sweep(folder: Path) -> None:
    """Remove what killed writers left in a folder."""
    for entry in folder.iterdir():
        match = _LEFTOVER.match(entry.name)
        if match and not _alive(int(match[1])):
            _remove(entry)


@contextmanager
def _neighbour(path: Path) -> Iterator[Path]:
    """A fresh hidden name beside path, removed at the end if it is still there; disk errors told plainly."""
    temporary = path.parent / f".{path.name}.sidkit-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent)
        yield temporary
    except OSError as error:
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
        raise StoreError(f"cannot write {path}: {reason}; what was there before is untouched") from error
    finally:
        _remove(temporary)


def _exchange(a: Path, b: Path) -> None:
    """Swap two folders in one step where the system can, in two quick renames where it cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "renameat2"):
        here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        if libc.renameat2(here, os.fsencode(a), here, os.fsencode(b), swap) == 0:
            return
    aside = b.with_name(f"{a.name[:-8]}{secrets.token_hex(4)}")
    os.rename(b, aside)
    os.rename(a, b)
    os.rename(aside, a)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif path.is_symlink() or path.exists():
        path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
