"""LC-Rec's index.json, which LETTER and MiniOneRec read too: the tokens of every item, by its row number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from .imports import read_index
from .refusals import require_name
from .streams import BATCH, write_item_ids, write_object, write_tokens_by_item
from .target import ExportJob, ExportOption, ExportTarget
from .vocabulary import LETTERS, token_list

__all__ = ["DATASET", "TARGET", "texts_by_row", "write_index"]

DATASET = ExportOption("dataset", str, "items", "the name of the dataset, with which the names of files begin")


def write(job: ExportJob, folder: Path) -> None:
    name = write_index(job, folder)
    if job.visits is not None:
        write_object(folder / f"{name}.inter.json", _histories(job))


def write_index(job: ExportJob, folder: Path) -> str:
    """The index, the texts where they are given, and the ids of the rows; the name of the dataset."""
    name, table = require_name(job.options["dataset"], "dataset"), job.table
    token_list(job.template, table.sizes)  # an error if two levels write the same token
    write_tokens_by_item(folder / f"{name}.index.json", table, job.template, job.progress)
    write_item_ids(folder, table)
    if job.titles is not None:
        write_object(folder / f"{name}.item.json", texts_by_row(job))
    return name


def texts_by_row(job: ExportJob) -> Iterator[list[str]]:
    """`"0": {"title": …, "description": …}`, in batches."""
    for start in range(0, len(job.table), BATCH):
        titles = job.titles[start : start + BATCH].to_pylist()
        more = [""] * len(titles) if job.descriptions is None else job.descriptions[start : start + BATCH].to_pylist()
        yield [
            f'"{row}": {json.dumps({"title": title, "description": text}, ensure_ascii=False)}'
            for row, (title, text) in enumerate(zip(titles, more, strict=True), start)
        ]


def _histories(job: ExportJob) -> Iterator[list[str]]:
    """`"0": [4, 7, 1]`: the items of every sequence, known ones alone."""
    assert job.visits is not None
    visits = job.visits.known()
    for start in range(0, len(visits), BATCH):
        ends = range(start, min(start + BATCH, len(visits)))
        yield [f'"{user}": {visits.rows[visits.starts[user] : visits.starts[user + 1]].tolist()}' for user in ends]


TARGET = ExportTarget(
    "lc-rec",
    "LC-Rec, LETTER, MiniOneRec",
    "DATASET.index.json; with --items DATASET.item.json, with --sequences DATASET.inter.json; item_ids.parquet",
    write,
    (DATASET, LETTERS),
    read_index,
    "index.json",
)
