"""sidkit encode: semantic IDs of embeddings."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Device,
    IdColumn,
    Json,
    TemplateOption,
    open_source,
    place,
    require_file,
    require_writable,
)
from .ray import Cpus, Ray, Workers, print_encoded, require_ray, rows_on_ray


def encode(
    tokenizer: Annotated[Path, typer.Argument(help="Folder written by `sidkit fit`", show_default=False)],
    embeddings: Annotated[str, typer.Argument(help="Embeddings as for fit; - reads JSON lines", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Parquet file; - prints id<tab>sid", show_default=False, parser=place)
    ],
    template: TemplateOption = "letters",
    spread: Annotated[
        bool,
        typer.Option("--spread", help="Part items that share a SID: free codes of their last level, nearest first"),
    ] = False,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an encoding that was stopped")] = False,
    ray: Ray = None,
    workers: Workers = None,
    cpus: Cpus = 1,
    as_json: Json = False,
) -> None:
    """sidkit encode tok/ items.parquet -o sids.parquet

    Give every embedding its semantic ID. Row order and ids are kept. An encoding that is stopped leaves what it had
    finished beside the output, as OUTPUT.unfinished; --resume goes on from there. With --ray the output is a folder,
    or an address such as s3://bucket/sids, with a file for every file of embeddings; those that are there already,
    made by the same tokenizer from the same file, are kept. With --spread items give way to each other in their last
    token, so encode the whole catalogue at once.
    """
    from ..files.unfinished import Unfinished
    from ..rows.run_report import describe_run
    from ..sids.table import SidTable
    from ..sids.template import template_named
    from ..tokenizer.tokenizer import load
    from .terminal import Terminal, plain

    require_ray(ray, workers, cpus)
    form, fitted, to_stream = template_named(template), load(tokenizer), str(output) == "-"
    if not to_stream and ray is not None:
        require_writable(output)
    elif not to_stream:
        require_file(output, embeddings)
    elif as_json:
        raise SpecError("--json tells of what was written to a file; -o - prints the semantic IDs themselves")
    if ray is not None:
        if to_stream:
            raise SpecError("with --ray the output is a folder or an address, not -")
        if spread:
            raise SpecError("--spread needs all items in one place; it does not go with --ray")
        with Terminal() as progress:
            ways = (ray, workers, cpus, id_column, column, device, bad_rows, progress)
            with rows_on_ray(embeddings, *ways, check=False) as rows:
                done = rows.encode(fitted, output, template, bad_rows.value)
        print_encoded(done, output, rows.ran_on(), as_json)
        return
    ran: dict[str, Any] = {}
    with ExitStack() as stack:
        with Terminal() as progress:
            source = open_source(embeddings, id_column, column, bad_rows, output, progress)
            kept = None if to_stream else stack.enter_context(Unfinished(output, resume))
            codes = fitted.encode(source, device=device, progress=progress, checkpoint=kept, spread=spread, ran=ran)
        table = SidTable(source.ids, codes, fitted.sizes)
        if not to_stream:
            table.to_parquet(output, form)
    if to_stream:
        shown: Any = plain if sys.stdout.isatty() else str  # a pipe gets ids as they are
        for item, sid in zip(table.ids.to_pylist(), table.strings(form).to_pylist(), strict=True):
            print(f"{shown(item)}\t{sid}")
        return
    if as_json:
        print(json.dumps({"output": str(output), "items": len(table), "sizes": fitted.sizes, "ran": ran}))
        return
    if ran:
        print(describe_run(ran))
    print(f"wrote {len(table):,} semantic IDs to {output}; next: sidkit report {output}")
