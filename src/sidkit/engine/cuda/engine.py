"""torch and Triton: rows on a CUDA device.

Fits (`soft_sums`) take the rows as they come: float16 and bfloat16 rows are multiplied as they are, in one product on
the tensor cores; float32 rows in TensorFloat-32, or in three products of float16 halves ("fp32"), which is as good as
float32. Tokens (`nearest`, `top`) always go through the three products, with a bound on what these can be wrong by;
rows within it are settled in float64. So they equal the float64 answer, lowest index on ties, as on the CPU.
"""

from __future__ import annotations

from ...errors import need

need("triton", "torch", "computing on a CUDA device")

from .carry import CarryPlan, carried, lengths, plan_carry  # noqa: E402
from .codebook import CudaCodebook, book  # noqa: E402
from .fit import soft_sums  # noqa: E402
from .pairs import add_up, column_sums  # noqa: E402
from .tokens import nearest, top  # noqa: E402

__all__ = [
    "CarryPlan",
    "CudaCodebook",
    "add_up",
    "book",
    "carried",
    "column_sums",
    "lengths",
    "nearest",
    "plan_carry",
    "soft_sums",
    "top",
]
