"""The folder of a tokenizer, as plain parts.

    config.json         the spec, versioned, with the SHA-256 of the weights and of itself
    model.safetensors   every array, named stage{i}.{name}
    README.md           the model card, for people

Reading checks names, sizes, shapes and finiteness besides what `files/folder.py` checks in every folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import SpecError, StoreError
from ..files.folder import FolderFormat
from ..stages.stage import Fitted, Stage, require_stages
from .spec import from_plain, to_plain

__all__ = ["StoredTokenizer", "check_target", "read_parts", "write_parts"]

FORMAT = FolderFormat(
    "sidkit-tokenizer",
    "tokenizer",
    "fit it again, or fetch an undamaged copy",
    {"name": str, "stages": list, "sizes": list, "d": int, "dtype": str, "seed": int, "facts": dict},
    tensors_digest="weights_sha256",
)
CARD = "README.md"


@dataclass(frozen=True, eq=False)
class StoredTokenizer:
    """The content of a tokenizer's folder: the recipe's name, the stages before and after fitting, and the fit."""

    name: str
    spec: tuple[Stage, ...]
    stages: tuple[Fitted, ...]
    d: int
    dtype: str
    seed: int
    facts: Mapping[str, Any]

    @property
    def sizes(self) -> list[int]:
        return [int(size) for stage in self.stages for size in stage.sizes]


def check_target(path: Path) -> None:
    """An error if a tokenizer cannot be written here without losing something else."""
    FORMAT.check_target(path)


def write_parts(path: Path, parts: StoredTokenizer, card: str) -> None:
    """Write the model folder in one step, or leave what was there."""
    check_target(path)
    config = {
        "name": parts.name,
        "stages": to_plain(parts.spec),
        "sizes": parts.sizes,
        "d": parts.d,
        "dtype": parts.dtype,
        "seed": parts.seed,
        "facts": dict(parts.facts),
    }
    arrays = {f"stage{i}.{name}": array for i, stage in enumerate(parts.stages) for name, array in stage.arrays.items()}
    FORMAT.write(path, config, arrays, {CARD: card})


def read_parts(folder: Path) -> StoredTokenizer:
    """Read a model folder, checking all of it."""
    if not folder.is_dir():
        raise StoreError(f"no such model folder: {folder}")
    config, arrays = FORMAT.read(folder)
    file = folder / FORMAT.config
    if config["dtype"] not in ("float32", "float64") or not 1 <= config["d"] <= 1 << 20:
        raise StoreError(f"{file}: dtype {config['dtype']!r} and d {config['d']} do not make a tokenizer")
    try:
        spec = from_plain(config["stages"], "stages")
        stages = _restore(spec, arrays, config["d"])
    except (SpecError, StoreError) as error:
        raise StoreError(f"{folder}: {error}") from error
    parts = StoredTokenizer(config["name"], spec, stages, config["d"], config["dtype"], config["seed"], config["facts"])
    if parts.sizes != config["sizes"]:
        raise StoreError(f"{file} has sizes {config['sizes']}, its stages {parts.sizes}")
    return parts


def _restore(spec: Sequence[Any], arrays: Mapping[str, NDArray[Any]], d: int) -> tuple[Fitted, ...]:
    """The fitted stages from their arrays."""
    require_stages(spec)
    prefixes = [f"stage{i}." for i in range(len(spec))]
    strange = [name for name in sorted(arrays) if not name.startswith(tuple(prefixes))]
    if strange:
        raise StoreError(f"the weights hold tensors of no stage: {', '.join(strange[:3])}")
    fitted: list[Fitted] = []
    for i, (stage, prefix) in enumerate(zip(spec, prefixes, strict=True)):
        tensors = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        try:
            fitted.append(stage.restore(tensors, d))
        except StoreError as error:
            raise StoreError(f"stage {i} ({type(stage).__name__}): {error}") from error
        extra = set(tensors) - set(fitted[-1].arrays)
        if extra:
            raise StoreError(f"stage {i} ({type(stage).__name__}) knows no tensor {min(extra)!r}")
    return tuple(fitted)
