"""Compiled kernels in the wheel: one library for each level of instructions of the compiler's target.

    python -m build                                    for this machine
    CC=aarch64-linux-gnu-gcc python -m build --wheel   for another
    SIDKIT_WHEEL=pure python -m build --wheel          without kernels: py3-none-any

The libraries are loaded by ctypes, so one wheel serves every Python. Its tag names the oldest glibc that has every
symbol they ask for. Without a compiler, or for a system other than Linux with glibc, the wheel is pure and the build
says so: such an installation compiles the kernels on first use.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = "sidkit/engine/native"


def read_compiler() -> Any:
    """The module that knows the compiler, which needs no other part of the package."""
    path = Path(__file__).parent / "src" / NATIVE / "compiler.py"
    spec: Any = importlib.util.spec_from_file_location("sidkit_compiler", path)
    module = sys.modules["sidkit_compiler"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_levels(folder: Path) -> tuple[str, list[str]]:
    """Fill the folder with libraries and their checksums; the platform of the wheel, or "", and what to tell."""
    if os.environ.get("SIDKIT_WHEEL") == "pure":
        return "", ["a pure wheel, as SIDKIT_WHEEL=pure asks"]
    tools = read_compiler()
    compiler = tools.find_compiler()
    if compiler is None:
        return "", [f"no C compiler ({os.environ.get('CC') or 'cc, gcc, clang'})"]
    machine = tools.target_of(compiler)
    levels = [level for level in tools.LEVELS if level.machine == machine]
    if not levels:
        return "", [f"{compiler[0]} compiles for {machine}; wheels have kernels for Linux on x86_64 and aarch64"]
    with ThreadPoolExecutor() as pool:
        failures = pool.map(lambda one: tools.compile_to(compiler, one.command_line(), folder / one.file), levels)
    told = [f"no library for {level.name}: {why}" for level, why in zip(levels, failures, strict=True) if why]
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.so"))}
    (folder / "digests.json").write_text(json.dumps(digests, indent=1) + "\n")
    return (platform_of(machine, folder) if digests else ""), told


def platform_of(machine: str, folder: Path) -> str:
    """manylinux_<glibc>_<machine>: the newest version of glibc that a library names."""
    versions = {(2, 17)}  # the oldest that installers know for both machines
    for path in folder.glob("*.so"):
        found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", path.read_bytes())
        versions |= {(int(major), int(minor)) for major, minor in found}
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{machine}"


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the libraries to a wheel and gives it the right tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self.folder = Path(tempfile.mkdtemp(prefix="sidkit-kernels-"))
        platform, told = compile_levels(self.folder)
        for line in told:
            self.app.display_warning(f"sidkit: {line}")
        if not platform:
            self.app.display_warning("sidkit: the wheel has no compiled kernels; they are compiled on first use")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["force_include"][str(self.folder)] = f"{NATIVE}/libraries"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self.folder, ignore_errors=True)
