"""OpenOneRec's files: codes by pid, the pids of every SID, the tokens, and the centroids of its tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError, SpecError, need
from ..sids.template import TEMPLATES
from .codebooks import residual_codebooks
from .imports import PACKED, read_openonerec
from .numbers import NUMBERED, item_numbers
from .refusals import require_levels, require_one_size
from .streams import BATCH, batches, glued, list_column, write_object, write_parquet
from .target import ExportJob, ExportOption, ExportTarget
from .vocabulary import token_list

__all__ = ["TARGET"]

KIND = ExportOption("kind", str, "pid", "what items are called: pid (sid2pid.json) or iid (products, sid2iid.json)")
INSTEAD = "Export to onnx, which holds the whole encoding, or leave out --tokenizer to export the codes alone"


def write(job: ExportJob, folder: Path) -> None:
    table, kind = job.table, job.options["kind"]
    if kind not in ("pid", "iid"):
        raise SpecError(f"--set kind must be pid or iid, not {kind!r}")
    require_levels(table.sizes, 3, "OpenOneRec", "it packs three codes into the key of a SID")
    if max(table.sizes) > PACKED:
        raise InputError(f"OpenOneRec packs codes in base {PACKED}, and a level has {max(table.sizes):,} codes")
    numbers = item_numbers(job, folder, "OpenOneRec")
    if (numbers == 0).any():
        raise InputError("OpenOneRec takes the item 0 for 'none'; count the items from 1 with --set numbered=true")
    if job.fitted is not None:
        _write_centroids(job, folder / "model.pt")
    for name, column in (("codes.parquet", "codes"), ("pid2sid.parquet", "sid")):
        schema = pa.schema({"pid": pa.int64(), column: pa.list_(pa.int64())})
        parts = (
            pa.table([pa.array(numbers[b.start : b.start + len(b.codes)]), list_column(b.codes)], schema=schema)
            for b in batches(table, job.progress if column == "sid" else None)
        )
        write_parquet(folder / name, schema, parts)
    tokens = token_list(TEMPLATES["openonerec"], table.sizes)
    (folder / "new_tokens.json").write_text(json.dumps(tokens, indent=0) + "\n", encoding="utf-8")
    counts = job.popularity()
    if counts is None:
        job.note(f"sid2{kind}.json is left out: it holds how popular items are; give --counts or --sequences")
    else:
        write_object(folder / f"sid2{kind}.json", _by_sid(job, numbers, counts))


def _by_sid(job: ExportJob, numbers: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[list[str]]:
    """`"805331021": [{"pid": 5, "count": 40, "count_after_downsample": 40}]`, the most popular items first."""
    codes, kind = job.table.codes.astype(np.int64), job.options["kind"]
    packed = (codes[:, 0] * PACKED + codes[:, 1]) * PACKED + codes[:, 2]
    order = np.lexsort((numbers, -counts, packed))
    starts = np.flatnonzero(np.r_[True, np.diff(packed[order]) != 0])
    ends = np.r_[starts[1:], len(order)]
    for first in range(0, len(starts), BATCH):
        low, high = starts[first : first + BATCH], ends[first : first + BATCH]
        rows = order[low[0] : high[-1]]
        number, count = (pa.array(part[rows]).cast(pa.string()) for part in (numbers, counts))
        items = glued(f'{{"{kind}": ', number, ', "count": ', count, ', "count_after_downsample": ', count, "}")
        texts = items.to_pylist()
        yield [
            f'"{key}": [{", ".join(texts[a:b])}]'
            for key, a, b in zip(packed[order[low]].tolist(), low - low[0], high - low[0], strict=True)
        ]


def _write_centroids(job: ExportJob, path: Path) -> None:
    books = residual_codebooks(job.tokenizer, "OpenOneRec", INSTEAD)
    require_one_size(job.tokenizer.sizes, "OpenOneRec's model.pt")
    torch = need("torch", "torch", "writing model.pt")
    torch.save(
        {f"centroids.{level}": torch.from_numpy(np.array(book, np.float32)) for level, book in enumerate(books)}, path
    )


TARGET = ExportTarget(
    "openonerec",
    "OpenOneRec (data scripts, benchmark, tokenizer)",
    "codes.parquet, pid2sid.parquet, new_tokens.json; with --counts or --sequences sid2pid.json; with --tokenizer "
    "model.pt; with numbered item_ids.parquet",
    write,
    (KIND, NUMBERED),
    read_openonerec,
    "Parquet with pid and codes or sid, or sid2pid.json",
)
