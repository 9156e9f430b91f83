"""What is known of libraries on this machine: a private folder of the user, with the outcome of every trial.

    <key>.so    a library that was compiled here
    <key>.ok    the checksum of a library, written after a child process got right answers from it
    <key>.bad   or the reason why it must not be used, which holds for a day: then it is tried again

The folder is ~/.cache/sidkit ($XDG_CACHE_HOME/sidkit when that is set). One that others can write to is refused.
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from pathlib import Path

__all__ = ["Unavailable", "cache_folder", "checksum", "digest", "intact", "processor", "put", "remembered"]

REMEMBERED = 24 * 3600  # seconds


class Unavailable(Exception):
    """The kernels cannot be used here; may_change: they can be, once they are compiled or tried."""

    def __init__(self, why: str, may_change: bool = False) -> None:
        super().__init__(why)
        self.may_change = may_change


def cache_folder() -> Path:
    """The user's folder for compiled kernels; one that others may write to is refused."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(home) / "sidkit"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        private = is_private(folder)
    except OSError as error:
        raise Unavailable(f"cannot store compiled kernels in {folder}: {error.strerror}") from error
    if not private:
        raise Unavailable(f"{folder} can be written by others; make it private (chmod 700)")
    return folder


def digest(*parts: str) -> str:
    """A name in the cache for what all of these texts, this processor and this version of the package determine."""
    from ... import __version__

    return hashlib.sha256("\0".join((*parts, processor(), __version__)).encode()).hexdigest()[:32]


def processor() -> str:
    """The model of the processor and its instruction sets."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    return "\n".join(line for line in lines if line.startswith(("model", "flags", "vendor", "Features", "CPU ")))


def checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_private(path: Path) -> bool:
    """Whether a file or folder belongs to this user, and nobody else may write to it."""
    status = path.stat()
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def intact(target: Path, good: Path) -> bool:
    """Whether the library exists, is complete, and passed its test; nobody else may write that it did."""
    try:
        return is_private(good) and good.read_text() == checksum(target)
    except OSError:
        return False


def remembered(bad: Path) -> str | None:
    """The failure of a build or trial in the last day; None if there was none, or if it is time to try again."""
    try:
        age = time.time() - bad.stat().st_mtime
        return bad.read_text(errors="replace").strip() if 0 <= age < REMEMBERED else None
    except OSError:
        return None


def put(path: Path, text: str) -> None:
    """Write a file in one step."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(0o600)
    os.replace(fresh, path)
