"""The libraries that a wheel brings, one for each level of instructions.

    libraries/vnni.so, avx512.so, ...  compiled by the build back end (hatch_build.py)
    libraries/digests.json             their checksums, written when the wheel was built

The best level that this processor has is taken. It is tried in a child process first, as a compiled library is, and the
outcome is remembered in the cache; where there is no cache, it holds for this process. A level that fails its trial is
passed over for the next. An editable install and a pure wheel have no such libraries.
"""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path

from .cache import Unavailable, cache_folder, checksum, digest, intact, processor, put, remembered
from .compiler import LEVELS, InstructionLevel
from .trial import try_out

__all__ = ["SHIPPED", "best_library", "levels_here"]

SHIPPED = Path(__file__).with_name("libraries")


def levels_here(folder: Path | None = None) -> list[InstructionLevel]:
    """Levels that the wheel has a library for and this processor the instructions, best first."""
    folder = folder or SHIPPED
    machine, has = platform.machine().lower(), set(processor().replace("\n", " ").split())
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    fits = [level for level in LEVELS if level.machine == machine and level.needs <= has]
    return [level for level in fits if (folder / level.file).exists()]


def best_library(wanted: str, may_try: bool, folder: Path | None = None) -> Path | None:
    """The library of the best level that passes its trial, or None; `wanted` names one level, or is empty.

    Without may_try, only what passed its trial before is taken.
    """
    folder = folder or SHIPPED
    for level in levels_here(folder):
        path = folder / level.file
        if wanted in ("", level.name) and _recorded(path) and _passes(path, may_try):
            return path
    return None


def _recorded(path: Path) -> bool:
    """Whether the file has the checksum that was written when the wheel was built."""
    try:
        digests = json.loads(path.with_name("digests.json").read_text())
        return bool(digests.get(path.name) == checksum(path))
    except (OSError, ValueError, AttributeError):
        return False


def _passes(path: Path, may_try: bool) -> bool:
    """Whether the library passed its trial, now or before."""
    try:
        entry = cache_folder() / digest(checksum(path))
    except Unavailable:
        entry = None
    if entry is not None and intact(path, entry.with_suffix(".ok")):
        return True
    if entry is not None and remembered(entry.with_suffix(".bad")) is not None:
        return False
    if not may_try:
        raise Unavailable("not tried yet", may_change=True)
    try:
        failure = try_out(path)
    except subprocess.TimeoutExpired as error:
        failure = f"the kernels took over {error.timeout:.0f} seconds when tested"
    if entry is not None:
        _remember(path, entry, failure)
    return failure is None


def _remember(path: Path, entry: Path, failure: str | None) -> None:
    """The outcome of a trial, for later processes; a full disk only means that they try again."""
    try:
        put(entry.with_suffix(".bad" if failure else ".ok"), failure or checksum(path))
        if failure is None:
            entry.with_suffix(".bad").unlink(missing_ok=True)
    except OSError:
        return
