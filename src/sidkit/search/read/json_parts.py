"""A large file of JSON lines in parts, each kept on disk as Parquet, so that a killed read resumes.

A part is the lines that start in a fixed range of bytes. It is written in one rename, and a part that is there is not
read again. Memory is that of one part, whatever the size of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from ...data.listing import readable
from ...errors import InputError
from ...files.atomic import replace_file
from ...progress import Progress

__all__ = ["PART", "BadLine", "JsonParts"]

PART = 32 << 20  # bytes
BLOCK = 4 << 20  # bytes that a thread parses at once
SAMPLE = 1 << 20  # bytes by which the number of lines is estimated
BadLine = tuple[int, str]  # number from 1, and what is wrong with it


@dataclass(frozen=True)
class JsonParts:
    """A file of JSON lines, and the folder of its parts.

    fields    Arrow schema of what is read of a line; other fields are ignored
    required  fields that the first line must have
    convert   what is kept of a part
    """

    path: Path
    folder: Path
    name: str
    fields: Any
    required: tuple[str, ...]
    convert: Callable[[Any], Any]
    bytes: int = PART

    def read(self, drop: bool, progress: Progress) -> None:
        """Make the parts that are not there yet. drop: bad lines are remembered, not refused."""
        self._require_fields()
        size, line = self.path.stat().st_size, 1
        progress.start(self.name, _estimated_lines(self.path, size))
        for number, start in enumerate(range(0, size, self.bytes)):
            part = self.folder / f"{self.name}-{number:05d}.parquet"
            if not part.exists():
                self._make(part, start, line)
            lines, bad = _facts(part)
            if bad and not drop:
                self._refuse(bad)
            line += lines
            progress.advance(lines)

    def tables(self, columns: list[str] | None = None) -> Iterator[Any]:
        """The content that was kept of the file, or some columns of it, part by part."""
        for part in self._parts():
            with readable(part):
                yield pq.read_table(part, columns=columns).replace_schema_metadata()

    def bad_lines(self) -> list[BadLine]:
        return [(number, reason) for part in self._parts() for number, reason in _facts(part)[1]]

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.name}-*.parquet"))

    def _require_fields(self) -> None:
        """Look at the first line: whether there is one, and whether it has the fields."""
        with readable(self.path), self.path.open("rb") as file:
            line = next((line for line in file if line.strip()), b"")
        if not line:
            raise InputError(f"{self.path} holds no rows")
        try:
            first = json.loads(line)
        except ValueError:
            return  # refused with its number when the part is read
        if isinstance(first, dict) and (missing := [name for name in self.required if name not in first]):
            listed = ", ".join(first)
            raise InputError(f"no field {missing[0]!r} in {self.path} (fields of its first line: {listed})")

    def _make(self, part: Path, start: int, line: int) -> None:
        data = _lines_from(self.path, start, self.bytes)
        table, bad = _parsed(data, self.fields, line)
        made = self.convert(table)
        facts = {"lines": data.count(b"\n") + (not data.endswith(b"\n") and bool(data)), "bad": bad}
        with replace_file(part) as temporary:
            pq.write_table(made.replace_schema_metadata({"part": json.dumps(facts)}), temporary, compression="zstd")

    def _refuse(self, bad: list[BadLine]) -> None:
        number, reason = bad[0]
        more = f" (and {len(bad) - 1} more lines near it)" if len(bad) > 1 else ""
        raise InputError(
            f"line {number} of {self.path} {reason}{more}; --bad-rows drop leaves such lines out and lists them"
        )


def _facts(part: Path) -> tuple[int, list[BadLine]]:
    with readable(part):
        facts = json.loads(pq.read_schema(part).metadata[b"part"])
    return facts["lines"], [(number, reason) for number, reason in facts["bad"]]


def _estimated_lines(path: Path, size: int) -> int:
    """By the length of the first lines."""
    with readable(path), path.open("rb") as file:
        beginning = file.read(SAMPLE)
    return max(1, round(size * beginning.count(b"\n") / len(beginning)))


def _lines_from(path: Path, start: int, size: int) -> bytes:
    """The lines that start in bytes start ... start + size - 1."""
    with readable(path), path.open("rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()  # the rest of a line of the part before
        left = start + size - file.tell()
        data = file.read(left) if left > 0 else b""
        return data if not data or data.endswith(b"\n") else data + file.readline()


def _parsed(data: bytes, fields: Any, line: int) -> tuple[Any, list[BadLine]]:
    """The lines as a table, and those that cannot be read. line: the number of the first."""
    if not data.strip():
        return fields.empty_table(), []
    options = pj.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore")
    try:
        table = pj.read_json(pa.BufferReader(data), pj.ReadOptions(block_size=BLOCK), options)
        table.validate(full=True)  # texts are UTF-8
        return table.select(fields.names).cast(fields), []
    except pa.ArrowException:
        return _parsed_slowly(data, fields, line)


def _parsed_slowly(data: bytes, fields: Any, line: int) -> tuple[Any, list[BadLine]]:
    """The same line by line, to name the lines that cannot be read."""
    rows: list[dict[str, Any]] = []
    bad: list[BadLine] = []
    for number, text in enumerate(data.split(b"\n"), line):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except ValueError as error:
            bad.append((number, f"is not JSON: {error}"))
            continue
        reason = _mismatch(row, fields)
        if reason:
            bad.append((number, reason))
        else:
            rows.append({name: row.get(name) for name in fields.names})
    return pa.Table.from_pylist(rows, schema=fields), bad


def _mismatch(row: Any, fields: Any) -> str:
    """Why a JSON value is not a row, or nothing."""
    if not isinstance(row, dict):
        return f"is not a JSON object but {json.dumps(row)[:60]}"
    for field in fields:
        try:
            pa.array([row.get(field.name)], field.type)
        except (pa.ArrowException, UnicodeEncodeError, OverflowError):
            return f"has {json.dumps(row[field.name])[:60]} for {field.name!r}, which must be {field.type}"
    return ""
