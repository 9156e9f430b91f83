"""A folder <-> an encoder.

    config.json         its kind and options
    model.safetensors   what it learned, if anything, and how it embedded one text when it was saved

Loading embeds that text again: an encoder that has come to answer otherwise (another version of a model under the same
name, say) is refused, because its vectors could not be compared with those in the file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import SpecError, StoreError
from ..files.folder import FolderFormat
from .encoder import Encoder

__all__ = ["beside", "load", "save"]

FORMAT = FolderFormat("sidkit-encoder", "encoder", "embed the items again", {"kind": str, "options": dict})
PROBE = "red shoes for women, size 7; ein rotes Haus; 红色鞋子"


def save(encoder: Encoder, path: Path) -> Path:
    facts = {"kind": encoder.kind, "options": dict(encoder.options)}
    arrays = {**encoder.arrays, "probe": encoder.embed([PROBE])}
    FORMAT.write(path, facts, arrays)
    return path


def load(path: str | Path) -> Encoder:
    """Read an encoder's folder, checking that it embeds as it did."""
    from .sentence import Sentence
    from .tfidf import TfIdf
    from .wordllama import WordLlama

    folder = Path(path)
    if not folder.is_dir():
        raise StoreError(f"no such encoder folder: {folder}; `sidkit embed` writes one beside the embeddings")
    state, arrays = FORMAT.read(folder)
    kinds: dict[str, type[Encoder]] = {kind.kind: kind for kind in (WordLlama, TfIdf, Sentence)}
    try:
        probe = arrays.pop("probe")
        encoder = kinds[state["kind"]].restore(state["options"], arrays)
        with np.errstate(all="ignore"):
            unchanged = np.allclose(encoder.embed([PROBE]), probe, atol=1e-3)
    except (KeyError, IndexError, TypeError, ValueError, SpecError) as error:
        raise StoreError(f"the encoder {folder} cannot be brought back: {type(error).__name__} {error}") from error
    if not unchanged:
        raise StoreError(
            f"the encoder {folder} ({state['kind']}) no longer embeds as it did when it was saved; "
            "install the version of that time, or embed the items again"
        )
    return encoder


def beside(embeddings: str | Path) -> Path:
    """Where `sidkit embed` keeps the encoder of a file: shop.parquet -> shop.encoder."""
    return Path(embeddings).with_suffix(".encoder")
