"""A folder <-> a fitted tokenizer.

    config.json         the spec, versioned, with the SHA-256 of the weights and of itself
    model.safetensors   every array, named stage{i}.{name}
    README.md           the model card, for people

Loading trusts nothing: names, sizes, shapes, finiteness and both checksums are verified, links that leave the folder
are refused, and nothing in a file is ever executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as read_weights
from safetensors.numpy import save as write_weights

from ..errors import SpecError, StoreError, did_you_mean
from ..files.atomic import replace_folder
from .card import facts_of, model_card
from .spec import from_plain, to_plain
from .tokenizer import FittedTokenizer, Tokenizer

__all__ = ["check_target", "load", "save"]

FORMAT, VERSION = "sidkit-tokenizer", 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
HEADER_LIMIT = CONFIG_LIMIT = 1 << 20
KEYS = {
    "format",
    "version",
    "name",
    "stages",
    "sizes",
    "d",
    "dtype",
    "seed",
    "facts",
    "weights_sha256",
    "sha256",
}


def check_target(path: Path) -> None:
    """An error if a tokenizer cannot be written here without losing something else."""
    if path.is_file():
        raise StoreError(f"{path} is a file; name a folder to write the tokenizer to")
    if path.is_dir() and any(path.iterdir()) and not _is_ours(path / CONFIG):
        raise StoreError(f"{path} holds other things and no tokenizer; name a new or empty folder")


def _is_ours(config: Path) -> bool:
    """Whether it is a tokenizer's, whole or broken: it says so at its beginning."""
    try:
        with config.open("rb") as file:
            return FORMAT.encode() in file.read(4096)
    except OSError:
        return False


def save(fitted: FittedTokenizer, path: Path) -> Path:
    """Write the model folder whole, or leave what was there."""
    check_target(path)
    fitted = replace(fitted, facts=fitted.facts or facts_of(fitted))
    weights = write_weights(_tensors(fitted))
    config = {
        "format": FORMAT,
        "version": VERSION,
        "name": fitted.spec.name,
        "stages": to_plain(fitted.spec.stages),
        "sizes": list(fitted.sizes),
        "d": fitted.d,
        "dtype": fitted.dtype,
        "seed": fitted.seed,
        "facts": dict(fitted.facts),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    config["sha256"] = _digest(config)
    with replace_folder(path) as folder:
        (folder / WEIGHTS).write_bytes(weights)
        (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (folder / CARD).write_text(model_card(fitted, path.name), encoding="utf-8")
    return path


def load(path: str | Path) -> FittedTokenizer:
    """Read a model folder, checking all of it."""
    folder = Path(path)
    if not folder.is_dir():
        raise StoreError(f"no such model folder: {folder}")
    config = _read_config(folder)
    weights = _read_weights(folder, config)
    try:
        stages = from_plain(config["stages"], "stages")
        spec = Tokenizer(stages, config["name"])
        fitted = _restore(spec, weights, config["d"])
    except (SpecError, StoreError) as error:
        raise StoreError(f"{folder}: {error}") from error
    loaded = FittedTokenizer(spec, fitted, config["d"], config["dtype"], config["seed"], facts=config["facts"])
    if list(loaded.sizes) != config["sizes"]:
        raise StoreError(f"{folder}: {CONFIG} says sizes {config['sizes']}, its stages {list(loaded.sizes)}")
    return loaded


def _tensors(fitted: FittedTokenizer) -> dict[str, NDArray[Any]]:
    return {
        f"stage{i}.{name}": np.ascontiguousarray(array)
        for i, stage in enumerate(fitted.stages)
        for name, array in stage.arrays.items()
    }


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


def _read_config(folder: Path) -> dict[str, Any]:
    file = _inside(folder, CONFIG)
    if file.stat().st_size > CONFIG_LIMIT:
        raise StoreError(f"{file} is larger than {CONFIG_LIMIT} bytes; this is no tokenizer's config")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise StoreError(f"{file} does not describe a sidkit tokenizer (no format {FORMAT!r})")
    if config.get("version") != VERSION:
        raise StoreError(f"{file} has format version {config.get('version')!r}; this sidkit reads version {VERSION}")
    for key in config:
        if key not in KEYS:
            raise StoreError(f"{file}: unknown key {key!r}{did_you_mean(key, KEYS)}")
    missing = sorted(KEYS - set(config))
    if missing:
        raise StoreError(f"{file}: missing {', '.join(missing)}")
    if config["sha256"] != _digest({key: value for key, value in config.items() if key != "sha256"}):
        raise StoreError(f"{file} was changed after it was written (its checksum differs)")
    fits = {
        "name": str, "stages": list, "sizes": list, "d": int, "dtype": str, "seed": int, "facts": dict,
    }  # fmt: skip
    for key, kind in fits.items():
        if not isinstance(config[key], kind):
            raise StoreError(f"{file}: {key} must be {kind.__name__}")
    if config["dtype"] not in ("float32", "float64") or not 1 <= config["d"] <= 1 << 20:
        raise StoreError(f"{file}: dtype {config['dtype']!r} and d {config['d']} make no tokenizer")
    return config


def _read_weights(folder: Path, config: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    file = _inside(folder, WEIGHTS)
    size = file.stat().st_size
    with file.open("rb") as stream:
        header = int.from_bytes(stream.read(8), "little")
        if size < 8 or header > min(HEADER_LIMIT, size - 8):
            raise StoreError(f"{file} is truncated, or its header is over {HEADER_LIMIT} bytes")
        stream.seek(0)
        data = stream.read()
    if hashlib.sha256(data).hexdigest() != config["weights_sha256"]:
        raise StoreError(f"{file} is damaged: its SHA-256 is not the one in {CONFIG}")
    try:
        weights: dict[str, NDArray[Any]] = read_weights(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{file} is not a valid safetensors file: {error}") from error
    return weights


def _inside(folder: Path, name: str) -> Path:
    """A file of the folder that exists and does not lead out of it."""
    file = folder / name
    if not file.is_file():
        raise StoreError(f"{folder} holds no {name}; is it a model folder?")
    if file.resolve().parent != folder.resolve():
        raise StoreError(f"{file} is a link that leads out of the folder")
    return file


def _digest(config: Mapping[str, Any]) -> str:
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
