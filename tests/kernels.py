"""Whether Triton's kernels can run here: on a CUDA device, or through its interpreter, which knows old numpys only.

To be imported before sidkit's kernels: it chooses the interpreter.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the kernels need torch")

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
OLD_NUMPY = tuple(int(part) for part in np.__version__.split(".")[:2]) < (2, 4)
RUN = find_spec("triton") is not None and (ON_GPU or OLD_NUMPY)
WHY_NOT = "Triton is not installed, or its interpreter does not know this numpy (needs < 2.4)"
# the interpreter computes both sides of every choice, and converts arrays the old way
QUIET = [] if ON_GPU else [pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Runtime", "Deprecation")]
if not ON_GPU and find_spec("triton"):
    os.environ.setdefault("TRITON_INTERPRET", "1")
kernels_run = pytest.mark.skipif(not RUN, reason=WHY_NOT)
needs_gpu = pytest.mark.skipif(not ON_GPU, reason="no CUDA device")
