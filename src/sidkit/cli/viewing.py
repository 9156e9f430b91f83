"""report, lookup: how good semantic IDs are, and what is behind one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, SpecError
from .app import app
from .judging import print_judgement
from .options import Json, require_file, require_folder, texts_for, write_page

if TYPE_CHECKING:
    from ..sids.table import SidTable


@app.command()
def report(
    sids: Annotated[Path, typer.Argument(help="Parquet file written by `sidkit encode`", show_default=False)],
    tokenizer: Annotated[Path | None, typer.Argument(help="Its tokenizer, for the map of centroids")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report as an HTML page")] = None,
    items: Annotated[Path | None, typer.Option("--items", help="Parquet file with the items' texts")] = None,
    text: Annotated[str, typer.Option("--text", help="Its column of texts")] = "title",
    category: Annotated[str | None, typer.Option("--category", help="Its column of categories")] = None,
    embeddings: Annotated[
        str | None, typer.Option("--embeddings", help="The items' vectors [default: those of --items, if any]")
    ] = None,
    sequences: Annotated[
        Path | None, typer.Option("--sequences", help="Parquet: a list of items per user, or a row per event")
    ] = None,
    figures: Annotated[Path | None, typer.Option("--figures", help="Folder to write every figure to")] = None,
    formats: Annotated[str, typer.Option("--formats", help="How to write them, by commas")] = "svg,png,pdf",
    map_by: Annotated[str, typer.Option("--map", help="tsne, pca, or auto: t-SNE with scikit-learn")] = "auto",
    as_json: Json = False,
) -> None:
    """sidkit report sids.parquet tok/ --items items.parquet --text title -o report.html

    How good are these semantic IDs: a verdict in words, and the figures behind it. Without -o it is printed here.
    """
    from ..report.centroids import METHODS
    from ..report.draw.plots import check_formats, write_figures
    from ..sids.table import SidTable
    from ..tokenizer.store import load
    from .terminal import Terminal, print_report

    forms = formats.split(",")
    if figures is not None:
        check_formats(forms)
    if map_by not in METHODS:
        raise SpecError(f"--map must be one of {', '.join(METHODS)}, not {map_by!r}")
    if output is not None:
        require_file(output, sids, items, sequences, embeddings)
    if figures is not None:
        require_folder(figures)
    table = SidTable.from_parquet(sids)
    fitted = load(tokenizer) if tokenizer else None
    if fitted is not None and fitted.sizes != table.sizes:
        raise InputError(f"{tokenizer} makes SIDs of sizes {fitted.sizes}, but those of {sids} are {table.sizes}")
    if category is not None and items is None:
        raise SpecError("--category names a column of --items; give that file as well")
    from ..report.evidence import gather

    with Terminal() as progress:
        names = texts_for(items, text, table.ids) if items else None
        kinds = texts_for(items, category, table.ids) if items and category else None
        source = _vectors(embeddings, items)
        found = gather(table, fitted, source, names, sequences, kinds, map_by, progress)
    if figures is not None:
        write_figures(found.figures, figures, forms)
    if output is not None:
        from ..report.page import report_page

        write_page(output, report_page(found, sids.stem))
    if as_json:
        print(json.dumps(found.facts))
    else:
        written = [path for path in (output, figures) if path]
        print_report(found.facts, written)
        if not written:
            print_judgement(found.facts)


def _vectors(embeddings: str | None, items: Path | None) -> Any:
    """The vectors asked for, or those that the file of items brings along."""
    from ..data.embeddings import open_embeddings

    if embeddings is not None:
        return open_embeddings(embeddings)
    if items is None:
        return None
    from pyarrow.parquet import read_schema

    from ..data.columns import EMBEDDING_NAMES

    return open_embeddings(items) if set(read_schema(items).names) & set(EMBEDDING_NAMES) else None


@app.command()
def lookup(
    sids: Annotated[Path, typer.Argument(help="Parquet file written by `sidkit encode`", show_default=False)],
    what: Annotated[str, typer.Argument(help="An item id, a SID, or the first tokens of one", show_default=False)],
    items: Annotated[Path | None, typer.Option("--items", help="Parquet file with the items' texts")] = None,
    text: Annotated[str, typer.Option("--text", help="Its column to show")] = "title",
    limit: Annotated[int, typer.Option("--limit", help="Most items to print; 0 for all")] = 20,
    as_json: Json = False,
) -> None:
    """sidkit lookup sids.parquet '<a_0>' --items items.parquet

    From an item to its semantic ID and the items that share it; from a SID or a prefix to its items. SIDs are
    understood as the file writes them (`encode --template`), by letters, as numbers (12-3-77, 12,3,77), and as
    OpenOneRec writes them.
    """
    from ..sids.table import SidTable
    from .terminal import print_items

    if limit < 0:
        raise SpecError(f"--limit must be at least 0, not {limit}")
    table = SidTable.from_parquet(sids)
    prefix = table.sid_of(what) or _prefix(table, what, sids)
    rows = table.rows_of(prefix)
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
        form = table.template
        name = form.write(prefix) if len(prefix) == len(table.sizes) else form.write_prefix(prefix)
        print_items(name, len(rows), found, form)


def _prefix(table: "SidTable", what: str, sids: Path) -> tuple[int, ...]:
    """The codes of a SID or prefix that items have; whoever asks for another is shown one."""
    from pyarrow.types import is_integer

    from ..sids.template import TEMPLATES, read_sid

    if not len(table):
        raise InputError(f"no item {what!r} in {sids}: it holds no items")
    form, codes, letters = table.template, table.codes[0].tolist(), TEMPLATES["letters"]

    def start(prefix: Sequence[int]) -> str:
        """How to ask for it: by letters, where the file's own form could be an item's number."""
        own = form.write_prefix(prefix)
        return letters.write(prefix) if own.strip().isdecimal() and is_integer(table.ids.type) else own

    try:
        prefix = read_sid(what, form)
    except InputError:
        written = f"write one as {form.write(codes)!r}, or its first tokens as {start(codes[:1])!r}"
        raise InputError(f"no item {what!r} in {sids}, and no semantic ID either; {written}") from None
    if len(prefix) == 1 and what.strip().isdecimal() and is_integer(table.ids.type):
        written = letters.write(prefix)
        raise InputError(f"no item {what!r} in {sids}; if you mean the first token, write it as {written!r}")
    if not len(table.rows_of(prefix)):
        kept = (prefix[:depth] for depth in range(len(prefix) - 1, 0, -1))
        held = next((one for one in kept if len(table.rows_of(one))), None)
        known = f"there are items under {start(held)!r}" if held else f"one that is: {form.write(codes)!r}"
        raise InputError(f"{what!r} is neither an item nor an occupied prefix of {sids}; {known}")
    return prefix
