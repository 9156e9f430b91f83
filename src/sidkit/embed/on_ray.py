"""Texts embedded by the workers of a Ray cluster: the same parts by the same encoder, so the same bytes.

The process that started them reads the texts, sends a few parts at a time, and writes the one file. Workers hold the
encoder and nothing else, so a lost one is replaced and its part embedded again (`fleet/pool.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fleet.pool import WorkerPool
from ..fleet.task import Task
from ..progress import Silent
from .encoder import Encoder
from .job import Texts, Vectors
from .store import KINDS

__all__ = ["RayEmbeds"]

AHEAD = 4  # parts per worker that are sent at once

_restored: dict[str, Encoder] = {}  # in a worker: the encoder of the run, by its digest


@dataclass(frozen=True)
class RayEmbeds:
    """Embeds parts by the workers of a pool, a few for each at a time; results come in the order of the parts."""

    pool: WorkerPool

    def __call__(self, encoder: Encoder, parts: Iterable[Texts], query: bool) -> Iterator[Vectors]:
        waiting, work = iter(parts), EmbedTexts.of(encoder, query)
        while batch := list(islice(waiting, AHEAD * len(self.pool.slots))):
            tasks = [Task("call", payload=texts, label=f"embedding part {number}") for number, texts in batch]
            results = self.pool.values(tasks, work, Silent())
            yield from ((number, np.array(rows)) for (number, _), rows in zip(batch, results, strict=True))


@dataclass(frozen=True, eq=False)
class EmbedTexts:
    """What a worker needs to embed texts: an encoder as it is saved, and whether the texts are queries."""

    kind: str
    options: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    query: bool
    digest: str

    @classmethod
    def of(cls, encoder: Encoder, query: bool) -> EmbedTexts:
        options, arrays = dict(encoder.options), dict(encoder.arrays)
        digest = hashlib.sha256(json.dumps([encoder.kind, options], default=str).encode())
        for name, array in arrays.items():
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
        return cls(encoder.kind, options, arrays, query, digest.hexdigest())

    def __call__(self, texts: list[str | None]) -> NDArray[np.float32]:
        if self.digest not in _restored:
            _restored.clear()
            arrays = {name: np.array(array) for name, array in self.arrays.items()}
            _restored[self.digest] = KINDS[self.kind].restore(self.options, arrays)
        return _restored[self.digest].embed(texts, self.query)
