"""One writer of an output at a time: a second one is told so before its work, not after it.

    lock_output(Path("tok"))       an error if another process of this machine is writing it
    unlock_outputs()               at the end of a command

The locks are files in a private folder below the system's folder for temporary files, and are released by the system
when a process ends, however it ends. Writes are atomic without them: writers on two machines that share a disk still
write whole outputs, of which the last stays.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from ..errors import StoreError

__all__ = ["lock_output", "unlock_outputs"]

_held: dict[Path, int] = {}  # locks of this process, and their descriptors


def lock_output(path: Path) -> None:
    """Hold the lock of an output until the end of the command; an error if another process holds it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    folder = _folder()
    if folder is None:
        return
    file = folder / hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    if file in _held:
        return
    while True:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:  # without room for a lock, writes are still atomic
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            writer = os.pread(descriptor, 20, 0).decode(errors="replace")
            os.close(descriptor)
            raise StoreError(
                f"another sidkit process{f' ({writer})' if writer.isdecimal() else ''} is writing {path}; "
                "wait until it has ended, or name another output"
            ) from None
        if _is_there(descriptor, file):
            break
        os.close(descriptor)  # the one who had it removed the file meanwhile
    with suppress(OSError):
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    _held[file] = descriptor


def unlock_outputs() -> None:
    """Release the locks of this process."""
    while _held:
        file, descriptor = _held.popitem()
        file.unlink(missing_ok=True)
        os.close(descriptor)


def _folder() -> Path | None:
    """A folder that belongs to this user alone; None where there cannot be one."""
    folder = Path(tempfile.gettempdir()) / f"sidkit-locks-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return folder if ours else None


def _is_there(descriptor: int, file: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == file.stat().st_ino
    except OSError:
        return False
