"""Folders of models that others made: what is refused before transformers reads them, and reading them without a hub.

    require_plain(folder, "use another model")
    with reading(f"read a tokenizer from {folder}", "give another folder"):
        transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)

`trust_remote_code=False` keeps transformers from running a folder's own code, and `local_files_only` from looking for a
model elsewhere. They leave open an adapter, whose config names another model, and settings and kinds of models that
take compiled kernels from a hub wherever the package `kernels` happens to be installed. And a model is built as large
as its config says before that is compared with its weights.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from safetensors import safe_open

from ..errors import InputError, SidkitError
from .folder import read_json

__all__ = ["offline", "quiet", "reading", "require_plain", "settings_of", "whole"]

ADAPTER, CONFIG = "adapter_config.json", "config.json"
FETCHING = ("use_kernels", "allow_all_kernels", "kernel_config", "adapter_kwargs", "_adapter_model_path")
FULL = (errno.ENOSPC, errno.EDQUOT)
LAYERS = re.compile(r"(^|_)layers?$")
WIDTHS = re.compile(
    r"(^|_)(channels|dims?|dimension|d_model|embd|experts|features|ff|heads?|inner|kv|positions|size|width)$"
)
FEW, NARROW = 256, 4096  # layers and widths that cost nothing, whatever the weights are
OWN = ("eager", "sdpa", "flex_attention", "grouped_mm", "batched_mm")  # ways to compute that are torch's

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
def reading(doing: str, advice: str) -> Iterator[None]:
    """`offline`, and whatever libraries raise for a folder that they cannot read becomes an error of sidkit.

    doing: what cannot be done then, such as "read a BART from bart/".
    """
    try:
        with offline():
            yield
    except SidkitError:
        raise
    except Exception as error:  # tokenizers raises this very class, and configs raise classes of their own
        if isinstance(error, OSError) and error.errno in FULL:
            raise  # no fault of the folder: the output's disk is full
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"cannot {doing}: {reason}; {advice}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """transformers prints neither reports nor progress in this block; what matters is checked by `whole`."""
    logging: Any = import_module("transformers.utils.logging")
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def whole(loaded: tuple[Any, dict[str, Any]]) -> Any:
    """The model of `from_pretrained(..., output_loading_info=True)`; a ValueError if weights of it are missing."""
    model, told = loaded
    if missing := sorted(map(str, told.get("missing_keys") or ())):
        raise ValueError(f"it has no weights {', '.join(missing[:3])}" + (" and others" if len(missing) > 3 else ""))
    return model


def require_plain(folder: Path, advice: str, configs: tuple[str, ...] = (CONFIG,)) -> None:
    """An error if reading the folder could load another model, fetch code, or build more than its weights fill.

    configs: its files of settings.
    """
    if (folder / ADAPTER).exists():
        raise InputError(f"{folder} is an adapter of another model, which is not loaded; {advice}")
    stated = [(folder / name, read_json(folder / name, advice)) for name in configs if (folder / name).is_file()]
    most = _most(folder, advice) if stated else None
    for file, settings in stated:
        for key, value in settings_of(settings):
            asked = f"{file} asks for {key[:60]} = {str(value)[:100]!r}"
            if _fetches(key, value):
                raise InputError(f"{asked}, which may be fetched; {advice}")
            if most is not None and type(value) is int and value > most(key):
                raise InputError(f"{asked}, which its weights do not have; {advice}")


def _most(folder: Path, advice: str) -> Callable[[str], float] | None:
    """By the name of a setting, the largest number that the weights in a folder allow; None without weights."""
    files, shapes = sorted(folder.glob("*.safetensors")), list[Any]()
    for file in files:
        with reading(f"read the weights in {file}", advice), safe_open(file, "np") as weights:
            names = weights.keys()
            shapes += [weights.get_slice(name).get_shape() for name in names]
    if not files:
        return None
    layers = max(len(shapes), FEW)
    width = max([NARROW, *(length for shape in shapes for length in shape)])
    return lambda key: layers if LAYERS.search(key) else width if WIDTHS.search(key) else math.inf


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
