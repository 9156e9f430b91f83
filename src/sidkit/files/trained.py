"""The folder of a trained network: files in the format of transformers, the facts of the training, and all digests.

    with RETRIEVER.writing(folder, facts) as temporary:
        write_pretrained(model, temporary)
        ...                                     # further files
    facts = RETRIEVER.read_facts(folder)        # once every file is known to be as it was written

`config.json` belongs to transformers here, so the digests are in a file of their own (`manifest.py`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError
from .atomic import replace_folder
from .folder import file_inside, read_json, require_short_header
from .manifest import MANIFEST, check_manifest, write_manifest
from .ours import require_own_folder
from .unfinished import unfinished_folder

__all__ = ["LOG", "WEIGHTS", "TrainedFolder", "require_weights", "typed_values", "write_pretrained"]

WEIGHTS = "model.safetensors"
LOG = "log.jsonl"  # of a training, which starts before the other files are there


@dataclass(frozen=True)
class TrainedFolder:
    """How one kind of folder is written and read.

    name      the format that its manifest and its facts name
    noun      what messages call it
    facts     the JSON file of its facts
    files     those that it must have besides its weights and facts
    digests   whether every version of it had digests
    """

    name: str
    noun: str
    facts: str
    files: tuple[str, ...]
    digests: bool = True
    advice: str = "train it again, or fetch an undamaged copy"

    @contextmanager
    def writing(self, folder: Path, facts: Mapping[str, Any], notes: Mapping[str, str] | None = None) -> Iterator[Path]:
        """A temporary folder that takes the place of `folder` at the end, with these facts and the digests.

        notes: texts for people, by file name. They may be changed: like folders, they are not part of the manifest.
        """
        with replace_folder(folder) as temporary:
            yield temporary
            text = json.dumps({"format": self.name, **facts}, indent=1) + "\n"
            (temporary / self.facts).write_text(text, encoding="utf-8")
            write_manifest(temporary, self.name)
            for name, note in (notes or {}).items():
                (temporary / name).write_text(note, encoding="utf-8")

    def read_facts(self, folder: Path) -> dict[str, Any]:
        """The facts of a folder whose files are all as they were written."""
        for name in (self.facts, WEIGHTS, *self.files):
            if not (folder / name).is_file():
                raise StoreError(f"{folder} is not a trained {self.noun}: it has no {name}{self._hint(folder)}")
            file_inside(folder, name, self.advice)
        checked = self.digests or (folder / MANIFEST).exists()
        if checked:
            check_manifest(folder, self.name, self.advice)
        require_short_header(folder / WEIGHTS, self.advice)
        facts = read_json(folder / self.facts, self.advice)
        if not isinstance(facts, dict):
            raise StoreError(f"{folder / self.facts} does not describe a {self.noun}; {self.advice}")
        if facts.pop("format", None) is not None and not checked:
            raise StoreError(f"{folder} holds no {MANIFEST}, so its files cannot be checked; {self.advice}")
        return facts

    def check_target(self, folder: Path) -> None:
        """An error unless the folder is new, empty, or of an earlier training."""
        require_own_folder(folder, self.noun, self.facts, LOG)

    def _hint(self, folder: Path) -> str:
        """A hint at what can be read or resumed instead of this folder."""
        unfinished, seeds = unfinished_folder(folder), sorted(one.parent for one in folder.glob(f"seed-*/{self.facts}"))
        hint = f"; it holds one for each seed, such as {seeds[0]}" if seeds else ""
        return hint + (f"; {unfinished} can be trained on with --resume" if unfinished.is_dir() else "")


def typed_values(kind: type[Any], plain: Any) -> dict[str, Any]:
    """The fields of a dataclass from JSON, each of the type that its default has; lists become tuples."""
    if not isinstance(plain, dict):
        raise StoreError(f"{kind.__name__} is described by {type(plain).__name__}, not by an object")
    defaults, values = kind(), {}
    for name, value in plain.items():
        wanted = type(getattr(defaults, name, None))
        given = tuple(value) if isinstance(value, list) and wanted is tuple else value
        given = float(given) if wanted is float and type(given) is int and abs(given) < 1e300 else given
        if type(given) is not wanted:
            raise StoreError(f"{kind.__name__} has {name} = {str(value)[:60]!r}, where {wanted.__name__} is needed")
        values[name] = given
    return values


def require_weights(weights: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """An error that names the first tensor which is missing, is not of floats, or has another shape."""
    for name, shape in shapes.items():
        value = weights.get(name)
        if value is None:
            raise StoreError(f"there are no weights {name!r}")
        if tuple(value.shape) != shape or not value.is_floating_point():
            raise StoreError(f"the weights {name!r} are {value.dtype} {tuple(value.shape)}, not floats of {shape}")


def write_pretrained(model: Any, folder: Path) -> None:
    """Write a model of transformers, without its progress bars, so that everybody who may read a folder may read it."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model.save_pretrained(folder)
    finally:
        if shown:
            logging.enable_progress_bar()
    for weights in folder.glob("*.safetensors"):  # one file, or several of a large model
        shutil.copymode(folder / "config.json", weights)  # safetensors keeps its files to their owner
