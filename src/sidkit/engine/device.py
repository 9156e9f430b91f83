"""Which device computes ("auto", "cpu", "cuda" or "cuda:N" as a device that is there), and in which dtype."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Protocol

from ..errors import SpecError, need

__all__ = [
    "MOST_DIMENSIONS",
    "MOST_NEIGHBOURS",
    "WORTH_A_GPU",
    "choose_device",
    "find_device",
    "has_gpu",
    "product_dtype",
]

WORTH_A_GPU = 1e12  # multiply-adds from which "auto" takes a GPU: it saves more than loading and compiling kernels cost
MOST_NEIGHBOURS, MOST_DIMENSIONS = 16, 4096  # what the GPU's kernels can do


class Matrix(Protocol):
    """Rows to be worked on."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> Any: ...


def find_device(device: str, pays: bool = True, triton: bool = False) -> str:
    """The device of this name, which must exist; "auto" is "cuda" where there is a GPU and it pays, else "cpu".

    triton: whether the work needs Triton's kernels as well as torch.
    """
    kind, colon, index = device.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (colon and not (kind == "cuda" and index.isdigit())):
        raise SpecError(f"device must be auto, cpu, cuda or cuda:N, not {device!r}")
    if kind == "auto":
        return "cuda" if pays and has_gpu(triton) else "cpu"
    if kind == "cuda":
        _require_gpu(device, int(index or 0), triton)
    return device


def choose_device(device: str, rows: Matrix, work: float) -> str:
    """The device that compares each of these rows with `work` codewords.

    A GPU pays from WORTH_A_GPU multiply-adds on. Rows of float64 stay on the CPU, which computes in float64; a GPU
    would not.
    """
    n, d = rows.shape
    pays = float(n) * d * work >= WORTH_A_GPU and d <= MOST_DIMENSIONS and rows.dtype == "float32"
    return find_device(device, pays, triton=True)


def product_dtype(precision: str, device: Any) -> Any:
    """The torch dtype of a network's matrix products; precision: "auto", "bfloat16" or "float32".

    On a CPU it is float32: some processors advertise bfloat16 and crash on it.
    """
    import torch

    fast = precision in ("auto", "bfloat16") and torch.device(device).type == "cuda"
    return torch.bfloat16 if fast else torch.float32


def has_gpu(triton: bool = False) -> bool:
    """Whether there is a CUDA device that torch, and Triton if asked for, can use."""
    if not find_spec("torch") or (triton and not find_spec("triton")):
        return False
    import torch

    return bool(torch.cuda.is_available())


def _require_gpu(device: str, index: int, triton: bool) -> None:
    torch = need("torch", "torch", "computing on a CUDA device")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise SpecError("there is no CUDA device here; use --device cpu")
    if triton:
        need("triton", "torch", "computing on a CUDA device")
    if index >= count:
        raise SpecError(f"there is no device {device!r}; this machine has cuda:0 to cuda:{count - 1}")
