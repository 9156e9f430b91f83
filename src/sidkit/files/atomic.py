"""Writing so that a reader sees the old file or the new one, never half of either.

New content goes to a hidden neighbour, is flushed to disk, and takes its place in one rename. A process killed in
between leaves only the neighbour, which the next write beside it sweeps away, if it is of the same machine: on storage
that machines share, the others' processes cannot be told alive from dead.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ..errors import StoreError

__all__ = ["discard", "machine", "replace_file", "replace_folder", "sweep"]

_LEFTOVER = re.compile(r"^\..+\.sidkit-([0-9a-f]{12})-(\d+)-[0-9a-f]{8}$")


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
    path = path.resolve()  # of a link, what it names
    with _neighbour(path) as temporary:
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            _flush(file)
        if not path.exists():
            _flush(temporary)
            os.rename(temporary, path)
        else:
            for old in path.iterdir():
                if not (temporary / old.name).exists():
                    _link(old, temporary / old.name)
            _flush(temporary)
            _exchange(temporary, path)
        _flush(path.parent)


def _link(old: Path, new: Path) -> None:
    """The same file or folder under another name, or a copy where there are no links."""

    def one(source: str, target: str) -> None:
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError:
            shutil.copy2(source, target, follow_symlinks=False)

    if old.is_dir() and not old.is_symlink():
        shutil.copytree(old, new, symlinks=True, copy_function=one)
    else:
        one(str(old), str(new))


def discard(folder: Path) -> None:
    """Remove a folder that may be read again: it is gone in one rename, whenever we are killed."""
    hidden = folder.parent / f".{folder.name}.sidkit-{machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    with suppress(OSError):
        os.rename(folder, hidden)
        _remove(hidden)


def sweep(folder: Path) -> None:
    """Remove what killed writers left in a folder."""
    for entry in folder.iterdir():
        match = _LEFTOVER.match(entry.name)
        if match and match[1] == machine() and not _alive(int(match[2])):
            _remove(entry)


@contextmanager
def _neighbour(path: Path) -> Iterator[Path]:
    """A fresh hidden name beside path, removed at the end if it is still there; disk errors told plainly."""
    temporary = path.parent / f".{path.name}.sidkit-{machine()}-{os.getpid()}-{secrets.token_hex(4)}"
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


@cache
def machine() -> str:
    """What tells this machine from others, and a container from those beside it, since it was started."""
    told = [platform.node()]
    with suppress(OSError):
        told += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    return hashlib.sha256("\0".join(told).encode()).hexdigest()[:12]


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
