"""The one folder format: a JSON config, tensors as safetensors, and the SHA-256 of both.

    config, arrays = FORMAT.read(folder)

Tokenizers, encoders, alignments and checkpoints are such folders; each names its files in a `FolderFormat`. A trained
network is a folder that transformers reads too, with the digests in a further file (`trained.py`). Reading trusts
nothing: sizes, keys, types and checksums are verified, links that leave the folder are refused, and nothing in a file
is ever executed. Every error names the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as serialize_tensors

from ..errors import StoreError, did_you_mean
from .atomic import replace_folder
from .ours import require_own_folder

__all__ = [
    "FolderFormat",
    "check_digest",
    "config_digest",
    "file_inside",
    "read_json",
    "require_array",
    "require_short_header",
    "with_digest",
]

HEADER_LIMIT = CONFIG_LIMIT = 1 << 20  # bytes
VERSION = 1
LARGEST = 1e18  # of stored numbers

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class FolderFormat:
    """How one kind of folder is written.

    name      the value of "format" in its config
    noun      what messages call such a folder, and advice how they end
    fields    the keys that its config has besides those written here, and their types; other keys are errors
    limit     bytes that its config may have
    """

    name: str
    noun: str
    advice: str
    fields: Mapping[str, type] = field(hash=False)
    config: str = "config.json"
    tensors: str = "model.safetensors"
    tensors_digest: str = "arrays_sha256"  # the config's key of the digest of the tensors
    limit: int = CONFIG_LIMIT

    def write(
        self,
        path: Path,
        values: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        texts: Mapping[str, str] | None = None,
    ) -> None:
        """Replace the folder in one step; texts are further files, without a checksum."""
        data = serialize_tensors({name: np.array(array, order="C") for name, array in arrays.items()})
        digest = hashlib.sha256(data).hexdigest()
        config = {"format": self.name, "version": VERSION, **values, self.tensors_digest: digest}
        config["sha256"] = config_digest(config)
        with replace_folder(path) as folder:
            (folder / self.tensors).write_bytes(data)
            (folder / self.config).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
            for name, text in (texts or {}).items():
                (folder / name).write_text(text, encoding="utf-8")

    def check_target(self, path: Path) -> None:
        """An error unless the folder is new or empty, or has such a thing in it, intact or damaged."""
        require_own_folder(path, self.noun, *([self.config] if self._is_named_in(path / self.config) else []))

    def _is_named_in(self, config: Path) -> bool:
        try:
            with config.open("rb") as file:
                return self.name.encode() in file.read(4096)
        except OSError:
            return False

    def read(self, path: Path) -> tuple[dict[str, Any], Arrays]:
        """The config and the arrays, checked."""
        config = self.read_config(path)
        return config, self._read_tensors(path, config[self.tensors_digest])

    def read_config(self, path: Path) -> dict[str, Any]:
        """The config alone, checked."""
        file = file_inside(path, self.config, self.advice)
        config = read_json(file, self.advice, self.limit)
        if not isinstance(config, dict) or config.get("format") != self.name:
            raise StoreError(f"{file} does not describe a sidkit {self.noun} (no format {self.name!r}); {self.advice}")
        if config.get("version") != VERSION:
            version = config.get("version")
            raise StoreError(
                f"{file} has format version {version!r}; this sidkit reads version {VERSION}; {self.advice}"
            )
        self._require_keys(file, config)
        content = {key: value for key, value in config.items() if key != "sha256"}
        if config["sha256"] not in (config_digest(content), _spaced_digest(content)):
            raise StoreError(f"{file} was changed after it was written (its checksum differs); {self.advice}")
        for key, kind in self.fields.items():
            if type(config[key]) is not kind:
                raise StoreError(f"{file}: {key} must be {kind.__name__}")
        return config

    def _require_keys(self, file: Path, config: Mapping[str, Any]) -> None:
        known = {"format", "version", *self.fields, self.tensors_digest, "sha256"}
        for key in config:
            if key not in known:
                raise StoreError(f"{file}: unknown key {key!r}{did_you_mean(key, known)}; {self.advice}")
        missing = sorted(known - set(config))
        if missing:
            raise StoreError(f"{file}: missing {', '.join(missing)}; {self.advice}")

    def checked_tensors(self, path: Path, digest: str) -> Path:
        """The file of the tensors, whose bytes have been compared with their digest without being held in memory."""
        file = file_inside(path, self.tensors, self.advice)
        require_short_header(file, self.advice)
        with file.open("rb") as stream:
            self._require_digest(file, hashlib.file_digest(stream, "sha256").hexdigest(), digest)
        return file

    def _require_digest(self, file: Path, digest: str, wanted: str) -> None:
        if digest != wanted:
            raise StoreError(f"{file} is damaged: its SHA-256 is not the one in {self.config}; {self.advice}")

    def _read_tensors(self, path: Path, digest: str) -> Arrays:
        file = file_inside(path, self.tensors, self.advice)
        require_short_header(file, self.advice)
        data = file.read_bytes()
        self._require_digest(file, hashlib.sha256(data).hexdigest(), digest)
        try:
            arrays: Arrays = parse_tensors(data)
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{file} is damaged: no valid safetensors file ({error}); {self.advice}") from error
        return arrays


def file_inside(folder: Path, name: str, advice: str) -> Path:
    """A file of the folder that exists and does not lead out of it."""
    file = folder / name
    if not file.is_file():
        raise StoreError(f"{folder} holds no {name}; {advice}")
    if file.resolve().parent != folder.resolve():
        raise StoreError(f"{file} is a link that leads out of the folder; {advice}")
    return file


def read_json(file: Path, advice: str, limit: int = CONFIG_LIMIT) -> Any:
    """The value of a JSON file of at most `limit` bytes."""
    try:
        size = file.stat().st_size
        if size > limit:
            raise StoreError(f"{file} has {size} bytes; at most {limit} are read; {advice}")
        value = json.loads(file.read_text(encoding="utf-8"))
        json.dumps(value)  # what is nested too deeply to be written again has no digest
        return value
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{file} cannot be read as JSON: {error}; {advice}") from error


def require_short_header(file: Path, advice: str) -> None:
    """An error unless a safetensors file is as long as it announces, and its header short enough to parse."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        header = int.from_bytes(stream.read(8), "little")
    if size < 8 or header > min(HEADER_LIMIT, size - 8):
        raise StoreError(f"{file} is damaged: it is truncated, or its header is over {HEADER_LIMIT} bytes; {advice}")


