"""FlashRec's catalogue: a JSON object whose keys are the SIDs that exist, codes joined by commas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from ..sids.prefixes import PrefixIndex
from ..sids.template import TEMPLATES
from .refusals import require_levels
from .streams import BATCH, between, glued, write_text
from .target import ExportJob, ExportOption, ExportTarget
from .vocabulary import BASE, token_list

__all__ = ["TARGET"]

END = ExportOption("end", bool, False, 'whether keys have a fourth code, 1, for <|sid_end|>: "12,3,77,1"')


def write(job: ExportJob, folder: Path) -> None:
    sizes = job.table.sizes
    require_levels(sizes, 3, "FlashRec", "a fourth number in a key is taken for the token that ends a SID")
    write_text(folder / "sid_vocab.json", _catalogue(job))
    tokens = token_list(TEMPLATES["openonerec"], sizes)
    (folder / "new_tokens.json").write_text(json.dumps(tokens, indent=0) + "\n", encoding="utf-8")
    base = job.options["base"]
    if base is not None:
        listed = [*sizes, 2]
        job.note(f"start FlashRec with --sid {base}:{base + sum(listed) - 1}/{','.join(map(str, listed))}")


def _catalogue(job: ExportJob) -> Iterator[str]:
    """Every SID once, in order: {"12,3,77":1,"12,3,78":1}."""
    table, end = job.table, ',1":1' if job.options["end"] else '":1'
    index = PrefixIndex(table.codes, table.sizes)
    rows = index.rows[index.starts[-1]]  # one of the items of each SID
    yield "{"
    for start in range(0, len(rows), BATCH):
        codes = table.codes[rows[start : start + BATCH]]
        columns = [pa.array(column).cast(pa.string()) for column in codes.T]
        yield ("," if start else "") + ",".join(glued('"', *between(columns, ","), end).to_pylist())
        job.progress.advance(len(codes))
    yield "}"


TARGET = ExportTarget(
    "flashrec",
    "FlashRec",
    "sid_vocab.json (every SID once) and new_tokens.json (the tokens its tokenizer must have, in order)",
    write,
    (END, BASE),
)
