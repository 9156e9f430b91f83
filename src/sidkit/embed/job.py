"""`sidkit embed`: a file of texts to a file of vectors, part by part, so that a killed run loses at most one part.

OUTPUT.unfinished/
  encoder/      the encoder, once it is fitted
  part-0/ ...   the vectors of PART texts each, checksummed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..data.write import write_vectors
from ..errors import InputError, StoreError
from ..files.checkpoint import Checkpoint
from ..progress import Progress
from .choose import choose
from .encoder import Encoder
from .pair import STAGED, begin, note, place
from .store import load

__all__ = ["PART", "Choice", "Embeds", "Texts", "Vectors", "embed_file"]

PART = 1 << 14  # texts

Texts: TypeAlias = tuple[int, list[str | None]]  # the number of a part, and its texts
Vectors: TypeAlias = tuple[int, NDArray[np.float32]]
Embeds: TypeAlias = Callable[[Encoder, Iterable[Texts], bool], Iterator[Vectors]]  # parts, in their order


@dataclass(frozen=True)
class Choice:
    """Which encoder: a model as `choose` takes it, or the folder of one that was saved."""

    model: str = "wordllama"
    d: int | None = None
    device: str | None = None
    folder: Path | None = None
    allow_download: bool = False

    def make(self, texts: Any) -> Encoder:
        if self.folder is not None:
            return load(self.folder)
        known = texts.to_pylist() if self.model == "tfidf" else None
        return choose(self.model, known, self.d, self.device, self.allow_download)


def embed_file(
    ids: Any,
    texts: Any,
    output: Path,
    choice: Choice,
    unfinished: Path,
    progress: Progress,
    query: bool = False,
    id_name: str = "item_id",
    embeds: Embeds | None = None,
) -> dict[str, Any]:
    """Embed every text, write item_id and embedding to a Parquet file, and the encoder beside it.

    Parts of the same texts and choice in the folder `unfinished` are not embedded again. id_name: what the column of
    ids is called in the items' file. embeds: what embeds the parts, if not this process (`on_ray.py`).
    """
    parts = Checkpoint(unfinished, _identity(ids, texts, [choice.model, choice.d, str(choice.folder), query]))
    encoder = _encoder(parts, texts, choice, progress)
    starts = range(0, len(texts), PART)
    progress.start("embed", len(texts))
    missing = [number for number in range(len(starts)) if parts.load(f"part-{number}") is None]
    progress.advance(len(texts) - sum(len(texts[starts[number] : starts[number] + PART]) for number in missing))
    given = ((number, texts[starts[number] : starts[number] + PART].to_pylist()) for number in missing)
    for number, rows in (embeds or _here)(encoder, given, query):
        parts.save(f"part-{number}", {"rows": rows}, {})
        progress.advance(len(rows))
    embedded = (_rows(parts, number, encoder.d) for number in range(len(starts)))
    begin(unfinished)
    empty = write_vectors(output, ids, embedded, encoder.d, note(unfinished), id_name)
    place(unfinished / STAGED, output)
    return {"items": len(ids), "d": encoder.d, "encoder": encoder.kind, "without_text": empty}


def _here(encoder: Encoder, parts: Iterable[Texts], query: bool) -> Iterator[Vectors]:
    for number, texts in parts:
        yield number, encoder.embed(texts, query)


def _encoder(parts: Checkpoint, texts: Any, choice: Choice, progress: Progress) -> Encoder:
    saved = parts.folder / STAGED
    if parts.load("begun") is not None:
        return load(saved)
    progress.start("encoder", len(texts))
    encoder = choice.make(texts)
    progress.advance(len(texts))
    encoder.save(saved)
    parts.save("begun", {}, {})
    return encoder


def _rows(parts: Checkpoint, number: int, d: int) -> NDArray[np.float32]:
    state = parts.load(f"part-{number}")
    if state is None:
        raise InputError(f"{parts.folder} lost part {number} while it was in use")
    rows = state[0].get("rows")
    if rows is None or rows.ndim != 2 or rows.shape[1] != d or rows.dtype != np.float32 or not np.isfinite(rows).all():
        raise StoreError(f"{parts.folder}/part-{number} holds no vectors of {d} numbers; start again without --resume")
    return rows


def _identity(ids: Any, texts: Any, choice: list[Any]) -> str:
    digest = hashlib.sha256(json.dumps(choice).encode())
    for batch in pa.table({"item_id": ids, "text": texts}).to_batches():
        digest.update(batch.serialize())
    return digest.hexdigest()
