"""MiniOneRec's files: the index, titles, the list of SIDs with titles, and examples for training."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from ..errors import SpecError
from ..sids.writer import SidWriter
from .codebooks import residual_codebooks
from .imports import read_index
from .lc_rec import DATASET, write_index
from .refusals import require_levels, shares_of
from .streams import batches, glued, write_text
from .target import ExportJob, ExportOption, ExportTarget

__all__ = ["TARGET"]

HISTORY = ExportOption("history", int, 10, "most items of a history in the examples", 1)
COLUMNS = (
    *("user_id", "history_item_title", "item_title", "history_item_id"),
    *("item_id", "history_item_sid", "item_sid"),
)
INSTEAD = "Export to onnx, which holds the whole encoding, or leave out --tokenizer to export the codes alone"


def write(job: ExportJob, folder: Path) -> None:
    table = job.table
    require_levels(table.sizes, 3, "MiniOneRec", "it uses the first three tokens of an item and no others")
    if job.titles is None:
        raise SpecError("MiniOneRec reads titles; give them with --items items.parquet --text title")
    books = residual_codebooks(job.fitted, "MiniOneRec", INSTEAD) if job.fitted is not None else []
    name = write_index(job, folder)
    write_text(folder / f"{name}.txt", _info(job))
    if books:
        arrays = {f"codebook_{level}": np.asarray(book) for level, book in enumerate(books)}
        np.savez(folder / f"{name}.codebooks_constrained.npz", **arrays)  # type: ignore[arg-type]
        np.save(folder / f"{name}.codes_constrained.npy", table.codes.astype(np.int64))
    if job.visits is not None:
        for part in ("train", "valid", "test"):
            _write_examples(job, part, folder / part / f"{name}.csv")
    shared = int((shares_of(table) > 1).sum())
    if shared:
        job.note(
            f"{shared:,} items share SIDs, of which MiniOneRec knows the last title alone; --spread separates them"
        )
    job.note("MiniOneRec takes `category` from a list of five names; choose one of them when you train")


def _info(job: ExportJob) -> Iterator[str]:
    """sid<tab>title<tab>row, a line per item."""
    written = SidWriter.of(job.template, job.table.sizes)
    for rows in batches(job.table):
        titles = pc.replace_substring_regex(job.titles[rows.start : rows.start + len(rows.codes)], r"\s+", " ")
        sids = written(rows.codes)
        yield "".join(glued(sids, "\t", titles.cast(sids.type), "\t", rows.rows, "\n").to_pylist())


def _write_examples(job: ExportJob, part: str, path: Path) -> None:
    """A row per item to predict: the last of a sequence is the test's, the one before it that of validation."""
    assert job.visits is not None
    path.parent.mkdir()
    visits, most, form = job.visits.known(), job.options["history"], job.template
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for user in range(len(visits)):
            rows = visits.rows[visits.starts[user] : visits.starts[user + 1]]
            for at in _targets(part, len(rows)):
                near = rows[max(0, at - most) : at + 1]
                titles = [str(job.titles[int(row)].as_py()) for row in near]
                sids = [form.write(job.table.codes[row].tolist()) for row in near]
                numbers = near.tolist()
                writer.writerow(
                    [user, titles[:-1], titles[-1], numbers[:-1], numbers[-1], sids[:-1], sids[-1]]
                )  # csv writes a list as its Python literal, which is what is read


def _targets(part: str, length: int) -> range:
    """The positions in a sequence that a part predicts; each has at least one item before it."""
    if length < 3:
        return range(1, length) if part == "train" else range(0)
    ends = {"train": range(1, length - 2), "valid": range(length - 2, length - 1), "test": range(length - 1, length)}
    return ends[part]


TARGET = ExportTarget(
    "minionerec",
    "MiniOneRec",
    "DATASET.index.json, DATASET.item.json, DATASET.txt (SIDs and titles), item_ids.parquet; with --tokenizer its "
    "codebooks; with --sequences train, valid and test",
    write,
    (DATASET, HISTORY),
    read_index,
    "index.json",
)
