"""A CSV file for everything else: the id, the SID as text, and a column per level."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv

from ..sids.writer import SidWriter
from .streams import batches
from .target import ExportJob, ExportTarget
from .vocabulary import TEMPLATE

__all__ = ["TARGET"]


def write(job: ExportJob, folder: Path) -> None:
    table, form = job.table, job.template
    levels = len(table.sizes)
    sids = SidWriter.of(form, table.sizes)
    names = ["item_id", "sid", *(f"code_{level + 1}" for level in range(levels))]
    schema = pa.schema([(names[0], table.ids.type), (names[1], pa.string()), *((n, pa.int32()) for n in names[2:])])
    with arrow_csv.CSVWriter(folder / "sids.csv", schema) as file:
        for rows in batches(table, job.progress):
            columns = [rows.ids, sids(rows.codes), *(pa.array(column) for column in rows.codes.T)]
            file.write_table(pa.table(columns, schema=schema))


TARGET = ExportTarget(
    "csv", "spreadsheets, databases, pandas", "sids.csv: item_id, sid, code_1, code_2, …", write, (TEMPLATE,)
)
