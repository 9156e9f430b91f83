"""sidkit report: how good semantic IDs are."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, SpecError
from .inputs import columns_of, texts_for
from .options import Figures, Formats, Items, Json, MapBy, Sequences, Sids, TextColumn
from .outputs import require_file, require_folder, write_page
from .parsing import require_choice

if TYPE_CHECKING:
    from ..files.address import Location


def report(
    sids: Sids,
    tokenizer: Annotated[Path | None, typer.Argument(help="Its tokenizer, for the map of centroids")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report as an HTML page")] = None,
    items: Items = None,
    text: TextColumn = "title",
    category: Annotated[str | None, typer.Option("--category", help="Column of categories in --items")] = None,
    embeddings: Annotated[
        str | None, typer.Option("--embeddings", help="The items' vectors [default: those of --items, if any]")
    ] = None,
    sequences: Sequences = None,
    figures: Figures = None,
    formats: Formats = "svg,png,pdf",
    map_by: MapBy = "auto",
    as_json: Json = False,
) -> None:
    """sidkit report sids.parquet tok/ --items items.parquet --text title -o report.html

    How good are these semantic IDs? A verdict in words, and the figures behind it. Without -o they are printed.
    """
    from ..data.listing import files_of
    from ..report.centroids import METHODS
    from ..report.draw.plots import check_formats, write_figures
    from ..report.evidence import gather
    from ..sids.table import SidTable
    from ..tokenizer.tokenizer import load
    from .print_judgement import print_judgement
    from .printing import print_report
    from .terminal import Terminal

    forms = formats.split(",")
    if figures is not None:
        check_formats(forms)
    require_choice("--map", map_by, METHODS)
    if output is not None:
        require_file(output, *files_of(sids, nested=True), items, sequences, embeddings)
    if figures is not None:
        require_folder(figures)
    table = SidTable.from_parquet(sids)
    fitted = load(tokenizer) if tokenizer else None
    if fitted is not None and fitted.sizes != table.sizes:
        raise InputError(f"{tokenizer} makes SIDs of sizes {fitted.sizes}, but those of {sids} are {table.sizes}")
    if category is not None and items is None:
        raise SpecError("--category names a column of --items; give that file as well")
    with Terminal() as progress:
        texts = texts_for(items, text, table.ids) if items else None
        categories = texts_for(items, category, table.ids) if items and category else None
        source = _vectors(embeddings, items)
        evidence = gather(table, fitted, source, texts, sequences, categories, map_by, progress)
    if figures is not None:
        write_figures(evidence.figures, figures, forms)
    if output is not None:
        from ..report.page import report_page

        write_page(output, report_page(evidence, sids.stem))
    if as_json:
        print(json.dumps(evidence.facts))
    else:
        written = [path for path in (output, figures) if path]
        print_report(evidence.facts, written)
        if not written:
            print_judgement(evidence.facts)


def _vectors(embeddings: str | None, items: "Location | None") -> Any:
    """The vectors of --embeddings, or those of the file of items if it has any."""
    from ..data.columns import EMBEDDING_NAMES
    from ..data.embeddings import open_embeddings

    if embeddings is not None:
        return open_embeddings(embeddings)
    if items is None or not set(columns_of(items)) & set(EMBEDDING_NAMES):
        return None
    return open_embeddings(items)
