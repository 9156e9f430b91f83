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
from .columns import ID, VECTORS, Chosen, choose_name, no_such
from .ids import require_unique

__all__ = ["read_json_lines"]


@dataclass(frozen=True)
class Lines(ArraySource):
    """Vectors read from lines, with their ids."""

    ids: Any = None
    paths: tuple[Location, ...] = ()
    chosen: tuple[Chosen, ...] = ()

    def name(self, row: int) -> str:
        return f"item {self.ids[row].as_py()!r} (line {row + 1})"


def read_json_lines(stream: Iterable[str], id_column: str | None = None, column: str | None = None) -> Lines:
    """Lines such as {"item_id": "B00X", "embedding": [0.1, …]}, or bare lists, whose ids count from 0.

    The first line decides which keys hold the ids and the vectors, if they are not named.
    """
    ids: list[Any] = []
    vectors: list[list[float]] = []
    keys: tuple[str | None, str] | None = None
    for number, line in enumerate(line for line in stream if line.strip()):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise InputError(f"line {number + 1} is not JSON: {error}") from None
        keys = keys or _keys(entry, id_column, column)
        vector = entry.get(keys[1]) if isinstance(entry, dict) else entry
        if not isinstance(vector, list) or not all(isinstance(value, int | float) for value in vector):
            raise InputError(f"line {number + 1} holds no {keys[1]!r} list of numbers")
        item = number if keys[0] is None or not isinstance(entry, dict) else entry.get(keys[0])
        if not isinstance(item, str | int) or isinstance(item, bool):
            raise InputError(f"line {number + 1}: an {keys[0]} is a string or an integer, not {json.dumps(item)[:80]}")
        if vectors and len(vector) != len(vectors[0]):
            raise InputError(f"line {number + 1} has {len(vector)} numbers, expected {len(vectors[0])}")
        vectors.append(vector)
        ids.append(item)
    if not vectors or not vectors[0]:
        raise InputError("there are no embeddings on standard input")
    chosen = (Chosen(ID, keys[0]), Chosen(VECTORS, keys[1])) if keys else ()
    try:
        lines = Lines(np.array(vectors, np.float32), pa.array(ids), chosen=chosen)
    except OverflowError as error:
        raise InputError(f"numbers on standard input are too large: {error}") from error
    except pa.ArrowException as error:
        raise InputError(f"ids on standard input must be all strings or all integers: {error}") from error
    require_unique(lines.ids, keys[0] if keys and keys[0] else "item_id", lambda row: f"line {row + 1}")
    return lines


def _keys(entry: Any, id_column: str | None, column: str | None) -> tuple[str | None, str]:
    """The keys of ids and vectors in the first line; ids are line numbers where it has none."""
    present = dict.fromkeys(entry, True) if isinstance(entry, dict) else {}
    for wanted, option in ((id_column, "--id-column"), (column, "--column")):
        if wanted is not None and wanted not in present:
            raise no_such("key", wanted, "the first line of standard input", present, option)
    return choose_name(id_column, ID.names, present), choose_name(column, VECTORS.names, present) or VECTORS.names[0]