def require_array(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], kind: str = "f"
) -> NDArray[Any]:
    """The stored array of that name, if it exists, has that shape (None: any length) and dtype kind, and is finite."""
    if name not in arrays:
        raise StoreError(f"the weights hold no tensor {name!r} (they hold: {', '.join(sorted(arrays)) or 'none'})")
    a = arrays[name]
    if len(a.shape) != len(shape) or any(want not in (None, got) for got, want in zip(a.shape, shape, strict=True)):
        wanted = "(" + ", ".join("*" if n is None else str(n) for n in shape) + ")"
        raise StoreError(f"tensor {name!r} has shape {a.shape}, expected {wanted}")
    if a.dtype.kind != kind:
        raise StoreError(f"tensor {name!r} has dtype {a.dtype}, expected {'integers' if kind == 'i' else 'floats'}")
    if kind == "f" and not np.isfinite(a).all():
        raise StoreError(f"tensor {name!r} holds NaN or infinity")
    if kind == "f" and a.size and max(-float(a.min()), float(a.max())) > LARGEST:
        raise StoreError(f"tensor {name!r} holds numbers beyond {LARGEST:g}, whose squares are no numbers")
    return a


def config_digest(config: Mapping[str, Any]) -> str:
    """SHA-256 of a config, whatever its order and layout."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def with_digest(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the digest of all its other keys."""
    return {**plain, "sha256": config_digest(json.loads(json.dumps(plain)))}


def check_digest(plain: dict[str, Any], file: Path, advice: str) -> None:
    """Take the digest out of an object; an error if it is not that of the other keys. Older files have none."""
    digest = plain.pop("sha256", None)
    if digest is not None and digest != config_digest(plain):
        raise StoreError(f"{file} was changed after it was written (its checksum differs); {advice}")


def _spaced_digest(config: Mapping[str, Any]) -> str:
    """The digest as checkpoints and encoders had it in their first version."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
