"""How the threads of libraries wait: asleep, so that others have the cores meanwhile."""

import os

__all__ = ["let_threads_sleep"]

# Read by a library when it is loaded: libgomp, Intel's OpenMP, and OpenBLAS (2^4 cycles of spinning, its least).
POLICY = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "OPENBLAS_THREAD_TIMEOUT": "4"}


def let_threads_sleep() -> None:
    """Set the policy for this process and its children, before anything that computes is imported.

    What is set already stays as it is; with SIDKIT_SPIN=1 the libraries decide.
    """
    if not os.environ.get("SIDKIT_SPIN"):
        for name, value in POLICY.items():
            os.environ.setdefault(name, value)
