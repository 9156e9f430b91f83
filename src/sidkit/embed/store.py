"""Loading an encoder from the folder that `Encoder.save` writes.

    config.json         its kind and options
    model.safetensors   what it learned, if anything, and the row of one text when it was saved

Loading embeds that text again. An encoder that no longer gives the same row (another version of a model under the same
name, for instance) is refused, because its vectors could not be compared with those in the file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import SpecError, StoreError
from .encoder import FORMAT, PROBE, Encoder
from .pair import require_pair
from .sentence import Sentence
from .tfidf import TfIdf
from .wordllama import WordLlama

__all__ = ["load"]

KINDS: dict[str, type[Encoder]] = {kind.kind: kind for kind in (WordLlama, TfIdf, Sentence)}

# what wrong contents end in, numpy's errors and those of files among them
UNREADABLE = (AttributeError, ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def load(path: str | Path) -> Encoder:
    """Read an encoder's folder, and check that it embeds as it did."""
    folder = Path(path)
    if not folder.is_dir():
        raise StoreError(f"no such encoder folder: {folder}; `sidkit embed` writes one beside the embeddings")
    folder = require_pair(folder)
    state, arrays = FORMAT.read(folder)
    try:
        probe = arrays.pop("probe")
        encoder = KINDS[state["kind"]].restore(state["options"], arrays)
        with np.errstate(all="ignore"):
            unchanged = np.allclose(encoder.embed([PROBE]), probe, atol=1e-3)
    except (*UNREADABLE, SpecError) as error:
        raise StoreError(f"the encoder {folder} cannot be restored: {type(error).__name__} {error}") from error
    if not unchanged:
        raise StoreError(
            f"the encoder {folder} ({state['kind']}) no longer embeds as it did when it was saved; "
            "install the version of that time, or embed the items again"
        )
    return encoder


Encoder.reader = staticmethod(load)
