"""The lines that a command prints about the shop it wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...errors import count_of
from ..printing import command_line

__all__ = ["print_left_out", "print_shop"]


def print_shop(output: Path, facts: Mapping[str, Any], as_json: bool, listing: Path | None = None) -> None:
    """A summary and the next command, or the facts as JSON; what was left out goes to standard error."""
    if as_json:
        print(json.dumps({"output": str(output), **facts}, ensure_ascii=False))
        return
    print_left_out(facts["left_out"], listing)
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
    items, queries, encoder = "items-emb.parquet", "queries-emb.parquet", "items-emb.encoder"
    of_queries = ("--text", "query", "--queries", "--encoder", encoder, "-o", queries)
    following: tuple[tuple[str | Path, ...], ...] = (
        ("embed", output / "items.parquet", "--text", "text", "-o", items),
        ("embed", output / "queries.parquet", *of_queries),
        ("search", "align", output, "--items-embeddings", items, "--queries-embeddings", queries, "-o", "aligned"),
    )
    for when, words in zip(("next", "then", "then"), following, strict=True):
        print(f"{when}: {command_line(*words)}")


def print_left_out(groups: Iterable[Mapping[str, Any]], listing: Path | None) -> None:
    """How many rows were left out, why, and where they are listed, to standard error."""
    for one in groups:
        print(f"left out {one['rows']:,} of {one['file']} that {one['reason']}, listed in {listing}", file=sys.stderr)


def _split(facts: Mapping[str, Any]) -> str:
    if facts["by"] == "time":
        return f"time, the test from {facts['test_from']}"
    return f"column {facts['column']}" if facts["by"] == "column" else str(facts["by"])
