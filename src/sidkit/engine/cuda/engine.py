"""torch and Triton: rows on a CUDA device.

Fits (`soft_sums`) multiply rows in their dtype: float16 and bfloat16 rows in one product on the tensor cores, float32
rows in TensorFloat-32, or in three products of float16 halves ("fp32"), which are as accurate as float32. Tokens
(`nearest`) are screened in one product of halves, and `top` takes three, each with a bound on its error; codewords
whose scores differ by less are scored in float64. So tokens equal the float64 answer, ties to the lowest index, as on
the CPU.
"""

from __future__ import annotations

from ...errors import need

need("triton", "torch", "computing on a CUDA device")

from .carry import CarryPlan, Uncarried, carried, lengths, plan_carry  # noqa: E402
from .codebook import CudaCodebook, book  # noqa: E402
from .fit import soft_sums  # noqa: E402
from .pairs import add_up, column_sums, hard_sums  # noqa: E402
from .tokens import nearest, nearest_after, top  # noqa: E402

__all__ = [
    "CarryPlan",
    "CudaCodebook",
    "Uncarried",
    "add_up",
    "book",
    "carried",
    "column_sums",
    "hard_sums",
    "lengths",
    "nearest",
    "nearest_after",
    "plan_carry",
    "soft_sums",
    "top",
]
