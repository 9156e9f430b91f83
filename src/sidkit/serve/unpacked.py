"""What an Arrow stream takes in memory once it is unpacked: a compressed body of kilobytes can hold gigabytes.

Arrow allocates what a stream says before it looks at the data, so this is read from the messages beforehand. They are
flatbuffers: a table begins with the distance to its list of fields, each of which is where a value lies, or 0.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

__all__ = ["unpacked_bytes"]

HEADER_TYPE, HEADER = 1, 2  # fields of a Message
DICTIONARY, RECORDS = 2, 3  # types of headers
DATA = 1  # field of a DictionaryBatch
BUFFERS, COMPRESSION = 2, 3  # fields of a RecordBatch


def unpacked_bytes(body: bytes | memoryview) -> int:
    """The bytes of all buffers of a stream, unpacked; a ValueError where its messages make no sense."""
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    return sum(_of_message(bytes(one.metadata), one.body) for one in messages)


def _of_message(meta: bytes, body: Any) -> int:
    try:
        message = _at(meta, 0)
        kind_at = _field(meta, message, HEADER_TYPE)
        kind = meta[kind_at] if kind_at else 0
        if kind not in (DICTIONARY, RECORDS):
            return 0
        batch = _at(meta, _field(meta, message, HEADER))
        if kind == DICTIONARY:
            batch = _at(meta, _field(meta, batch, DATA))
        if not _field(meta, batch, COMPRESSION):
            return len(body)
        vector = _at(meta, _field(meta, batch, BUFFERS))
        (count,) = struct.unpack_from("<I", meta, vector)
        places = struct.iter_unpack("<qq", meta[vector + 4 : vector + 4 + 16 * count])
        return sum(_unpacked(body, start, length) for start, length in places)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"a message of it cannot be read: {error}") from None


def _unpacked(body: Any, start: int, length: int) -> int:
    """A packed buffer begins with its unpacked length, -1 if it is not packed after all."""
    if length < 8:
        return 0
    (size,) = struct.unpack_from("<q", body, start)
    return int(size) if size >= 0 else length - 8


def _at(meta: bytes, place: int) -> int:
    """Where the offset at this place leads to."""
    return place + int(struct.unpack_from("<I", meta, place)[0])


def _field(meta: bytes, table: int, number: int) -> int:
    """Where a field of a table lies; 0 where it is missing."""
    fields = table - int(struct.unpack_from("<i", meta, table)[0])
    if fields < 0 or 4 + 2 * number >= struct.unpack_from("<H", meta, fields)[0]:
        return 0
    offset = int(struct.unpack_from("<H", meta, fields + 4 + 2 * number)[0])
    return table + offset if offset else 0
