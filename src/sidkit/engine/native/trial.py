"""The trial of a library: a child process uses it, and compares its answers with numpy's (probe.py).

A processor may advertise instructions that it cannot run: then the child dies, not this process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["try_out"]

TESTING = 120  # seconds


def try_out(library: Path) -> str | None:
    """The error of a child process that used the library, or None."""
    if not sys.executable:
        return "no Python to test the kernels in a child process"
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": paths, "SIDKIT_NATIVE": "0"}
    command = [sys.executable, "-P", "-m", "sidkit.engine.native.probe", str(library)]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=TESTING, check=False, env=environment
    )
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"the kernels died of signal {-done.returncode} when tested"
    return f"the kernels failed when tested: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
