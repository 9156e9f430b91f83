"""xLLM's vocabulary file: records of 20 bytes, an int64 item id and three int32 vocabulary ids, little-endian."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .numbers import NUMBERED, item_numbers
from .refusals import require_file_name, require_levels, shares_of
from .streams import ITEM_IDS, batches
from .target import ExportJob, ExportOption, ExportTarget
from .vocabulary import BASE, TEMPLATE, VOCABULARY, base_of, token_ids

__all__ = ["RECORD", "TARGET"]

RECORD = np.dtype([("item_id", "<i8"), ("tokens", "<i4", 3)])
RETURNED = 50  # items of one SID that xLLM returns by default (each_conversion_threshold)
FILE = ExportOption("file", str, "sid_vocab.bin", "the name of the file")


def write(job: ExportJob, folder: Path) -> None:
    table = job.table
    require_levels(table.sizes, 3, "xLLM", "its records have room for three tokens")
    name = require_file_name(job.options["file"], "file", ITEM_IDS)
    numbers, base = item_numbers(job, folder, "xLLM"), base_of(job)
    with (folder / name).open("wb") as file:
        for rows in batches(table, job.progress):
            records = np.empty(len(rows.codes), RECORD)
            records["item_id"] = numbers[rows.start : rows.start + len(rows.codes)]
            records["tokens"] = token_ids(rows.codes, table.sizes, base)
            file.write(records.tobytes())
    job.note(f'put the file into the model folder, and "vocab_file": "{name}" into its tokenizer_config.json')
    most = int(shares_of(table).max())
    if most > RETURNED:
        job.note(
            f"{most:,} items share one SID; xLLM returns {RETURNED} of a SID unless each_conversion_threshold is set"
        )


TARGET = ExportTarget(
    "xllm", "xLLM", "sid_vocab.bin; with numbered item_ids.parquet", write, (BASE, VOCABULARY, TEMPLATE, FILE, NUMBERED)
)
