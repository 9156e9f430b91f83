"""Writing so that a reader sees the old file or the new one, never half of either.

New content is written to a hidden neighbour, flushed to disk, and renamed to the target in one step. A process that is
killed in between leaves only the neighbour. The next write in that folder removes it if it is of the same machine: on
storage that machines share, it is not known whether the process of another machine is alive.
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
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from ..errors import StoreError

__all__ = ["discard", "machine", "replace_file", "replace_folder", "sweep"]

_LEFTOVER = re.compile(r"^\..+\.sidkit-([0-9a-f]{12})-(\d+)-[0-9a-f]{8}$")


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it becomes `path` on success and is removed on failure."""
    with _neighbour(path) as temporary:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
        _confirm(path)


@contextmanager
def replace_folder(path: Path, drop: Collection[str] = ()) -> Iterator[Path]:
    """A temporary folder to fill; it becomes `path` on success. Other files of an existing folder stay.

    drop: the names of files and folders in it that do not.
    """
    path = path.resolve()  # the target of a link
    with _neighbour(path) as temporary:
        temporary.mkdir()
        yield temporary
        for file in temporary.rglob("*"):
            _flush(file)
        if not path.exists():
            _flush(temporary)
            os.rename(temporary, path)
        else:
            for old in path.iterdir():
                if old.name not in drop and not (temporary / old.name).exists():
                    _link(old, temporary / old.name)
            _flush(temporary)
            _exchange(temporary, path)
        _confirm(path)


def _link(old: Path, new: Path) -> None:
    """Hard links to a file, or to all files of a folder; copies on file systems without links."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError:
            shutil.copy2(source, target, follow_symlinks=False)

    if old.is_dir() and not old.is_symlink():
        shutil.copytree(old, new, symlinks=True, copy_function=link)
    else:
        link(str(old), str(new))


def discard(folder: Path) -> None:
    """Remove a folder in one step: a process killed in the middle leaves no part of it that could be read."""
    hidden = folder.parent / f".{folder.name}.sidkit-{machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    with suppress(OSError):
        os.rename(folder, hidden)
        _remove(hidden)


def sweep(folder: Path) -> None:
    """Remove the leftovers of killed writers from a folder."""
    for entry in folder.iterdir():
        match = _LEFTOVER.match(entry.name)
        if match and match[1] == machine() and not _alive(int(match[2])):
            _remove(entry)


@contextmanager
def _neighbour(path: Path) -> Iterator[Path]:
    """A fresh hidden name next to path, removed at the end if it still exists; disk errors become StoreErrors."""
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
    """Swap two folders, in one step if the system can, else by renames in quick succession."""
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "renameat2"):
        current, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
        if libc.renameat2(current, os.fsencode(a), current, os.fsencode(b), exchange) == 0:
            return
    aside = b.with_name(f"{a.name[:-8]}{secrets.token_hex(4)}")
    os.rename(b, aside)
    os.rename(a, b)
    os.rename(aside, a)


def _confirm(path: Path) -> None:
    """Flush the folder of a file that has just got its name."""
    try:
        _flush(path.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"wrote {path}, but the disk did not confirm it: {reason}; write it again") from error


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
    """An identifier of this machine or container since its start."""
    names = [platform.node()]
    with suppress(OSError):
        names += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
