"""A checksum inside a Parquet file, so that damage to any of its bytes is noticed.

The metadata of the file contain its SHA-256, computed with 64 zeros instead of it. Programs that rewrite the file do
not copy this entry: their files load as tables without a checksum.

    with sealed_writer(path, schema) as writer:
        writer.write_table(table)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq

from ..errors import StoreError

__all__ = ["BLANK_SEAL", "check_seal", "check_seal_once", "seal", "sealed_writer"]

BLANK = "0" * 64
BLANK_SEAL = {"sidkit.sha256": BLANK, "sidkit.sealed": "sha256"}  # two, so that a damaged key is noticed too
KEY = b"sidkit.sha256\x18\x40"  # as it is in the file: Thrift puts type and length before the 64 digits
SIGN = b"sidkit.sealed\x18\x06sha256"
TAIL = 1 << 16  # bytes at the end of the file that contain the seal: in its footer, after the row groups
BLOCK = 1 << 20


@contextmanager
def sealed_writer(path: Path, schema: Any, **options: Any) -> Iterator[Any]:
    """pyarrow's ParquetWriter, whose file has a seal once the block has ended well."""
    with pq.ParquetWriter(path, schema, **options) as file:
        yield file
        file.add_key_value_metadata(BLANK_SEAL)
    seal(path)


def seal(file: Path) -> None:
    """Fill in the blank seal of a file that was just written."""
    with file.open("r+b") as stream:
        position = _position(stream)
        if position is None:
            raise ValueError(f"{file} has no blank seal")
        digest = _digest(stream, position)
        stream.seek(position)
        stream.write(digest.encode())


def check_seal(file: Path) -> None:
    """An error that names the file if it has a seal and any of its bytes has changed."""
    with file.open("rb") as stream:
        position = _position(stream)
        if position is None:
            if SIGN not in _tail(stream):
                return
            intact = False
        else:
            stream.seek(position)
            intact = stream.read(len(BLANK)) == _digest(stream, position).encode()
    if not intact:
        raise StoreError(f"{file} is damaged: its SHA-256 is not the one it contains; make it again, or fetch a copy")


def check_seal_once(file: Path) -> None:
    """The same, once for a file that is opened many times while it is not changed."""
    status = file.stat()
    _checked(file.absolute(), status.st_size, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=1 << 12)
def _checked(file: Path, size: int, changed: int, number: int) -> None:
    check_seal(file)


def _tail(stream: IO[bytes]) -> bytes:
    size = stream.seek(0, 2)
    stream.seek(max(size - TAIL, 0))
    return stream.read()


def _position(stream: IO[bytes]) -> int | None:
    """The position of the digest in the file."""
    tail = _tail(stream)
    at = tail.rfind(KEY)
    return None if at < 0 else stream.tell() - len(tail) + at + len(KEY)


def _digest(stream: IO[bytes], position: int) -> str:
    """SHA-256 of the whole file with zeros at the position."""
    digest, start = hashlib.sha256(), 0
    stream.seek(0)
    while block := bytearray(stream.read(BLOCK)):
        first, last = max(position - start, 0), min(position + len(BLANK) - start, len(block))
        if first < last:
            block[first:last] = b"0" * (last - first)
        digest.update(block)
        start += len(block)
    return digest.hexdigest()
