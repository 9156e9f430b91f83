"""report, compare, lookup: how good semantic IDs are, and what is behind one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, SpecError
from .app import app
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Device,
    Embeddings,
    IdColumn,
    Json,
    open_source,
    read_options,
    read_seeds,
    read_sizes,
    require_writable,
    texts_for,
    with_known_options,
)


@app.command()
def report(
    sids: Annotated[Path, typer.Argument(help="Parquet file written by `sidkit encode`", show_default=False)],
    as_json: Json = False,
) -> None:
    """sidkit report sids.parquet

    How good are these semantic IDs: collisions, utilisation and balance of every level.
    """
    from ..report.metrics import quality
    from ..sids import SidTable
    from ..terminal import print_quality

    table = SidTable.from_parquet(sids)
    figures = quality(table.codes, table.sizes)
    if as_json:
        print(json.dumps({"sizes": table.sizes, **figures}))
    else:
        print_quality(figures, table.sizes)


@app.command()
def compare(
    embeddings: Embeddings,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the runs; those found there are reused")],
    recipes: Annotated[str, typer.Option("--recipes", "-r", help="Recipes, by commas")] = "prq-kmeans,rq-kmeans",
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds, by commas, or how many from 0 as x5")] = "x3",
    sizes: Annotated[str | None, typer.Option("--sizes", help="Codewords per level, for all")] = None,
    option: Annotated[list[str] | None, typer.Option("--set", help="An option for the recipes that know it")] = None,
    form: Annotated[str, typer.Option("--format", help="table, json, markdown or latex")] = "table",
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """sidkit compare items.parquet -o runs/ -r prq-kmeans,rq-kmeans --sizes 64-32-16 --seeds x2

    Fit several tokenizers with several seeds and put their codebook quality side by side.
    """
    from ..report.compare import FORMS, compare
    from ..terminal import Terminal, print_comparison

    if form not in FORMS:
        raise SpecError(f"--format must be one of {', '.join(FORMS)}, not {form!r}")
    given = ({"sizes": read_sizes(sizes)} if sizes else {}) | read_options(option)
    tokenizers = {name: with_known_options(name, given) for name in recipes.split(",")}
    require_writable(output)
    with Terminal() as progress:
        source = open_source(embeddings, id_column, column, bad_rows, output, progress)
        found = compare(source, tokenizers, read_seeds(seeds), output, progress, device)
    if as_json or form == "json":
        print(found.json())
    elif form == "table":
        print_comparison(found)
    else:
        print(found.markdown() if form == "markdown" else found.latex())


@app.command()
def lookup(
    sids: Annotated[Path, typer.Argument(help="Parquet file written by `sidkit encode`", show_default=False)],
    what: Annotated[str, typer.Argument(help="An item id, a SID, or the first tokens of one", show_default=False)],
    items: Annotated[Path | None, typer.Option("--items", help="Parquet file with the items' texts")] = None,
    text: Annotated[str, typer.Option("--text", help="Its column to show")] = "title",
    limit: Annotated[int, typer.Option("--limit", help="Most items to print; 0 for all")] = 20,
    as_json: Json = False,
) -> None:
    """sidkit lookup sids.parquet '<a_12><b_3>'

    From an item to its semantic ID and the items that share it; from a SID or a prefix to its items.
    """
    from ..sids import TEMPLATES, SidTable
    from ..terminal import print_items

    table = SidTable.from_parquet(sids)
    sid = table.sid_of(what)
    prefix = TEMPLATES["letters"].parse(what) if sid is None else sid
    rows = table.rows_of(prefix)
    if not len(rows):
        raise InputError(f"{what!r} is neither an item nor an occupied prefix of {sids}")
    shown = rows[:limit] if limit else rows
    names = texts_for(items, text, table.ids) if items else None
    found = [
        {"item_id": table.ids[int(row)].as_py(), "codes": table.codes[row].tolist()}
        | ({"text": names[int(row)]} if names else {})
        for row in shown
    ]
    if as_json:
        print(json.dumps({"prefix": prefix, "count": len(rows), "items": found}, ensure_ascii=False))
    else:
        print_items(prefix, len(rows), found)
