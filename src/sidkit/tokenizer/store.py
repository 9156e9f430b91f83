"""A folder <-> a fitted tokenizer.

    config.json         the spec, versioned, with the SHA-256 of the weights and of itself
    model.safetensors   every array, named stage{i}.{name}
    README.md           the model card, for people

Loading trusts nothing: names, sizes, shapes, finiteness and both checksums are verified, links that leave the folder
are refused, and nothing in a file is ever executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import SpecError, StoreError
from ..files.folder import FolderFormat
from .card import facts_of, model_card
from .spec import from_plain, to_plain
from .tokenizer import FittedTokenizer, Tokenizer

__all__ = ["check_target", "load", "save"]

FORMAT = FolderFormat(
    "sidkit-tokenizer",
    "tokenizer",
    "fit it again, or fetch an undamaged copy",
    {"name": str, "stages": list, "sizes": list, "d": int, "dtype": str, "seed": int, "facts": dict},
    tensors_digest="weights_sha256",
)
CARD = "README.md"


def check_target(path: Path) -> None:
    """An error if a tokenizer cannot be written here without losing something else."""
    if path.is_file():
        raise StoreError(f"{path} is a file; name a folder to write the tokenizer to")
    if path.is_dir() and any(path.iterdir()) and not _is_ours(path / FORMAT.config):
        raise StoreError(f"{path} holds other things and no tokenizer; name a new or empty folder")


def _is_ours(config: Path) -> bool:
    """Whether it is a tokenizer's, whole or broken: it says so at its beginning."""
    try:
        with config.open("rb") as file:
            return FORMAT.name.encode() in file.read(4096)
    except OSError:
        return False


def save(fitted: FittedTokenizer, path: Path) -> Path:
    """Write the model folder whole, or leave what was there."""
    check_target(path)
    fitted = replace(fitted, facts=fitted.facts or facts_of(fitted))
    config = {
        "name": fitted.spec.name,
        "stages": to_plain(fitted.spec.stages),
        "sizes": list(fitted.sizes),
        "d": fitted.d,
        "dtype": fitted.dtype,
        "seed": fitted.seed,
        "facts": dict(fitted.facts),
    }
    FORMAT.write(path, config, _tensors(fitted), {CARD: model_card(fitted, path.name)})
    return path


def load(path: str | Path) -> FittedTokenizer:
    """Read a model folder, checking all of it."""
    folder = Path(path)
    if not folder.is_dir():
        raise StoreError(f"no such model folder: {folder}")
    config, weights = FORMAT.read(folder)
    if config["dtype"] not in ("float32", "float64") or not 1 <= config["d"] <= 1 << 20:
        raise StoreError(f"{folder / FORMAT.config}: dtype {config['dtype']!r} and d {config['d']} make no tokenizer")
    try:
        stages = from_plain(config["stages"], "stages")
        spec = Tokenizer(stages, config["name"])
        fitted = _restore(spec, weights, config["d"])
    except (SpecError, StoreError) as error:
        raise StoreError(f"{folder}: {error}") from error
    loaded = FittedTokenizer(spec, fitted, config["d"], config["dtype"], config["seed"], facts=config["facts"])
    if list(loaded.sizes) != config["sizes"]:
        raise StoreError(f"{folder}: {FORMAT.config} says sizes {config['sizes']}, its stages {list(loaded.sizes)}")
    return loaded


def _tensors(fitted: FittedTokenizer) -> dict[str, NDArray[Any]]:
    return {f"stage{i}.{name}": array for i, stage in enumerate(fitted.stages) for name, array in stage.arrays.items()}


def _restore(spec: Tokenizer, weights: Mapping[str, NDArray[Any]], d: int) -> tuple[Any, ...]:
    unknown = set(weights) - {
        name for name in weights if any(name.startswith(f"stage{i}.") for i in range(len(spec.stages)))
    }
    if unknown:
        raise StoreError(f"the weights hold tensors of no stage: {', '.join(sorted(unknown)[:3])}")
    fitted = []
    for i, stage in enumerate(spec.stages):
        mark = f"stage{i}."
        own = {name.removeprefix(mark): array for name, array in weights.items() if name.startswith(mark)}
        try:
            fitted.append(stage.restore(own, d))
        except StoreError as error:
            raise StoreError(f"stage {i} ({type(stage).__name__}): {error}") from error
        extra = set(own) - set(fitted[-1].arrays)
        if extra:
            raise StoreError(f"stage {i} ({type(stage).__name__}) knows no tensor {sorted(extra)[0]!r}")
    return tuple(fitted)
