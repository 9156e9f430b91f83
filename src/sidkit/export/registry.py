"""Every target by name. Other packages add theirs through the entry point group `sidkit.export`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from ..errors import SpecError, did_you_mean
from .target import ExportTarget

__all__ = ["ALIASES", "ENTRY_POINTS", "all_targets", "target_named"]

ENTRY_POINTS = "sidkit.export"
MODULES = {
    "lc-rec": "lc_rec",
    "minionerec": "minionerec",
    "llama-factory": "llama_factory",
    "openonerec": "openonerec",
    "grid": "grid",
    "recboard": "recboard",
    "semantic-id": "semantic_id",
    "rectokens": "rectokens",
    "torcheasyrec": "torcheasyrec",
    "static": "static",
    "nvidia-sid-gr": "nvidia_sid_gr",
    "xllm": "xllm",
    "flashrec": "flashrec",
    "faiss": "faiss",
    "huggingface": "huggingface",
    "onnx": "onnx",
    "csv": "csv",
}
ALIASES = {"letter": "lc-rec", "lcrec": "lc-rec", "hf": "huggingface", "mimigenrec": "llama-factory"}


def target_named(name: str) -> ExportTarget:
    """The target of that name, of sidkit or of another package."""
    key = name.lower().replace("_", "-")
    key = ALIASES.get(key, key)
    if key in MODULES:
        target = import_module(f"sidkit.export.{MODULES[key]}").TARGET
    elif key in _plugins():
        target = _plugins()[key].load()
    else:
        known = [*MODULES, *_plugins()]
        raise SpecError(f"no target {name!r}{did_you_mean(key, [*known, *ALIASES])} (known: {', '.join(known)})")
    if not isinstance(target, ExportTarget):
        raise SpecError(f"entry point {key!r} of {ENTRY_POINTS} is not a sidkit.export.target.ExportTarget")
    return target


def all_targets() -> list[ExportTarget]:
    """Every target, those of sidkit first."""
    return [target_named(name) for name in (*MODULES, *sorted(_plugins()))]


@cache
def _plugins() -> dict[str, EntryPoint]:
    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    return {name: point for name, point in points.items() if name not in MODULES}
