"""Embeddings from a stream of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import InputError
from ..files.address import Location
from ..rows.sources import ArraySource
from .ids import require_unique

__all__ = ["read_json_lines"]


@dataclass(frozen=True)
class Lines(ArraySource):
    """Vectors read from lines, with their ids."""

    ids: Any = None
    paths: tuple[Location, ...] = ()

    def name(self, row: int) -> str:
        return f"item {self.ids[row].as_py()!r} (line {row + 1})"


def read_json_lines(stream: Iterable[str]) -> Lines:
    """Lines such as {"item_id": "B00X", "embedding": [0.1, …]}, or bare lists, which are numbered from 0."""
    ids: list[Any] = []
    vectors: list[list[float]] = []
    for number, line in enumerate(line for line in stream if line.strip()):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise InputError(f"line {number + 1} is not JSON: {error}") from None
        vector = entry.get("embedding") if isinstance(entry, dict) else entry
        if not isinstance(vector, list) or not all(isinstance(value, int | float) for value in vector):
            raise InputError(f"line {number + 1} holds no 'embedding' list of numbers")
        item = entry.get("item_id", number) if isinstance(entry, dict) else number
        if not isinstance(item, str | int) or isinstance(item, bool):
            raise InputError(f"line {number + 1}: an item_id is a string or an integer, not {json.dumps(item)[:80]}")
        if vectors and len(vector) != len(vectors[0]):
            raise InputError(f"line {number + 1} has {len(vector)} numbers, expected {len(vectors[0])}")
        vectors.append(vector)
        ids.append(item)
    if not vectors or not vectors[0]:
        raise InputError("there are no embeddings on standard input")
    try:
        found = Lines(np.array(vectors, np.float32), pa.array(ids))
    except OverflowError as error:
        raise InputError(f"numbers on standard input are too large: {error}") from error
    except pa.ArrowException as error:
        raise InputError(f"ids on standard input must be all strings or all integers: {error}") from error
    require_unique(found.ids, "item_id", lambda row: f"line {row + 1}")
    return found
