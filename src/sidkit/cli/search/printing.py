"""The lines that a command prints about the shop it wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import count_of
from ..printing import command_line

__all__ = ["print_shop"]


def print_shop(output: Path, facts: Mapping[str, Any], as_json: bool, listing: Path | None = None) -> None:
    """A summary and the next command, or the facts as JSON; what was left out goes to standard error."""
    if as_json:
        print(json.dumps({"output": str(output), **facts}, ensure_ascii=False))
        return
    for one in facts["left_out"]:
        print(f"left out {one['rows']:,} of {one['file']} that {one['reason']}, listed in {listing}", file=sys.stderr)
    for note in facts["notes"]:
        print(note, file=sys.stderr)
    tables, counts = facts["tables"], facts["counts"]
    train, test = counts["records"]["train"], counts["records"]["test"]
    print(
        f"wrote {output}: {count_of(tables['items'], 'item')}, {count_of(train + test, 'search', 'searches')} "
        f"({train:,} to train, {test:,} to test), "
        f"{count_of(tables['queries'], 'different query', 'different queries')}, {count_of(tables['users'], 'user')}"
    )
    sets = [
        f"{one['drawn']:,} of {one['available']:,} {kind}s" for kind, one in counts["pairs"].items() if one["drawn"]
    ]
    print(f"      test pairs: {', '.join(sets) or 'none'}; split by {_split(facts['split'])}")
    following = command_line("embed", output / "items.parquet", "--text", "text", "-o", "embeddings.parquet")
    print(f"next: {following}")


def _split(facts: Mapping[str, Any]) -> str:
    if facts["by"] == "time":
        return f"time, the test from {facts['test_from']}"
    return f"column {facts['column']}" if facts["by"] == "column" else str(facts["by"])
