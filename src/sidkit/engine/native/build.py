"""The kernels as a loaded library: compiled once per machine, tested in a child process, stored in a cache.

    ~/.cache/sidkit/<key>.so    the library ($XDG_CACHE_HOME/sidkit when that is set)
    ~/.cache/sidkit/<key>.ok    its checksum, written after a child process got right answers from it
    ~/.cache/sidkit/<key>.bad   or the reason why it must not be used, which holds for a day: then it is tried again

The key covers the source, the compiler, its options, the processor and the package version. The compiler is started
without a shell, and has COMPILING seconds. A library is loaded only if its checksum is the one that was written after
its test. No failure is raised:
`library()` is then None, `reason()` is the reason, and numpy does the work.

SIDKIT_NATIVE=0 switches the kernels off; CC names another compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Lock

from .layout import CodebookStruct, JobStruct

__all__ = ["kernels", "library", "reason"]

FOLDER = Path(__file__).parent
OPTIONS = ("-O3", "-march=native", "-ffp-contract=off", "-std=gnu11", "-shared", "-fPIC")
LIBRARIES = ("-lm", "-lpthread")
COMPILING, TESTING = 300, 120  # seconds
REMEMBERED = 24 * 3600  # seconds

_lock = Lock()
_library: ctypes.CDLL | None = None
_reason: str | None = "not looked for yet"
_looked = _settled = False


def library(build: bool = True) -> ctypes.CDLL | None:
    """The kernels, or None. With build=False they are used only if they were compiled and tested before."""
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


class Unavailable(Exception):
    """The kernels cannot be used here; may_change: they can be, once they are compiled."""

    def __init__(self, why: str, may_change: bool = False) -> None:
        super().__init__(why)
        self.may_change = may_change


def find(build: bool) -> Path:
    """The path of a compiled and tested library."""
    if os.environ.get("SIDKIT_NATIVE", "1") == "0":
        raise Unavailable("switched off by SIDKIT_NATIVE=0")
    if platform.machine().lower() not in ("x86_64", "amd64"):
        raise Unavailable(f"written for x86-64 processors, not {platform.machine()}")
    compiler = find_compiler()
    entry = cache_folder() / key(compiler)
    good, bad = entry.with_suffix(".ok"), entry.with_suffix(".bad")
    failure = remembered(bad)
    if failure is not None:
        raise Unavailable(f"{failure} (remembered in {bad} for a day)")
    target = entry.with_suffix(".so")
    if not intact(target, good):
        if not build:
            raise Unavailable("not compiled yet", may_change=True)
        make(compiler, target, good, bad)
    return target


def remembered(bad: Path) -> str | None:
    """The failure of a build in the last day; None if there was none, or if it is time to try again."""
    try:
        age = time.time() - bad.stat().st_mtime
        return bad.read_text(errors="replace").strip() if 0 <= age < REMEMBERED else None
    except OSError:
        return None


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


def find_compiler() -> list[str]:
    """The C compiler as a command: $CC, or the first of cc, gcc and clang."""
    wanted = os.environ.get("CC")
    for name in (wanted,) if wanted else ("cc", "gcc", "clang"):
        command = shlex.split(name)
        path = shutil.which(command[0]) if command else None
        if path:
            return [path, *command[1:]]
    raise Unavailable(f"no C compiler ({wanted or 'cc, gcc, clang'})")


def cache_folder() -> Path:
    """The user's folder for compiled kernels; one that others may write to is refused."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(home) / "sidkit"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise Unavailable(f"cannot store compiled kernels in {folder}: {error.strerror}") from error
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise Unavailable(f"{folder} can be written by others; make it private (chmod 700)")
    return folder


def key(compiler: list[str]) -> str:
    """The name of the compiled file: a digest of all that it depends on."""
    from ... import __version__

    tool = Path(compiler[0]).resolve()
    status = tool.stat()
    sources = sorted(path for path in FOLDER.iterdir() if path.suffix in (".c", ".h"))
    parts = [path.read_text() for path in sources]
    parts += [*compiler, str(tool), str(status.st_size), str(status.st_mtime_ns)]
    parts += [*OPTIONS, *LIBRARIES, processor(), __version__]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def processor() -> str:
    """The model of the processor and its instruction sets."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    return "\n".join(line for line in lines if line.startswith(("model", "flags", "vendor")))


def intact(target: Path, good: Path) -> bool:
    """Whether the library exists, is complete, and passed its test."""
    try:
        return good.read_text() == hashlib.sha256(target.read_bytes()).hexdigest()
    except OSError:
        return False


def make(compiler: list[str], target: Path, good: Path, bad: Path) -> None:
    """Compile and test the library, and only then move it into the cache."""
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as folder:
            fresh = Path(folder) / "kernels.so"
            failure = compile_to(compiler, fresh) or probe(fresh)
            if failure:
                put(bad, failure)
                raise Unavailable(failure)
            checksum = hashlib.sha256(fresh.read_bytes()).hexdigest()
            os.replace(fresh, target)
            put(good, checksum)
            bad.unlink(missing_ok=True)
    except subprocess.TimeoutExpired as error:
        failure = f"{Path(error.cmd[0]).name} took over {error.timeout:.0f} seconds to build the kernels"
        put(bad, failure)
        raise Unavailable(failure) from error
    except OSError as error:
        raise Unavailable(f"cannot build the kernels: {error}") from error


def compile_to(compiler: list[str], fresh: Path) -> str | None:
    """The error of the compiler, or None."""
    command = [*compiler, *OPTIONS, str(FOLDER / "kernels.c"), "-o", str(fresh), *LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=COMPILING, check=False)
    if done.returncode == 0 and fresh.exists():
        return None
    complaint = (done.stderr.strip().splitlines() or ["no message"])[0]
    return f"{compiler[0]} could not compile the kernels: {complaint}"


def probe(fresh: Path) -> str | None:
    """The error of a child process that used the library, or None.

    A processor may advertise instructions that it cannot run: then the child dies, not this process.
    """
    if not sys.executable:
        return "no Python to test the kernels in a child process"
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": paths, "SIDKIT_NATIVE": "0"}
    command = [sys.executable, "-P", "-m", "sidkit.engine.native.probe", str(fresh)]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=TESTING, check=False, env=environment
    )
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"the kernels died of signal {-done.returncode} when tested"
    return f"the kernels failed when tested: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"


def put(path: Path, text: str) -> None:
    """Write a file in one step."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text)
    os.replace(fresh, path)
