"""The JSON lines that tiger.py writes, a line per (dataset, tokenizer, seed), read back by dataset and tokenizer."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tiger_codes import TOKENIZERS

SEEDS = (0, 1, 2)


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def by_row(lines: list[dict], dataset: str, names: Sequence[str] = tuple(TOKENIZERS)) -> dict[str, dict[int, dict]]:
    rows: dict[str, dict[int, dict]] = defaultdict(dict)
    for line in lines:
        if line["dataset"] == dataset:
            rows[line["tokenizer"]][line["seed"]] = line
    return {name: dict(sorted(rows[name].items())) for name in names if name in rows}
