"""Folders of models that others made: what is refused before transformers reads them, and reading them without a hub.

    require_plain(folder, "use another model")
    with reading(folder, "a tokenizer"):
        transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)

`trust_remote_code=False` keeps transformers from running a folder's own code, and `local_files_only` from looking for a
model elsewhere. They leave open an adapter, whose config names another model, and settings and kinds of models that
take compiled kernels from a hub wherever the package `kernels` happens to be installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from safetensors import SafetensorError

from ..errors import InputError
from .folder import read_json

__all__ = ["offline", "reading", "require_plain", "settings_of"]

ADAPTER, CONFIG = "adapter_config.json", "config.json"
FETCHING = ("use_kernels", "allow_all_kernels", "kernel_config", "adapter_kwargs", "_adapter_model_path")
OWN = ("eager", "sdpa", "flex_attention", "grouped_mm", "batched_mm")  # ways to compute that are torch's

UNREADABLE = (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, ImportError, SafetensorError)

_lock = Lock()
_depth, _before = 0, False


@contextmanager
def offline() -> Iterator[None]:
    """Whatever is read in this block, no hub is asked; also if several threads are in such blocks."""
    global _depth, _before
    constants: Any = None
    with suppress(ImportError):
        constants = import_module("huggingface_hub.constants")
    if constants is None:
        yield
        return
    with _lock:
        if _depth == 0:
            _before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                constants.HF_HUB_OFFLINE = _before


@contextmanager
def reading(folder: Path, noun: str) -> Iterator[None]:
    """`offline`, and whatever transformers raises for a folder that it cannot read becomes an error of sidkit."""
    try:
        with offline():
            yield
    except UNREADABLE as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{folder} holds no {noun} of transformers: {reason}") from error


def require_plain(folder: Path, advice: str, configs: tuple[str, ...] = (CONFIG,)) -> None:
    """An error if reading the folder could load another model, or fetch code; configs: its files of settings."""
    if (folder / ADAPTER).exists():
        raise InputError(f"{folder} is an adapter of another model, which is not loaded; {advice}")
    for name in configs:
        if (folder / name).is_file():
            for key, value in settings_of(read_json(folder / name, advice)):
                if _fetches(key, value):
                    asked = f"{key[:60]} = {str(value)[:100]!r}"
                    raise InputError(f"{folder / name} asks for {asked}, which may be fetched; {advice}")


def settings_of(plain: Any) -> Iterator[tuple[str, Any]]:
    """Every key of a JSON value with what it holds, at any depth."""
    pending = [plain]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            yield from one.items()
            pending += one.values()
        elif isinstance(one, list):
            pending += one


def _fetches(key: str, value: Any) -> bool:
    """Whether a setting makes transformers look for kernels or adapters outside of the folder."""
    if key.strip("_").removesuffix("_internal") in ("attn_implementation", "experts_implementation"):
        parts = value.values() if isinstance(value, dict) else [value]
        return not all(part is None or part in OWN for part in parts)
    return key in FETCHING and bool(value)
