"""Files of results with a line of JSON per run: what was done is read back, so that it is not run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["append_line", "read_lines"]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append_line(path: Path, line: dict[str, Any]) -> None:
    """In one write, so that several processes can share the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as out:
        out.write((json.dumps(line) + "\n").encode())
