"""sidkit judge: what semantic IDs are worth, before anything is trained on them."""

import json
from typing import Annotated

import typer

from ..errors import SpecError
from .columns import ColumnNotes, id_column_in, vectors_from, visits_from
from .inputs import labels_for
from .options import (
    Column,
    FileOrder,
    IdColumn,
    ItemColumn,
    Json,
    Location,
    SequenceColumn,
    SequencesOption,
    Sids,
    TimeColumn,
    UserColumn,
    location,
)
from .parsing import require_seed


def judge(
    sids: Sids,
    sequences: SequencesOption = None,
    embeddings: Annotated[str | None, typer.Option("--embeddings", help="The items' vectors, as for fit")] = None,
    items: Annotated[
        Location | None,
        typer.Option("--items", help="Parquet file with the items' categories", parser=location, metavar="PATH"),
    ] = None,
    category: Annotated[
        str, typer.Option("--category", help="Column of categories or category paths in --items")
    ] = "category",
    separator: Annotated[str, typer.Option("--separator", help="What separates the parts of a category path")] = " > ",
    neighbours: Annotated[int, typer.Option("--neighbours", "-k", help="Nearest items to compare")] = 10,
    queries: Annotated[int, typer.Option("--queries", help="Items whose neighbours are looked up")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the choice of these items")] = 0,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Only steps into the last two items, for SIDs of blended embeddings")
    ] = False,
    sequence_column: SequenceColumn = None,
    item_column: ItemColumn = None,
    user_column: UserColumn = None,
    time_column: TimeColumn = None,
    file_order: FileOrder = False,
    id_column: IdColumn = None,
    column: Column = None,
    as_json: Json = False,
) -> None:
    """sidkit judge sids.parquet --sequences sequences.parquet --embeddings items.parquet --items items.parquet

    Judge semantic IDs without training. Does the next item share the prefix? Do near items have near codes? Do prefixes
    follow categories? Each figure is printed beside its chance level.
    """
    from ..data.sequence_columns import SequenceColumns
    from ..measure.judge import judge as judgement_of
    from ..sids.table import SidTable
    from .print_judgement import print_judgement
    from .terminal import Terminal

    if sequences is None and embeddings is None and items is None:
        raise SpecError("there is nothing to judge by; give --sequences, --embeddings, --items, or several of them")
    if held_out and sequences is None:
        raise SpecError("--held-out is about steps of --sequences; give them too")
    if not separator:
        raise SpecError("--separator cannot be empty; where categories are not paths, leave it out")
    require_seed(seed)
    named = SequenceColumns(sequence_column, item_column, user_column, time_column, file_order)
    table, notes = SidTable.from_parquet(sids, ids=False), ColumnNotes()
    known_as = table.origin.id_column
    source = vectors_from(embeddings, id_column, column, notes, items, origin=table.origin) if embeddings else None
    of_items = id_column_in(id_column, items, embeddings) if items else None
    categories = labels_for(items, category, table, of_items, notes) if items else None
    visits = visits_from(sequences, table.ids, named, notes, known_as) if sequences else None
    with Terminal() as progress:
        judgement = judgement_of(
            table, visits, source, categories, separator=separator, neighbours=neighbours, queries=queries, seed=seed,
            held_out=held_out, progress=progress,
        )  # fmt: skip
    if as_json:
        print(json.dumps(judgement | notes.field()))
    else:
        notes.print()
        print_judgement(judgement)
