"""Lines of large files, plain or gzipped, read one at a time and never longer than a limit."""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...progress import Progress
from ..listing import readable

__all__ = ["LONGEST", "BadLines", "parse_object", "read_lines"]

LONGEST = 1 << 20  # bytes of a line; the longest of Amazon's metadata are some 100,000
GZIP = b"\x1f\x8b"
STEP = 10_000  # lines per report of progress


@dataclass
class BadLines:
    """Lines that cannot be used: the first is an error, or all are left out and listed."""

    drop: bool = False
    found: list[tuple[str, int, str]] = field(default_factory=list)  # file, line from 1, reason

    def add(self, path: Path, number: int, reason: str) -> None:
        if not self.drop:
            raise InputError(
                f"line {number:,} of {path} {reason}; --bad-rows drop leaves such lines out and lists them"
            )
        self.found.append((path.name, number, reason))


def read_lines(path: Path, bad: BadLines, progress: Progress, label: str) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line) of every line that is not blank. Memory is that of one line, whatever the file holds."""
    progress.start(label, 0)
    number = 0
    with readable(path):
        with path.open("rb") as file:
            packed = file.read(len(GZIP)) == GZIP
        with gzip.open(path, "rb") if packed else path.open("rb") as stream:
            while line := stream.readline(LONGEST + 1):
                number += 1
                if number % STEP == 0:
                    progress.advance(STEP)
                if len(line) > LONGEST and not line.endswith(b"\n"):
                    while (rest := stream.readline(LONGEST)) and not rest.endswith(b"\n"):
                        pass
                    bad.add(path, number, f"has more than {LONGEST:,} bytes")
                elif line.strip():
                    yield number, line
    progress.advance(number % STEP)


def parse_object(line: bytes) -> dict[str, Any] | str:
    """A line as an object, or what is wrong with it. Amazon's metadata of 2014 are Python literals, not JSON.

    A literal is numbers, strings, lists and dicts: nothing in it is executed.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"is not UTF-8: {error.reason} at byte {error.start}"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return f"is neither JSON nor a Python literal: {text.strip()[:60]!r}"
    return value if isinstance(value, dict) else f"is not an object but {text.strip()[:60]!r}"
