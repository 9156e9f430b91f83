"""Whether Triton's kernels can run here: on a CUDA device, or on the CPU through Triton's interpreter.

The interpreter needs milliseconds for every program: tests that it runs have small sizes, which they choose by ON_GPU.
To be imported before sidkit's kernels, because it switches the interpreter on.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch", reason="the kernels need torch")

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
if not ON_GPU:
    os.environ.setdefault("TRITON_INTERPRET", "1")


def triton_is_at_least(major, minor):
    if find_spec("triton") is None:
        return False
    import triton

    return tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (major, minor)


RUN = triton_is_at_least(*((3, 2) if ON_GPU else (3, 7)))
WHY_NOT = "Triton is not installed, or is older than 3.7, whose interpreter does not know numpy 2.4"
# the interpreter computes both sides of every choice, and converts arrays in a way that numpy deprecated
QUIET = [] if ON_GPU else [pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Runtime", "Deprecation")]
kernels_run = pytest.mark.skipif(not RUN, reason=WHY_NOT)
needs_gpu = pytest.mark.skipif(not ON_GPU, reason="no CUDA device")

if RUN and not ON_GPU:
    from triton.runtime import interpreter

    from sidkit.engine.cuda import fit, tiles

    tiles.PROGRAMS = 1  # not hundreds of programs that find nothing to do
    fit.DENSE = 32  # so that small codebooks reach both ways of adding up

    prepare, prepared = interpreter._patch_lang, set()

    def prepare_once(fn):
        """Triton's language in the hands of the interpreter, and left there.

        The interpreter does so at every launch, and at every call inside a kernel: a third of its time.
        """
        if fn.__module__ not in prepared:
            prepared.add(fn.__module__)
            prepare(fn)
        return interpreter._LangPatchScope()  # has nothing to restore

    interpreter._patch_lang = prepare_once
