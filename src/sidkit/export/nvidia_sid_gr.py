"""NVIDIA's sid_gr examples: the tensor that training reads, and the JSON lines that the server reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..errors import InputError
from .grid import write_tensor
from .imports import read_tensor
from .refusals import shares_of, slots_in
from .streams import batches, between, glued, write_item_ids, write_parquet, write_text
from .target import ExportJob, ExportOption, ExportTarget
from .vocabulary import BASE, TEMPLATE, VOCABULARY, base_of, token_ids

__all__ = ["TARGET"]

SHARED = ExportOption(
    "shared", bool, False, "write the catalogue although items share SIDs; the server then needs a flag"
)


def write(job: ExportJob, folder: Path) -> None:
    table, serves = job.table, job.options["base"] is not None or job.options["vocabulary"] is not None
    most = int(shares_of(table).max())
    if serves and most > 1 and not job.options["shared"]:
        raise InputError(
            f"items share SIDs (up to {most:,} of them), and the server refuses a token path that occurs twice; encode "
            "with --spread, or write it with --set shared=true and serve with --catalog-allow-duplicate-token-paths"
        )
    base = base_of(job) if serves else 0
    rows = [*table.codes.T, *([slots_in(table)] if most > 1 else [])]
    write_tensor(folder / "item_to_sid.pt", np.stack(rows))
    write_item_ids(folder, table)
    sizes = [*table.sizes, *([most] if most > 1 else [])]
    (folder / "codebook_sizes.json").write_text(json.dumps(sizes) + "\n", encoding="utf-8")
    if most > 1:
        job.note(f"items share SIDs, so item_to_sid.pt has a last row that tells them apart (size {most:,})")
    if serves:
        write_text(folder / "catalog.jsonl", _lines(job, base))
        job.note(
            f"serve with --catalog-jsonl catalog.jsonl and a --catalog-vocab-size over {base + sum(table.sizes) - 1}"
        )
    if job.visits is not None:
        _write_sequences(job, folder / "sequences.parquet")


def _lines(job: ExportJob, base: int) -> Iterator[str]:
    """{"item_id": 5, "token_ids": [151681, 151928, 152258]}"""
    table = job.table
    for rows in batches(table, job.progress):
        ids = rows.ids.cast(pa.string())
        if not pa.types.is_integer(table.ids.type):
            ids = pa.array([json.dumps(one, ensure_ascii=False) for one in rows.ids.to_pylist()])
        tokens = [pa.array(column).cast(pa.string()) for column in token_ids(rows.codes, table.sizes, base).T]
        lines = glued('{"item_id": ', ids, ', "token_ids": [', *between(tokens, ", "), "]}\n")
        yield "".join(lines.to_pylist())


def _write_sequences(job: ExportJob, path: Path) -> None:
    assert job.visits is not None
    visits = job.visits.known()
    schema = pa.schema({"user_id": pa.int64(), "sequence_data": pa.large_list(pa.int64())})
    lists = pa.LargeListArray.from_arrays(pa.array(visits.starts), pa.array(visits.rows))
    write_parquet(path, schema, [pa.table([pa.array(np.arange(len(visits))), lists], schema=schema)])


TARGET = ExportTarget(
    "nvidia-sid-gr",
    "NVIDIA recsys-examples: sid_gr training and sid-gr-inference",
    "item_to_sid.pt, codebook_sizes.json, item_ids.parquet; with base or vocabulary catalog.jsonl; with --sequences "
    "sequences.parquet",
    write,
    (BASE, VOCABULARY, TEMPLATE, SHARED),
    read_tensor,
    "item_to_sid.pt",
)
