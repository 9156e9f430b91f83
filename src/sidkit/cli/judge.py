"""judge: what semantic IDs are worth, before anything is trained on them."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError
from .options import Column, IdColumn, Json, SequenceColumn, require_seed, texts_for


def judge(
    sids: Annotated[Path, typer.Argument(help="Parquet file written by `sidkit encode`", show_default=False)],
    sequences: Annotated[
        str | None, typer.Option("--sequences", help="Parquet: a list of items per user, or a row per event")
    ] = None,
    embeddings: Annotated[str | None, typer.Option("--embeddings", help="The items' vectors, as for fit")] = None,
    items: Annotated[Path | None, typer.Option("--items", help="Parquet file with the items' categories")] = None,
    category: Annotated[
        str, typer.Option("--category", help="Its column of categories or category paths")
    ] = "category",
    separator: Annotated[str, typer.Option("--separator", help="What stands between parts of a path")] = " > ",
    neighbours: Annotated[int, typer.Option("--neighbours", "-k", help="How many nearest items to compare")] = 10,
    queries: Annotated[int, typer.Option("--queries", help="How many items to find neighbours of")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Which items are drawn")] = 0,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Only steps into the last two items, for SIDs of what `blend` wrote")
    ] = False,
    sequence_column: SequenceColumn = None,
    id_column: IdColumn = None,
    column: Column = None,
    as_json: Json = False,
) -> None:
    """sidkit judge sids.parquet --sequences sequences.parquet --embeddings items.parquet --items items.parquet

    Judge semantic IDs without training: does the next item share the prefix, do near items have near codes, do prefixes
    follow categories. Each figure stands beside what chance would give.
    """
    from ..data.embeddings import open_embeddings
    from ..measure.judge import judge as judged
    from ..sids.table import SidTable
    from .print_judgement import print_judgement
    from .terminal import Terminal

    if sequences is None and embeddings is None and items is None:
        raise SpecError("there is nothing to judge by; give --sequences, --embeddings, --items, or several of them")
    if held_out and sequences is None:
        raise SpecError("--held-out is about steps of --sequences; give them too")
    if not separator:
        raise SpecError("--separator cannot be empty; where categories are no paths, leave it out")
    require_seed(seed)
    table = SidTable.from_parquet(sids)
    source = open_embeddings(embeddings, id_column, column) if embeddings else None
    categories = texts_for(items, category, table.ids) if items else None
    with Terminal() as progress:
        found = judged(
            table, sequences, source, categories,
            sequence_column=sequence_column, separator=separator, neighbours=neighbours, queries=queries, seed=seed,
            held_out=held_out, progress=progress,
        )  # fmt: skip
    if as_json:
        print(json.dumps(found))
    else:
        print_judgement(found)
