"""The kernels as a loaded library: one that the wheel brought, or one compiled on this machine.

    shipped.py     libraries of the wheel: the best level that this processor has
    compiler.py    otherwise, compiled for this very processor, once, when the work pays for it
    trial.py       either is tested in a child process before its first use
    cache.py       and the outcome is kept, with what was compiled

The name of a compiled library covers the source, the compiler, its options, the processor and the package version. A
library is loaded only if its checksum is the one that was written after its test, or by the build of the wheel. No
failure is raised: `library()` is then None, `reason()` is the reason, and numpy does the work.

SIDKIT_NATIVE=0 switches the kernels off, SIDKIT_NATIVE=compile compiles them even so, and the name of a level (avx2)
takes that one; CC names another compiler.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import tempfile
from pathlib import Path
from threading import Lock

from . import shipped
from .cache import Unavailable, cache_folder, checksum, digest, intact, is_private, put, remembered
from .compiler import HERE, LIBRARIES, OPTIONS, compile_to, find_compiler, sources
from .layout import CodebookStruct, JobStruct
from .trial import try_out

__all__ = ["kernels", "library", "reason"]

MACHINES = ("x86_64", "amd64", "aarch64", "arm64")

_lock = Lock()
_library: ctypes.CDLL | None = None
_reason: str | None = "not looked for yet"
_looked = _settled = False


def library(build: bool = True) -> ctypes.CDLL | None:
    """The kernels, or None. With build=False they are used only if they were tested before."""
    global _library, _reason, _looked, _settled
    if _settled or (_looked and not build):
        return _library
    with _lock:
        if not _settled:
            try:
                _library, _reason, _settled = load(find(build)), None, True
            except Unavailable as error:
                _reason, _settled = str(error), not error.may_change
            _looked = True
    return _library


def reason() -> str | None:
    """Why the kernels are not in use; None when they are."""
    return _reason


def kernels() -> ctypes.CDLL:
    """The kernels, for callers that know they are there."""
    loaded = library()
    if loaded is None:
        raise RuntimeError(f"no compiled kernels: {reason()}")
    return loaded


def find(build: bool) -> Path:
    """The path of a tested library."""
    wanted = os.environ.get("SIDKIT_NATIVE") or "1"
    if wanted == "0":
        raise Unavailable("switched off by SIDKIT_NATIVE=0")
    if platform.machine().lower() not in MACHINES:
        raise Unavailable(f"written for x86-64 and aarch64 processors, not {platform.machine()}")
    if wanted != "compile":
        ready = shipped.best_library("" if wanted == "1" else wanted, build)
        if ready is not None:
            return ready
    if wanted not in ("1", "compile"):
        names = ", ".join(level.name for level in shipped.levels_here()) or "no level: there are no shipped libraries"
        raise Unavailable(f"SIDKIT_NATIVE={wanted}; this installation can use 0, 1, compile and {names}")
    return compiled(build)


def compiled(build: bool) -> Path:
    """The path of a library that was compiled on this machine."""
    compiler = find_compiler()
    if compiler is None:
        raise Unavailable(f"no C compiler ({os.environ.get('CC') or 'cc, gcc, clang'})")
    entry = cache_folder() / key(compiler)
    good, bad = entry.with_suffix(".ok"), entry.with_suffix(".bad")
    failure = remembered(bad)
    if failure is not None:
        raise Unavailable(f"{failure} (remembered in {bad} for a day)")
    target = entry.with_suffix(".so")
    if not (intact(target, good) and is_private(target)):
        if not build:
            raise Unavailable("not compiled yet", may_change=True)
        make(compiler, target, good, bad)
    return target


def load(path: Path) -> ctypes.CDLL:
    """The library with the types of its functions."""
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise Unavailable(f"cannot load {path}: {error}") from error
    loaded.sidkit_run.argtypes = [ctypes.POINTER(JobStruct)]
    loaded.sidkit_pack.argtypes = [ctypes.POINTER(CodebookStruct), ctypes.c_void_p]
    loaded.sidkit_pack.restype = None
    return loaded


def key(compiler: list[str]) -> str:
    """The name of the compiled file: a digest of all that it depends on."""
    tool = Path(compiler[0]).resolve()
    status = tool.stat()
    parts = [path.read_text() for path in sources()]
    parts += [*compiler, str(tool), str(status.st_size), str(status.st_mtime_ns)]
    return digest(*parts, *OPTIONS, *HERE, *LIBRARIES)


def make(compiler: list[str], target: Path, good: Path, bad: Path) -> None:
    """Compile and test the library, and only then move it into the cache."""
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as folder:
            fresh = Path(folder) / "kernels.so"
            failure = compile_to(compiler, HERE, fresh) or try_out(fresh)
            if failure:
                put(bad, failure)
                raise Unavailable(failure)
            total = checksum(fresh)
            fresh.chmod(0o700)
            os.replace(fresh, target)
            put(good, total)
            bad.unlink(missing_ok=True)
    except subprocess.TimeoutExpired as error:
        failure = f"{Path(error.cmd[0]).name} took over {error.timeout:.0f} seconds to build the kernels"
        put(bad, failure)
        raise Unavailable(failure) from error
    except OSError as error:
        raise Unavailable(f"cannot build the kernels: {error}") from error
