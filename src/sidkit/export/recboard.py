"""RecBoard's sid_vocab.json: the tokens of every item, levels from 0."""

from __future__ import annotations

from pathlib import Path

from ..sids.template import TEMPLATES
from .imports import read_index
from .refusals import shares_of
from .streams import write_item_ids, write_tokens_by_item
from .target import ExportJob, ExportTarget

__all__ = ["TARGET"]


def write(job: ExportJob, folder: Path) -> None:
    table = job.table
    write_tokens_by_item(folder / "sid_vocab.json", table, TEMPLATES["recboard"], job.progress, key="item_")
    write_item_ids(folder, table)
    if (shares_of(table) > 1).any():
        job.note("items share SIDs: RecBoard gives every item one more token, <sid_c_0>, <sid_c_1>, … as it loads")


TARGET = ExportTarget(
    "recboard", "RecBoard", "sid_vocab.json, item_ids.parquet", write, (), read_index, "sid_vocab.json"
)
