"""The C compiler: where it is, how it is called, and for which processors.

The build back end reads this file by its path (hatch_build.py), where the package and numpy are not installed: it
imports nothing but the standard library.

    LEVELS          instruction sets that a wheel has a library for, best first
    compile_to      one library, by one call of the compiler, without a shell
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["HERE", "LEVELS", "InstructionLevel", "compile_to", "find_compiler", "sources", "target_of"]

SOURCE = Path(__file__).with_name("kernels.c")
OPTIONS = ("-O3", "-ffp-contract=off", "-std=gnu11", "-shared", "-fPIC")
HERE = ("-march=native",)  # for the processor that compiles
PORTABLE = ("-s", "-DPORTABLE")  # for any Linux of the last ten years: see portable.h
LIBRARIES = ("-lm", "-lpthread")
COMPILING = 300  # seconds

V3 = frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@dataclass(frozen=True)
class InstructionLevel:
    """An instruction set: the options that compile for it, and what /proc/cpuinfo says of a processor that has it."""

    name: str
    machine: str
    options: tuple[str, ...]
    needs: frozenset[str]

    @property
    def file(self) -> str:
        return f"{self.name}.so"

    def command_line(self) -> tuple[str, ...]:
        """The options of a library that goes into a wheel."""
        return (*self.options, *PORTABLE)


WIDE = ("-march=x86-64-v4", "-mprefer-vector-width=512")
LEVELS = (
    InstructionLevel("vnni", "x86_64", (*WIDE, "-mavx512vnni"), V4 | {"avx512_vnni"}),
    InstructionLevel("avx512", "x86_64", WIDE, V4),
    InstructionLevel("avxvnni", "x86_64", ("-march=x86-64-v3", "-mavxvnni"), V3 | {"avx_vnni"}),
    InstructionLevel("avx2", "x86_64", ("-march=x86-64-v3",), V3),
    InstructionLevel("dotprod", "aarch64", ("-march=armv8.2-a+dotprod",), frozenset({"asimd", "asimddp"})),
    InstructionLevel("neon", "aarch64", ("-march=armv8-a",), frozenset({"asimd"})),
)


def find_compiler() -> list[str] | None:
    """The C compiler as a command: $CC, or the first of cc, gcc and clang."""
    wanted = os.environ.get("CC")
    for name in (wanted,) if wanted else ("cc", "gcc", "clang"):
        command = shlex.split(name)
        path = shutil.which(command[0]) if command else None
        if path:
            return [path, *command[1:]]
    return None


def target_of(compiler: list[str]) -> str:
    """The machine that a compiler compiles for, if that is a Linux with glibc: x86_64 or aarch64, or another name."""
    command = [*compiler, "-dumpmachine"]
    done = run_within(COMPILING, command)
    target = done.stdout.strip()
    return target.split("-")[0] if "linux" in target and "musl" not in target else target or "an unknown machine"


def run_within(seconds: float, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command; after that many seconds it is killed, with every process that it started."""
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen(command, text=True, errors="replace", start_new_session=True, **pipes)
    try:
        out, err = child.communicate(timeout=seconds)
    except BaseException:
        with suppress(OSError, AttributeError):  # Windows has no groups
            os.killpg(child.pid, signal.SIGKILL)
        child.kill()
        child.communicate()
        raise
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def compile_to(compiler: list[str], options: tuple[str, ...], fresh: Path) -> str | None:
    """Compile the kernels into the file `fresh`; the error of the compiler, or None."""
    command = [*compiler, *OPTIONS, *options, str(SOURCE), "-o", str(fresh), *LIBRARIES]
    done = run_within(COMPILING, command)
    if done.returncode == 0 and fresh.exists():
        return None
    complaint = (done.stderr.strip().splitlines() or ["no message"])[0]
    return f"{compiler[0]} could not compile the kernels: {complaint}"


def sources() -> list[Path]:
    """The files that the kernels are compiled from."""
    return sorted(path for path in SOURCE.parent.iterdir() if path.suffix in (".c", ".h"))
