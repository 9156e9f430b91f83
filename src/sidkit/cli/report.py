"""report, lookup: how good semantic IDs are, and what is behind one."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, SpecError
from .options import Json, require_file, require_folder, texts_for, write_page

if TYPE_CHECKING:
    pass


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
    from .print_judgement import print_judgement
    from .printing import print_report
    from .terminal import Terminal

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
