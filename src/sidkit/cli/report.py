"""sidkit report: how good semantic IDs are."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, SpecError
from .collisions import describe_policy
from .columns import ColumnNotes, id_column_in, vectors_from, visits_from
from .inputs import columns_of, labels_for, sids_from, stored_texts
from .options import (
    Column,
    Figures,
    FileOrder,
    Formats,
    IdColumn,
    InsistOnBoth,
    ItemColumn,
    Items,
    Json,
    MapBy,
    SequenceColumn,
    SequencesOption,
    Sids,
    TextColumn,
    TimeColumn,
    UserColumn,
)
from .outputs import PAGES, require_file, require_folder, write_page
from .parsing import require_choice
from .swapped import require_order


def report(
    sids: Sids,
    tokenizer: Annotated[
        Path | None, typer.Argument(help="The tokenizer of the SIDs, for the map of centroids")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report as an HTML page")] = None,
    items: Items = None,
    text: TextColumn = "title",
    category: Annotated[str | None, typer.Option("--category", help="Column of categories in --items")] = None,
    embeddings: Annotated[
        str | None, typer.Option("--embeddings", help="The items' vectors [default: those of --items, if any]")
    ] = None,
    sequences: SequencesOption = None,
    figures: Figures = None,
    formats: Formats = "svg,png,pdf",
    map_by: MapBy = "auto",
    sequence_column: SequenceColumn = None,
    item_column: ItemColumn = None,
    user_column: UserColumn = None,
    time_column: TimeColumn = None,
    file_order: FileOrder = False,
    id_column: IdColumn = None,
    column: Column = None,
    force: InsistOnBoth = False,
    as_json: Json = False,
) -> None:
    """sidkit report sids.parquet tok/ --items items.parquet --text title -o report.html

    How good are these semantic IDs? A verdict in words, and the figures behind it. Without -o they are printed.
    """
    from ..data.columns import VECTORS, named_columns
    from ..data.listing import files_of
    from ..data.sequence_columns import SequenceColumns
    from ..report.centroids import METHODS
    from ..report.draw.plots import check_formats, write_figures
    from ..report.evidence import gather
    from ..report.made import Made, of_table
    from ..report.page import report_page
    from ..sids.collision_note import read_collision_note
    from ..tokenizer.tokenizer import load
    from .print_judgement import print_judgement
    from .printing import print_report, this_command
    from .terminal import Terminal

    forms = formats.split(",")
    if figures is not None:
        check_formats(forms)
    require_choice("--map", map_by, METHODS)
    require_order("report", sids=sids, tokenizer=tokenizer)
    if output is not None:
        require_file(output, *files_of(sids, nested=True), items, sequences, embeddings, endings=PAGES, force=force)
    if figures is not None:
        require_folder(figures, quiet=True)
    named = SequenceColumns(sequence_column, item_column, user_column, time_column, file_order)
    table, notes = sids_from(sids, tokenizer, force, ids=False), ColumnNotes()
    known_as = table.origin.id_column
    fitted = load(tokenizer) if tokenizer else None
    if fitted is not None and fitted.sizes != table.sizes:
        raise InputError(f"{tokenizer} makes SIDs of sizes {fitted.sizes}, but those of {sids} are {table.sizes}")
    if category is not None and items is None:
        raise SpecError("--category names a column of --items; give that file as well")
    with Terminal() as progress:
        of_items = id_column_in(id_column, items, embeddings) if items else None
        texts = stored_texts(items, text, table, of_items, notes) if items else None
        categories = labels_for(items, category, table, of_items, notes) if items and category else None
        vectors = embeddings or (items if items and named_columns(VECTORS.names, columns_of(items)) else None)
        source = vectors_from(vectors, id_column, column, notes, items, origin=table.origin) if vectors else None
        visits = visits_from(sequences, table.ids, named, notes, known_as) if sequences else None
        evidence = gather(table, fitted, source, texts, visits, categories, map_by, progress)
    collisions = read_collision_note(sids)
    if collisions is not None:
        evidence.facts["collisions"] = collisions
    if figures is not None:
        write_figures(evidence.figures, figures, forms)
    if output is not None:
        write_page(output, report_page(evidence, sids.stem, Made(this_command(), of_table(table, str(sids)))))
    if as_json:
        print(json.dumps(evidence.facts | notes.field()))
    else:
        notes.print()
        written = [path for path in (output, figures) if path]
        print_report(evidence.facts, written)
        if collisions is not None:
            print(describe_policy(collisions))
        if not written:
            print_judgement(evidence.facts)
