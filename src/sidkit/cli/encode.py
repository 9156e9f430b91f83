"""sidkit encode: semantic IDs of embeddings."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SpecError
from .columns import ColumnNotes
from .inputs import open_source
from .options import BadRows, BadRowsOption, Column, Device, IdColumn, Json, Location, TemplateOption, location
from .outputs import require_file, require_writable
from .ray import Cpus, Ray, Workers, print_encoded, require_ray, rows_on_ray

if TYPE_CHECKING:
    from ..sids.table import SidTable
    from ..sids.template import Template


def encode(
    tokenizer: Annotated[Path, typer.Argument(help="Folder written by `sidkit fit`", show_default=False)],
    embeddings: Annotated[str, typer.Argument(help="Vectors as for fit; - reads JSON lines", show_default=False)],
    output: Annotated[
        Location,
        typer.Option(
            "--output",
            "-o",
            help="Parquet file to write; - prints id<tab>sid",
            show_default=False,
            parser=location,
            metavar="PATH",
        ),
    ],
    template: TemplateOption = "letters",
    spread: Annotated[
        bool,
        typer.Option("--spread", help="Items that would share a SID take free codes of the last level, nearest first"),
    ] = False,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Resume an encoding that was stopped")] = False,
    ray: Ray = None,
    workers: Workers = None,
    cpus: Cpus = 1,
    as_json: Json = False,
) -> None:
    """sidkit encode tok/ items.parquet -o sids.parquet

    Give every embedding its semantic ID. Row order and ids are kept. An encoding that is stopped leaves its finished
    part beside the output, as OUTPUT.unfinished, and --resume continues from there. With --ray the output is a folder,
    or an address such as s3://bucket/sids, with a file for every file of embeddings; files that the same tokenizer made
    from the same embeddings before are kept. With --spread the last token of an item depends on the other items, so
    encode the whole catalogue at once.
    """
    from ..data.source import chosen_columns
    from ..files.unfinished import Unfinished
    from ..sids.table import SidTable
    from ..sids.template import template_named
    from ..tokenizer.tokenizer import load
    from .terminal import Terminal

    require_ray(ray, workers, cpus)
    notes = ColumnNotes()
    form, fitted, to_stream = template_named(template), load(tokenizer), str(output) == "-"
    if to_stream and as_json:
        raise SpecError("--json reports what was written to a file; -o - prints the semantic IDs themselves")
    if ray is not None:
        if to_stream:
            raise SpecError("with --ray the output is a folder or an address, not -")
        if spread:
            raise SpecError("--spread needs all items on one machine; it cannot be combined with --ray")
        require_writable(output)
        with Terminal() as progress:
            options = (ray, workers, cpus, id_column, column, device, bad_rows, progress)
            with rows_on_ray(embeddings, *options, check=False) as rows:
                notes.add("embeddings", embeddings, chosen_columns(rows.source))
                done = rows.encode(fitted, output, template, bad_rows.value)
        print_encoded(done, output, rows.ran_on(), as_json, notes)
        return
    if not to_stream:
        require_file(output, embeddings)
    ran: dict[str, Any] = {}
    with ExitStack() as stack:
        with Terminal() as progress:
            source = open_source(embeddings, id_column, column, bad_rows, output, progress)
            notes.add("embeddings", embeddings, chosen_columns(source))
            kept = None if to_stream else stack.enter_context(Unfinished(output, resume))
            codes = fitted.encode(source, device=device, progress=progress, checkpoint=kept, spread=spread, ran=ran)
        table = SidTable(source.ids, codes, fitted.sizes)
        if not to_stream:
            table.to_parquet(output, form)
    if as_json:
        facts = {"output": str(output), "items": len(table), "sizes": fitted.sizes, "ran": ran}
        print(json.dumps(facts | notes.field()))
        return
    notes.print()
    if to_stream:
        _print_lines(table, form)
    else:
        _print(len(table), output, ran)


def _print_lines(table: "SidTable", form: "Template") -> None:
    """id<tab>sid, a line per item. A pipe gets ids as they are, a terminal only what it can show."""
    from .terminal import plain

    shown: Any = plain if sys.stdout.isatty() else str
    for item, sid in zip(table.ids.to_pylist(), table.strings(form).to_pylist(), strict=True):
        print(f"{shown(item)}\t{sid}")


def _print(items: int, output: "Location", ran: dict[str, Any]) -> None:
    from ..rows.run_report import describe_run
    from .printing import command_line

    if ran:
        print(describe_run(ran))
    print(f"wrote {items:,} semantic IDs to {output}; next: {command_line('report', output)}")
