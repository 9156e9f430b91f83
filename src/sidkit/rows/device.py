"""Which device does the work, and what to say of it afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from ..engine import native
from ..errors import SpecError, need
from .local import LocalRows
from .seam import Rows
from .sources import Source

__all__ = ["choose_device", "describe_run", "ran_on", "require_gpu", "work_of_fit"]

WORTH_A_GPU = 1e12  # multiply-adds from which "auto" takes a GPU: it saves more than loading and compiling kernels cost
MOST_NEIGHBOURS, MOST_DIMENSIONS = 16, 4096  # what the GPU's kernels can do


def choose_device(device: str, source: Source, work: float) -> str:
    """The device for this work: "auto" is "cuda" where there is a GPU and it pays, else "cpu".

    work: codewords that each row is compared with. It pays from WORTH_A_GPU multiply-adds on. Rows of float64 stay on
    the CPU, which computes in float64; a GPU would not.
    """
    kind = device.partition(":")[0]
    if kind not in ("auto", "cpu", "cuda"):
        raise SpecError(f"device must be auto, cpu or cuda, not {device!r}")
    if kind == "cuda":
        require_gpu(device)
    if kind != "auto":
        return device
    n, d = source.shape
    pays = float(n) * d * work >= WORTH_A_GPU and d <= MOST_DIMENSIONS and source.dtype == "float32"
    return "cuda" if pays and _has_gpu() else "cpu"


def work_of_fit(stages: Iterable[Any]) -> float:
    """How many codewords a fit compares each row with, stages without codebooks aside."""
    parts = [getattr(stage, "cluster", stage) for stage in stages]
    if any(getattr(part, "top_k", 1) > MOST_NEIGHBOURS for part in parts):
        return 0.0
    return float(sum(getattr(part, "iterations", 0) * _size(part) for part in parts))


def require_gpu(device: str) -> None:
    """An error if there is no such CUDA device."""
    torch = need("torch", "torch", "computing on a CUDA device")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = device.partition(":")[2] or "0"
    if count == 0:
        raise SpecError("there is no CUDA device here; use --device cpu")
    need("triton", "torch", "computing on a CUDA device")
    if not number.isdigit() or int(number) >= count:
        raise SpecError(f"there is no device {device!r}; this machine has cuda:0 to cuda:{count - 1}")


def ran_on(rows: Rows | None, encoding: bool = False) -> dict[str, Any]:
    """Where rows were worked on, for people and machines; empty where the rows do not say.

    encoding leaves out how rows were scored, which is a fit's matter.
    """
    if isinstance(rows, LocalRows):
        return {"device": "cpu", "threads": native.threads()}
    describe = getattr(rows, "ran_on", None)
    place = describe() if describe is not None else {}
    return {name: value for name, value in place.items() if name != "scored_in" or not encoding}


def describe_run(place: Mapping[str, Any]) -> str:
    """A place as a line of text."""
    if place.get("device") == "cpu":
        threads = place["threads"]
        return f"ran on the CPU, {threads} thread{'s' if threads != 1 else ''} at most"
    if place.get("device") == "ray":
        return f"ran on Ray: {place['workers']} workers of {place['cpus']} CPUs, {place['retries']} replaced on the way"
    scored = f"scored in {' and '.join(place['scored_in'])} while fitting, " if "scored_in" in place else ""
    peak = f"peak {place['peak_bytes'] / 1e9:.2f} GB of device memory"
    return f"ran on {place['device']}: rows {place['rows']}, {scored}{peak}"


def _size(part: Any) -> float:
    """Codewords of the full width that a pass compares a row with."""
    sizes = getattr(part, "sizes", ())
    return sum(sizes) / len(sizes) if sizes else getattr(part, "size", 0)


def _has_gpu() -> bool:
    if not (find_spec("torch") and find_spec("triton")):
        return False
    import torch

    return bool(torch.cuda.is_available())
